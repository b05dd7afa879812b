"""Notices of what happens to deployments, for those who look from outside: the console, a server, the journal.

In: notices without secrets. Out: lines, CloudEvents, spans and fields of the system's journal.
It changes nothing: a channel that fails drops notices, and holds up no deployment.
"""

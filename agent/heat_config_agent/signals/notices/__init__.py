"""Notices of what happens to deployments, for those who look from outside: the console, a server, the journal."""

"""One command: its supervisor, folder, output and hook.

In: a job. Out: a process that outlives the agent, its output and exit code, and a result made of them.
It knows neither the journal nor the order of deployments, and sends nothing.
"""

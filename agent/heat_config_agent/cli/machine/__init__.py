"""The commands about this machine: its agent, settings, tools, checks, installation and what it keeps.

In come options; out go reports and requests to the agent. Deployments are shown by other rooms.
"""

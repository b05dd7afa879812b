"""The removal of what is no longer needed: files of deployments that have settled, and files without a deployment.

In: the journal, the limits of the settings, the files on disk. Out: freed space, and the journal rewritten after it.
It runs nothing, and decides nothing about deployments that are not settled.
"""

"""Keeps stacks at the newest revision of their sources: a source is asked, fetched and carried out, in that order.

In: the address of a git repository, a file or an artifact. Out: its newest revision in force, and a record of it.
It knows no template language: a revision is carried out by the command that a person would give.
"""

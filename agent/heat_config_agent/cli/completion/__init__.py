"""Completion of command lines in shells, from the parsers and from the machine.

In: the words of a line, the last of which is completed. Out: the words that may stand there, each with a description,
or that the shell completes the name of a file. It may not know how a command does its work.
"""

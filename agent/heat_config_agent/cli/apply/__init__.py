"""Apply documents and templates in one run.

In come the words of a command line; out go lines of progress or a report, and an exit code. It knows no other command.
"""

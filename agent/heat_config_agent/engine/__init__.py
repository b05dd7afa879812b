"""The order in which documents become runs, and runs become results.

In: documents, and the end of runs. Out: records in the journal, results for servers, and events for people.
It knows nothing of where documents come from, of the protocols of servers, and of who shows its events.
"""

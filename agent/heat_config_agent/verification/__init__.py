"""Verification: whether the machine still is as its deployments say.

In: the journal, the deployments of the documents, and the hooks. Out: a verdict for each deployment, and the record.
It changes nothing on the machine, and knows no command line, no daemon and no server.
"""

"""The journal and everything else that the agent keeps on disk.

In: entries, documents, requests and records, each with one writer. Out: the same after a kill or a power cut.
It knows neither why an entry changes nor who asks; everything about one deployment is found by its key.
"""

"""The files of a service: documents with their imports, archives, artifacts.

In: a path or the bytes of an archive. Out: documents by name, and the files of operations.
It knows the language, and no topology.
"""

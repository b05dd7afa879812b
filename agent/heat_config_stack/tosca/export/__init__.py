"""A service as a HOT template for Heat.

In: the definition of a service. Out: the text of a template, and the programs that its servers run.
Nothing else needs this room.
"""

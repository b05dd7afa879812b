"""The grammar, the types and the values of TOSCA.

In: a text. Out: its entities with their places, types with what they inherit, values of declared types.
It knows no files, no topology and no evaluation.
"""

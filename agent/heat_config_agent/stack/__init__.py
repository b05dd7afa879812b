"""A stack on this machine: what `definition` says is made, changed and removed, with no cloud.

It knows no language: whatever reads templates, such as HOT, makes a `definition.Definition` of
them, and the stack carries that out.
"""

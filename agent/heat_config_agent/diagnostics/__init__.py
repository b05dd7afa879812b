"""Mistakes in files that people write: the place of each, "did you mean", and the kind of a file.

Nothing here is loaded for a file without mistakes.
"""

"""Secrets: the names that mark them, the search for them in text, and their removal from everything that is shown.

Inputs of deployments and texts come in, texts without secrets go out. No file, journal or network is known here.
"""

MASK = "***"
"""Replaces a secret."""

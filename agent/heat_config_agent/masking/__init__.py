"""Secrets: which names mark them, and how they are found in text."""

MASK = "***"
"""Replaces a secret."""

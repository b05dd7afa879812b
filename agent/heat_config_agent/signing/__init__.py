"""Checks and makes signatures with ssh-keygen, and opens files only if they are signed."""

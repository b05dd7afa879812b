"""Checks and makes signatures with ssh-keygen, and opens files only if they are signed.

In: files or texts, their signed lists, and allowed signers. Out: verified content with its evidence, or the reason.
It knows no policy: its callers say what has to be signed, and by whom.
"""

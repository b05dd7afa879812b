"""Misspelt names: the known name that is close to a word."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

CLOSE = 0.7
"""The similarity from which a name may have been meant, by `difflib`."""

CERTAIN = 0.84
"""The similarity from which a name has surely been meant: for words that may be right as they are, and for names that
all begin alike, such as those of types of resources."""

_LONGEST = 100
"""Characters of a name that may be misspelt: to compare longer ones takes too long."""

MOST = 500
"""Names among which a close one is looked for."""


def closest(word: object, names: Iterable[str], similarity: float = CLOSE) -> str:
    """Return the name that a word may have been meant to be, whatever its case; empty if none is close."""
    text = str(word).lower()
    if len(text) > _LONGEST:
        return ""
    import difflib  # noqa: PLC0415  # slow to load, and needed for mistakes only

    known = {
        name.lower(): name for name in islice(names, MOST) if len(name) <= _LONGEST
    }
    if text in known:
        return known[text]
    close = difflib.get_close_matches(text, known, 1, similarity)
    return known[close[0]] if close else ""

"""Hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

from heat_config_hooks.words import CLOSE, closest


def meant(word: object, names: Iterable[str], similarity: float = CLOSE) -> str:
    """Return the hint that another name may have been meant; empty if none is close."""
    name = closest(word, names, similarity)
    return f"did you mean {name}?" if name else ""


def among(word: object, names: Iterable[str], there: str = "it has") -> str:
    """Return the hint for an unknown name: a close name, or else all of them."""
    known = list(names)
    return meant(word, known) or f"{there} {', '.join(known) or 'none'}"

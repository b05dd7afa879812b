"""Reading JSON from elsewhere: what cannot be written again as JSON is refused here, once for all who use it."""

from __future__ import annotations

import json

DEPTH = 100
"""Levels of lists and objects in one another. Heat's metadata has about ten."""

MOST = 2_000_000
"""Values at most. One that is written with three letters takes over sixty bytes of memory."""


def loads(text: str) -> object:
    """Return the value. Raises ValueError, of which json.JSONDecodeError has the place."""
    check_number(text)
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    check(value)
    return value


def check_number(text: str | bytes) -> None:
    """Raise ValueError where a text has too many values, before it is read. Commas within strings count, too."""
    if len(text) > MOST:
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if sum(raw.count(each) for each in (b"[", b"{", b",")) > MOST:
            raise ValueError(f"it has over {MOST:,} values")


def check(value: object) -> None:
    """Raise ValueError where the value is nested too deeply, or holds a number that JSON cannot say."""
    level = [value]
    for _ in range(DEPTH):
        inner: list[object] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
            elif isinstance(each, float) and not float("-inf") < each < float("inf"):
                _refuse(str(each))
        if not inner:
            return
        level = [each for each in inner if type(each) not in _PLAIN]
    raise ValueError("it is nested too deeply")


_PLAIN = frozenset({str, int, bool, type(None)})
"""Types of values in which nothing can be wrong: those of most."""


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")

"""Reads JSON from untrusted sources, and rejects values that could not be written as JSON again."""

from __future__ import annotations

import json

DEPTH = 100
"""The deepest nesting of lists and objects. Heat's metadata has about ten levels."""

MOST = 2_000_000
"""The largest number of values: one of three characters takes over sixty bytes of memory."""


class Repeated(ValueError):  # noqa: N818  # a key is
    """A key is in an object twice."""


def loads(text: str, *, unique: bool = False) -> object:
    """Return the value of a JSON text. Raises ValueError; json.JSONDecodeError, a subclass, has the position.

    With `unique`, a key that is in an object twice is refused; otherwise the last one counts.
    """
    check_number(text)
    try:
        value = json.loads(
            text, parse_constant=_refuse, object_pairs_hook=_unique if unique else None
        )
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            # Python's limit, in words for programmers
            raise ValueError("it has a number of too many digits") from None
        raise
    check(value)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise Repeated("a key is in an object twice")
    return value


def check_number(text: str | bytes) -> None:
    """Raise ValueError if a text may have too many values, before it is parsed. Commas in strings count as well."""
    if len(text) > MOST:
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if sum(raw.count(each) for each in (b"[", b"{", b",")) > MOST:
            raise ValueError(f"it has over {MOST:,} values")


def check(value: object) -> None:
    """Raise ValueError if a value is nested too deeply, or contains a number that JSON cannot represent."""
    level = [value]
    for _ in range(DEPTH):
        inner: list[object] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
            elif isinstance(item, float) and not float("-inf") < item < float("inf"):
                _refuse(str(item))
        if not inner:
            return
        level = [item for item in inner if type(item) not in _PLAIN]
    raise ValueError("it is nested too deeply")


_PLAIN = frozenset({str, int, bool, type(None)})
"""Types of values that need no check; most values have one of them."""


def _refuse(text: str) -> float:
    raise ValueError(f"{text} is not a number in JSON")

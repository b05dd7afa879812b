"""Reads durations in options: a number of seconds, or the text of one."""

from __future__ import annotations

import re

LONGEST = 366 * 24 * 3600
"""The longest duration, in seconds."""

_NUMBER = r"\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*"

WORDS = f"a number of seconds, greater than 0 and at most {LONGEST} (366 days)"
"""The form of a duration, in words."""


def seconds(value: object) -> float | None:
    """Return a number of seconds, or the text of one, as a number; None for anything else."""
    if isinstance(value, str) and not re.fullmatch(_NUMBER, value):
        return None
    try:
        number = (
            float(value)
            if isinstance(value, str | int | float) and not isinstance(value, bool)
            else 0.0
        )
    except OverflowError:
        return None
    return number if 0 < number <= LONGEST else None

"""The delay before the next retry."""

from __future__ import annotations

BACK_OFF_FIRST = 1.0
BACK_OFF_LIMIT = 120.0
"""Seconds between two attempts before jitter: the first interval, and the longest."""


def back_off(tries: int) -> float:
    """Return the seconds to wait after that many failed attempts, with jitter: a fleet must not return all at once."""
    import random  # noqa: PLC0415  # 3 ms, and most results arrive at the first attempt

    longest: float = min(BACK_OFF_FIRST * 2.0 ** min(tries - 1, 16), BACK_OFF_LIMIT)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311  # no one gains from guessing it

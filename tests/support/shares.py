"""The division of the time of `make torture FOR=…` among its tests, and their counts."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable

import pytest

FOR = float(os.environ.get("TORTURE_SECONDS") or 0)
"""Seconds that the long form may take, all its tests together; 0 for the short form."""

LEAST = 1.0
"""Seconds that each test has, however late it is."""

SHARE = 1.0
"""The share of a file whose mark says none."""


class Shares:
    """The time of the long form. What a test does not need, those after it have; what it takes too long, they lack."""

    def __init__(
        self, seconds: float, shares: Iterable[tuple[str, str, float]]
    ) -> None:
        """Divide so many seconds, from now on. For each test: its name, its file, and the share of all in that file."""
        given = list(shares)
        of_file = Counter(file for _, file, _ in given)
        self._left = {name: share / of_file[file] for name, file, share in given}
        self._end = time.monotonic() + seconds

    def take(self, name: str) -> float:
        """Return the seconds that a test may take which begins now."""
        whole = sum(self._left.values())
        share = self._left.pop(name, 0.0)
        return (
            max((self._end - time.monotonic()) * share / whole, LEAST)
            if share
            else LEAST
        )


def of(items: Iterable[pytest.Item]) -> Shares:
    """Return how the time is divided among the tests that were chosen, of those that go on for as long as they may."""
    marks = (
        (each, each.get_closest_marker("torture"))
        for each in items
        if "seconds" in _needs(each)
    )
    return Shares(
        FOR,
        [
            (each.nodeid, str(each.path), mark.kwargs.get("share", SHARE))
            for each, mark in marks
            if mark
        ],
    )


def _needs(item: pytest.Item) -> Iterable[str]:
    """Return the fixtures that a test needs."""
    found: Iterable[str] = getattr(item, "fixturenames", ())
    return found

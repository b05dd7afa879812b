"""The pace of this machine: one factor, measured when a run of tests starts, by which all deadlines are longer.

A deadline ends a test that hangs; it is not a promise about time. So the factor is generous: other work on the machine
may begin after it was measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

_VARIABLE = "TESTS_PACE"
"""Passes the factor to the processes that run tests."""

_USUAL = 0.03
"""Seconds in which a machine with nothing else to do starts and ends Python."""

_LEAST, _MOST = 2.0, 8.0


def _measured() -> float:
    """Return how many times the usual time a process takes here."""
    times = []
    for _ in range(5):
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", ""], check=True, stdin=subprocess.DEVNULL
        )
        times.append(time.monotonic() - began)
    return min(max(_LEAST, sum(times) / len(times) / _USUAL * _LEAST), _MOST)


FACTOR = float(os.environ.get(_VARIABLE) or _measured())
os.environ[_VARIABLE] = str(FACTOR)


def limit(usual: float) -> float:
    """Return a time limit to set in the product, before which something has to happen: longer on a slow machine."""
    return round(usual * FACTOR / _LEAST, 1)


def seconds(usual: float) -> float:
    """Return the deadline of something that takes so many seconds at most on a machine with nothing else to do."""
    return usual * FACTOR

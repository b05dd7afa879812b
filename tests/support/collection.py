"""The collection of tests by several processes at once.

The asserts that pytest has rewritten are stored next to each file, so a process compiles only files that no other one
has compiled. Each process begins with another file, so that they do not all compile the same files at the same time.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator

import pytest

NUMBER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""Of this process among those that run tests."""

COUNT = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
"""The number of processes."""


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Have the content of each folder collected from another place on in each process."""
    report = yield
    if isinstance(collector, pytest.Dir) and report.passed:
        first = len(report.result) * NUMBER // COUNT
        report.result = [*report.result[first:], *report.result[:first]]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: of what is made then, none is, and all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()

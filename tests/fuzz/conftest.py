"""The fixture of all fuzz tests: the record of how many examples they have tried."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from fuzz import examples


@pytest.fixture(autouse=True)
def _tried(tried: Callable[[int], None]) -> Callable[[int], None]:
    """Have the record at hand."""
    return tried


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Say how many examples a test has tried, before the report of it is made."""
    try:
        return (yield)
    finally:
        note = getattr(item, "funcargs", {}).get("_tried")
        times = examples.tried.pop(getattr(item, "originalname", item.name), 0)
        if note and times:
            note(times)

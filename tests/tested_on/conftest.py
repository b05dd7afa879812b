"""The fixtures of the tests on other systems."""

from __future__ import annotations

from typing import Protocol

import pytest

from support.tested_on import FOUND


class Found(Protocol):
    """Says what exactly was there."""

    def __call__(self, words: str) -> None: ...


@pytest.fixture
def tell_found(request: pytest.FixtureRequest) -> Found:
    """Say what exactly was there, for the table."""

    def note(words: str) -> None:
        request.node.stash[FOUND] = words

    return note

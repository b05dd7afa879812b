from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterator

import pytest

from heat_config_agent.model.waking import Waker


@pytest.fixture
def waker() -> Iterator[Waker]:
    """A waker that is closed after the test."""
    opened = Waker()
    yield opened
    opened.close()


def is_readable(waker: Waker) -> bool:
    """Return whether a loop that waits for the waker would wake now."""
    return bool(select.select([waker], [], [], 0)[0])


def test_descriptor_is_readable_from_the_wake_to_the_drain(waker: Waker) -> None:
    """A wake is not lost if nothing waits at that moment."""
    assert not is_readable(waker)
    waker.wake()
    assert is_readable(waker)
    waker.drain()
    assert not is_readable(waker)


def test_full_pipe_blocks_neither_end(waker: Waker) -> None:
    """A loop that does not drain the pipe for long holds up no thread, and wakes all the same."""
    with contextlib.suppress(BlockingIOError):
        while os.write(waker.writer, bytes(65536)):
            pass
    with pytest.raises(BlockingIOError):
        os.write(waker.writer, b".")
    waker.wake()
    assert is_readable(waker)


def test_empty_pipe_can_be_drained(waker: Waker) -> None:
    """A loop may wake for another reason."""
    waker.drain()
    assert not is_readable(waker)

"""Two files are flushed at the same time, and what becomes of either is known."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

import pytest

from heat_config_agent.model.errors import StateError
from heat_config_agent.state.record_file import flush_both
from support import pace


def failing(text: str) -> Callable[[], None]:
    """Return a flush that fails."""

    def flush() -> None:
        raise StateError(text)

    return flush


def test_two_files_are_flushed_at_the_same_time() -> None:
    """Each of them ends only after the other has begun."""
    meet = threading.Barrier(2, timeout=pace.seconds(60))
    met: list[int] = []
    flush_both(lambda: met.append(meet.wait()), lambda: met.append(meet.wait()))
    assert sorted(met) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other", "error"),
    [
        (failing("one"), lambda: None, "one"),
        (lambda: None, failing("other"), "other"),
        (failing("one"), failing("other"), "one"),
    ],
)
def test_an_error_of_either_is_raised(
    one: Callable[[], None], other: Callable[[], None], error: str
) -> None:
    """Nothing may begin if one of the files is not on disk."""
    with pytest.raises(StateError, match=error):
        flush_both(one, other)


def test_the_other_has_ended_when_one_fails() -> None:
    """After an error, no flush is still under way."""
    ended = threading.Event()
    began = threading.Event()

    def other() -> None:
        began.wait(60)
        ended.set()

    def one() -> None:
        began.set()
        raise StateError("one")

    with pytest.raises(StateError, match="one"):
        flush_both(one, other)
    assert ended.is_set()


def test_without_room_for_a_thread_both_are_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine whose process table is full flushes one after the other."""

    def refuse(*_given: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    flushed: list[str] = []
    flush_both(lambda: flushed.append("one"), lambda: flushed.append("other"))
    assert sorted(flushed) == ["one", "other"]
    with pytest.raises(StateError, match="other"):
        flush_both(lambda: flushed.append("one"), failing("other"))

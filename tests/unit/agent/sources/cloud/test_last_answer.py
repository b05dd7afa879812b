"""The comparison of a server's answer with the one before."""

from __future__ import annotations

import pytest

from heat_config_agent.sources.cloud import last_answer
from heat_config_agent.sources.cloud.last_answer import LastAnswer


@pytest.mark.parametrize("largest", [last_answer.LARGEST, 3])
def test_equal_bytes_are_one_answer(
    monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """Long content is compared by its digest, short content by itself."""
    monkeypatch.setattr(last_answer, "LARGEST", largest)
    answer = LastAnswer()
    assert not answer.is_same(b"one", b"two")
    answer.keep(b"one", b"two")
    assert answer.is_same(b"one", b"two")
    for other in (
        (b"one", b"twO"),
        (b"onet", b"wo"),
        (b"one",),
        (b"two", b"one"),
        (b"one", b"two", b""),
        (),
    ):
        assert not answer.is_same(*other)
    answer.keep(b"1")
    assert answer.is_same(b"1")
    assert not answer.is_same(b"one", b"two")


def test_missing_answer_differs_from_an_empty_one() -> None:
    """Where nothing was kept, nothing is the same: not even an answer without bytes."""
    assert not LastAnswer().is_same(b"")
    assert not LastAnswer().is_same()

"""The messages between a coordinator and a host, on plain pipes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from heat_config_stack.hosts.frames import Frames


@pytest.fixture
def sides() -> Iterator[tuple[Frames, Frames]]:
    """Both sides: a coordinator that waits for the mark, and a host."""
    to_host, from_coordinator = os.pipe()
    to_coordinator, from_host = os.pipe()
    yield (
        Frames(to_coordinator, from_coordinator, marked=False),
        Frames(to_host, from_host),
    )
    for each in (to_host, from_coordinator, to_coordinator, from_host):
        with contextlib.suppress(OSError):
            os.close(each)


def test_message_arrives_once_it_is_whole(sides: tuple[Frames, Frames]) -> None:
    """Pieces of a message wait for the rest, and several may come at once."""
    coordinator, host = sides
    os.write(coordinator.writer, b'{"do": ')
    assert host.receive() == []
    os.write(coordinator.writer, b'"ping"}\n{"do":"open"}\n{')
    assert host.receive() == [{"do": "ping"}, {"do": "open"}]
    assert not host.ended


def test_banner_is_skipped(sides: tuple[Frames, Frames]) -> None:
    """Lines before the mark are skipped, also one that looks like a message; the last one is kept for a reason."""
    coordinator, host = sides
    os.write(host.writer, b'{"is": "result"}\nLast login: today\nno newline')
    host.mark({"is": "hello"})
    host.send({"is": "pong"})
    assert coordinator.receive() == [{"is": "hello"}, {"is": "pong"}]
    assert coordinator.banner == "no newline"


def test_endless_banner_is_refused(sides: tuple[Frames, Frames]) -> None:
    """A host that prints without end is not read without end."""
    coordinator, host = sides
    while not coordinator.ended:
        os.write(host.writer, b"x" * 40_000 + b"\n")
        coordinator.receive()
    assert coordinator.trouble == "it printed without end before the protocol began"


@pytest.mark.parametrize("line", [b"nonsense\n", b"[1]\n", b"\xff\xfe\n", b'"x"\n'])
def test_invalid_frame_ends_the_conversation(
    sides: tuple[Frames, Frames], line: bytes
) -> None:
    """Nothing after it is believed."""
    coordinator, host = sides
    host.mark({"is": "hello"})
    os.write(host.writer, line + b'{"is":"pong"}\n')
    assert coordinator.receive() == [{"is": "hello"}]
    assert coordinator.ended
    assert "not a message of the protocol" in coordinator.trouble


def test_full_pipe_blocks_neither_side(sides: tuple[Frames, Frames]) -> None:
    """The rest of a large message is written as the other side reads."""
    coordinator, host = sides
    text = "x" * 3_000_000
    coordinator.send({"text": text})
    assert coordinator.is_blocked
    arrived: list[dict[str, str]] = []
    while not arrived:
        coordinator.flush()
        arrived = host.receive()
    assert arrived == [{"text": text}]
    assert not coordinator.is_blocked


def test_end_of_the_other_side_is_noticed(sides: tuple[Frames, Frames]) -> None:
    """Reading and writing both end quietly."""
    coordinator, host = sides
    os.close(host.writer)
    assert coordinator.receive() == []
    assert coordinator.ended
    os.close(host.reader)
    coordinator.ended = False
    coordinator.send({"do": "ping"})
    assert coordinator.ended

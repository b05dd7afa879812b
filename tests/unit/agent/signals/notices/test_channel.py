from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from heat_config_agent.signals.notices import channel as channels
from heat_config_agent.signals.notices.channel import MOST, Channel, UndeliveredError
from heat_config_agent.signals.notices.notice import BEGUN, ENDED, NOTE, Notice
from support.loopback import wait_until

Make = Callable[..., Notice]


class Receiver:
    """Receives notices, once it is let, and refuses as often as it is told."""

    def __init__(self, *refusals: UndeliveredError) -> None:
        self.taken: list[str] = []
        self.calls = 0
        self.open = threading.Event()
        self.open.set()
        self._refusals = list(refusals)

    def take(self, notice: Notice) -> None:
        self.calls += 1
        self.open.wait(30)
        if self._refusals:
            raise self._refusals.pop(0)
        self.taken.append(notice.id)


def has_lost(channel: Channel, number: int) -> bool:
    """Return whether a channel has dropped so many notices."""
    return channel.state.lost == number


def opened(receiver: Receiver) -> Channel:
    """Return a channel for begins and ends."""
    return Channel("console", receiver.take, frozenset({BEGUN, ENDED}))


def test_notices_arrive_in_their_order(notice: Make) -> None:
    """The notices of the wanted changes arrive in order."""
    receiver = Receiver()
    channel = opened(receiver)
    for number in range(5):
        channel.put(notice(id=f"d{number}", change=NOTE if number == 2 else ENDED))
    channel.close(30)
    assert receiver.taken == ["d0", "d1", "d3", "d4"]
    assert (channel.state.lost, channel.state.waiting, channel.state.trouble) == (
        0,
        0,
        "",
    )


def test_a_receiver_that_hangs_delays_nothing(notice: Make) -> None:
    """The oldest notices are dropped, and counted."""
    receiver = Receiver()
    receiver.open.clear()
    channel = opened(receiver)
    channel.put(notice(id="first"))
    wait_until(lambda: receiver.calls == 1)
    for number in range(MOST + 3):
        channel.put(notice(id=f"d{number}"))
    assert (channel.state.lost, channel.state.waiting) == (3, MOST + 1)
    channel.close(0)
    assert channel.state.lost == MOST + 3
    receiver.open.set()
    wait_until(lambda: receiver.taken == ["first"])


def test_a_refusal_is_counted_and_told(notice: Make) -> None:
    """Until the next notice is accepted."""
    receiver = Receiver(UndeliveredError("no entry"))
    channel = opened(receiver)
    channel.put(notice(id="d1"))
    wait_until(lambda: channel.state.lost == 1)
    assert channel.state.trouble == "no entry"
    channel.put(notice(id="d2"))
    channel.close(30)
    assert (receiver.taken, channel.state.lost, channel.state.trouble) == (
        ["d2"],
        1,
        "",
    )


def test_notice_is_tried_again_if_it_may_succeed_later(
    notice: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as there are pauses; while nothing is accepted, each notice is tried once."""
    monkeypatch.setattr(channels, "_PAUSES", (0.0, 0.0))
    later = [UndeliveredError("away", again=True) for _ in range(6)]
    receiver = Receiver(*later)
    channel = opened(receiver)
    channel.put(notice(id="d1"))
    wait_until(lambda: channel.state.lost == 1)
    assert receiver.calls == 3
    for number in range(2, 5):
        channel.put(notice(id=f"d{number}"))
        wait_until(partial(has_lost, channel, number))
    assert receiver.calls == 6
    channel.put(notice(id="d5"))
    channel.close(30)
    assert (receiver.taken, channel.state.trouble) == (["d5"], "")


def test_the_end_waits_for_no_further_try(
    notice: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause between two tries ends with the channel."""
    monkeypatch.setattr(channels, "_PAUSES", (3600.0,))
    receiver = Receiver(UndeliveredError("away", again=True))
    channel = opened(receiver)
    channel.put(notice())
    wait_until(lambda: receiver.calls == 1)
    channel.close(30)
    assert (channel.state.lost, channel.state.trouble, receiver.calls) == (1, "away", 1)

from __future__ import annotations

import select
import time
from collections.abc import Callable

import pytest

from heat_config_agent.model import backoff
from heat_config_agent.model.deployment import Target
from heat_config_agent.signals import delivery, servers
from heat_config_agent.signals.delivery import Delivery, Fate
from heat_config_agent.signals.outbox import Outbox
from support import pace
from support.loopback import Answer, SignalServer, wait_until

Settle = Callable[[Delivery], list[Fate]]
RESULT = {"deploy_status_code": 0}


@pytest.fixture
def settle() -> Settle:
    """Wait as an agent does until nothing is left to do; return what became of each try."""

    def wait(waiting: Delivery) -> list[Fate]:
        fates: list[Fate] = []
        deadline = time.monotonic() + pace.seconds(20)
        while waiting.busy and time.monotonic() < deadline:
            poll = select.poll()
            poll.register(waiting.fileno(), select.POLLIN)
            poll.poll(1000 * (waiting.due or 0))
            fates += [each.fate for each in waiting.outcomes()]
        assert not waiting.busy
        return fates

    return wait


def target(heat: SignalServer) -> Target:
    """The server, as a deployment names it."""
    return Target(kind="url", url=heat.url())


def test_accepted_result_is_sent_once(heat: SignalServer, settle: Settle) -> None:
    """After a result is accepted, nothing is left to wait for."""
    waiting = Delivery(Outbox(), patience=10)
    assert (waiting.busy, waiting.due) == (False, None)
    waiting.send("a", target(heat), RESULT)
    assert waiting.busy
    assert settle(waiting) == [Fate.SENT]
    assert heat.values() == [RESULT]
    assert waiting.due is None


def test_unaccepted_result_is_sent_again_later(
    heat: SignalServer, settle: Settle
) -> None:
    """The same body, within the patience there is."""
    heat.answers.extend([Answer(503), Answer(500)])
    waiting = Delivery(Outbox(), patience=10)
    waiting.send("a", target(heat), RESULT)
    assert settle(waiting) == [Fate.RETRY, Fate.RETRY, Fate.SENT]
    first, second, third = heat.signals
    assert first.body == second.body == third.body
    assert second.at - first.at > 0.4
    assert third.at - second.at > 0.9


def test_results_are_sent_again_at_once_if_their_server_may_be_back(
    heat: SignalServer,
) -> None:
    """A result whose server has asked to wait is not; answers of servers are counted."""
    heat.named["asks"] = Answer(503, {"Retry-After": "1000"})
    heat.named["fails"] = Answer(503)
    waiting = Delivery(Outbox(), patience=None)
    for name in ("asks", "fails"):
        waiting.send(name, Target(kind="url", url=heat.url(name)), RESULT)
    fates = 0
    while fates < 12:  # the next try of the one that fails is a minute away
        fates += len(waiting.outcomes())
        waiting.hope()
    heat.named.clear()
    assert waiting.answered == 0
    waiting.hope()
    wait_until(
        lambda: (
            [each.key for each in waiting.outcomes() if each.fate is Fate.SENT]
            == ["fails"]
        )
    )
    assert waiting.answered == 1
    assert len([each for each in heat.signals if "/asks" in each.path]) == 1


def test_delivery_without_patience_tries_once(
    heat: SignalServer, settle: Settle
) -> None:
    """The only attempt is not cut short."""
    heat.always = Answer(503, delay=0.3)
    waiting = Delivery(Outbox(), patience=0)
    waiting.send("a", target(heat), RESULT)
    assert settle(waiting) == [Fate.RETRY]
    assert len(heat.signals) == 1


def temporary(heat: SignalServer) -> Target:
    """A temporary URL of Swift."""
    return Target(
        kind="url",
        verb="PUT",
        url=heat.url("a") + "?temp_url_sig=1&temp_url_expires=2147483647",
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once, and hold nothing back."""
    monkeypatch.setattr(backoff, "BACK_OFF_FIRST", 0.01)
    monkeypatch.setattr(servers, "ROUNDING_SECONDS", 0.0)


AN_HOUR_AGO = -delivery.DENIED_SECONDS


@pytest.mark.fault(
    1,
    "401 or 403 for a result, for a moment or for more than an hour",
    "it is sent again with growing pauses for an hour, and is refused for good only after that",
)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("target_of", [target, temporary])
@pytest.mark.parametrize("status", [401, 403])
def test_denial_is_final_after_an_hour(
    heat: SignalServer,
    settle: Settle,
    status: int,
    target_of: Callable[[SignalServer], Target],
) -> None:
    """A denial that passes is not shown as final; that of an old result is final after some tries."""
    heat.answers.extend([*[Answer(status)] * delivery.DENIALS, Answer(503)])
    waiting = Delivery(Outbox(), patience=None)
    waiting.send("a", target_of(heat), RESULT)
    assert settle(waiting) == [*[Fate.RETRY] * (delivery.DENIALS + 1), Fate.SENT]
    heat.always = Answer(status)
    waiting.send("b", target_of(heat), RESULT, ended=time.time() + AN_HOUR_AGO)
    assert settle(waiting) == [*[Fate.RETRY] * (delivery.DENIALS - 1), Fate.REFUSED]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("ended", [-1e9, 1e9])
def test_denial_is_final_by_a_clock_that_was_wrong(
    heat: SignalServer, settle: Settle, monkeypatch: pytest.MonkeyPatch, ended: float
) -> None:
    """A run that ended long ago, or will end one day, makes no result be given up at once, or be sent for ever."""
    monkeypatch.setattr(delivery, "DENIED_SECONDS", 0.5)
    heat.always = Answer(401)
    waiting = Delivery(Outbox(), patience=None)
    waiting.send("a", target(heat), RESULT, ended=time.time() + ended)
    fates = settle(waiting)
    assert len(fates) >= delivery.DENIALS
    assert (set(fates[:-1]), fates[-1]) == ({Fate.RETRY}, Fate.REFUSED)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("ended", "earlier", "fate"),
    [
        (0.0, 100, Fate.RETRY),
        (AN_HOUR_AGO, 0, Fate.RETRY),
        (AN_HOUR_AGO, delivery.DENIALS - 1, Fate.REFUSED),
    ],
)
def test_denial_is_left_to_the_next_agent_without_patience(
    heat: SignalServer, settle: Settle, ended: float, earlier: int, fate: Fate
) -> None:
    """The agent of one pass does not wait for a denial to pass, and gives up an old result that was tried before."""
    heat.always = Answer(403)
    waiting = Delivery(Outbox(), patience=0)
    waiting.send(
        "a", temporary(heat), RESULT, ended=time.time() + ended, earlier=earlier
    )
    assert settle(waiting) == [fate]


@pytest.mark.usefixtures("quick")
def test_refusal_is_final_at_once_if_no_other_try_changes_it(
    heat: SignalServer, settle: Settle
) -> None:
    """A result whose receiver is gone is not sent again."""
    heat.always = Answer(404)
    for patience in (None, 0):
        waiting = Delivery(Outbox(), patience=patience)
        waiting.send("a", temporary(heat), RESULT)
        assert settle(waiting) == [Fate.REFUSED]


def test_tries_after_a_denial_go_on_for_most_of_a_minute() -> None:
    """The shortest and the longest sum of the delays between the tries of an old result."""
    longest = sum(
        backoff.BACK_OFF_FIRST * 2.0**tries for tries in range(delivery.DENIALS - 1)
    )
    assert 30 <= longest / 2 <= longest <= 64


def test_a_server_that_is_silent_is_not_waited_for_longer_than_a_try_takes(
    heat: SignalServer, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is left to the next run."""
    monkeypatch.setattr(delivery, "LEAST", 0.3)
    heat.always = Answer(delay=15)
    waiting = Delivery(Outbox(), patience=0.1)
    waiting.send("a", target(heat), RESULT)
    begun = time.monotonic()
    assert settle(waiting) == []
    assert time.monotonic() - begun < pace.seconds(10)


def test_dropped_result_is_not_reported(heat: SignalServer, settle: Settle) -> None:
    """A dropped result is not reported, whatever the pending request returns."""
    heat.answers.append(Answer(503))
    waiting = Delivery(Outbox(), patience=10)
    waiting.send("a", target(heat), RESULT)
    waiting.drop("a")
    waiting.drop("a")
    assert settle(waiting) == []


def test_result_dropped_before_its_turn_is_not_sent(
    heat: SignalServer, settle: Settle
) -> None:
    """A result that waits behind another for a slow server may be superseded meanwhile."""
    heat.answers.append(Answer(delay=0.5))
    waiting = Delivery(Outbox(), patience=10)
    waiting.send("first", Target(kind="url", url=heat.url("first")), RESULT)
    waiting.send("second", Target(kind="url", url=heat.url("second")), RESULT)
    waiting.send("third", Target(kind="url", url=heat.url("third")), RESULT)
    waiting.drop("second")
    assert settle(waiting) == [Fate.SENT, Fate.SENT]
    assert [len(heat.values(each)) for each in ("first", "second", "third")] == [
        1,
        0,
        1,
    ]

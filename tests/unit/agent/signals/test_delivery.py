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


def test_unaccepted_result_is_sent_again_later(heat: SignalServer, settle: Settle) -> None:
    """The same body, within the patience there is."""
    heat.answers.extend([Answer(503), Answer(500)])
    waiting = Delivery(Outbox(), patience=10)
    waiting.send("a", target(heat), RESULT)
    assert settle(waiting) == [Fate.RETRY, Fate.RETRY, Fate.SENT]
    first, second, third = heat.signals
    assert first.body == second.body == third.body
    assert second.at - first.at > 0.4
    assert third.at - second.at > 0.9


def test_results_are_sent_again_at_once_if_their_server_may_be_back(heat: SignalServer) -> None:
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
    wait_until(lambda: [each.key for each in waiting.outcomes() if each.fate is Fate.SENT] == ["fails"])
    assert waiting.answered == 1
    assert len([each for each in heat.signals if "/asks" in each.path]) == 1


def test_without_patience_one_try_is_all(heat: SignalServer, settle: Settle) -> None:
    """The only attempt is not cut short."""
    heat.always = Answer(503, delay=0.3)
    waiting = Delivery(Outbox(), patience=0)
    waiting.send("a", target(heat), RESULT)
    assert settle(waiting) == [Fate.RETRY]
    assert len(heat.signals) == 1


def temporary(heat: SignalServer) -> Target:
    """A temporary URL of Swift."""
    return Target(kind="url", verb="PUT", url=heat.url("a") + "?temp_url_sig=1&temp_url_expires=2147483647")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once, and hold nothing back."""
    monkeypatch.setattr(backoff, "BACK_OFF_FIRST", 0.01)
    monkeypatch.setattr(servers, "ROUNDING_SECONDS", 0.0)


@pytest.mark.fault(
    1,
    "Swift answers 401 or 403 to a valid temporary URL, because it cannot read its account",
    "the result is sent again a few times, and is refused for good only after that",
)
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("status", [401, 403])
def test_refusal_of_a_temporary_url_is_final_after_some_tries(heat: SignalServer, settle: Settle, status: int) -> None:
    """A refusal that passes is not shown; one that lasts is final."""
    heat.answers.extend([Answer(status), Answer(status), Answer(503)])
    waiting = Delivery(Outbox(), patience=None)
    waiting.send("a", temporary(heat), RESULT)
    assert settle(waiting) == [Fate.RETRY, Fate.RETRY, Fate.RETRY, Fate.SENT]
    heat.always = Answer(status)
    waiting.send("b", temporary(heat), RESULT)
    assert settle(waiting) == [*[Fate.RETRY] * (delivery.REFUSALS - 1), Fate.REFUSED]


@pytest.mark.usefixtures("quick")
def test_refusal_is_final_at_once_if_no_other_try_changes_it(heat: SignalServer, settle: Settle) -> None:
    """Another address or answer is not doubted, and without patience there is no other try."""
    for status, target_of, patience in ((401, target, None), (404, temporary, None), (401, temporary, 0)):
        heat.always = Answer(status)
        waiting = Delivery(Outbox(), patience=patience)
        waiting.send("a", target_of(heat), RESULT)
        assert settle(waiting) == [Fate.REFUSED]


def test_tries_after_a_refusal_go_on_for_most_of_a_minute() -> None:
    """The shortest and the longest sum of the delays between the tries."""
    longest = sum(backoff.BACK_OFF_FIRST * 2.0**tries for tries in range(delivery.REFUSALS - 1))
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
    assert time.monotonic() - begun < 10


def test_dropped_result_is_not_reported(heat: SignalServer, settle: Settle) -> None:
    """A dropped result is not reported, whatever the pending request returns."""
    heat.answers.append(Answer(503))
    waiting = Delivery(Outbox(), patience=10)
    waiting.send("a", target(heat), RESULT)
    waiting.drop("a")
    waiting.drop("a")
    assert settle(waiting) == []


def test_result_dropped_before_its_turn_is_not_sent(heat: SignalServer, settle: Settle) -> None:
    """A result that waits behind another for a slow server may be superseded meanwhile."""
    heat.answers.append(Answer(delay=0.5))
    waiting = Delivery(Outbox(), patience=10)
    waiting.send("first", Target(kind="url", url=heat.url("first")), RESULT)
    waiting.send("second", Target(kind="url", url=heat.url("second")), RESULT)
    waiting.send("third", Target(kind="url", url=heat.url("third")), RESULT)
    waiting.drop("second")
    assert settle(waiting) == [Fate.SENT, Fate.SENT]
    assert [len(heat.values(each)) for each in ("first", "second", "third")] == [1, 0, 1]

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from heat_config_agent import web
from heat_config_agent.model import backoff
from heat_config_agent.model.backoff import BACK_OFF_FIRST, BACK_OFF_LIMIT
from heat_config_agent.model.deployment import WAIT_LIMIT, Target
from heat_config_agent.signals import outbox as outbox_module
from heat_config_agent.signals import servers
from heat_config_agent.signals.delivery import Fate, Outcome
from heat_config_agent.signals.outbox import Outbox
from support.loopback import Answer, SignalServer, wait_until

Collect = Callable[[int], dict[str, Outcome]]


def url(address: str, verb: str = "POST") -> Target:
    """Return a target."""
    return Target(kind="url", url=address, verb=verb)


def judge(status: int, **headers: str) -> Outcome:
    """Return what an answer means."""
    return servers.judge("a", web.Answer(status, "Reason", headers))


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_a_success_is_sent(status: int) -> None:
    """Heat answers 200, a temporary URL 201."""
    assert judge(status) == Outcome("a", Fate.SENT)


@pytest.mark.parametrize("status", [404, 410, 413, 422])
def test_final_answer_is_a_refusal(status: int) -> None:
    """A refused result is kept and shown, and not sent again by itself."""
    assert judge(status) == Outcome("a", Fate.REFUSED, f"HTTP {status} Reason")


@pytest.mark.parametrize("status", [401, 403])
def test_denied_access_may_pass(status: int) -> None:
    """The result is sent again for a while, as late as the server asks."""
    headers = {"Retry-After": "7"}
    assert judge(status, **headers) == Outcome(
        "a", Fate.REFUSED, f"HTTP {status} Reason", 7.0, is_denial=True
    )


@pytest.mark.parametrize(
    "status",
    [100, 301, 302, 307, 400, 405, 408, 409, 425, 429, 500, 502, 503, 504, 599],
)
def test_any_other_answer_is_tried_again(status: int) -> None:
    """Resending is safe: Heat drops what it does not wait for."""
    assert judge(status) == Outcome("a", Fate.RETRY, f"HTTP {status} Reason")


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("999999", WAIT_LIMIT),
        ("9" * 400, WAIT_LIMIT),
        ("", 0.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("soon", 0.0),
        ("NaN", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", WAIT_LIMIT),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 0.0),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_server_may_ask_for_time_but_not_for_too_much(
    value: str, wait: float
) -> None:
    """In seconds or until a date; nonsense counts as nothing."""
    assert judge(503, **{"Retry-After": value}).wait == wait


def test_a_server_may_name_the_moment() -> None:
    """A date is as good as a number."""
    asked = judge(
        429, **{"Retry-After": formatdate(time.time() + 100, usegmt=True)}
    ).wait
    assert 95 < asked <= 100


@pytest.mark.parametrize("tries", [1, 2, 5, 8, 20, 10_000])
def test_the_back_off_grows_to_its_limit_with_jitter(tries: int) -> None:
    """Doubled with every try, never longer than the limit, and never the same for a whole fleet."""
    longest = BACK_OFF_LIMIT if tries > 7 else BACK_OFF_FIRST * 2 ** (tries - 1)
    found = [backoff.back_off(tries) for _ in range(200)]
    assert longest / 2 <= min(found)
    assert max(found) <= longest
    assert len(set(found)) > 100


@pytest.mark.parametrize(
    ("target", "word"),
    [
        (url("ftp://h/x"), "ftp"),
        (url("file:///etc/passwd"), "file"),
        (url("no url at all"), "scheme"),
        (url("http:///path"), "host"),
        (url("http://h:port/"), "not valid"),
        (url("http://h:99999/"), "not valid"),
        (url("http://[::1/"), "not valid"),
        (url("http://h/", "DELETE"), "DELETE"),
    ],
)
def test_a_target_that_nobody_can_send_to_is_known_for_it(
    target: Target, word: str
) -> None:
    """The sentence says why, once."""
    assert word in outbox_module.unsendable(target)


@pytest.mark.parametrize(
    "target",
    [
        url("http://h/"),
        url("HTTPS://h:1/x", "PUT"),
        url("http://[::1]:80/"),
        Target(kind="none"),
    ],
)
def test_a_target_that_somebody_can_send_to_is_none_of_those(target: Target) -> None:
    """A target that any server class supports is not among the unsupported ones."""
    assert outbox_module.unsendable(target) == ""


@pytest.fixture
def outbox() -> Outbox:
    """Return an outbox with nothing in it."""
    return Outbox()


@pytest.fixture
def collect(outbox: Outbox) -> Collect:
    """Wait until that many outcomes are there, and return them by key."""

    def wait(number: int) -> dict[str, Outcome]:
        found: dict[str, Outcome] = {}

        def enough() -> bool:
            found.update((each.key, each) for each in outbox.outcomes())
            return len(found) >= number

        wait_until(enough)
        return found

    return wait


@pytest.mark.parametrize("verb", ["POST", "PUT"])
def test_a_result_arrives_as_it_was_posted(
    outbox: Outbox, collect: Collect, heat: SignalServer, verb: str
) -> None:
    """With its verb, its body and the type of its body, to the URL exactly as given."""
    outbox.post("a", url(heat.url(), verb), {"x": 1})
    assert collect(1) == {"a": Outcome("a", Fate.SENT)}
    assert outbox.outcomes() == []
    (signal,) = heat.signals
    assert (signal.verb, signal.body, signal.headers["Content-Type"]) == (
        verb,
        b'{"x": 1}',
        "application/json",
    )
    assert heat.url().endswith(signal.path)


def test_results_for_one_server_go_in_order_over_one_connection(
    outbox: Outbox, collect: Collect, heat: SignalServer
) -> None:
    """A batch costs one connection."""
    for index in range(20):
        outbox.post(str(index), url(heat.url(str(index))), {})
    assert {each.fate for each in collect(20).values()} == {Fate.SENT}
    assert [each.path.split("?")[0] for each in heat.signals] == [
        f"/v1/{index}" for index in range(20)
    ]
    assert heat.connections == 1


def swift(heat: SignalServer, name: str) -> Target:
    """Return the target of a `TEMP_URL_SIGNAL`."""
    return url(
        f"{heat.origin}/v1/AUTH_a/container/{name}?temp_url_sig=5ec&temp_url_expires=2147483647",
        "PUT",
    )


def test_object_of_a_temporary_url_is_readable_after_its_own_time(
    outbox: Outbox, collect: Collect, heat: SignalServer
) -> None:
    """Swift rounds the time at which a PUT began up; an action that begins later than the end is later than that."""
    for index in range(4):
        outbox.post(str(index), swift(heat, str(index)), {"x": 1})
    assert {each.fate for each in collect(4).values()} == {Fate.SENT}
    assert [each.body for each in heat.signals] == [b'{"x": 1}'] * 4
    for signal in heat.signals:
        assert math.ceil(signal.begun) <= signal.ended


def test_results_for_many_objects_share_a_few_connections(
    outbox: Outbox,
    collect: Collect,
    heat: SignalServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results for one object are sent one after the other."""
    monkeypatch.setattr(servers, "ROUNDING_SECONDS", 0.0)
    for index in range(40):
        outbox.post(f"same {index}", swift(heat, "same"), {"x": index})
    collect(40)
    assert heat.connections == 1
    assert [int(each.body[6:-1]) for each in heat.signals] == list(range(40))
    for index in range(40):
        outbox.post(str(index), swift(heat, str(index)), {})
    collect(40)
    assert 1 < heat.connections <= outbox_module.LANES


def test_withdrawn_result_does_not_become_an_object(
    outbox: Outbox, heat: SignalServer
) -> None:
    """A result whose deployment is replaced while its last byte is held back would complete the next action."""
    outbox.post("a", swift(heat, "a"), {})
    wait_until(lambda: heat.open == 1)
    outbox.withdraw("a")
    heat.settle()
    assert heat.signals == []


@pytest.mark.parametrize(
    ("target", "is_temporary"),
    [
        (
            url(
                "http://swift.example/v1/a/b/c?temp_url_sig=s&temp_url_expires=1", "PUT"
            ),
            True,
        ),
        (
            url(
                "http://swift.example/v1/a/b/c?temp_url_expires=1&temp_url_sig=s", "PUT"
            ),
            True,
        ),
        (url("http://heat.example/v1/signal/arn?Signature=s", "POST"), False),
        (url("http://example/temp_url_sig=s", "PUT"), False),
        (Target(kind="none"), False),
    ],
)
def test_temporary_url_is_told_from_other_targets(
    target: Target, is_temporary: bool
) -> None:
    """Only Swift's time of an object is compared with that of an action."""
    assert target.is_temporary_url is is_temporary


def test_a_slow_server_delays_nobody_else(
    outbox: Outbox, collect: Collect, heat: SignalServer, other: SignalServer
) -> None:
    """Each server has a thread of its own."""
    heat.always = Answer(delay=1.0)
    outbox.post("slow", url(heat.url()), {})
    outbox.post("quick", url(other.url()), {})
    assert set(collect(1)) == {"quick"}
    assert set(collect(1)) == {"slow"}


def test_there_is_a_descriptor_to_wait_for(
    outbox: Outbox, collect: Collect, heat: SignalServer
) -> None:
    """The descriptor is readable while an outcome is unread."""
    assert select.select([outbox], [], [], 0)[0] == []
    outbox.post("a", url(heat.url()), {})
    assert select.select([outbox], [], [], 10)[0] == [outbox]
    collect(1)
    assert select.select([outbox], [], [], 0)[0] == []


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(status=404), Outcome("a", Fate.REFUSED, "HTTP 404 Not Found")),
        (Answer(status=503), Outcome("a", Fate.RETRY, "HTTP 503 Service Unavailable")),
        (
            Answer(status=302, headers={"Location": "/elsewhere"}),
            Outcome("a", Fate.RETRY, "HTTP 302 Found"),
        ),
    ],
)
def test_refusal_of_a_server_is_the_outcome(
    outbox: Outbox,
    collect: Collect,
    heat: SignalServer,
    answer: Answer,
    outcome: Outcome,
) -> None:
    """A redirect is not followed: it would turn a signal into a mere look."""
    heat.always = answer
    outbox.post("a", url(heat.url()), {})
    assert collect(1) == {"a": outcome}
    assert len(heat.signals) == 1


def test_the_time_that_a_server_asks_for_is_passed_on(
    outbox: Outbox, collect: Collect, heat: SignalServer
) -> None:
    """The delay that a server asks for is passed on, and the result waits for it."""
    heat.always = Answer(status=503, headers={"retry-after": "30"})
    outbox.post("a", url(heat.url()), {})
    assert collect(1)["a"].wait == 30


def test_a_server_that_comes_back_is_sent_to_again(
    outbox: Outbox, collect: Collect, heat: SignalServer
) -> None:
    """A refused or broken connection is not final."""
    heat.answers.append(Answer(hang_up=True))
    outbox.post("a", url(heat.url()), {})
    assert collect(1)["a"].fate is Fate.RETRY
    outbox.post("a", url(heat.url()), {})
    assert collect(1)["a"].fate is Fate.SENT


def test_nobody_listening_is_tried_again_and_said_without_the_url(
    outbox: Outbox, collect: Collect, heat: SignalServer
) -> None:
    """The URL is a secret."""
    heat.refuse()
    outbox.post("a", url(heat.url()), {})
    host = heat.origin.removeprefix("http://")
    assert collect(1) == {"a": Outcome("a", Fate.RETRY, f"{host}: {os.strerror(111)}")}


@pytest.mark.parametrize("address", ["ftp://h/x", "http://h:port/"])
def test_a_url_that_nobody_can_send_to_is_refused_at_once(
    outbox: Outbox, collect: Collect, address: str
) -> None:
    """For good, without a try."""
    outbox.post("a", url(address), {})
    assert collect(1)["a"].fate is Fate.REFUSED


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/a b",
        "http://127.0.0.1:1/\u20ac",
        "http://127.0.0.1:1/\ud800",
        "http://h\u2100/",
        "http://*/",
        "http://a..b/",
    ],
)
def test_an_odd_url_stops_no_other_result(
    outbox: Outbox, collect: Collect, heat: SignalServer, address: str
) -> None:
    """A broken URL fails its own result and delays no other."""
    outbox.post("odd", url(address), {})
    outbox.post("even", url(heat.url()), {})
    found = collect(2)
    assert (found["odd"].fate is not Fate.SENT, found["even"].fate) == (True, Fate.SENT)
    assert found["odd"].trouble


def test_a_result_that_is_posted_again_has_one_outcome(
    outbox: Outbox, collect: Collect, heat: SignalServer
) -> None:
    """A result that is posted twice has one outcome, that of the later post."""
    heat.answers.extend([Answer(status=503, delay=0.2), Answer()])
    outbox.post("a", url(heat.url()), {})
    outbox.post("a", url(heat.url()), {})
    assert collect(1) == {"a": Outcome("a", Fate.SENT)}
    assert outbox.outcomes() == []


def test_a_request_that_creeps_is_given_up_and_holds_up_nothing(
    outbox: Outbox,
    collect: Collect,
    heat: SignalServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Later results for the same server go over a new connection."""
    monkeypatch.setattr(outbox_module, "PATIENCE", 0.3)
    heat.answers.append(Answer(creep=0.05))
    outbox.post("creeps", url(heat.url("creeps")), {})
    outbox.post("waits", url(heat.url("waits")), {})
    found = collect(2)
    assert found["creeps"] == Outcome(
        "creeps", Fate.RETRY, "no full answer within 0.3 s"
    )
    assert found["waits"].fate is Fate.SENT


def signed(at: str) -> str:
    """Return a URL as Heat signs it for a `CFN_SIGNAL`."""
    return f"http://heat.example/v1/signal/arn?Timestamp={at}&SignatureVersion=2&Signature=secret%3D"


TEMPORARY = "http://swift.example/v1/a/b/c?temp_url_sig=secret&temp_url_expires="


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (
            url(signed("2026-01-01T00%3A00%3A00Z")),
            "its URL was signed 20 minutes before",
        ),
        (url(signed("2026-01-01T00%3A10%3A00Z")), ""),
        (url(signed("nonsense")), ""),
        (url(TEMPORARY + "1", "PUT"), "its URL has expired"),
        (
            url(TEMPORARY + "2147483586", "PUT"),
            "its URL was not signed with the key that its account in Swift has now",
        ),
        (
            url(TEMPORARY, "PUT"),
            "its URL was not signed with the key that its account in Swift has now",
        ),
    ],
)
def test_denial_of_a_signed_url_has_its_probable_reason(
    target: Target, why: str
) -> None:
    """The result of a run that took longer than Keystone takes a signature is denied for that reason."""
    found = servers.denial(target, 1767226800.0)
    assert found.endswith(why) or (why in found and "raise auth_ttl" in found)
    assert bool(why) == bool(found)
    assert "secret" not in found


def test_a_server_can_be_expected(
    outbox: Outbox,
    collect: Collect,
    heat: SignalServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Modules for sending are loaded before there is a result, once, without a request."""
    origins: list[str] = []

    class Connection(web.Connection):
        def __init__(self, origin: str, *more: Any, **options: Any) -> None:
            origins.append(origin)
            super().__init__(origin, *more, **options)

    monkeypatch.setattr(web, "Connection", Connection)
    outbox.expect(url(heat.url("a")))
    wait_until(lambda: len(origins) == 1)
    outbox.expect(url(heat.url("b")))
    outbox.expect(url("ftp://h/x"))
    assert heat.connections == 0
    outbox.post("b", url(heat.url("b")), {})
    assert collect(1)["b"].fate is Fate.SENT
    assert origins == [heat.origin]


def test_problem_of_an_expected_server_is_reported_with_the_result(
    outbox: Outbox,
    collect: Collect,
    heat: SignalServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A problem during preparation is reported only if it still exists when the result is sent."""
    tries = iter([True, True, False])

    class Connection(web.Connection):
        def __init__(self, *more: Any, **options: Any) -> None:
            if next(tries):
                raise OSError("no memory")
            super().__init__(*more, **options)

    monkeypatch.setattr(web, "Connection", Connection)
    outbox.expect(url(heat.url("a")))
    outbox.post("a", url(heat.url("a")), {})
    assert collect(1)["a"].fate is Fate.RETRY
    outbox.post("a", url(heat.url("a")), {})
    assert collect(1)["a"].fate is Fate.SENT

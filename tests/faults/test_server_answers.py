"""Servers that answer wrongly or maliciously: every result is kept until it is delivered."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest

from support.loopback import Answer, SignalServer
from support.machine import Machine
from support.results import ONCE, UNDELIVERED, counting, hasty, ran

pytestmark = pytest.mark.takes(20)


def test_a_result_that_is_refused_for_good_is_not_sent_again(
    machine: Machine, heat: SignalServer
) -> None:
    """A result that was refused for good is kept and not sent again, until somebody asks for that."""
    codes = ("404", "410", "413", "422")
    heat.named = {code: Answer(int(code)) for code in codes}
    given = [counting(machine, code, heat.url(code)) for code in codes]

    first = machine.apply(given)
    second = machine.apply(given)

    assert (first.code, second.code) == (UNDELIVERED, 0), first.err
    assert [len(heat.values(code)) for code in codes] == [1] * len(codes)
    for code, entry in machine.status().items():
        assert entry["state"] == "refused"
        assert f"HTTP {code}" in entry["what"]
    heat.named.clear()
    assert machine.agent("retry", "--signal", "404").code == 0
    assert machine.apply(given).code == 0
    assert [each["deploy_stdout"] for each in heat.values("404")] == ["404\n", "404\n"]
    assert machine.status()["404"]["state"] == "signalled"
    assert sorted(ran(machine)) == sorted(codes)


def test_a_result_that_is_refused_for_now_is_sent_again(
    machine: Machine, heat: SignalServer
) -> None:
    """After any other answer than a success, the next run sends the very same result again."""
    codes = (
        "400",
        "401",
        "403",
        "408",
        "409",
        "418",
        "429",
        "500",
        "502",
        "503",
        "504",
    )
    heat.named = {code: Answer(int(code)) for code in codes}
    given = [counting(machine, code, heat.url(code)) for code in codes]

    assert machine.apply(given, *ONCE).code == UNDELIVERED
    assert {each["state"] for each in machine.status().values()} == {"finished"}
    heat.named.clear()
    assert machine.apply(given, *ONCE).code == 0

    for code in codes:
        first, second = heat.values(code)
        assert first == second
        assert first["deploy_stdout"] == f"{code}\n"
    assert sorted(ran(machine)) == sorted(codes)


@pytest.mark.fault(
    1,
    "a busy server that answers 503 at first",
    "the POST is repeated within the same run",
)
def test_result_is_sent_again_after_503(machine: Machine, heat: SignalServer) -> None:
    """A POST that a busy server turns away is repeated within the same run."""
    heat.answers.extend([Answer(503), Answer(200)])

    done = machine.apply([counting(machine, url=heat.url())], "--deliver-for", "10")

    assert done.code == 0, done.err
    assert len(heat.signals) == 2
    assert machine.status()["d1"]["state"] == "signalled"


def test_retry_after_holds_for_later_runs(machine: Machine, heat: SignalServer) -> None:
    """Retry-After, in seconds or as a date, holds for the runs that follow too, and they say what they wait for."""
    now = time.time()
    heat.named = {
        "seconds": Answer(503, {"Retry-After": "10"}),
        "date": Answer(429, {"Retry-After": formatdate(now + 12, usegmt=True)}),
        "nonsense": Answer(503, {"Retry-After": "soon"}),
    }
    names = list(heat.named)
    given = [counting(machine, name, heat.url(name)) for name in names]

    assert machine.apply(given, *ONCE).code == UNDELIVERED
    told = time.time()
    status = machine.status()
    assert now + 10 <= status["seconds"]["not_before"] <= told + 10
    assert now + 11 <= status["date"]["not_before"] <= now + 13, (
        "a date has no fractions of seconds"
    )
    assert status["nonsense"]["not_before"] is None
    heat.named.clear()
    second = machine.apply(given, "--deliver-for", "0.1")
    assert [len(heat.values(name)) for name in names] == [1, 1, 2]
    assert second.out.count("its result is sent again at") == 2
    assert second.code == UNDELIVERED, "two results are still to be delivered"
    time.sleep(
        max(
            max(each["not_before"] or 0 for each in status.values())
            + 0.1
            - time.time(),
            0,
        )
    )
    assert machine.apply(given, *ONCE).code == 0
    assert [len(heat.values(name)) for name in names] == [2, 2, 2]


def test_short_retry_after_is_waited_for(machine: Machine, heat: SignalServer) -> None:
    """A Retry-After that lies within the patience of a run is waited for in that run."""
    heat.answers.append(Answer(503, {"Retry-After": "2"}))

    assert (
        machine.apply([counting(machine, url=heat.url())], "--deliver-for", "10").code
        == 0
    )
    assert heat.signals[1].at - heat.signals[0].at >= 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_not_followed_and_fails(
    machine: Machine, heat: SignalServer, other: SignalServer, status: int
) -> None:
    """The result is kept, and nothing is sent to the other address."""
    heat.always = Answer(status, {"Location": other.url()})

    done = machine.apply([counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED
    assert not other.signals
    assert machine.status()["d1"]["state"] == "finished"
    assert str(status) in machine.status()["d1"]["what"]


HTML = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Answer(200, HTML, b"<html><h1>200 OK</h1></html>"), "finished"),
        (Answer(200, HTML, b"<!-- welcome --><p>Log in</p>"), "finished"),
        (
            Answer(200, HTML, b"\xef\xbb\xbf \r\n<head><title>Log in</title></head>"),
            "finished",
        ),
        (Answer(200, HTML, b" " * 9000 + b"<html>"), "finished"),
        (Answer(200, HTML, "<html><p>Log in".encode("utf-16")), "finished"),
        (
            Answer(200, {**HTML, "Content-Encoding": "gzip"}, gzip.compress(b"<html>")),
            "finished",
        ),
        (
            Answer(
                200, {"Content-Type": "TEXT/HTML;charset=utf-8"}, b"Welcome<br>Log in"
            ),
            "finished",
        ),
        (
            Answer(
                200,
                {"Content-Type": "application/xhtml+xml"},
                b'<?xml version="1.0"?><html/>',
            ),
            "finished",
        ),
        (
            Answer(
                200,
                {"Content-Type": "text/xml"},
                b'<?xml version="1.0"?><!-- a --><html/>',
            ),
            "finished",
        ),
        (Answer(200, {}, b"<!DOCTYPE html><p>Log in"), "finished"),
        (Answer(203, HTML, b"<html><h1>Log in</h1></html>"), "finished"),
        (Answer(200, HTML), "signalled"),  # Heat's CloudFormation API
        (Answer(201, HTML), "signalled"),  # Swift
        (
            Answer(
                202,
                HTML,
                b"<html><h1>Accepted</h1><p>The request is accepted.</p></html>",
            ),
            "signalled",
        ),
        (Answer(200, HTML, b"null"), "signalled"),
        (Answer(200, HTML, b'{"said": "<p>thanks</p>"}'), "signalled"),
        (
            Answer(200, {"Content-Type": "application/xml"}, b"<resource>r</resource>"),
            "signalled",
        ),
        (Answer(200, {"Content-Type": "text/html"}, b"ok"), "signalled"),
        (Answer(200, {"Content-Type": "application/json"}, b"<html>"), "signalled"),
        (
            Answer(
                201, {"Content-Type": "text/html"}, b"<html><h1>Created</h1></html>"
            ),
            "signalled",
        ),
        (
            Answer(502, {"Content-Type": "text/html"}, b"<html><h1>200 OK</h1></html>"),
            "finished",
        ),
    ],
)
def test_a_web_page_is_not_an_acceptance(
    machine: Machine, heat: SignalServer, answer: Answer, state: str
) -> None:
    """A web page does not come from Heat, however it begins; another answer that is labelled HTML counts."""
    heat.always = answer

    machine.apply([counting(machine, url=heat.url())], *ONCE)

    assert machine.status()["d1"]["state"] == state


CLOSES = {"Connection": "close"}


CHUNKED = {**CLOSES, "Transfer-Encoding": "chunked"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {**CLOSES, "Content-Length": "1000"}, b"short"),
        Answer(201, {**CLOSES, "Content-Length": "1000"}),
        Answer(200, CHUNKED, b"a\r\nshort"),
        Answer(200, CHUNKED, b"5\r\nshort\r\n"),
        Answer(200, CHUNKED),
    ],
    ids=["cut", "no body", "cut chunk", "no last chunk", "no chunk"],
)
@pytest.mark.parametrize("proxied", [False, True], ids=["itself", "through a proxy"])
@pytest.mark.fault(
    1,
    "an acceptance that is cut short, by its length or in its chunks, from the server itself or through a proxy",
    "it does not count: the result is kept, the reason is shown, and the result is sent again",
)
def test_truncated_acceptance_is_sent_again(
    machine: Machine, heat: SignalServer, answer: Answer, *, proxied: bool
) -> None:
    """A server whose answer breaks off may not have the result, so it is sent again."""
    heat.answers.append(answer)
    given = [
        counting(
            machine, url="http://heat.invalid/v1/signal?x" if proxied else heat.url()
        )
    ]
    through = heat.origin if proxied else ""

    first = machine.apply(given, *ONCE, http_proxy=through)
    what = machine.status()["d1"]["what"]
    assert re.search(
        f"HTTP {answer.status}, but its answer (was cut short|is not HTTP)", what
    )
    second = machine.apply(given, "--deliver-for", "10", http_proxy=through)

    assert (first.code, second.code) == (UNDELIVERED, 0), second.err
    assert len(heat.signals) == 2
    assert ran(machine) == ["d1"]


@pytest.mark.parametrize(
    "answer", [Answer(hang_up=True), Answer(reset=True)], ids=["hangs up", "resets"]
)
def test_result_is_sent_again_after_a_broken_connection(
    machine: Machine, heat: SignalServer, answer: Answer
) -> None:
    """A result whose connection was broken off is sent again, in the same run and in the next."""
    heat.answers.extend([answer, answer])
    given = [counting(machine, url=heat.url())]

    first = machine.apply(given, *ONCE)
    second = machine.apply(given, "--deliver-for", "10")

    assert (first.code, second.code) == (UNDELIVERED, 0), second.err
    assert len(heat.signals) == 3
    assert len({each.body for each in heat.signals}) == 1
    assert ran(machine) == ["d1"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda: Answer(200, {}, b"x" * 64_000_000), 0),
        (
            lambda: Answer(
                200, {"Content-Encoding": "gzip"}, gzip.compress(bytes(200_000_000), 1)
            ),
            0,
        ),
        (lambda: Answer(200, {"Content-Length": "9" * 30}, b"x" * 100), UNDELIVERED),
        (lambda: Answer(200, {f"X-{number}": "x" * 60_000 for number in range(90)}), 0),
    ],
    ids=["huge", "gzip bomb", "huge length", "huge headers"],
)
def test_an_answer_that_is_too_much(
    machine: Machine, heat: SignalServer, answer: Callable[[], Answer], code: int
) -> None:
    """Only a bounded part of a huge answer is read, and little memory is used."""
    heat.answers.append(answer())

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    peak = re.search(r"VmHWM:\s*(\d+) kB", done.err)
    assert peak, done.err
    assert int(peak[1]) < 96 * 1024
    assert done.code == code
    assert ran(machine) == ["d1"]


def test_an_answer_whose_body_trickles(machine: Machine, heat: SignalServer) -> None:
    """An answer whose body does not end in time is none."""
    heat.always = Answer(200, {}, b"x" * 2000, trickle=0.05)

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert machine.status()["d1"]["state"] == "finished"


def test_status_without_a_body_does_not_accept_the_result(
    machine: Machine, heat: SignalServer
) -> None:
    """The status alone does not accept the result: it is kept."""
    heat.always = Answer(200, {"Content-Length": "10"})

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert machine.status()["d1"]["state"] == "finished"


@pytest.mark.parametrize("path", ["/a b", "/\u00e4?x=1"])
def test_a_url_that_has_to_be_encoded_is(
    machine: Machine, heat: SignalServer, path: str
) -> None:
    """No server can have signed it as it is, and none could be sent it."""
    assert machine.apply([counting(machine, url=heat.origin + path)], *ONCE).code == 0
    assert len(heat.signals) == 1


def test_an_answer_whose_headers_trickle(machine: Machine, heat: SignalServer) -> None:
    """An answer that never comes to its body is given up; the result is kept."""
    heat.always = Answer(creep=0.05)

    done = hasty(machine, [counting(machine, url=heat.url())], *ONCE)

    assert done.code == UNDELIVERED, done.err
    assert machine.status()["d1"]["state"] == "finished"


def test_trickling_answer_does_not_hold_up_the_next(
    machine: Machine, heat: SignalServer
) -> None:
    """After a request that was given up, the other results for that server are delivered."""
    heat.answers.append(Answer(creep=0.05))
    given = [counting(machine, each, heat.url(each)) for each in ("first", "second")]

    done = hasty(machine, given, "--deliver-for", "6")

    assert done.code == 0, done.err
    assert [len(heat.values(each)) for each in ("first", "second")] == [2, 1]

"""CloudEvents, posted to a real server on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from heat_config_agent.signals.notices import events
from heat_config_agent.signals.notices.channel import UndeliveredError
from heat_config_agent.signals.notices.events import Poster
from heat_config_agent.signals.notices.notice import ENDED, Notice
from support.http import Answer
from support.loopback import SignalServer

Make = Callable[..., Notice]


@pytest.fixture
def server() -> Iterator[SignalServer]:
    """A server that takes events."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()


def test_an_event_has_the_form_of_cloudevents(
    notice: Make, server: SignalServer
) -> None:
    """The required attributes, and only data that is known."""
    url = f"{server.origin}/events?token=secret"
    Poster(url, None).post(
        notice(
            change=ENDED, state="failed", reason="exit code 3", started=1_700_000_000.0
        )
    )
    [request] = server.signals
    assert (request.verb, request.path) == ("POST", "/events?token=secret")
    assert (
        request.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    )
    event = json.loads(request.body)
    source = event.pop("source")
    assert source.startswith("//")
    assert source.endswith("/heat-config-agent")
    assert event == {
        "specversion": "1.0",
        "id": "d1.ended.1700000000250000",
        "type": "heat-config-agent.deployment.ended",
        "subject": "d1",
        "time": "2023-11-14T22:13:20.250Z",
        "datacontenttype": "application/json",
        "data": {
            "id": "d1",
            "name": "web",
            "action": "CREATE",
            "tool": "script",
            "stack": "shop",
            "source": "local",
            "state": "failed",
            "reason": "exit code 3",
            "started": "2023-11-14T22:13:20.000Z",
        },
    }


def test_a_trace_goes_on(notice: Make) -> None:
    """By the extension for distributed tracing; without a trace, the attribute is left out."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert events.event(notice(trace=trace), "host")["traceparent"] == trace
    assert "traceparent" not in events.event(notice(), "host")


def test_a_host_of_any_name_is_a_source(notice: Make) -> None:
    """The source is a reference to a URI."""
    assert (
        events.event(notice(), "a b/ü")["source"]
        == "//a%20b%2F%C3%BC/heat-config-agent"
    )


@pytest.mark.parametrize(
    ("answer", "why", "again"),
    [
        (Answer(status=404), "HTTP 404 Not Found", False),
        (
            Answer(status=302, headers={"Location": "/elsewhere"}),
            "HTTP 302 Found",
            False,
        ),
        (Answer(status=503), "HTTP 503 Service Unavailable", True),
        (Answer(status=429), "HTTP 429 Too Many Requests", True),
        (Answer(hang_up=True), "closed the connection|hung up|answer", True),
    ],
)
def test_refused_notice_says_why_and_hides_the_url(
    notice: Make, server: SignalServer, answer: Answer, why: str, *, again: bool
) -> None:
    """The error says why, whether another attempt may succeed, and not the URL."""
    server.answers.append(answer)
    with pytest.raises(UndeliveredError, match=why) as caught:
        Poster(f"{server.origin}/events?token=secret", None).post(notice())
    assert caught.value.again is again
    assert str(caught.value).startswith("127.0.0.1:")
    assert "secret" not in str(caught.value)
    assert len(server.signals) == 1


def test_attempts_end_although_the_server_refuses_or_hangs(
    notice: Make, server: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt ends by itself."""
    monkeypatch.setattr(events, "_SECONDS", 0.2)
    server.always = Answer(delay=2)
    url = f"{server.origin}/events"
    with pytest.raises(UndeliveredError) as caught:
        Poster(url, None).post(notice())
    assert caught.value.again
    server.refuse()
    with pytest.raises(UndeliveredError, match="refused"):
        Poster(url, None).post(notice())

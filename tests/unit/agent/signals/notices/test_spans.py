"""Spans of OpenTelemetry: their form is that of OTLP, and their ids are those of the trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from heat_config_agent import __version__
from heat_config_agent.signals.notices import spans
from heat_config_agent.signals.notices.channel import UndeliveredError
from heat_config_agent.signals.notices.notice import ENDED, Notice
from support.http import Answer
from support.loopback import SignalServer

Make = Callable[..., Notice]

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"

TIMES = {"started": 1_700_000_000.0, "ended": 1_700_000_002.5}


@pytest.fixture
def server() -> Iterator[SignalServer]:
    """A collector."""
    server = SignalServer()
    server.start()
    yield server
    server.stop()


def strings(attributes: list[dict[str, Any]]) -> dict[str, str]:
    """Return attributes as a map."""
    return {each["key"]: each["value"]["stringValue"] for each in attributes}


def test_span_has_the_form_of_otlp(notice: Make, server: SignalServer) -> None:
    """The resource is the agent on its machine; ids are hexadecimal, and times are texts."""
    ended = notice(change=ENDED, state="failed", reason="exit code 3", **TIMES)
    spans.Collector(f"{server.origin}/v1/traces", None).post(ended)
    [request] = server.signals
    assert (request.verb, request.path) == ("POST", "/v1/traces")
    assert request.headers["Content-Type"] == "application/json"
    [group] = json.loads(request.body)["resourceSpans"]
    resource = strings(group["resource"]["attributes"])
    assert resource.pop("host.name")
    assert resource == {
        "service.name": "heat-config-agent",
        "service.version": __version__,
    }
    [scope] = group["scopeSpans"]
    [span] = scope["spans"]
    assert (len(span.pop("traceId")), len(span.pop("spanId"))) == (32, 16)
    assert strings(span.pop("attributes")) == {
        "heat.deployment.id": "d1",
        "heat.deployment.name": "web",
        "heat.deployment.action": "CREATE",
        "heat.deployment.tool": "script",
        "heat.deployment.stack": "shop",
        "heat.deployment.source": "local",
        "heat.deployment.state": "failed",
    }
    assert span == {
        "name": "CREATE web",
        "kind": 1,
        "startTimeUnixNano": "1700000000000000000",
        "endTimeUnixNano": "1700000002500000000",
        "status": {"code": 2, "message": "exit code 3"},
    }


def test_span_belongs_to_the_trace_of_the_deployment(notice: Make) -> None:
    """The span has the trace's id and its parent's; without a trace it begins one."""
    span = spans.span(notice(trace=f"{TRACE}1", state="ok", **TIMES))
    assert span["traceId"] == "0af7651916cd43dd8448eb211c80319c"
    assert span["parentSpanId"] == "b7ad6b7169203331"
    assert span["status"] == {"code": 1}
    assert "parentSpanId" not in spans.span(notice(**TIMES))


def test_ids_are_those_of_the_run(notice: Make) -> None:
    """A restarted agent gives a run the same ids; another run, or another deployment, has others."""
    ids = {
        (span["traceId"], span["spanId"])
        for made in (
            *(notice(**TIMES), notice(**TIMES, at=1_700_000_009.0)),
            notice(started=1_700_000_001.0),
            notice(id="d2", **TIMES),
        )
        for span in [spans.span(made)]
    }
    assert len(ids) == 3


@pytest.mark.parametrize(("flags", "number"), [("0", 0), ("1", 1), ("2", 0), ("3", 1)])
def test_trace_that_is_not_recorded_gets_no_span(
    notice: Make, server: SignalServer, flags: str, number: int
) -> None:
    """The last bit of the flags decides."""
    spans.Collector(server.origin, None).post(notice(trace=TRACE + flags))
    assert len(server.signals) == number


def test_run_that_never_began_has_a_span_without_a_duration(notice: Make) -> None:
    """A refused deployment ends when it is refused."""
    span = spans.span(notice(state="failed", started=None, ended=None))
    assert span["startTimeUnixNano"] == span["endTimeUnixNano"] == "1700000000250000000"


def test_collector_that_refuses_is_named_without_its_url(
    notice: Make, server: SignalServer
) -> None:
    """A URL may have a secret."""
    server.answers.append(Answer(status=401))
    with pytest.raises(UndeliveredError, match="HTTP 401") as caught:
        spans.Collector(f"{server.origin}/v1?token=secret", None).post(notice())
    assert "secret" not in str(caught.value)

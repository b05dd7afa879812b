"""Runs as spans of OpenTelemetry, posted to a collector: OTLP over HTTP, in JSON.

A span is posted when a run has ended. Its ids follow from the deployment and the start of the run, so an agent that was
restarted in between gives the run the same ones.
"""

from __future__ import annotations

import hashlib

from heat_config_agent import __version__
from heat_config_agent.signals.notices.channel import Channel
from heat_config_agent.signals.notices.events import Poster
from heat_config_agent.signals.notices.notice import ENDED, Notice, facts

_INTERNAL = 1
"""The kind of a span that neither answers nor asks another program."""

_OK, _ERROR = 1, 2
"""The codes of a span's status."""

_SAMPLED = 1
"""The bit of a trace's flags that says that its spans are recorded."""


class Collector(Poster):
    """A collector that receives spans."""

    kind = "application/json"

    def content(self, notice: Notice, host: str) -> dict[str, object]:
        return request(notice, host)

    def post(self, notice: Notice) -> None:
        """Post the span of a notice, if its trace is recorded. Raises UndeliveredError."""
        if is_recorded(notice):
            super().post(notice)


def is_recorded(notice: Notice) -> bool:
    """Return whether the trace of a run is recorded: as its parent says, and always if the run begins the trace."""
    flags = notice.trace.rpartition("-")[2]
    return not flags or bool(int(flags, 16) & _SAMPLED)


def request(notice: Notice, host: str) -> dict[str, object]:
    """Return the request with the span of a run that has ended on the machine of that name."""
    resource = {
        "service.name": "heat-config-agent",
        "service.version": __version__,
        "host.name": host,
    }
    scope = {"name": "heat-config-agent", "version": __version__}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": [span(notice)]}],
            }
        ]
    }


def span(notice: Notice) -> dict[str, object]:
    """Return the span of a run. Its times are nanoseconds since the epoch, as text."""
    ended = notice.ended or notice.at
    started = notice.started or ended
    _, trace, parent, _ = notice.trace.split("-") if notice.trace else ("", "", "", "")
    digest = hashlib.sha256(f"{notice.id}\0{started!r}".encode()).hexdigest()
    failed = notice.state == "failed"
    return {
        "traceId": trace or digest[:32],
        "spanId": digest[32:48],
        **({"parentSpanId": parent} if parent else {}),
        "name": " ".join(filter(None, (notice.action, notice.name or notice.id))),
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(started),
        "endTimeUnixNano": _nanoseconds(max(ended, started)),
        "attributes": _attributes(
            {
                f"heat.deployment.{name}": text
                for name, text in facts(notice).items()
                if text
            }
        ),
        "status": {
            "code": _ERROR if failed else _OK,
            **({"message": notice.reason} if failed and notice.reason else {}),
        },
    }


def _attributes(values: dict[str, str]) -> list[dict[str, object]]:
    return [
        {"key": name, "value": {"stringValue": text}} for name, text in values.items()
    ]


def _nanoseconds(seconds: float) -> str:
    """Return a time in whole microseconds, which is as exact as a float is."""
    return f"{seconds * 1e6:.0f}000"


def channel(url: str, ca_file: str | None) -> Channel:
    """Return the channel to a collector."""
    return Channel("trace_url", Collector(url, ca_file).post, frozenset({ENDED}))

"""Changes of deployments as CloudEvents 1.0, posted to a server: structured mode, in JSON."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from urllib.parse import quote, urlsplit

from heat_config_agent import web
from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.settings.in_force import refused_url
from heat_config_agent.signals.notices.channel import Channel, UndeliveredError
from heat_config_agent.signals.notices.notice import (
    BEGUN,
    DELIVERED,
    DRIFTED,
    ENDED,
    REBOOT,
    Notice,
    facts,
)

TYPE = "heat-config-agent.deployment"
"""The beginning of the type of each event; the change follows."""

_SECONDS = 10.0
"""The longest silence of the server."""

_LATER = frozenset({408, 425, 429})
"""The HTTP status codes below 500 after which the event is sent again."""


class Poster:
    """A server that receives events."""

    kind = "application/cloudevents+json; charset=utf-8"
    """The type of the content that it receives."""

    def __init__(self, url: str, ca_file: str | None) -> None:
        parts = urlsplit(url)
        self._url, self._host = url, parts.netloc.rpartition("@")[2]
        self._connection = web.Connection(
            f"{parts.scheme}://{parts.netloc}", ca_file, seconds=_SECONDS
        )

    def content(self, notice: Notice, host: str) -> dict[str, object]:
        """Return the notice as the receiver gets it, from the machine of that name."""
        return event(notice, host)

    def post(self, notice: Notice) -> None:
        """Post the event of a notice. Raises UndeliveredError."""
        if refusal := refused_url(self._url):
            raise UndeliveredError(refusal)
        body = json.dumps(self.content(notice, os.uname().nodename)).encode()
        headers = {"Content-Type": self.kind}
        try:
            answer = self._connection.send("POST", self._url, body, headers)
        except UnreachableError as error:
            raise UndeliveredError(f"{self._host}: {error}", again=True) from error
        if not 200 <= answer.status < 300:
            again = answer.status >= 500 or answer.status in _LATER
            raise UndeliveredError(
                f"{self._host}: HTTP {answer.status} {answer.reason}".rstrip(),
                again=again,
            )


def event(notice: Notice, host: str) -> dict[str, object]:
    """Return the CloudEvent of a notice on the machine of that name."""
    attributes = {
        "specversion": "1.0",
        "id": f"{notice.id}.{notice.change}.{notice.at * 1e6:.0f}",
        "source": f"//{quote(host, safe='')}/heat-config-agent",
        "type": f"{TYPE}.{notice.change}",
        "subject": notice.id,
        "time": _moment(notice.at),
        "datacontenttype": "application/json",
    }
    data = {
        **facts(notice),
        "reason": notice.reason,
        "delivery": notice.delivery,
        "started": _moment(notice.started) if notice.started else "",
        "ended": _moment(notice.ended) if notice.ended else "",
    }
    trace = {"traceparent": notice.trace} if notice.trace else {}
    return {
        **attributes,
        **trace,
        "data": {name: value for name, value in data.items() if value},
    }


def _moment(seconds: float) -> str:
    """Return a time as RFC 3339 has it."""
    return (
        datetime.fromtimestamp(seconds, timezone.utc)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def channel(url: str, ca_file: str | None) -> Channel:
    """Return the channel to a server."""
    changes = frozenset({BEGUN, ENDED, REBOOT, DELIVERED, DRIFTED})
    return Channel("report_url", Poster(url, ca_file).post, changes)

"""A Zaqar on loopback: a queue of messages with claims, behind a Keystone."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from heat_config_agent.model.deployment import Document
from heat_config_agent.sources.cloud.zaqar import Zaqar
from support import cloud, http
from support.http import Answer, Stub

QUEUE = "stack server/1"
"""A name that has to be quoted."""


@dataclass
class Message:
    """A message in the queue."""

    body: object
    born: float
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    claim: str = ""
    """By whom it is claimed."""
    fields: dict[str, object] = field(default_factory=dict)
    """The fields of its entry that differ from the usual ones."""

    def entry(self) -> dict[str, object]:
        usual = {
            "id": self.id,
            "href": f"/v2/queues/q/messages/{self.id}"
            + (f"?claim_id={self.claim}" if self.claim else ""),
            "ttl": 3600,
            "age": int(time.monotonic() - self.born),
            "body": self.body,  # dots for a field that is not there
        }
        return {
            key: value
            for key, value in {**usual, **self.fields}.items()
            if value is not ...
        }


@dataclass(frozen=True)
class Request:
    """A request that was received."""

    verb: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Queue:
    """A Zaqar server with one queue, as Zaqar 23 over MongoDB behaves: only what nobody has claimed is claimed."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.requests: list[Request] = []
        self.said: dict[tuple[str, str], tuple[int, bytes]] = {}
        """Answers to a verb and the end of a path, which replace the right ones."""
        self.server = Stub(self._respond)
        self.scheme = "http"

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    @property
    def origin(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.port}"

    def _respond(self, received: http.Request) -> Answer:
        parts = urlsplit(received.path)
        request = Request(
            received.verb,
            parts.path,
            parse_qs(parts.query),
            received.headers,
            received.body,
        )
        self.requests.append(request)
        status, body = self.answer(request)
        return Answer(status, body=body)

    def answer(self, request: Request) -> tuple[int, bytes]:
        what = request.path.rpartition("/")[2]
        said = self.said.get((request.verb, what))
        if said:
            return said
        if (
            not request.path.startswith("/v2/queues/stack%20server%2F1/")
            or "Client-ID" not in request.headers
        ):
            return 400, b"{}"
        match request.verb, what:
            case "POST", "claims":
                assert json.loads(request.body) == {"ttl": 60, "grace": 3600}
                free = [message for message in self.messages if not message.claim][:10]
                claim = str(uuid.uuid4())
                for message in free:
                    message.claim = claim
                return (201, self.listed(free)) if free else (204, b"")
            case "GET", "messages":
                assert request.query == {
                    "include_claimed": ["true"],
                    "echo": ["true"],
                    "marker": ["0"],
                }
                return 200, self.listed(self.messages[:10])
            case "DELETE", "messages":
                ids = request.query["ids"][0].split(",")
                claims = request.query["claim_ids"][0].split(",")
                gone = [message for message in self.messages if message.id in ids]
                assert len(ids) <= 20
                assert {message.claim for message in gone} <= set(claims), (
                    "deleted without its claim"
                )
                self.messages = [
                    message for message in self.messages if message not in gone
                ]
                return 204, b""
        return 404, b"{}"

    @staticmethod
    def listed(messages: list[Message]) -> bytes:
        return json.dumps({"messages": [each.entry() for each in messages]}).encode()

    def post(self, body: object, ago: float = 0.0, **fields: object) -> Message:
        message = Message(body, time.monotonic() - ago, fields=fields)
        self.messages.append(message)
        return message

    def expire(self) -> None:
        """Have all claims end."""
        for each in self.messages:
            each.claim = ""

    def bodies(self) -> list[object]:
        return [each.body for each in self.messages]


def metadata(name: str) -> dict[str, object]:
    """Return the metadata that Heat has for a server."""
    return {"deployments": [{"id": name}], "os-collect-config": {}}


def offer(openstack: cloud.Cloud, **services: str) -> None:
    """Have those services in the catalog, where they are said to be."""
    catalog = [
        {
            "type": name.replace("_", "-"),
            "name": name,
            "id": name,
            "endpoints": [
                {
                    "id": name,
                    "interface": "public",
                    "region": "RegionOne",
                    "region_id": "RegionOne",
                    "url": url,
                }
            ],
        }
        for name, url in services.items()
    ]
    openstack.keystone.always = openstack.lets_in("token-1", catalog=catalog)


Make = Callable[..., Zaqar]


def content(document: Document | None) -> object:
    """Return the content of a document, which must exist."""
    assert document is not None
    assert document.source == "zaqar"
    return document.content

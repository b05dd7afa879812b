"""A stand-in for OpenStack: a Keystone, both APIs of Heat, a Swift and a Zaqar that hand out one server's metadata.

One process on loopback that does the least for each answer, so that what is measured is who asks. It counts what it is
asked. Signals are taken, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

PROJECT, STACK, SERVER, QUEUE = "p1", "stack/5a1f0c52", "server", "queue"
KEYSTONE, HEAT, CFN, SWIFT, ZAQAR, SIGNAL = (
    "keystone",
    "heat",
    "cfn",
    "swift",
    "zaqar",
    "signal",
)
"""Names of the services that it stands for, as `counts` has them."""
DATE = "date"
"""Requests to Swift that only want to know the date."""

_TOKEN_HOURS = 4


@contextlib.contextmanager
def running() -> Iterator[Heat]:
    """Start the process, and end it."""
    argv = (sys.executable, "-m", "bench.heat")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env)
    try:
        assert process.stdout is not None
        with contextlib.closing(Heat(int(process.stdout.readline()))) as found:
            yield found
    finally:
        process.kill()
        process.communicate()


class Heat:
    """The process, seen from outside."""

    def __init__(self, port: int) -> None:
        """Speak to it on that port."""
        self.origin = f"http://127.0.0.1:{port}"
        self._control = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def close(self) -> None:
        """Speak to it no more."""
        self._control.close()

    def put(self, document: object) -> None:
        """Make this the server's metadata, from when this returns."""
        self._said("PUT", "/control/metadata", json.dumps(document).encode())

    def counts(self) -> Counter[str]:
        """Return how many requests there were, by whom they were for."""
        return Counter(json.loads(self._said("GET", "/control/counts")))

    def handed(self) -> tuple[float, int]:
        """Return when Heat has first handed out what the metadata are, and how many requests there were by then."""
        at, requests = json.loads(self._said("GET", "/control/handed"))
        return at, requests

    def sections(self) -> dict[str, dict[str, str]]:
        """Return what settings say of how to reach it: section → key → value, as os-collect-config has them, too."""
        keystone = {
            "auth_url": f"{self.origin}/v3",
            "user_id": "u1",
            "password": "the-password-of-the-user",
            "project_id": PROJECT,
        }
        return {
            HEAT: {**keystone, "stack_id": STACK, "resource_name": SERVER},
            CFN: {
                "metadata_url": f"{self.origin}/v1/",
                "access_key_id": "key",
                "secret_access_key": "the-secret-access-key",
                "stack_name": STACK.partition("/")[0],
                "path": f"{SERVER}.Metadata",
            },
            "request": {
                "metadata_url": f"{self.origin}/swift/metadata?temp_url_sig=5ec&temp_url_expires=2147483647"
            },
            ZAQAR: {**keystone, "queue_id": QUEUE},
        }

    def _said(self, verb: str, path: str, body: bytes = b"") -> bytes:
        self._control.request(verb, path, body)
        return self._control.getresponse().read()


# What follows runs in that process.


class _Cloud:
    """The state of the cloud."""

    def __init__(self) -> None:
        self.origin = ""
        self.counts: Counter[str] = Counter()
        self.handed: tuple[float, int] | None = None
        """When this document was first handed out by Heat, and which request that was."""
        self.message = 0
        """The number of messages that were in the queue."""
        self.taken = 0
        """The number of messages that were removed."""
        self.keep({})

    def keep(self, document: object) -> None:
        """Have a document handed out."""
        text = json.dumps(document)
        self.text = text.encode()
        self.heat = b'{"metadata": %s}' % self.text
        shown = f"<Metadata>{escape(text)}</Metadata>"
        for name in (
            "StackResourceDetail",
            "DescribeStackResourceResult",
            "DescribeStackResourceResponse",
        ):
            shown = f"<{name}>{shown}</{name}>"
        self.cfn = shown.encode()
        tag = hashlib.md5(self.text, usedforsecurity=False).hexdigest()
        self.conditions = {
            "ETag": f'"{tag}"',
            "Last-Modified": formatdate(time.time(), usegmt=True),
        }
        self.message += 1
        self.handed = None

    def answer(
        self, verb: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Return what is to be answered: status, headers, body."""
        area = path.partition("?")[0].split("/")
        match area[1:]:
            case ["control", "metadata"]:
                self.keep(json.loads(body))
                return 200, {}, b""
            case ["control", "counts"]:
                return 200, {}, json.dumps(self.counts).encode()
            case ["control", "handed"]:
                return 200, {}, json.dumps(self.handed).encode()
            case ["v1", project, *_] if project == PROJECT:
                self.counts[HEAT] += 1
                self.handed = self.handed or (time.time(), self.counts.total())
                return 200, {"Content-Type": "application/json"}, self.heat
            case ["v1", *_] if "Action=DescribeStackResource" in path:
                self.counts[CFN] += 1
                return 200, {"Content-Type": "text/xml"}, self.cfn
            case ["swift", *_]:
                self.counts[DATE if verb == "HEAD" else SWIFT] += 1
                same = headers.get("if-none-match") == self.conditions["ETag"]
                return (
                    (304, self.conditions, b"")
                    if same
                    else (200, self.conditions, self.text)
                )
            case ["v2", *_]:
                self.counts[ZAQAR] += 1
                return self._queue(verb, path)
            case ["signal", *_]:
                self.counts[SIGNAL] += 1
                return 200, {}, b""
            case [*_, "auth", "tokens"]:
                self.counts[KEYSTONE] += 1
                return (
                    201,
                    {"X-Subject-Token": "token-1", "Content-Type": "application/json"},
                    self._token(),
                )
        self.counts[KEYSTONE] += 1
        links = [{"rel": "self", "href": f"{self.origin}/v3/"}]
        version = {
            "id": "v3.14",
            "status": "stable",
            "links": links,
            "updated": "2020-04-07T00:00:00Z",
        }
        found = (
            {"version": version}
            if "v3" in area
            else {"versions": {"values": [version]}}
        )
        return (
            (200 if "v3" in area else 300),
            {"Content-Type": "application/json"},
            json.dumps(found).encode(),
        )

    def _token(self) -> bytes:
        now = time.time()
        issued, until = (
            time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(each))
            for each in (now, now + _TOKEN_HOURS * 3600)
        )
        places = {"orchestration": f"/v1/{PROJECT}", "messaging": ""}
        catalog = [
            {
                "type": service,
                "name": service,
                "id": service,
                "endpoints": [
                    {
                        "id": "1",
                        "interface": "public",
                        "region": "R",
                        "region_id": "R",
                        "url": self.origin + place,
                    }
                ],
            }
            for service, place in places.items()
        ]
        domain = {"id": "d1", "name": "heat"}
        token = {
            "methods": ["password"],
            "user": {"id": "u1", "name": "user", "domain": domain},
            "project": {"id": PROJECT, "name": "project", "domain": domain},
            "issued_at": issued,
            "expires_at": until,
            "catalog": catalog,
            "roles": [{"id": "r1", "name": "heat_stack_user"}],
        }
        return json.dumps({"token": token}).encode()

    def _queue(self, verb: str, path: str) -> tuple[int, dict[str, str], bytes]:
        """Answer for Zaqar, of whose API there is what the agents use."""
        kind = {"Content-Type": "application/json"}
        place = f"/v2/queues/{QUEUE}/messages"
        new = self.taken < self.message
        name = str(self.message)
        message: dict[str, Any] = {
            "id": name,
            "ttl": 3600,
            "age": 0,
            "href": f"{place}/{name}?claim_id=c{name}",
        }
        if verb == "POST" and path.endswith("/claims"):
            if not new:
                return 204, {}, b""
            self.taken = self.message
            found = {"messages": [{**message, "body": json.loads(self.text)}]}
            return (
                201,
                {**kind, "Location": f"/v2/queues/{QUEUE}/claims/c{name}"},
                json.dumps(found).encode(),
            )
        if verb == "DELETE" and "pop=" in path:
            self.taken = self.message
            return (
                200,
                kind,
                json.dumps(
                    {"messages": [{**message, "body": json.loads(self.text)}] * new}
                ).encode(),
            )
        if verb == "GET" and "/messages" in path:
            return 200, kind, b'{"messages": [], "links": []}'
        return 204, {}, b""


class _Connection(asyncio.Protocol):
    def __init__(self, cloud: _Cloud) -> None:
        self._cloud = cloud
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while b"\r\n\r\n" in self._buffer:
            head, _, rest = self._buffer.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            length = int(headers.get("content-length", "0"))
            if len(rest) < length:
                return
            body, self._buffer = rest[:length], rest[length:]
            verb, path, _ = first.split(" ", 2)
            status, said, content = self._cloud.answer(verb, path, headers, body)
            said = {"Date": formatdate(time.time(), usegmt=True), **said}
            if status not in (204, 304):
                said["Content-Length"] = str(len(content))
            text = "".join(f"{name}: {value}\r\n" for name, value in said.items())
            reason = http.client.responses[status]
            self._transport.write(
                f"HTTP/1.1 {status} {reason}\r\n{text}\r\n".encode("latin-1")
            )
            if verb != "HEAD":
                self._transport.write(content)


async def _serve(cloud: _Cloud) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: _Connection(cloud), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    cloud.origin = f"http://127.0.0.1:{port}"
    print(port, flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(_Cloud()))

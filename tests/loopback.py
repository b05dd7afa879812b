"""A real HTTP server on loopback that records signals and answers as it is told."""

from __future__ import annotations

import functools
import json
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import schemas


@dataclass(frozen=True)
class Signal:
    """A request that was received."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @functools.cached_property
    def value(self) -> dict[str, Any]:
        """The body, which has to be a result."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        assert schemas.wrong("result", value) == []
        return value


@dataclass(frozen=True)
class Answer:
    """What to answer."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0
    """Seconds before anything is answered."""
    trickle: float = 0.0
    """Seconds between two bytes of the body."""
    hang_up: bool = False
    """Close the connection instead of answering."""
    reset: bool = False
    """Reset the connection instead of answering."""
    creep: float = 0.0
    """Seconds between two bytes of the status line and headers."""


class SignalServer:
    """Where signals arrive. It can refuse connections, and be started again on its port."""

    def __init__(self, certificate: Path | None = None) -> None:
        self._certificate = certificate
        """A PEM file with a certificate and its key: then it speaks HTTPS."""
        self.signals: list[Signal] = []
        self.answers: deque[Answer] = deque()
        """The answers to the next requests; after them, `always`."""
        self.always = Answer()
        self.named: dict[str, Answer] = {}
        """The answers to requests for `url(name)`, before all others."""
        self.connections = 0
        self.open = 0
        """How many connections are open now."""
        self._count = threading.Lock()
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._place: socket.socket | None = None
        """What keeps its port while it refuses."""

    def start(self) -> None:
        self._server = _Server(("127.0.0.1", self._port), self)
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self._release()

    def stop(self) -> None:
        """Stop for good: from then on the port may be that of another test's server."""
        self._end()
        self._release()

    def refuse(self) -> None:
        """Stop, until it is started again, on a port that nobody else can have meanwhile."""
        if self._server is not None:
            self._place = socket.socket()
            self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._place.bind(("127.0.0.1", self._port))
            self._end()

    def _end(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _release(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None

    @property
    def refuses(self) -> bool:
        """Whether it was told to refuse connections."""
        return self._place is not None

    def counted(self, change: int) -> None:
        """Count a connection that opens, or closes."""
        with self._count:
            self.open += change

    def settle(self) -> None:
        """Wait until all has been heard that was sent by those who are gone."""
        if self._server is not None:
            with socket.create_connection(("127.0.0.1", self._port), timeout=10) as last:
                last.shutdown(socket.SHUT_WR)
                last.recv(1)  # it comes after all that connected before it
        wait_until(lambda: not self.open)

    @property
    def origin(self) -> str:
        return f"{'https' if self._certificate else 'http'}://127.0.0.1:{self._port}"

    def url(self, name: str = "signal") -> str:
        return f"{self.origin}/v1/{name}?Signature=c2lnbmVk%2Bsecret&AWSAccessKeyId=0123456789abcdef"

    def values(self, name: str = "signal") -> list[dict[str, Any]]:
        """The bodies of the signals that came to `url(name)`."""
        return [each.value for each in self.signals if each.path.startswith(f"/v1/{name}?")]

    def wait_for(self, number: int, seconds: float = 10) -> None:
        """Wait until that many signals have come."""
        wait_until(lambda: len(self.signals) >= number, seconds)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], owner: SignalServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.owner.connections += 1
        self.owner.counted(1)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.owner.counted(-1)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed closes its connection: that is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body that follows its headers comes 40 ms later
    server: _Server

    def do_POST(self) -> None:
        owner = self.server.owner
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:  # whoever sent it was killed meanwhile: it was not received
            self.close_connection = True
            return
        owner.signals.append(Signal(self.command, self.path, dict(self.headers), body, time.monotonic()))
        named = owner.named.get(self.path.removeprefix("/v1/").partition("?")[0])
        answer = named or (owner.answers.popleft() if owner.answers else owner.always)
        time.sleep(answer.delay)
        if answer.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if answer.hang_up or answer.reset:
            self.close_connection = True
            self.connection.close()
            return
        for byte in b"HTTP/1.1 200 OK\r\nX-Creeps: " + b"x" * 4096 if answer.creep else ():
            self.wfile.write(bytes([byte]))
            time.sleep(answer.creep)
        self.send_response(answer.status)
        for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for byte in answer.body if answer.trickle else ():
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(answer.trickle)
        if not answer.trickle:
            self.wfile.write(answer.body)

    do_PUT = do_POST  # noqa: N815
    do_GET = do_POST  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until something is so; fail if it does not become so in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)

"""A real HTTP server on loopback that records signals and answers as it is told."""

from __future__ import annotations

import functools
import json
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import pace, schemas
from support.http import Answer, Request, Stub

__all__ = ["Answer", "Signal", "SignalServer", "wait_until"]


@dataclass(frozen=True)
class Signal(Request):
    """A request that was received."""

    @functools.cached_property
    def value(self) -> dict[str, Any]:
        """The body, which has to be a result."""
        value = json.loads(self.body)
        assert isinstance(value, dict)
        assert schemas.wrong("result", value) == []
        return value


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
        """The number of connections that are open now."""
        self._count = threading.Lock()
        self._port = 0
        self._server: Stub | None = None
        self._place: socket.socket | None = None
        """The socket that keeps its port while it refuses connections."""

    def start(self) -> None:
        self._server = _Server(self, self._port)
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True
            )
        self._port = self._server.port
        self._server.start()
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
            self._server.stop()
            self._server = None

    def _release(self) -> None:
        if self._place is not None:
            self._place.close()
            self._place = None

    @property
    def refuses(self) -> bool:
        """Return whether it refuses connections."""
        return self._place is not None

    def answer(self, request: Request) -> Answer:
        """Record a request, and return what to answer."""
        self.signals.append(Signal(**vars(request)))
        named = self.named.get(request.path.removeprefix("/v1/").partition("?")[0])
        return named or (self.answers.popleft() if self.answers else self.always)

    def counted(self, change: int) -> None:
        """Count a connection that opens, or closes."""
        with self._count:
            self.open += change

    def settle(self) -> None:
        """Wait until all has been heard that was sent by those who are gone."""
        if self._server is not None:
            with socket.create_connection(
                ("127.0.0.1", self._port), timeout=pace.seconds(10)
            ) as last:
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
        return [
            each.value for each in self.signals if each.path.startswith(f"/v1/{name}?")
        ]

    def wait_for(self, number: int, seconds: float = 10) -> None:
        """Wait until that many signals have come."""
        wait_until(lambda: len(self.signals) >= number, seconds)


class _Server(Stub):
    """The stub that tells its owner of each connection and each request."""

    def __init__(self, owner: SignalServer, port: int) -> None:
        self.owner = owner
        super().__init__(owner.answer, port)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.owner.connections += 1
        self.owner.counted(1)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.owner.counted(-1)


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until something is so; fail if it does not become so in time.

    Looking takes a third of the time at most: what looks by a command would keep a processor from what it waits for.
    """
    deadline = time.monotonic() + pace.seconds(seconds)
    began = time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < deadline, "it did not happen in time"
        time.sleep(min(max(0.01, 2 * (now - began)), 0.5))
        began = time.monotonic()

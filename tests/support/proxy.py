"""A proxy between the agent and a server, which does with requests what it is told.

It stands in the place of one server, or it is the proxy that `http_proxy` names. What it does is a `Fault`: with the
very next requests those of its `script`, with all others what it was last told by `fail`; where that is `PASS`, as
after `mend`, it hands on what is said, word for word.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from support import pace

LONG = 600.0
"""Seconds after which even the slowest of these servers gives up."""

PAGE = b"<!DOCTYPE html><html><head><title>Welcome</title></head><body>Please log in to our network.</body></html>"


@dataclass(frozen=True)
class Request:
    """A request that arrived."""

    verb: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int
    """The number of the connection on which it came."""


@dataclass(frozen=True)
class Reply:
    """The answer of a server, real or made up."""

    status: int = 200
    reason: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def head(self) -> bytes:
        """The status line and headers as they are sent: but for what says how long the body is."""
        reason = self.reason or http.client.responses.get(self.status, "")
        lines = [
            f"HTTP/1.1 {self.status} {reason}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1")

    @property
    def raw(self) -> bytes:
        """All of it as it is sent."""
        bare = self.status in (204, 304)
        return self.head + (
            b"\r\n"
            if bare
            else b"Content-Length: %d\r\n\r\n%b" % (len(self.body), self.body)
        )


class Exchange:
    """One request, and the connection on which it came."""

    def __init__(
        self, proxy: Proxy, client: socket.socket, request: Request | None
    ) -> None:
        """Begin without a request, because nothing has been read yet."""
        self.client = client
        self.keep = False
        """True if more requests may come on this connection after the answer."""
        self._proxy = proxy
        self.request = request

    def forward(self) -> Reply:
        """Hand the request on, and return the server's answer."""
        assert self.request is not None
        return self._proxy.ask(self.request)

    def forward_for_body(self) -> Reply:
        """The same, of which the body is to be spoilt: so it has to have one."""
        reply = self.forward()
        return (
            replace(reply, status=200, reason="OK", body=b'{"messages": []}')
            if reply.status == 204
            else reply
        )

    def send(self, data: bytes) -> None:
        """Say this to whoever asked."""
        self.client.sendall(data)
        self._proxy.sent += len(data)

    def hold(self, seconds: float = LONG) -> None:
        """Do nothing, until the other side hangs up or the fault is over."""
        deadline = time.monotonic() + pace.seconds(seconds)
        self.client.settimeout(0.05)
        while not self._proxy.is_over(self) and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError, ssl.SSLWantReadError):
                if not self.client.recv(65536):
                    return

    def creep(self, data: Iterator[bytes], seconds: float = 0.05) -> None:
        """Say one thing after the other, slowly, until the other side hangs up or the fault is over."""
        for part in data:
            if self._proxy.is_over(self):
                return
            self.send(part)
            time.sleep(seconds)

    def pour(self, data: bytes, times: int) -> None:
        """Say the same again and again, as fast as it is read."""
        for _ in range(times):
            if self._proxy.is_over(self):
                return
            self.send(data)

    def reset(self) -> None:
        """Break off the connection."""
        self.client.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        socket.socket.close(self.client)


@dataclass(frozen=True)
class Fault:
    """A fault of a server."""

    name: str
    act: Callable[[Exchange], None] = field(repr=False)
    at_once: bool = False
    """True if the fault comes before the request is read."""


class Proxy:
    """Stands before a server. It counts what it does."""

    def __init__(
        self,
        upstream: str = "",
        certificate: Path | None = None,
        listener: socket.socket | None = None,
    ) -> None:
        """Stand before the server of that origin, or before whatever server a request names.

        With a certificate (a PEM file with its key) it speaks HTTPS. It listens on loopback, unless a socket that
        listens is given.
        """
        self.upstream = upstream
        self.certificate = certificate
        self.script: deque[Fault] = deque()
        self.only: Callable[[Request], bool] = lambda _: True
        """The requests that get the faults; others are forwarded."""
        self.requests: list[Request] = []
        self.done: list[str] = []
        """The names of the faults, one for each time."""
        self.sent = 0
        """Bytes."""
        self.connections = 0
        self._always = PASS
        self._busy: set[Exchange] = set()
        self._over: set[Exchange] = set()
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = listener or socket.create_server(
            ("127.0.0.1", 0), backlog=64, reuse_port=True
        )
        self._port: int = self._listener.getsockname()[1]
        self._reserved: socket.socket | None = None
        """Holds the port while nothing listens: no other process may get it for a connection of its own."""
        threading.Thread(
            target=self._accept, args=(self._listener,), daemon=True
        ).start()

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{'https' if self.certificate else 'http'}://127.0.0.1:{self._port}"

    @property
    def open(self) -> int:
        """Return the number of connections that are open now."""
        return len(self._clients)

    def fail(self, fault: Fault) -> None:
        """Do this to all requests from here on, also to those on connections that are kept."""
        self._always = fault
        if fault.at_once or fault is REFUSED:
            self._cut()
        if fault is REFUSED:
            self._reserve_port()
            self._stop_listening()
            self.done.append(fault.name)

    def mend(self) -> None:
        """Hand on all requests from here on. What is under way is broken off."""
        self._always = PASS
        self.script.clear()
        self._cut()
        if self._listener.fileno() < 0:
            self._listener = socket.create_server(
                ("127.0.0.1", self._port), backlog=64, reuse_port=True
            )
            self._free_port()
            threading.Thread(
                target=self._accept, args=(self._listener,), daemon=True
            ).start()

    def close(self) -> None:
        """End."""
        self._cut()
        self._free_port()
        self._stop_listening()

    def _reserve_port(self) -> None:
        if self._reserved is None:
            self._reserved = socket.socket()
            self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            self._reserved.bind(("127.0.0.1", self._port))

    def _free_port(self) -> None:
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    def _stop_listening(self) -> None:
        with contextlib.suppress(OSError):
            # so that whoever waits for connections wakes up
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def is_over(self, exchange: Exchange) -> bool:
        """Return whether the fault of an exchange has been repaired since."""
        return exchange in self._over

    def ask(self, request: Request) -> Reply:
        """Return what the server answers to a request."""
        parts = urlsplit(self.upstream or request.target)
        target = (
            request.target
            if self.upstream
            else request.target.partition(parts.netloc)[2]
        )
        connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=LONG
        )
        with contextlib.closing(connection):
            connection.putrequest(
                request.verb, target, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers:
                connection.putheader(name, value)
            connection.endheaders(request.body)
            response = connection.getresponse()
            body = response.read()
            framing = ("content-length", "transfer-encoding", "connection")
            headers = tuple(
                (name, value)
                for name, value in response.getheaders()
                if name.lower() not in framing
            )
            return Reply(response.status, response.reason, headers, body)

    def _cut(self) -> None:
        with self._lock:
            self._over |= self._busy
            clients, self._clients = self._clients, set()
        for each in clients:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.connections += 1
                threading.Thread(
                    target=self._serve, args=(client, self.connections), daemon=True
                ).start()

    def _next(self, *, at_once: bool) -> Fault | None:
        """Return what is to be done now; None where a request has to be read first, or has been read already."""
        with self._lock:
            fault = self.script[0] if self.script else self._always
            if fault.at_once is not at_once:
                return None
            return self.script.popleft() if self.script else fault

    def _serve(self, client: socket.socket, number: int) -> None:
        with self._lock:
            self._clients.add(client)
        # The other side hangs up, or is killed: that is what the tests are about.
        with (
            contextlib.suppress(OSError, ValueError, http.client.HTTPException),
            contextlib.ExitStack() as ends,
        ):
            ends.callback(self._forget, client)
            ends.callback(client.close)
            fault = self._next(at_once=True)
            if fault:
                self._do(fault, Exchange(self, client, None))
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate)
                client = context.wrap_socket(client, server_side=True)
                with self._lock:
                    self._clients.add(client)
                ends.callback(self._forget, client)
                ends.callback(client.close)
            stream = ends.enter_context(client.makefile("rb"))
            while request := _read(stream, number):
                self.requests.append(request)
                fault = (
                    (self._next(at_once=False) or PASS) if self.only(request) else PASS
                )
                exchange = Exchange(self, client, request)
                self._do(fault, exchange)
                if not exchange.keep:
                    return

    def _forget(self, client: socket.socket) -> None:
        with self._lock:
            self._clients.discard(client)

    def _do(self, fault: Fault, exchange: Exchange) -> None:
        with self._lock:
            self._busy.add(exchange)
        try:
            if fault is not PASS:
                self.done.append(fault.name)
            fault.act(exchange)
        finally:
            with self._lock:
                self._busy.discard(exchange)
                self._over.discard(exchange)


def _read(stream: io.BufferedReader, number: int) -> Request | None:
    """Return the next request on a connection; None where it ends."""
    words = stream.readline().decode("latin-1").split()
    if len(words) != 3:
        return None
    headers: list[tuple[str, str]] = []
    while line := stream.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    length = int(
        next(
            (value for name, value in headers if name.lower() == "content-length"), "0"
        )
    )
    body = stream.read(length)
    return (
        Request(words[0], words[1], tuple(headers), body, number)
        if len(body) == length
        else None
    )


def _pass(exchange: Exchange) -> None:
    exchange.send(exchange.forward().raw)
    exchange.keep = True


PASS = Fault("hands it on", _pass)
REFUSED = Fault("refuses connections", lambda _: None)

"""A stub of an HTTP server on loopback: a function is given each request, and returns what to answer."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Request:
    """A request that was received."""

    verb: str
    path: str
    headers: dict[str, str]
    body: bytes
    at: float
    begun: float = 0.0
    """When the headers had been received; this and the next in seconds since the epoch."""
    ended: float = 0.0
    """When the body had been received."""


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

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


class Stub(ThreadingHTTPServer):
    """A server that answers each request as a function says. It listens at once, and answers once it is started."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Callable[[Request], Answer], port: int = 0) -> None:
        self.answer = answer
        super().__init__((HOST, port), Handler)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    @property
    def place(self) -> str:
        """The host and the port."""
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Answer, in a thread."""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Answer no more, and close the port."""
        self.shutdown()
        self.server_close()

    def server_bind(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        super().server_bind()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed, gives up or does not know the certificate closes its connection: tests want that."""


class Handler(BaseHTTPRequestHandler):
    """One connection to a stub."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # else a body that follows its headers comes 40 ms later
    )
    server: Stub

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        begun = time.time()
        body = self.rfile.read(length)
        if len(body) < length:
            # whoever sent it was killed meanwhile: it was not received
            self.close_connection = True
            return
        moments = time.monotonic(), begun, time.time()
        answer = self.server.answer(
            Request(self.command, self.path, dict(self.headers), body, *moments)
        )
        time.sleep(answer.delay)
        if answer.reset:
            self.connection.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
        if answer.hang_up or answer.reset:
            self.close_connection = True
            self.connection.close()
            return
        for byte in (
            b"HTTP/1.1 200 OK\r\nX-Creeps: " + b"x" * 4096 if answer.creep else ()
        ):
            self.wfile.write(bytes([byte]))
            time.sleep(answer.creep)
        self.send_response(answer.status)
        for name, value in {
            "Content-Length": str(len(answer.body)),
            **answer.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        for byte in answer.body if answer.trickle else ():
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(answer.trickle)
        if not answer.trickle:
            self.wfile.write(answer.body)

    do_DELETE = do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_arguments: Any) -> None:
        """Say nothing."""

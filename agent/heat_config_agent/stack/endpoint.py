"""Where wait conditions are signalled: an address of this machine alone, for as long as a stack is worked on.

A signal is JSON that is sent with the handle's token. It is taken by the thread that owns the stack, in `take`, and
only then answered: so whoever sent it knows that it counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from heat_config_agent.stack.definition import Json

HERE = "127.0.0.1"
LIMIT = 1 << 16
"""Bytes that a signal may have."""
PATIENCE = 30.0
"""Seconds that a sender waits for an answer."""


@dataclass
class _Signal:
    handle: str
    details: Json
    answered: threading.Event = field(default_factory=threading.Event)
    refused: str = ""


class Endpoint:
    """Takes signals over HTTP, once somebody asks for its address."""

    def __init__(self, port: int = 0) -> None:
        """Be at a port that is known already to whoever was told it, if it is free; else at any."""
        self.port = port
        self._waiting: queue.SimpleQueue[_Signal] = queue.SimpleQueue()
        self._tokens: dict[str, str] = {}
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        self._server: ThreadingHTTPServer | None = None

    def expect(self, handle: str, token: str) -> str:
        """Take signals for a handle from whoever has its token, and return where they are to be sent."""
        self._tokens[handle] = token
        if self._server is None:
            self._server = _served(self.port, self._arrived)
            self.port = self._server.server_address[1]
            threading.Thread(target=self._server.serve_forever, name="wait conditions", daemon=True).start()
        return f"http://{HERE}:{self.port}/signal/{handle}"

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are signals."""
        return self._wake

    def take(self, signal: Callable[[str, Json], None]) -> None:
        """Have all signals that have arrived be taken; of each, `signal` may raise ValueError with why not."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 65536)
        while not self._waiting.empty():
            each = self._waiting.get()
            try:
                signal(each.handle, each.details)
            except ValueError as error:
                each.refused = str(error)
            each.answered.set()

    def close(self) -> None:
        """Take no more signals."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        for descriptor in (self._wake, self._waker):
            os.close(descriptor)

    def _arrived(self, path: str, token: str, body: bytes) -> tuple[int, str]:
        """Return the status and the sentence with which a request is answered."""
        handle = path.removeprefix("/signal/")
        known = self._tokens.get(handle)
        if known is None or not secrets.compare_digest(known.encode(), token.encode()):
            return 403, "there is no such handle, or this is not its token"
        try:
            details = json.loads(body) if body.strip() else None
        except ValueError:
            return 400, "a signal is JSON"
        made = _Signal(handle, details)
        self._waiting.put(made)
        os.write(self._waker, b".")
        if not made.answered.wait(PATIENCE):
            return 503, "the stack is busy"
        return (400, made.refused) if made.refused else (200, "")


def _served(port: int, arrived: Callable[[str, str, bytes], tuple[int, str]]) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_POST(self) -> None:  # the library's name
            length = self.headers.get("Content-Length", "0")
            if not length.isdecimal() or int(length) > LIMIT:
                self.send_error(413)
                return
            status, text = arrived(self.path, self.headers.get("X-Auth-Token", ""), self.rfile.read(int(length)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_POST  # noqa: N815

        def log_message(self, *_arguments: object) -> None:
            """Say nothing: there is a token in it."""

    try:
        return ThreadingHTTPServer((HERE, port), Handler)
    except OSError:
        return ThreadingHTTPServer((HERE, 0), Handler)

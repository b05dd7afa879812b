"""The address for signals of wait conditions: on this machine only, while a stack is worked on.

A signal is JSON, sent with the token of a handle. It is recorded before it is answered, so a sender with an answer
knows that it counts. The thread that owns the stack does everything in `take`: senders cost no threads, and the number,
size and time of their connections is limited. New connections displace those that have not shown a token.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from heat_config_agent.model.errors import PASSING, StateError
from heat_config_agent.model.positions import Json
from heat_config_hooks import processes, strict_json

HERE = "127.0.0.1"
LIMIT = 1 << 16
"""The maximum size of a signal in bytes."""
HEAD_LIMIT = 1 << 14
"""The maximum size of the headers in bytes."""
PATIENCE = 30.0
"""Seconds that a sender may take."""
LINGER = 2.0
"""Seconds in which a refused sender can still read the answer."""
CONNECTIONS = 64
"""The maximum number of open connections."""
AGAIN = 3.0
"""Seconds to wait for a port in use: its last owner may be about to release it."""

_ANSWERS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}
Take = Callable[[str, Json], None]


def address(port: int, handle: str) -> str:
    """Return the URL for signals of a handle; empty if no port is known."""
    return f"http://{HERE}:{port}/signal/{handle}" if port else ""


class _Answer(Exception):  # noqa: N818  # not an error
    """The answer to a request: status and text."""

    def __init__(self, status: int, text: str = "") -> None:
        super().__init__(text)
        self.status, self.text = status, text


class _Request(NamedTuple):
    """The request line and headers of a request."""

    method: str
    path: str
    headers: dict[str, str]
    length: int
    begin: int
    """The offset of the body."""


class _Connection:
    """A connection, and what it has received so far."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.until = processes.since_boot() + PATIENCE
        self.received = b""
        self.request: _Request | None = None
        self.answered = False
        self.trusted = False
        """True if it has shown the token of a handle."""

    def read(self) -> bool:
        """Read what has arrived; return whether there may be more."""
        part = self.socket.recv(HEAD_LIMIT + LIMIT)
        if not self.answered:
            self.received += part
        return bool(part)

    def send(self, status: int, text: str) -> None:
        """Send the answer, and stop sending."""
        body = f"{text}\n".encode() if text else b""
        head = f"HTTP/1.1 {status} {_ANSWERS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        self.answered, self.received = True, b""
        self.until = processes.since_boot() + LINGER
        self.socket.send(
            f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        self.socket.shutdown(socket.SHUT_WR)


class Endpoint:
    """Accepts signals over HTTP."""

    def __init__(self, port: int = 0, *, fixed: bool = False) -> None:
        """Listen on a port, or if it is in use, on any other.

        With `fixed`, senders use that very port: listen there, or raise StateError if it is in use.
        """
        self._tokens: dict[str, str] = {}
        self._connections: dict[int, _Connection] = {}
        self._listening = _listening(port, fixed=fixed)
        self.port: int = self._listening.getsockname()[1]
        self._ready = select.epoll()
        self._ready.register(self._listening.fileno(), select.EPOLLIN)

    def expect(self, handle: str, token: str) -> str:
        """Accept signals for a handle with its token, and return the URL for them."""
        self._tokens[handle] = token
        return address(self.port, handle)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to take."""
        return self._ready.fileno()

    @property
    def due(self) -> float | None:
        """The seconds until a connection times out; None if there is none."""
        if not self._connections:
            return None
        return max(
            min(each.until for each in self._connections.values())
            - processes.since_boot(),
            0.0,
        )

    def take(self, signal: Take) -> None:
        """Process everything that has arrived, without waiting; `signal` raises ValueError to refuse a signal."""
        for descriptor, _ in self._ready.poll(0):
            if descriptor == self._listening.fileno():
                self._accept(signal)
            elif descriptor in self._connections:
                self._go_on(descriptor, signal)
        now = processes.since_boot()
        for descriptor in [
            key for key, each in self._connections.items() if each.until <= now
        ]:
            self._drop(descriptor)

    def close(self) -> None:
        """Close all connections, and stop listening."""
        for descriptor in list(self._connections):
            self._drop(descriptor)
        self._ready.close()
        self._listening.close()

    def _accept(self, signal: Take) -> None:
        for _ in range(CONNECTIONS):
            try:
                accepted, _address = self._listening.accept()
            except OSError as error:  # the sender has gone, or too many files are open
                if error.errno in PASSING - {errno.EAGAIN}:
                    self._make_room()
                    time.sleep(0.05)  # the connection is still pending: do not spin
                return
            accepted.setblocking(False)
            if len(self._connections) >= CONNECTIONS:
                self._make_room()
            self._connections[accepted.fileno()] = _Connection(accepted)
            self._ready.register(accepted.fileno(), select.EPOLLIN)
            self._go_on(accepted.fileno(), signal)

    def _make_room(self) -> None:
        """Close the oldest connection, preferring those without a token."""
        # otherwise the oldest first
        held = sorted(self._connections.items(), key=lambda each: each[1].trusted)
        if held:
            self._drop(held[0][0])

    def _go_on(self, descriptor: int, signal: Take) -> None:
        """Read from a connection, and answer it once the request is complete."""
        connection = self._connections[descriptor]
        try:
            if not connection.read():
                self._drop(descriptor)
            elif not connection.answered:
                self._answer(connection, signal)
        except BlockingIOError:
            return
        except OSError:  # the sender has gone
            self._drop(descriptor)

    def _answer(self, connection: _Connection, signal: Take) -> None:
        try:
            handle, details = self._signal(connection)
            signal(handle, details)
        except _Incomplete:
            return
        except _Answer as answer:
            connection.send(answer.status, answer.text)
        except ValueError as error:
            connection.send(400, str(error).encode("utf-8", "replace").decode())
        else:
            connection.send(200, "")

    def _signal(self, connection: _Connection) -> tuple[str, Json]:
        """Return the handle and the signal. Raises _Incomplete if there is more to come, _Answer to refuse."""
        if connection.request is None:
            connection.request = _request(connection.received)
            if connection.request.headers.get("expect", "").lower() == "100-continue":
                connection.socket.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        request = connection.request
        path, _, query = request.path.partition("?")
        handle, signature = (
            path.removeprefix("/signal/"),
            query.removeprefix("Signature="),
        )
        known, token = (
            self._tokens.get(handle),
            request.headers.get("x-auth-token", signature),
        )
        if known is None or not secrets.compare_digest(known.encode(), token.encode()):
            raise _Answer(403, "no such handle, or not its token")
        connection.trusted = True
        body = connection.received[request.begin :]
        if len(body) < request.length:
            raise _Incomplete
        text = body[: request.length].strip()
        try:
            return handle, strict_json.loads(text.decode()) if text else None
        except ValueError:
            raise _Answer(400, "a signal must be JSON") from None

    def _drop(self, descriptor: int) -> None:
        connection = self._connections.pop(descriptor)
        with contextlib.suppress(OSError):
            self._ready.unregister(descriptor)
        connection.socket.close()


class _Incomplete(Exception):  # noqa: N818  # not an error
    """There is more to come."""


def _request(received: bytes) -> _Request:
    """Return the request line and headers. Raises _Incomplete, _Answer."""
    head, separator, _ = received.partition(b"\r\n\r\n")
    if len(head) > HEAD_LIMIT:
        raise _Answer(431)
    if not separator:
        raise _Incomplete
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Answer(400, "not an HTTP/1.1 request")
    if words[0] not in ("POST", "PUT"):
        raise _Answer(405, "send a signal with POST or PUT")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or (
            name.lower() in headers
            and name.lower() in ("content-length", "x-auth-token")
        ):
            raise _Answer(400, "cannot parse a header of the request")
        headers[name.lower()] = value.strip()
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdecimal()):
        raise _Answer(411, "a signal needs a Content-Length")
    if len(length) > 9 or int(length) > LIMIT:
        raise _Answer(413, f"a signal has at most {LIMIT} bytes")
    return _Request(
        words[0], words[1], headers, int(length), len(head) + len(separator)
    )


def _listening(port: int, *, fixed: bool) -> socket.socket:
    until = time.monotonic() + (AGAIN if fixed else 0.0)
    while True:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Connections of an earlier process may remain.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((HERE, port))
            listening.listen(CONNECTIONS)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            if error.errno != errno.EADDRINUSE and not (
                fixed and error.errno == errno.EACCES
            ):
                raise StateError(
                    f"cannot listen on {HERE} for signals: {error.strerror}"
                ) from error
            if not fixed:
                return _listening(0, fixed=False)
            if time.monotonic() >= until:
                raise _taken(port) from error
            time.sleep(0.05)
        else:
            return listening


def _taken(port: int) -> StateError:
    return StateError(
        f"the port {port} of {HERE}, where scripts of the stack signal its wait conditions, is in use by "
        f"{_holder(port) or 'another program'}",
        hint="their signals do not arrive; end that program and run the command again, or delete the stack",
    )


def _holder(port: int) -> str:
    """Return a description of the process that listens on a port; empty if it is not known."""
    import pwd  # noqa: PLC0415  # rarely needed

    import psutil  # noqa: PLC0415

    found = next(iter(_listeners(port)), None)
    if found is None:
        return ""
    uid, inode = found
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    for each in psutil.process_iter():
        try:
            if any(
                link.readlink().name == f"socket:[{inode}]"
                for link in Path(f"/proc/{each.pid}/fd").iterdir()
            ):
                return f"the process {each.pid} ({each.name()}) of the user {user}"
        except (OSError, psutil.Error):
            continue
    return f"a process of the user {user}"


def _listeners(port: int) -> Iterator[tuple[int, str]]:
    """Yield the user and the inode of each socket that is bound to a port."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (
                Path(f"/proc/net/{name}").read_text(encoding="utf-8").splitlines()[1:]
            ):
                words = line.split()
                if int(words[1].rpartition(":")[2], 16) == port and words[9] != "0":
                    yield int(words[7]), words[9]

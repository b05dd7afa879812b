"""Notifies of new messages in a Zaqar queue, over Zaqar's websocket transport.

Zaqar authenticates a connection once, and closes it when the token expires. A subscription lasts as long as its
connection. A message from the websocket only triggers a poll in the usual way: messages that are posted while there is
no connection are not announced, and nothing depends on the announcement.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import websocket

from heat_config_agent import __version__, web
from heat_config_agent.model.backoff import back_off
from heat_config_agent.model.deployment import Credentials
from heat_config_agent.model.errors import UnreachableError
from heat_config_agent.web import direct, proxies
from heat_config_agent.web.keystone import Cloud
from heat_config_agent.web.link_local import host_header, with_plain_zone

STEP_SECONDS = 30.0
"""The timeout of each step: to log in, to connect, to be answered."""

PING_SECONDS = 45.0
"""Seconds without a message until the server is pinged, and again until the connection is given up."""

SUBSCRIPTION_SECONDS = 24 * 3600
"""The lifetime of a subscription. Tokens, and with them connections, usually live for an hour."""

SETTLED_SECONDS = 300.0
"""Seconds that a connection must have lasted for the next one to follow without delay."""

LARGEST_HANDSHAKE = 64 * 1024
"""The largest answer in bytes to the request that begins a connection."""

LARGEST = 4 * 1024 * 1024
"""The largest message in bytes. Zaqar accepts 256 KiB by default."""

POLLED = "Zaqar is polled for new messages"


class Listener(threading.Thread):
    """A connection to Zaqar that is renewed until the listener is closed."""

    def __init__(
        self,
        credentials: Credentials,
        ca_file: str | None,
        queue: str,
        client: str,
        ring: Callable[[], None],
    ) -> None:
        """Call `ring` when there may be new messages in the queue. `client` is the id of the client that polls it."""
        super().__init__(name="zaqar websocket", daemon=True)
        self.trouble = ""
        """The reason why Zaqar does not announce new messages; empty if it does, or soon will."""
        self._credentials = credentials
        self._ca_file = ca_file
        self._queue = queue
        self._client = client
        self._ring = ring
        self._closed = threading.Event()
        self._connection: _Connection | None = None
        self._due = float("inf")
        """The deadline of the present step (monotonic seconds)."""
        try:
            self.start()
        except RuntimeError:  # the machine has no room for one more thread
            self.trouble = f"{POLLED}: no thread could be started to listen"

    def run(self) -> None:
        """Connect and listen, again and again, with a pause before each further connection."""
        tries = 0
        while not self._closed.is_set():
            begun = time.monotonic()
            why = self._listened()
            settled = time.monotonic() - begun > SETTLED_SECONDS
            tries = 1 if settled else tries + 1
            # The end of an old connection is normal: its token has expired.
            self.trouble = (
                ""
                if settled
                else f"{POLLED}, because its websocket does not announce them: {why}"
            )
            self._closed.wait(back_off(tries))

    def check(self) -> None:
        """Give up a step that takes too long, even if data trickles in."""
        if time.monotonic() > self._due:
            self._hang_up()

    def close(self) -> None:
        """Stop listening. The thread ends by itself, at the latest when its present step does."""
        self._closed.set()
        self._hang_up()

    def _listened(self) -> str:
        """Listen until the connection ends, and return why it ended."""
        try:
            self._listen()
        except UnreachableError as error:
            return str(error)
        except (websocket.WebSocketException, OSError, ValueError) as error:
            return _cause(error)
        except BaseException as error:  # noqa: BLE001  # no one would notice the end of this thread
            return type(error).__name__
        finally:
            self._due = float("inf")
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.shutdown()  # type: ignore[no-untyped-call]  # it has types for some of it
        return "the subscription has to be renewed"

    def _listen(self) -> None:
        """Connect, and ring at each new message, until the connection ends. Raises the error that ended it."""
        url, token = self._entry()
        self._due = time.monotonic() + 2 * STEP_SECONDS
        connection = self._connection = _Connection(
            sslopt={"context": _tls(url, self._ca_file)}
        )
        if self._closed.is_set():  # from here on, `close` closes the connection
            return
        connection.connect(  # type: ignore[no-untyped-call]  # it has types for some of it
            with_plain_zone(url),
            timeout=STEP_SECONDS,
            redirect_limit=0,
            header=[f"User-Agent: heat-config-agent/{__version__}"],
            host=_host(url),
            **_proxy(url),
        )
        connection.unbind()
        self._ask(connection, "authenticate", {}, {"X-Auth-Token": token})
        self._ask(
            connection,
            "subscription_create",
            {"queue_name": self._queue, "ttl": SUBSCRIPTION_SECONDS},
        )
        self._due = float("inf")
        self.trouble = ""
        self._ring()  # for messages from before the subscription
        until = time.monotonic() + SUBSCRIPTION_SECONDS / 2
        while time.monotonic() < until and not self._closed.is_set():
            if "request" not in connection.receive(until, PING_SECONDS):
                self._ring()

    def _entry(self) -> tuple[str, str]:
        """Return the URL of Zaqar's websocket, and a token for it. Raises UnreachableError."""
        cloud = Cloud(self._credentials, self._ca_file)
        url = cloud.endpoint("messaging-websocket", seconds=STEP_SECONDS)
        if urlsplit(url).scheme not in ("ws", "wss"):
            raise UnreachableError(
                "its URL in Keystone's catalog is not that of a websocket"
            )
        return url, cloud.token(seconds=STEP_SECONDS)

    def _ask(
        self,
        connection: _Connection,
        action: str,
        body: dict[str, object],
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send one request, and wait for its answer. Raises UnreachableError if it is refused."""
        until = time.monotonic() + STEP_SECONDS
        sent = {
            "Client-ID": self._client,
            "X-Project-ID": self._credentials.project_id,
            **(headers or {}),
        }
        connection.send(json.dumps({"action": action, "headers": sent, "body": body}))
        while True:
            answer = connection.receive(until, STEP_SECONDS)
            request, received = answer.get("request"), answer.get("headers")
            if (
                isinstance(request, dict)
                and request.get("action") == action
                and isinstance(received, dict)
            ):
                break
        if received.get("status") not in (200, 201):
            raise UnreachableError(f"it refuses {action}: {received.get('status')}")

    def _hang_up(self) -> None:
        """End the connection, if there is one, at any step. For any thread."""
        sock = (
            getattr(self._connection.sock, "plain", self._connection.sock)
            if self._connection
            else None
        )
        if sock is not None:
            with contextlib.suppress(OSError):
                # The plain socket is shut down even under TLS, so that a thread which reads from it wakes up.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _Handshake:
    """A socket as the handshake uses it: what the server may answer is bounded in size and time."""

    def __init__(self, plain: socket.socket) -> None:
        """Read from this socket."""
        self.plain = plain
        self._room, self._until = LARGEST_HANDSHAKE, time.monotonic() + STEP_SECONDS

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the socket."""
        return getattr(self.plain, name)

    def recv(self, size: int) -> bytes:
        """Return the next bytes of the answer. Raises UnreachableError if it is too long, or takes too long."""
        part = self.plain.recv(size)
        self._room -= len(part)
        if self._room < 0:
            raise UnreachableError(
                f"its answer to the handshake is longer than {LARGEST_HANDSHAKE // 1024} KiB"
            )
        if time.monotonic() > self._until:
            raise UnreachableError("its answer to the handshake took too long")
        return part


class _Connection(websocket.WebSocket):
    """A websocket whose handshake and messages are bounded in size and time."""

    _room = LARGEST
    _until = float("inf")
    _socket: Any = None

    @property
    def sock(self) -> Any:
        """The socket; bounded until the handshake has ended."""
        return self._socket

    @sock.setter
    def sock(self, value: Any) -> None:
        self._socket = value if value is None or self.connected else _Handshake(value)

    def unbind(self) -> None:
        """Read from the socket itself, because the handshake has ended."""
        if isinstance(self._socket, _Handshake):
            self._socket = self._socket.plain

    def receive(self, until: float, silence: float) -> dict[str, Any]:
        """Return the next message that is a JSON object.

        Raises UnreachableError if there is none at the moment `until` (monotonic seconds), or if the server is silent
        for `silence` seconds, and again after a ping. Raises the errors of websocket-client too.
        """
        self._until = until
        pinged = False
        while True:
            self._room = LARGEST
            self.settimeout(max(min(silence, until - time.monotonic()), 0.01))
            try:
                opcode, frame = self.recv_data_frame(control_frame=True)
            except websocket.WebSocketTimeoutException:
                if pinged or time.monotonic() >= until:
                    raise UnreachableError("no sign of life") from None
                self.ping()
                pinged = True
                continue
            pinged = False
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                raise UnreachableError(_closing(frame.data))
            message = (
                _value(frame.data) if opcode == websocket.ABNF.OPCODE_TEXT else None
            )
            if isinstance(message, dict):
                return message

    def _recv(self, bufsize: int) -> bytes:
        part: bytes = super()._recv(bufsize)  # type: ignore[no-untyped-call]  # it has types for some of it
        self._room -= len(part)
        if self._room < 0:
            raise UnreachableError(
                f"a message is longer than {LARGEST // 1024 // 1024} MiB"
            )
        if time.monotonic() > self._until:
            raise UnreachableError("an answer took too long")
        return part


def _host(url: str) -> str | None:
    """Return the header `Host` for a URL whose address has a zone, which the server does not know; None for others."""
    parts = urlsplit(url)
    host = with_plain_zone(parts.hostname or "")
    usual = 443 if parts.scheme == "wss" else 80
    return host_header(host, parts.port or usual, usual) if "%" in host else None


def _proxy(url: str) -> dict[str, object]:
    """Return the options of websocket-client about the proxy for a URL. It would read fewer forms of `no_proxy`."""
    origin = url.replace("ws", "http", 1)
    proxy = web.proxy(origin)
    if proxy is None:
        # without a host, it would ask the environment
        return {"http_proxy_host": "none", "http_no_proxy": ["*"]}
    known = proxies.parse(proxy, origin)
    known.check()
    user = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return {
        "proxy_type": known.scheme if known.scheme.startswith("socks") else "http",
        "http_proxy_host": known.host,
        "http_proxy_port": known.port,
        "http_proxy_auth": (unquote(user.username), unquote(user.password or ""))
        if user.username
        else None,
        "http_no_proxy": ["host.invalid"],
    }


def _tls(url: str, ca_file: str | None) -> ssl.SSLContext | None:
    """Return the TLS settings, which are the same as for HTTP."""
    if urlsplit(url).scheme != "wss":
        return None
    return direct.context(web.certificates(ca_file) or direct.default_certificates())


def _value(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _closing(data: bytes) -> str:
    """Return in words why the server closes the connection, from a code of two bytes and a text."""
    if len(data) < 2:
        return "it ended the connection"
    text = "".join(
        character
        for character in data[2:].decode("utf-8", "replace")
        if character.isprintable()
    )
    return f"it ended the connection: {int.from_bytes(data[:2], 'big')} {text}".rstrip()


def _cause(error: Exception) -> str:
    if isinstance(error, websocket.WebSocketBadStatusException):
        return f"HTTP {error.status_code}"
    if isinstance(error, websocket.WebSocketTimeoutException):
        return f"no answer within {STEP_SECONDS:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__

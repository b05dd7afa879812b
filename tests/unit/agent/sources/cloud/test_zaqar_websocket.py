"""The source `zaqar`: being told of new messages over a websocket."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from heat_config_agent.sources.cloud import websocket as listening
from heat_config_agent.sources.cloud.zaqar import Zaqar
from support import cloud, pace
from support.certificates import CERTIFICATE, KEY
from support.loopback import wait_until
from support.tunnel import Tunnel
from support.zaqar import QUEUE, Make, Queue, content, metadata, offer


class Websocket:
    """A Zaqar that speaks over websockets: a frame for a frame, and notifications."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status = {"authenticate": 200, "subscription_create": 201}
        self.upgrade = True
        self.connections: list[socket.socket] = []
        self.subscribed = threading.Semaphore(0)
        """Is released when somebody has subscribed."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.context: ssl.SSLContext | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'wss' if self.context else 'ws'}://127.0.0.1:{self.listener.getsockname()[1]}"

    def stop(self) -> None:
        self.listener.close()
        self.hang_up()

    def hang_up(self) -> None:
        for each in self.connections:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def wait(self) -> None:
        assert self.subscribed.acquire(timeout=pace.seconds(10))

    def tell(self, data: bytes, opcode: int = 1) -> None:
        """Send a frame over the newest connection."""
        length = (
            struct.pack("!BH", 126, len(data))
            if 126 <= len(data) < 65536
            else struct.pack("!B", len(data))
        )
        self.connections[-1].sendall(bytes([0x80 | opcode]) + length + data)

    def notify(self, body: object) -> None:
        self.tell(
            json.dumps(
                {"body": body, "Message_Type": "Notification", "queue_name": QUEUE}
            ).encode()
        )

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(
                    target=self._serve, args=(connection,), daemon=True
                ).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            if self.context:
                connection = self.context.wrap_socket(connection, server_side=True)
            self.connections.append(connection)
            with connection, connection.makefile("rb") as stream:
                key = b""
                while (line := stream.readline().strip()) != b"":
                    name, _, value = line.partition(b": ")
                    key = value if name.lower() == b"sec-websocket-key" else key
                while not self.upgrade:
                    time.sleep(0.01)
                accept = base64.b64encode(
                    hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()  # noqa: S324
                )
                connection.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
                )
                while True:
                    self._answer(json.loads(_frame(stream)))

    def _answer(self, request: dict[str, Any]) -> None:
        self.asked.append(request)
        action = request["action"]
        self.tell(
            json.dumps(
                {
                    "request": {"action": action},
                    "headers": {"status": self.status[action]},
                    "body": {},
                }
            ).encode()
        )
        if action == "subscription_create":
            self.subscribed.release()


def _frame(stream: Any) -> bytes:
    """Read the next masked frame of text."""
    head = stream.read(2)
    if len(head) < 2 or head[0] & 15 != 1:
        raise EOFError
    length = head[1] & 127
    if length == 126:
        (length,) = struct.unpack("!H", stream.read(2))
    mask = stream.read(4)
    return bytes(
        each ^ mask[place % 4] for place, each in enumerate(stream.read(length))
    )


@pytest.fixture
def websocket(
    openstack: cloud.Cloud, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Websocket]:
    """A Zaqar server with websockets in the catalog, and a listener that does not wait long between two tries."""
    monkeypatch.setattr(listening, "back_off", lambda _: 0.05)
    websocket = Websocket()
    offer(openstack, messaging=queue.origin, messaging_websocket=websocket.url)
    yield websocket
    websocket.stop()


class Bell:
    """A bell that records its rings."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        self.rung += 1


def threads() -> list[threading.Thread]:
    """Return the threads that listen."""
    return [each for each in threading.enumerate() if each.name == "zaqar websocket"]


def test_a_new_message_is_told_at_once(
    make: Make, queue: Queue, websocket: Websocket
) -> None:
    """The ring is rung when it listens, for what came before, and for each new message; that is fetched as ever."""
    bell = Bell()
    zaqar = make(ring=bell, use_websockets=True)
    assert zaqar.collect() is None
    websocket.wait()
    wait_until(lambda: bell.rung == 1)
    queue.post(metadata("new"))
    websocket.notify(metadata("new"))
    wait_until(lambda: bell.rung == 2)
    assert content(zaqar.collect()) == metadata("new")
    assert zaqar.trouble == ""
    authenticate, subscribe = websocket.asked
    assert authenticate["headers"]["X-Auth-Token"] == "token-1"
    assert (
        authenticate["headers"]["X-Project-ID"]
        == subscribe["headers"]["X-Project-ID"]
        == cloud.PROJECT
    )
    assert (
        authenticate["headers"]["Client-ID"] == queue.requests[0].headers["Client-ID"]
    )
    assert subscribe["body"]["queue_name"] == QUEUE
    assert "X-Auth-Token" not in subscribe["headers"]


def test_websocket_needs_the_setting_and_a_listener(
    make: Make, websocket: Websocket
) -> None:
    """Without the setting, or without anybody to be told, there is no connection."""
    make(ring=Bell()).collect()
    make(use_websockets=True).collect()
    assert threads() == []
    assert websocket.connections == []


@pytest.mark.parametrize("exempt", [True, False])
def test_websocket_has_the_proxy_of_other_requests(
    make: Make,
    openstack: cloud.Cloud,
    queue: Queue,
    websocket: Websocket,
    monkeypatch: pytest.MonkeyPatch,
    *,
    exempt: bool,
) -> None:
    """An address with its port in `no_proxy` is connected directly, another one by the proxy."""
    tunnel = Tunnel()
    monkeypatch.setenv("http_proxy", tunnel.origin)
    place = websocket.url.removeprefix("ws://")
    zaqar = make(ring=Bell(), use_websockets=True)
    servers = [
        urlsplit(url).netloc for url in (openstack.credentials().auth_url, queue.origin)
    ]
    monkeypatch.setenv("no_proxy", ",".join([*servers, *([place] if exempt else [])]))
    assert zaqar.collect() is None
    websocket.wait()
    assert tunnel.asked == ([] if exempt else [place])
    websocket.stop()
    tunnel.close()


@pytest.mark.parametrize("code", [None, 4003])
def test_a_connection_that_ends_is_followed_by_another(
    make: Make, openstack: cloud.Cloud, websocket: Websocket, code: int | None
) -> None:
    """After any end of a connection there is a new one with a new token, and missed messages are fetched."""
    bell = Bell()
    zaqar = make(ring=bell, use_websockets=True)
    zaqar.collect()
    websocket.wait()
    wait_until(lambda: bell.rung == 1)
    logins = len(openstack.logins)
    if code is None:
        websocket.hang_up()
    else:
        websocket.tell(struct.pack("!H", code) + b"Authentication expired.", 8)
    websocket.wait()
    wait_until(lambda: bell.rung == 2)
    assert len(openstack.logins) == logins + 1
    wait_until(lambda: not zaqar.collect() and zaqar.trouble == "")


def trouble(zaqar: Zaqar) -> str:
    """Return the trouble of the source with the websocket."""
    wait_until(lambda: zaqar.collect() is None and bool(zaqar.trouble))
    return zaqar.trouble


@pytest.mark.parametrize(
    ("action", "status"),
    [("authenticate", 401), ("subscription_create", 403), ("subscription_create", 400)],
)
def test_who_is_refused_goes_on_polling(
    make: Make, queue: Queue, websocket: Websocket, action: str, status: int
) -> None:
    """Where Zaqar does not tell of messages, they are collected all the same, and it is said why."""
    websocket.status[action] = status
    zaqar = make(ring=Bell(), use_websockets=True)
    assert trouble(zaqar) == (
        f"Zaqar is polled for new messages, because its websocket does not announce them: it refuses {action}: {status}"
    )
    queue.post(metadata("new"))
    assert content(zaqar.collect()) == metadata("new")


def test_missing_websockets_of_a_cloud_are_reported(
    make: Make, openstack: cloud.Cloud, queue: Queue
) -> None:
    """Where the catalog has none, that is said."""
    zaqar = make(ring=Bell(), use_websockets=True)
    assert trouble(zaqar).endswith(
        "Keystone's catalog has no service of the type messaging-websocket"
    )
    offer(openstack, messaging=queue.origin, messaging_websocket=queue.origin)
    assert trouble(make(ring=Bell(), use_websockets=True)).endswith(
        "is not that of a websocket"
    )
    offer(
        openstack,
        messaging=queue.origin,
        messaging_websocket=queue.origin.replace("http", "ws"),
    )
    assert trouble(make(ring=Bell(), use_websockets=True)).endswith("HTTP 400")


def test_zaqar_is_polled_without_the_package(
    make: Make, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package for websockets is an extra: without it, it is said how to get it."""
    monkeypatch.delitem(sys.modules, listening.__name__)
    monkeypatch.setitem(sys.modules, "websocket", None)
    zaqar = make(ring=Bell(), use_websockets=True)
    queue.post(metadata("new"))
    assert content(zaqar.collect()) == metadata("new")
    assert (
        "websocket-client is not installed (pip install 'heat-config-agent[zaqar]')"
        in zaqar.trouble
    )


@pytest.mark.parametrize(
    "data", [b"", b"<html>", b"[]", b"null", b"\xff\xfe", b'{"request": {}}']
)
def test_nonsense_over_the_websocket_has_no_effect(
    make: Make, websocket: Websocket, data: bytes
) -> None:
    """A message that is not a notification has no effect, and the next real one does."""
    bell = Bell()
    make(ring=bell, use_websockets=True).collect()
    websocket.wait()
    websocket.tell(data, opcode=2 if data == b"\xff\xfe" else 1)
    websocket.notify(metadata("new"))
    wait_until(lambda: bell.rung == 2)
    time.sleep(0.05)
    assert bell.rung == 2


def test_a_message_without_end_is_not_read(
    make: Make, websocket: Websocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sends far more than a message is disconnected."""
    monkeypatch.setattr(listening._Connection, "_room", 1000)  # noqa: SLF001  # megabytes take their time
    monkeypatch.setattr(listening, "LARGEST", 1000)
    zaqar = make(ring=Bell(), use_websockets=True)
    zaqar.collect()
    websocket.wait()
    monkeypatch.setattr(listening, "back_off", lambda _: 60)
    websocket.tell(b"x" * 2000)
    wait_until(lambda: not zaqar.collect() and "is longer than" in zaqar.trouble)


def test_a_silent_connection_is_given_up(
    make: Make, websocket: Websocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer a ping is disconnected."""
    monkeypatch.setattr(listening, "PING_SECONDS", 0.1)
    monkeypatch.setattr(websocket, "_answer", _deaf(websocket))
    make(ring=Bell(), use_websockets=True).collect()
    websocket.wait()
    websocket.wait()
    assert len(websocket.connections) >= 2


def _deaf(websocket: Websocket) -> Callable[[dict[str, Any]], None]:
    answer = websocket._answer  # noqa: SLF001  # it is replaced

    def once(request: dict[str, Any]) -> None:
        answer(request)
        if request["action"] == "subscription_create":
            time.sleep(60)

    return once


def test_certificates_of_websockets_are_checked(
    make: Make,
    queue: Queue,
    openstack: cloud.Cloud,
    websocket: Websocket,
    tmp_path: Path,
) -> None:
    """A websocket is trusted as all else is: by the certificates of the system, or the ones that are given."""
    certificate = tmp_path / "server.pem"
    certificate.write_text(CERTIFICATE + KEY)
    websocket.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    websocket.context.load_cert_chain(certificate)
    offer(openstack, messaging=queue.origin, messaging_websocket=websocket.url)
    stranger = make(ring=Bell(), use_websockets=True)
    assert "ertificate" in trouble(stranger) or "SSL" in trouble(stranger)
    assert websocket.asked == []
    bell = Bell()
    make(ring=bell, use_websockets=True, ca_file=str(certificate)).collect()
    websocket.wait()
    wait_until(lambda: bell.rung == 1)


def test_a_step_that_takes_too_long_is_given_up(
    make: Make, websocket: Websocket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that never completes a step is disconnected at the next poll, even if it sends a little."""
    monkeypatch.setattr(listening, "STEP_SECONDS", 0.5)
    websocket.upgrade = False

    def creep() -> None:  # a header that never ends
        with contextlib.suppress(OSError):
            while True:
                websocket.connections[0].sendall(b"x")
                time.sleep(0.02)

    zaqar = make(ring=Bell(), use_websockets=True)
    zaqar.collect()
    wait_until(lambda: bool(websocket.connections))
    threading.Thread(target=creep, daemon=True).start()
    assert "does not announce them" in trouble(zaqar)
    websocket.upgrade = True
    websocket.wait()


@pytest.mark.parametrize("upgrade", [True, False])
def test_closing_ends_the_thread(
    make: Make, websocket: Websocket, *, upgrade: bool
) -> None:
    """The thread ends when the source is closed, whether it listens or waits for an answer."""
    websocket.upgrade = upgrade
    zaqar = make(ring=Bell(), use_websockets=True)
    zaqar.collect()
    wait_until(lambda: bool(websocket.connections))
    if upgrade:
        websocket.wait()
    zaqar.close()
    wait_until(lambda: threads() == [])
    websocket.upgrade = True

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
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import cloud
from certificates import CERTIFICATE, KEY
from heat_config_agent.errors import AccessError, SourceError
from heat_config_agent.model import Document
from heat_config_agent.sources import Reach
from heat_config_agent.sources import websocket as listening
from heat_config_agent.sources.abilities import Claiming, Listening
from heat_config_agent.sources.zaqar import Zaqar
from loopback import Answer, wait_until

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
    """What its entry has in the place of what it usually has."""

    def entry(self) -> dict[str, object]:
        usual = {
            "id": self.id,
            "href": f"/v2/queues/q/messages/{self.id}" + (f"?claim_id={self.claim}" if self.claim else ""),
            "ttl": 3600,
            "age": int(time.monotonic() - self.born),
            "body": self.body,  # dots for a field that is not there
        }
        return {key: value for key, value in {**usual, **self.fields}.items() if value is not ...}


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
        """What is answered to a verb and the end of a path, whatever would be right."""
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_POST(self) -> None:
                parts = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                request = Request(self.command, parts.path, parse_qs(parts.query), dict(self.headers), body)
                owner.requests.append(request)
                status, answer = owner.answer(request)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_DELETE = do_POST  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Whoever does not know the certificate hangs up."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.scheme = "http"

    def start(self) -> None:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def origin(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, request: Request) -> tuple[int, bytes]:
        what = request.path.rpartition("/")[2]
        said = self.said.get((request.verb, what))
        if said:
            return said
        if not request.path.startswith("/v2/queues/stack%20server%2F1/") or "Client-ID" not in request.headers:
            return 400, b"{}"
        match request.verb, what:
            case "POST", "claims":
                assert json.loads(request.body) == {"ttl": 60, "grace": 3600}
                free = [each for each in self.messages if not each.claim][:10]
                claim = str(uuid.uuid4())
                for each in free:
                    each.claim = claim
                return (201, self.listed(free)) if free else (204, b"")
            case "GET", "messages":
                assert request.query == {"include_claimed": ["true"], "echo": ["true"], "marker": ["0"]}
                return 200, self.listed(self.messages[:10])
            case "DELETE", "messages":
                ids = request.query["ids"][0].split(",")
                claims = request.query["claim_ids"][0].split(",")
                gone = [each for each in self.messages if each.id in ids]
                assert len(ids) <= 20
                assert {each.claim for each in gone} <= set(claims), "deleted without its claim"
                self.messages = [each for each in self.messages if each not in gone]
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
    """What Heat says of a server."""
    return {"deployments": [{"id": name}], "os-collect-config": {}}


@pytest.fixture
def openstack() -> Iterator[cloud.Cloud]:
    """A cloud, of which Keystone is used."""
    openstack = cloud.Cloud()
    openstack.start()
    yield openstack
    openstack.stop()


@pytest.fixture
def queue(openstack: cloud.Cloud) -> Iterator[Queue]:
    """A Zaqar server that is in the catalog."""
    queue = Queue()
    queue.start()
    offer(openstack, messaging=queue.origin)
    yield queue
    queue.stop()


def offer(openstack: cloud.Cloud, **services: str) -> None:
    """Have those services in the catalog, where they are said to be."""
    catalog = [
        {
            "type": name.replace("_", "-"),
            "name": name,
            "id": name,
            "endpoints": [
                {"id": name, "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": url}
            ],
        }
        for name, url in services.items()
    ]
    openstack.keystone.always = openstack.lets_in("token-1", catalog=catalog)


Make = Callable[..., Zaqar]


@pytest.fixture
def make(openstack: cloud.Cloud) -> Iterator[Make]:
    """Make sources of the queue."""
    made: list[Zaqar] = []

    def zaqar(*, ca_file: str | None = None, ring: Callable[[], None] | None = None, **values: object) -> Zaqar:
        credentials = openstack.credentials()
        usual = {
            "auth_url": credentials.auth_url,
            "user_id": credentials.user_id,
            "password": credentials.password,
            "project_id": credentials.project_id,
            "region_name": "",
            "queue_id": QUEUE,
            "use_websockets": False,
        }
        made.append(Zaqar({**usual, **values}, Reach(ca_file=ca_file, seconds=20), ring=ring))
        return made[-1]

    yield zaqar
    for each in made:
        each.close()


def content(document: Document | None) -> object:
    """What a document says, which has to be there."""
    assert document is not None
    assert document.source == "zaqar"
    return document.content


# What is collected


def test_the_newest_message_counts_and_goes_with_the_older_ones_once_it_is_taken(make: Make, queue: Queue) -> None:
    """Messages are in the queue until what the newest says is safe on disk; then all of them go."""
    zaqar = make()
    for name in ("first", "second", "third"):
        queue.post(metadata(name))
    assert content(zaqar.collect()) == metadata("third")
    assert len(queue.messages) == 3
    assert zaqar.trouble == ""
    zaqar.taken()
    assert queue.messages == []
    assert zaqar.collect() is None
    assert len({each.headers["Client-ID"] for each in queue.requests}) == 1
    assert str(uuid.UUID(queue.requests[0].headers["Client-ID"])) == queue.requests[0].headers["Client-ID"]
    assert isinstance(zaqar, Claiming)
    assert isinstance(zaqar, Listening)


def test_an_idle_poll_is_one_request(make: Make, queue: Queue, openstack: cloud.Cloud) -> None:
    """Where there is nothing new, one request says so."""
    zaqar = make()
    zaqar.collect()
    before = len(queue.requests), len(openstack.logins)
    assert zaqar.collect() is None
    assert (len(queue.requests), len(openstack.logins)) == (before[0] + 1, before[1])


def test_a_message_comes_back_after_a_crash(make: Make, queue: Queue) -> None:
    """Whoever dies with a message leaves it to the next agent, once the claim has ended."""
    queue.post(metadata("one"))
    make().collect()
    heir = make()
    assert heir.collect() is None
    queue.expire()
    assert content(heir.collect()) == metadata("one")


def test_a_message_that_is_not_taken_comes_back_as_the_same_document(make: Make, queue: Queue) -> None:
    """What could not be put onto the disk is handed out again, as the very object that it was."""
    queue.post(metadata("one"))
    zaqar = make()
    document = zaqar.collect()
    queue.expire()
    assert zaqar.collect() is document
    zaqar.taken()
    assert queue.messages == []


def test_there_may_be_more_messages_than_one_claim_brings(make: Make, queue: Queue) -> None:
    """However many messages there are, the newest of all counts."""
    for number in range(25):
        queue.post(metadata(str(number)))
    zaqar = make()
    assert content(zaqar.collect()) == metadata("24")
    zaqar.taken()
    assert queue.messages == []


def test_what_is_newer_than_what_was_taken_stays(make: Make, queue: Queue) -> None:
    """A message that was collected after the one that is on disk is not deleted with it."""
    zaqar = make()
    queue.post(metadata("first"))
    first = zaqar.collect()
    queue.post(metadata("second"))
    second = zaqar.collect()
    zaqar.taken(first)
    assert queue.bodies() == [metadata("second")]
    zaqar.taken(second)
    assert queue.messages == []
    zaqar.taken(second)  # once more does no harm


def test_nothing_is_deleted_where_nothing_was_collected(make: Make, queue: Queue) -> None:
    """Without a document, there is nothing to let go of."""
    zaqar = make()
    zaqar.collect()
    zaqar.taken()
    assert {each.verb for each in queue.requests} == {"POST"}


# Order


def test_what_a_dead_agent_had_claimed_goes_with_what_came_after_it(make: Make, queue: Queue) -> None:
    """A message that somebody died with does not come back after a newer one is on disk."""
    queue.post(metadata("older"), ago=5)
    make().collect()
    queue.post(metadata("newer"))
    zaqar = make()
    assert content(zaqar.collect()) == metadata("newer")
    zaqar.taken()
    assert queue.messages == []


@pytest.mark.parametrize("said", [(503, b"{}"), (200, b"<html>")])
def test_an_older_message_does_not_count_after_a_newer_one(make: Make, queue: Queue, said: tuple[int, bytes]) -> None:
    """Where Zaqar does not list what others have claimed, an older message may come back; it is deleted unread."""
    queue.said["GET", "messages"] = said
    queue.post(metadata("older"), ago=5)
    make().collect()
    queue.post(metadata("newer"))
    zaqar = make()
    zaqar.collect()
    zaqar.taken()
    assert queue.bodies() == [metadata("older")]
    queue.expire()
    assert zaqar.collect() is None
    assert queue.messages == []


def test_an_older_message_does_not_count_before_the_newer_one_is_taken(make: Make, queue: Queue) -> None:
    """Of two that were collected one after the other, the older does not come back before the newer does."""
    zaqar = make()
    queue.post(metadata("older"))
    zaqar.collect()
    newer = queue.post(metadata("newer"))
    document = zaqar.collect()
    queue.messages[0].claim = ""
    assert zaqar.collect() is None
    assert queue.messages == [newer]
    queue.expire()
    assert zaqar.collect() is document


def test_messages_of_the_same_second_count_in_the_order_in_which_they_come(make: Make, queue: Queue) -> None:
    """Zaqar tells ages in whole seconds, and Heat may post several messages within one."""
    zaqar = make()
    for name in ("one", "two", "three"):
        queue.post(metadata(name))
        assert content(zaqar.collect()) == metadata(name)
        zaqar.taken()


def actions(**made: int | list[int]) -> dict[str, object]:
    """Return metadata with actions of deployments, by the minute in which they were made."""
    deployments = [
        {
            "id": f"{name}-{each}",
            "name": name,
            "group": "script",
            "creation_time": f"2026-11-21T14:{each:02}:00Z",
            "config": "",
            "inputs": [
                {"name": "deploy_stack_id", "value": "stack/1"},
                {"name": "deploy_resource_name", "value": name},
            ],
        }
        for name, found in made.items()
        for each in (found if isinstance(found, list) else [found])
    ]
    return {"deployments": deployments}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("first", "second", "newest"),
    [
        (actions(a=2, b=2), actions(a=2, b=1), "first"),  # what Heat posts when two change at once
        (actions(a=2, b=1), actions(a=2, b=2), "second"),
        (actions(a=2, b=2), actions(a=2), "second"),  # one has gone
        (actions(a=2, b=1), actions(a=1, b=2), "second"),  # nothing can be told
        (actions(a=[2, 3]), actions(a=2), "second"),  # the other one was replaced by it
    ],
)
def test_a_message_may_be_posted_after_a_newer_one(
    make: Make, queue: Queue, first: object, second: object, newest: str, *, together: bool
) -> None:
    """The message that has the later actions counts, and when it is taken, both go."""
    zaqar = make()
    queue.post(first)
    if not together:
        zaqar.collect()
        zaqar.taken()
    queue.post(second)
    found = zaqar.collect()
    if newest == "first" and not together:
        assert found is None
    else:
        assert content(found) == {"first": first, "second": second}[newest]
        zaqar.taken()
    assert queue.messages == []


@pytest.mark.parametrize("age", [..., None, "old", -1, 1e300, []])
def test_a_message_of_unknown_age_is_new(make: Make, queue: Queue, age: object) -> None:
    """Where it is not known how old a message is, the order of the queue counts."""
    zaqar = make()
    for name in ("one", "two"):
        queue.post(metadata(name), age=age)
        assert content(zaqar.collect()) == metadata(name)


def test_what_could_not_be_deleted_does_not_count_again(make: Make, queue: Queue) -> None:
    """Where Zaqar does not delete a message, that is said, and it is tried again when the message comes back."""
    zaqar = make()
    queue.post(metadata("superseded"))
    queue.post(metadata("one"))
    zaqar.collect()
    queue.said["DELETE", "messages"] = (503, b"")
    with pytest.raises(SourceError, match=r"cannot delete messages from the Zaqar queue .* HTTP 503"):
        zaqar.taken()
    queue.expire()
    assert zaqar.collect() is None
    assert "cannot delete messages" in zaqar.trouble
    queue.said.clear()
    queue.expire()
    assert zaqar.collect() is None
    assert zaqar.trouble == ""
    assert queue.messages == []
    queue.post(metadata("two"))
    assert content(zaqar.collect()) == metadata("two")


def test_what_was_deleted_does_not_count_again(make: Make, queue: Queue) -> None:
    """A message that is there again after Zaqar has said that it is gone is deleted once more."""
    zaqar = make()
    message = queue.post(metadata("one"))
    zaqar.collect()
    zaqar.taken()
    message.claim = ""
    queue.messages.append(message)
    assert zaqar.collect() is None
    assert queue.messages == []


# Nonsense

DEEP: Any = {"deployments": []}
for _ in range(150):
    DEEP = {"deployments": [DEEP]}

BAD = [None, [], ["x"], "text", "<html>", 7, True, {}, {"x": 1}, ..., DEEP, {"deployments": [float("nan")]}]


@pytest.mark.parametrize("body", BAD, ids=lambda body: str(body)[:24])
def test_a_message_that_is_no_metadata(make: Make, queue: Queue, body: object) -> None:
    """It is said, again when its claim ends, and the next good message takes it along."""
    zaqar = make()
    queue.post(body)
    with pytest.raises(SourceError, match=r"^the newest message in the Zaqar queue .* is no metadata: "):
        zaqar.collect()
    assert zaqar.collect() is None
    queue.expire()
    with pytest.raises(SourceError, match="no metadata"):
        zaqar.collect()
    queue.post(metadata("good"))
    assert content(zaqar.collect()) == metadata("good")
    zaqar.taken()
    assert queue.messages == []


def test_the_good_message_before_a_bad_one_counts(make: Make, queue: Queue) -> None:
    """What can be understood is used; what came after it, and cannot, stays and is said."""
    zaqar = make()
    queue.post(metadata("good"))
    queue.post("nonsense")
    assert content(zaqar.collect()) == metadata("good")
    assert "no metadata: it is text, not an object" in zaqar.trouble
    zaqar.taken()
    assert queue.bodies() == ["nonsense"]
    queue.expire()
    with pytest.raises(SourceError, match="it is text"):
        zaqar.collect()


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (201, b"<html>Login</html>", "its answer is no list of messages"),
        (200, b"", "its answer is no list of messages"),
        (201, b"[]", "its answer is no list of messages"),
        (201, b"null", "its answer is no list of messages"),
        (201, b"\xff\xfe", "its answer is no list of messages"),
        (201, b"[" * 100_000, "its answer is no list of messages"),
        (201, b'{"messages": {}}', "its answer is no list of messages"),
        (201, b'{"messages": [{"id": "1", "bo', "its answer is no list of messages"),
        (201, b'{"messages": [null, 7, {}, {"id": 7, "body": {}}, {"id": ""}]}', "have no ids"),
        (404, b"{}", "HTTP 404 Not Found"),
        (503, b"{}", "HTTP 503 Service Unavailable"),
        (302, b"", "HTTP 302 Found"),
    ],
)
def test_an_answer_that_is_none_of_zaqar(make: Make, queue: Queue, status: int, body: bytes, sentence: str) -> None:
    """One sentence says what is wrong, and the next answer is taken as it is."""
    zaqar = make()
    queue.said["POST", "claims"] = (status, body)
    with pytest.raises(SourceError, match=sentence) as caught:
        zaqar.collect()
    assert cloud.PASSWORD not in str(caught.value)
    assert "token-1" not in str(caught.value)
    queue.said.clear()
    queue.post(metadata("good"))
    assert content(zaqar.collect()) == metadata("good")


def test_no_end_of_messages(make: Make, queue: Queue) -> None:
    """A server that hands out the same message for ever does not keep the source for ever."""
    queue.said["POST", "claims"] = (201, Queue.listed([Message(metadata("one"), time.monotonic())]))
    assert content(make().collect()) == metadata("one")
    assert len(queue.requests) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_being_refused_is_said_to_be_that(make: Make, queue: Queue, status: int) -> None:
    """That the credentials are not good is told apart from all other troubles."""
    queue.said["POST", "claims"] = (status, b"{}")
    with pytest.raises(AccessError, match=f"HTTP {status}"):
        make().collect()


def test_keystone_lets_nobody_in(make: Make, openstack: cloud.Cloud) -> None:
    """That Keystone does not take the password is said; the password is not."""
    openstack.keystone.always = Answer(401)
    with pytest.raises(AccessError, match="Keystone answers HTTP 401") as caught:
        make().collect()
    assert cloud.PASSWORD not in str(caught.value)


def test_certificates_are_checked(make: Make, queue: Queue, openstack: cloud.Cloud, tmp_path: Path) -> None:
    """A Zaqar whose certificate nobody knows is not spoken to; one whose certificate is given is."""
    certificate = tmp_path / "server.pem"
    certificate.write_text(CERTIFICATE + KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    queue.server.socket = context.wrap_socket(queue.server.socket, server_side=True)
    queue.scheme = "https"
    queue.post(metadata("one"))
    offer(openstack, messaging=queue.origin)
    with pytest.raises(SourceError, match=r"(?i)certificate|ssl"):
        make().collect()
    assert content(make(ca_file=str(certificate)).collect()) == metadata("one")


# Being told


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
        assert self.subscribed.acquire(timeout=10)

    def tell(self, data: bytes, opcode: int = 1) -> None:
        """Send a frame over the newest connection."""
        length = struct.pack("!BH", 126, len(data)) if 126 <= len(data) < 65536 else struct.pack("!B", len(data))
        self.connections[-1].sendall(bytes([0x80 | opcode]) + length + data)

    def notify(self, body: object) -> None:
        self.tell(json.dumps({"body": body, "Message_Type": "Notification", "queue_name": QUEUE}).encode())

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

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
                accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())  # noqa: S324
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
            json.dumps({"request": {"action": action}, "headers": {"status": self.status[action]}, "body": {}}).encode()
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
    return bytes(each ^ mask[place % 4] for place, each in enumerate(stream.read(length)))


@pytest.fixture
def websocket(openstack: cloud.Cloud, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[Websocket]:
    """A Zaqar server with websockets in the catalog, and a listener that does not wait long between two tries."""
    monkeypatch.setattr(listening, "back_off", lambda _: 0.05)
    websocket = Websocket()
    offer(openstack, messaging=queue.origin, messaging_websocket=websocket.url)
    yield websocket
    websocket.stop()


class Bell:
    """What is rung."""

    def __init__(self) -> None:
        self.rung = 0

    def __call__(self) -> None:
        self.rung += 1


def threads() -> list[threading.Thread]:
    """Those that listen."""
    return [each for each in threading.enumerate() if each.name == "zaqar websocket"]


def test_a_new_message_is_told_at_once(make: Make, queue: Queue, websocket: Websocket) -> None:
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
    assert authenticate["headers"]["X-Project-ID"] == subscribe["headers"]["X-Project-ID"] == cloud.PROJECT
    assert authenticate["headers"]["Client-ID"] == queue.requests[0].headers["Client-ID"]
    assert subscribe["body"]["queue_name"] == QUEUE
    assert "X-Auth-Token" not in subscribe["headers"]


def test_nobody_listens_unasked(make: Make, websocket: Websocket) -> None:
    """Without the setting, or without anybody to be told, there is no connection."""
    make(ring=Bell()).collect()
    make(use_websockets=True).collect()
    assert threads() == []
    assert websocket.connections == []


@pytest.mark.parametrize("code", [None, 4003])
def test_a_connection_that_ends_is_followed_by_another(
    make: Make, openstack: cloud.Cloud, websocket: Websocket, code: int | None
) -> None:
    """However a connection ends, there is a new one, with a new token, and whatever was missed is asked for."""
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
    """What the source says of the websocket, once it has found out."""
    wait_until(lambda: zaqar.collect() is None and bool(zaqar.trouble))
    return zaqar.trouble


@pytest.mark.parametrize(
    ("action", "status"), [("authenticate", 401), ("subscription_create", 403), ("subscription_create", 400)]
)
def test_who_is_refused_goes_on_polling(
    make: Make, queue: Queue, websocket: Websocket, action: str, status: int
) -> None:
    """Where Zaqar does not tell of messages, they are collected all the same, and it is said why."""
    websocket.status[action] = status
    zaqar = make(ring=Bell(), use_websockets=True)
    assert trouble(zaqar) == (
        f"Zaqar is polled for new messages, its websocket does not tell of them: it refuses {action}: {status}"
    )
    queue.post(metadata("new"))
    assert content(zaqar.collect()) == metadata("new")


def test_a_cloud_without_websockets(make: Make, openstack: cloud.Cloud, queue: Queue) -> None:
    """Where the catalog has none, that is said."""
    zaqar = make(ring=Bell(), use_websockets=True)
    assert trouble(zaqar).endswith("Keystone's catalog has no service of the type messaging-websocket")
    offer(openstack, messaging=queue.origin, messaging_websocket=queue.origin)
    assert trouble(make(ring=Bell(), use_websockets=True)).endswith("is no websocket's")
    offer(openstack, messaging=queue.origin, messaging_websocket=queue.origin.replace("http", "ws"))
    assert trouble(make(ring=Bell(), use_websockets=True)).endswith("HTTP 400")


def test_without_the_package_it_is_polled(make: Make, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package for websockets is an extra: without it, it is said how to get it."""
    monkeypatch.delitem(sys.modules, listening.__name__)
    monkeypatch.setitem(sys.modules, "websocket", None)
    zaqar = make(ring=Bell(), use_websockets=True)
    queue.post(metadata("new"))
    assert content(zaqar.collect()) == metadata("new")
    assert "websocket-client is not installed (pip install 'heat-config-agent[zaqar]')" in zaqar.trouble


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b"null", b"\xff\xfe", b'{"request": {}}'])
def test_nonsense_over_the_websocket_is_no_news(make: Make, websocket: Websocket, data: bytes) -> None:
    """What is no notification rings nothing, and the next one that is one does."""
    bell = Bell()
    make(ring=bell, use_websockets=True).collect()
    websocket.wait()
    websocket.tell(data, opcode=2 if data == b"\xff\xfe" else 1)
    websocket.notify(metadata("new"))
    wait_until(lambda: bell.rung == 2)
    time.sleep(0.05)
    assert bell.rung == 2


def test_a_message_without_end_is_not_read(make: Make, websocket: Websocket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who sends far more than a message is hung up on."""
    monkeypatch.setattr(listening._Connection, "_room", 1000)  # noqa: SLF001  # megabytes take their time
    monkeypatch.setattr(listening, "LARGEST", 1000)
    zaqar = make(ring=Bell(), use_websockets=True)
    zaqar.collect()
    websocket.wait()
    monkeypatch.setattr(listening, "back_off", lambda _: 60)
    websocket.tell(b"x" * 2000)
    wait_until(lambda: not zaqar.collect() and "is longer than" in zaqar.trouble)


def test_a_silent_connection_is_given_up(make: Make, websocket: Websocket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives no sign of life, though asked for one, is not waited for any longer."""
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
    make: Make, queue: Queue, openstack: cloud.Cloud, websocket: Websocket, tmp_path: Path
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
    """Who lets a step go on for ever, though something comes now and then, is hung up on at the next poll."""
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
    assert "does not tell of them" in trouble(zaqar)
    websocket.upgrade = True
    websocket.wait()


@pytest.mark.parametrize("upgrade", [True, False])
def test_closing_ends_the_thread(make: Make, websocket: Websocket, *, upgrade: bool) -> None:
    """Whether it listens, or waits for an answer that does not come, it ends when it is told to."""
    websocket.upgrade = upgrade
    zaqar = make(ring=Bell(), use_websockets=True)
    zaqar.collect()
    wait_until(lambda: bool(websocket.connections))
    if upgrade:
        websocket.wait()
    zaqar.close()
    wait_until(lambda: threads() == [])
    websocket.upgrade = True

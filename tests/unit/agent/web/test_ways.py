"""The same over each way to a server: itself or through a proxy, with TLS or without."""

from __future__ import annotations

import contextlib
import gzip
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from heat_config_agent import web
from heat_config_agent.web import Connection, direct
from heat_config_agent.web.held_back import HeldBack
from support import pace, proxy, proxy_faults
from support.certificates import CERTIFICATE
from support.loopback import Answer, SignalServer, wait_until
from support.proxy import Fault, Proxy, Reply
from support.tunnel import Tunnel
from support.ways import PATH, SECONDS, TIME, known, pem, trouble

pytestmark = pytest.mark.takes(60)

BODY = b'{"a": 1}'


@dataclass
class Way:
    """A way to a server, on which things go wrong."""

    name: str
    stands: Proxy
    """The proxy with the faults: in the place of the server, or in front of it."""
    origin: str
    ca_file: str | None
    tunnel: Tunnel | None

    def connection(self) -> Connection:
        """A new connection to the server."""
        return Connection(self.origin, self.ca_file)

    def fetch(self, connection: Connection, seconds: float = 30) -> web.Answer:
        """Ask for something."""
        return connection.fetch(self.origin + PATH, {}, seconds)

    def send(self, connection: Connection) -> web.Answer:
        """Send something."""
        return connection.send("POST", self.origin + PATH, b"{}", {})

    @contextlib.contextmanager
    def hasty(self, connection: Connection) -> Iterator[None]:
        """Give the server little time while it fails; an answer may take longer on a busy machine."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connection, "_limits", (SECONDS, SECONDS))
            patch.setattr(web, "SEND_SECONDS", TIME)
            yield

    def settle(self) -> None:
        """Wait until every connection is closed."""
        wait_until(
            lambda: not self.stands.open and not (self.tunnel and self.tunnel.open)
        )


@pytest.fixture(
    params=["http", "http through a proxy", "https", "https through a proxy"]
)
def way(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    heat: SignalServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Way]:
    """Each way in turn, to a server that answers `BODY`."""
    heat.always = Answer(body=BODY)
    secure, proxied = request.param.startswith("https"), request.param.endswith("proxy")
    tunnel = Tunnel() if secure and proxied else None
    stands = Proxy(
        "" if proxied and not secure else heat.origin,
        pem(tmp_path, CERTIFICATE) if secure else None,
    )
    if proxied:
        monkeypatch.setenv(
            "https_proxy" if secure else "http_proxy",
            tunnel.origin if tunnel else stands.origin,
        )
    origin = heat.origin if proxied and not secure else stands.origin
    yield Way(
        request.param,
        stands,
        origin,
        str(known(tmp_path, CERTIFICATE)) if secure else None,
        tunnel,
    )
    stands.close()
    if tunnel:
        tunnel.close()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/signal/arn%3Aopenstack%3Aheat?Timestamp=2026-11-20T18%3A26%3A35Z&Signature=c2ln%2Bbm%2Fk%3D",
        "/lower?Signature=c2ln%2bbm%2fk%3d",
        "/needless?a=%41%7E%2D",
        "/plain?a=~!$'()*,;:@[]|{}^\"<>\\`",
        "/a/./b/../c",
        "//twice//slashes",
        "/no-percent%zz?100%",
        "/empty?",
        "/second?a=?&b=http://elsewhere/",
        "/no-value?a&b=&&c",
        "/",
    ],
)
def test_a_url_is_written_as_it_is_given(way: Way, path: str) -> None:
    """Byte for byte, but for the part after a #, which does not concern servers; a proxy is told the server, too."""
    connection = way.connection()
    connection.send("POST", way.origin + path, b"{}", {})
    connection.fetch(f"{way.origin}{path}#fragment", {}, 30)
    told = way.origin + path if way.name == "http through a proxy" else path
    assert [each.target for each in way.stands.requests] == [told, told]


def test_a_request_is_the_same_over_each_way(way: Way) -> None:
    """Both clients send the same User-Agent, headers and body."""
    way.connection().send(
        "PUT",
        way.origin + PATH,
        b"xyz",
        {"Content-Type": "a/b", "User-Agent": "another"},
    )
    (request,) = way.stands.requests
    found = {name.lower(): value for name, value in request.headers}
    assert (request.verb, request.body) == ("PUT", b"xyz")
    assert found.pop("host") == way.origin.partition("://")[2]
    assert found == {
        "user-agent": "another",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "keep-alive",
        "content-length": "3",
        "content-type": "a/b",
    }


def test_request_whose_last_byte_is_held_back_is_the_same(way: Way) -> None:
    """Its length is announced, and the body is not sent in chunks."""
    way.connection().send(
        "PUT", way.origin + PATH, HeldBack(b"xyz", 0.0, lambda: False), {}
    )
    (request,) = way.stands.requests
    found = {name.lower(): value for name, value in request.headers}
    assert (request.verb, request.body, found["content-length"]) == ("PUT", b"xyz", "3")
    assert "transfer-encoding" not in found


def test_withdrawn_body_breaks_its_request_off(way: Way) -> None:
    """The server does not get the last byte, and the next request has another connection."""
    connection = way.connection()
    trouble(
        lambda: connection.send(
            "PUT", way.origin + PATH, HeldBack(b"xyz", 0.0, lambda: True), {}
        )
    )
    assert way.send(connection).body == BODY
    assert [each.verb for each in way.stands.requests if each.body == b"xyz"] == []


@pytest.mark.parametrize(
    ("verb", "length"), [("GET", None), ("POST", "0"), ("PUT", "0")]
)
def test_a_request_without_a_body_says_so(
    way: Way, verb: str, length: str | None
) -> None:
    """Where others of its kind have one."""
    way.connection().fetch(way.origin + PATH, {"Host": "elsewhere"}, 30, verb=verb)
    found = [(name.lower(), value) for name, value in way.stands.requests[0].headers]
    assert dict(found).get("content-length") == length
    assert [value for name, value in found if name == "host"] == ["elsewhere"]


def test_headers_are_read_in_any_case(way: Way) -> None:
    """Headers are found in any case, and repeated ones are joined."""
    said = b"HTTP/1.1 200 OK\r\nX-One: a\r\nx-one: b\r\nX-Two:  c\r\nX-Three: \xe9\r\nContent-Length: 0\r\n\r\n"
    way.stands.fail(proxy_faults.says("has headers", said))
    headers = way.fetch(way.connection()).headers
    assert (headers["X-ONE"], headers["x-two"], headers.get("X-Three")) == (
        "a, b",
        "c",
        "é",
    )
    assert headers.get("X-Four") is None
    assert "x-four" not in headers


def test_a_connection_is_kept(way: Way) -> None:
    """A connection is reused for any request and after any answer."""
    connection = way.connection()
    way.stands.script.extend(
        [
            proxy_faults.answers(503),
            proxy_faults.answers(404, body=b""),
            proxy_faults.answers(204),
        ]
    )
    for each in (way.fetch, way.send) * 3:
        each(connection)
    assert way.stands.connections == 1
    assert way.tunnel is None or len(way.tunnel.asked) == 1


def test_a_connection_that_the_server_has_closed_is_replaced(way: Way) -> None:
    """Before anything is sent over it; so that nothing is sent twice."""
    connection = way.connection()
    (closes,) = (
        each for each in proxy_faults.UNUSUAL_SUCCESS if "unannounced" in each.name
    )
    for number in range(1, 4):
        way.stands.script.append(closes)
        assert way.send(connection).status == 200
        way.settle()
        assert (len(way.stands.requests), way.stands.connections) == (number, number)


def test_request_on_a_broken_connection_is_not_repeated(way: Way) -> None:
    """Where a kept connection ends under a request, somebody else decides."""
    connection = way.connection()
    way.send(connection)
    (hangs_up,) = (
        each
        for each in proxy_faults.BREAKS_OFF
        if each.name == "hangs up instead of its answer"
    )
    way.stands.script.append(hangs_up)
    assert re.search(
        "hung up without an answer|reset", trouble(lambda: way.send(connection))
    )
    assert len(way.stands.requests) == 2
    assert way.send(connection).status == 200


def _after(*parts: bytes) -> Fault:
    """An answer after which nothing can be told from what belongs to it."""

    def act(exchange: proxy.Exchange) -> None:
        exchange.send(b"".join(parts))
        exchange.keep = True

    return Fault("is ambiguous", act)


CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"


AMBIGUOUS = {
    "chunks, and a length": _after(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        CHUNKS,
    ),
    "nothing, and a length": _after(
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"
    ),
    "nothing, in chunks": _after(
        b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "a chunk of no length": _after(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n"
    ),
    "an answer before the answer": _after(b"HTTP/1.1 102 Processing\r\n\r\n"),
    "a length that is none": _after(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
}


@pytest.mark.parametrize("ambiguous", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_where_an_answer_may_go_on_nothing_follows_it(
    way: Way, ambiguous: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection is not reused if the answer may continue, because the rest could pass for the next answer."""
    monkeypatch.setattr(web, "TAKEN_SECONDS", 0.2)
    connection = way.connection()
    way.stands.script.append(ambiguous)
    way.send(connection)
    assert way.send(connection).body == BODY
    assert way.stands.connections == 2


def test_two_lengths_are_none(way: Way) -> None:
    """An answer with two different lengths is refused."""
    way.stands.fail(proxy_faults.TWO_LENGTHS)
    connection = way.connection()
    assert trouble(lambda: way.send(connection)) == "its answer is not HTTP"
    assert trouble(lambda: way.fetch(connection)) == "its answer is not HTTP"


LATE = (
    r"^no answer within 0\.6 s$|^no full answer in time$"
    r"|^its answer took too long$|^it broke off its answer: nothing"
)


@pytest.mark.parametrize(
    "fault",
    [
        *proxy_faults.HANGS,
        # it takes a processor until the time is over
        pytest.param(proxy_faults.TOO_MANY_HEADERS[-1], marks=pytest.mark.slow),
    ],
    ids=lambda each: each.name,
)
def test_no_answer_takes_forever(way: Way, fault: Fault) -> None:
    """An answer has a deadline, also if a little comes all the time, and its connection is not reused."""
    connection = way.connection()
    way.fetch(connection)
    way.stands.fail(fault)
    if fault.at_once:
        way.settle()  # what was kept is gone, and seen to be
    began = time.monotonic()
    with way.hasty(connection):
        assert re.search(LATE, trouble(lambda: way.send(connection)))
    assert time.monotonic() - began < pace.seconds(10)
    way.stands.mend()
    way.settle()
    assert way.fetch(connection).body == BODY


@pytest.mark.parametrize(
    "fault", proxy_faults.HANGS_IN_BODY, ids=lambda each: each.name
)
def test_no_body_takes_forever(
    way: Way, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request for a document fails without it; after a result was sent, the status counts, and that it is cut."""
    monkeypatch.setattr(web, "TAKEN_SECONDS", 0.2)
    connection = way.connection()
    way.stands.fail(fault)
    with way.hasty(connection):
        assert re.search(LATE, trouble(lambda: way.fetch(connection, TIME)))
    answer = way.send(connection)
    assert answer.status == 200
    assert re.search(LATE, answer.cut)
    way.stands.mend()
    way.settle()
    assert way.send(connection).body == BODY


@pytest.mark.parametrize("fault", proxy_faults.CUTS_BODY, ids=lambda each: each.name)
def test_half_of_a_body_is_none(way: Way, fault: Fault) -> None:
    """A request for a document fails without it; after a result was sent, it is reported."""
    connection = way.connection()
    way.stands.fail(fault)
    words = "^its answer was cut short$|^its answer is not HTTP$|reset"
    assert re.search(words, trouble(lambda: way.fetch(connection)))
    answer = way.send(connection)
    assert answer.status == 200
    assert re.search(words, answer.cut)


NO_ANSWER = (
    *proxy_faults.BREAKS_OFF,
    *proxy_faults.NO_HTTP,
    *proxy_faults.TOO_MANY_HEADERS[:-1],
)


@pytest.mark.parametrize("fault", NO_ANSWER, ids=lambda each: each.name)
def test_a_broken_answer_is_explained(way: Way, fault: Fault) -> None:
    """The next request may be answered."""
    if way.tunnel and fault is proxy.REFUSED:
        pytest.skip("it is the proxy that says so")
    connection = way.connection()
    way.fetch(connection)
    way.stands.fail(fault)
    words = "refused|reset|hung up|not HTTP|cut short|within 0.6 s|TLS handshake failed|broken pipe"
    with way.hasty(connection):
        assert re.search(words, trouble(lambda: way.send(connection)), re.IGNORECASE)
    way.stands.mend()
    way.settle()
    assert way.send(connection).body == BODY


@pytest.mark.parametrize(
    "fault", proxy_faults.UNUSUAL_SUCCESS, ids=lambda each: each.name
)
def test_answers_come_in_many_forms(way: Way, fault: Fault) -> None:
    """All of them are one."""
    connection = way.connection()
    for asked in (way.fetch, way.send):
        way.stands.script.append(fault)
        answer = asked(connection)
        assert answer.status in (200, 201, 202, 204, 205)
        assert not answer.cut
        assert answer.body in (BODY, b"")
        if answer.status == 200:  # then it closes the connection
            way.settle()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_body_is_bounded(
    way: Way, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    """The size of a body is bounded, also of one that is compressed."""
    monkeypatch.setattr(web, "LARGEST", 1 << 20)
    whole = b"\0" * (1 << 20)
    headers = (("Content-Encoding", "gzip"),) if packed else ()
    connection = way.connection()
    for body, fits in ((whole, True), (whole * 8, False), (whole, True)):
        sent = gzip.compress(body) if packed else body
        way.stands.script.append(proxy_faults.answers(200, "", *headers, body=sent))
        if fits:
            assert way.fetch(connection).body == body
        else:
            assert (
                trouble(lambda: way.fetch(connection))
                == "its answer is longer than 1 MiB"
            )


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_undecodable_body_is_an_error(way: Way, encoding: str) -> None:
    """Where the status counts, nobody tries."""
    way.stands.fail(
        proxy_faults.answers(200, "", ("Content-Encoding", encoding), body=b"plain")
    )
    connection = way.connection()
    assert "compress" in trouble(lambda: way.fetch(connection))
    assert way.send(connection).body == b"plain"


def test_a_redirect_is_an_answer(way: Way, other: SignalServer) -> None:
    """A redirect is returned as the answer, and not followed."""
    way.stands.fail(proxy_faults.answers(307, "", ("Location", other.url())))
    answer = way.send(way.connection())
    assert (answer.status, answer.headers["location"]) == (307, other.url())
    assert other.signals == []


def test_a_server_may_answer_before_it_has_heard_all(way: Way) -> None:
    """An answer before the end of the body is used, because it says why."""

    def act(exchange: proxy.Exchange) -> None:
        exchange.send(Reply(413).raw)

    way.stands.fail(Fault("has heard enough", act))
    assert (
        way.connection().send("POST", way.origin + PATH, b"x" * 1000, {}).status == 413
    )


def test_a_server_that_hangs_up_on_a_long_request_has_its_answer_read() -> None:
    """Although what was being sent could not be sent to its end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(1000)
                client.sendall(Reply(413).raw)

        threading.Thread(target=serve, daemon=True).start()
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert (
            Connection(origin).send("POST", f"{origin}/", b"x" * 30_000_000, {}).status
            == 413
        )


def test_every_address_of_a_server_is_tried(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some of a name may be out of order."""
    real = socket.getaddrinfo

    def several(host: str, port: int, *args: object, **options: object) -> object:
        if host != "several.example":
            return real(host, port, *args, **options)  # type: ignore[arg-type]
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{each}", port))
            for each in (9, 8, 1)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", several)
    origin = heat.origin.replace("127.0.0.1", "several.example")
    assert Connection(origin).send("POST", f"{origin}/", b"{}", {}).status == 200
    assert heat.signals[0].headers["Host"] == origin.partition("://")[2]


def test_a_server_may_be_at_an_address_of_version_6() -> None:
    """The URL of a server may have an IPv6 address in brackets."""
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("there is no IPv6 here")
    with listener:
        heard: list[bytes] = []

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                heard.append(client.recv(65536))
                client.sendall(Reply(204).raw)

        threading.Thread(target=serve, daemon=True).start()
        origin = f"http://[::1]:{listener.getsockname()[1]}"
        assert Connection(origin).fetch(f"{origin}/x", {}, 10).status == 204
    assert f"\r\nHost: {origin.partition('://')[2]}\r\n".encode() in heard[0]


@pytest.mark.parametrize(
    ("origin", "path"),
    [
        ("http://h", "/"),
        ("https://a.b-c.example:8000", "/x?y#z"),
        ("http://H_1.example:65535", "/"),
        ("http://[::1]:80", "/"),
        ("http://[fe80::1%25eth0]", "/"),
        ("http://[fe80::1%eth0]:8000", "/"),
        ("https://127.0.0.1", "/~!"),
    ],
)
def test_plain_url_is_requested_directly(origin: str, path: str) -> None:
    """There is one way to read it."""
    assert direct.Server(origin, None).can_request(origin + path)


@pytest.mark.parametrize(
    ("origin", "path"),
    [
        ("http://h", ""),
        ("http://h", "?a"),
        ("http://h", ".example/"),
        ("http://h", "/a b"),
        ("http://h", "/\u00fc"),
        ("http://h", "/\r\nX: y"),
        ("http://user:password@h", "/"),
        ("http://b\u00fccher.example", "/"),
        ("http://h.", "/"),
        ("http://a..b", "/"),
        (f"http://{'a' * 64}", "/"),
        ("http://h:", "/"),
        ("http://h:0", "/"),
        ("http://h:65536", "/"),
        ("http://h:x", "/"),
        ("http://[fe80::1%25]", "/"),
        ("http://[fe80::1%25e/h]", "/"),
        ("http://[::1", "/"),
        ("http://", "/"),
        ("HTTP://h", "/"),
        ("ftp://h", "/"),
        ("h", "/"),
        ("", "/"),
    ],
)
def test_unusual_url_is_left_to_requests(origin: str, path: str) -> None:
    """An unusual URL is left to requests, which sends it or explains the error."""
    assert not direct.Server(origin, None).can_request(origin + path)


def test_an_odd_url_is_encoded(heat: SignalServer) -> None:
    """Other characters of a URL are encoded, because such a URL cannot be signed."""
    connection = Connection(heat.origin)
    for path in ("/plain", "/\u00fc b", "?a=b"):
        assert connection.send("POST", heat.origin + path, b"{}", {}).status == 200
    assert [each.path for each in heat.signals] == ["/plain", "/%C3%BC%20b", "/?a=b"]

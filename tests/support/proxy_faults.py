"""The faults and oddities of a server that a proxy can be told to show."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterator
from email.utils import formatdate
from functools import cache

from support.proxy import PAGE, REFUSED, Exchange, Fault, Reply


def answers(
    status: int, name: str = "", *headers: tuple[str, str], body: bytes = b"{}"
) -> Fault:
    """A server that answers that, whatever it was asked, and does nothing of it."""

    def act(exchange: Exchange) -> None:
        exchange.send(Reply(status, "", headers, body).raw)
        exchange.keep = True

    return Fault(name or f"answers {status}", act)


def says(name: str, *parts: bytes, at_once: bool = False) -> Fault:
    """A server that says that, and hangs up."""

    def act(exchange: Exchange) -> None:
        exchange.send(b"".join(parts))
        exchange.hold(1)  # hanging up at once, with something unread, would be a reset

    return Fault(name, act, at_once)


def spoils(
    name: str, made: Callable[[Reply], bytes], *, keep: bool = False, body: bool = False
) -> Fault:
    """A server that does what it is asked, and makes something else of its answer, or of its body."""

    def act(exchange: Exchange) -> None:
        exchange.send(made(exchange.forward_for_body() if body else exchange.forward()))
        exchange.keep = keep

    return Fault(name, act)


def _breaks_off(
    name: str, part: Callable[[Reply], bytes] | None, *, heard: bool = True
) -> Fault:
    def act(exchange: Exchange) -> None:
        reply = exchange.forward_for_body() if heard else Reply()
        if part:
            exchange.send(part(reply))
            time.sleep(0.05)  # a reset takes back what has not been read yet
        exchange.reset()

    return Fault(name, act)


def _in_request(exchange: Exchange) -> None:
    exchange.client.recv(30)
    exchange.reset()


BREAKS_OFF = (
    REFUSED,
    Fault("resets the connection at once", Exchange.reset, at_once=True),
    Fault("hangs up at once", lambda _: None, at_once=True),
    Fault(
        "resets the connection in the middle of the request", _in_request, at_once=True
    ),
    _breaks_off("resets the connection before it does anything", None, heard=False),
    _breaks_off("resets the connection instead of its answer", None),
    _breaks_off(
        "resets the connection in its status line", lambda reply: reply.raw[:11]
    ),
    _breaks_off("resets the connection in its headers", lambda reply: reply.head),
    spoils("hangs up instead of its answer", lambda _: b""),
    spoils("hangs up in its status line", lambda reply: reply.raw[:11]),
    spoils("hangs up in its headers", lambda reply: reply.head[:-4]),
)
"""There is no answer."""


def _promised(reply: Reply, body: bytes = b"") -> bytes:
    return reply.head + b"Content-Length: %d\r\n\r\n" % (len(reply.body) + 100) + body


CUTS_BODY = (
    _breaks_off("resets the connection before the body", _promised),
    _breaks_off(
        "resets the connection in the body", lambda reply: _promised(reply, reply.body)
    ),
    spoils(
        "hangs up in the body",
        lambda reply: _promised(reply, reply.body[: len(reply.body) // 2]),
        body=True,
    ),
    spoils(
        "hangs up between two chunks",
        lambda reply: (
            reply.head
            + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n"
            % (len(reply.body or b"{}"), reply.body or b"{}")
        ),
        body=True,
    ),
    spoils(
        "has a chunk of no length",
        lambda reply: reply.head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        body=True,
    ),
    spoils(
        "has a chunk of a negative length",
        lambda reply: reply.head + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n",
        body=True,
    ),
)
"""The answer is there, and its body is not."""


def _stalls(name: str, part: Callable[[Reply], bytes] | None) -> Fault:
    def act(exchange: Exchange) -> None:
        if part:
            exchange.send(part(exchange.forward_for_body()))
        exchange.hold()

    return Fault(name, act)


def _creeps(name: str, data: Callable[[], Iterator[bytes]]) -> Fault:
    return Fault(name, lambda exchange: exchange.creep(data()))


def _endless(first: bytes, then: bytes) -> Iterator[bytes]:
    yield first
    while True:
        yield then


HANGS = (
    Fault("accepts the connection, and reads nothing", Exchange.hold, at_once=True),
    _stalls("never answers", None),
    _stalls("stalls in its status line", lambda reply: reply.raw[:11]),
    _stalls("stalls in its headers", lambda reply: reply.head[:-4]),
    _creeps(
        "trickles its headers, without end",
        lambda: _endless(b"HTTP/1.1 200 OK\r\nX-Creeps: ", b"x"),
    ),
    _creeps(
        "trickles header after header, without end",
        lambda: _endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
    ),
    _creeps(
        "trickles 100 Continue, without end",
        lambda: _endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ),
)
"""It takes forever to come to an answer."""

HANGS_IN_BODY = (
    _stalls("stalls after its headers", _promised),
    _stalls("stalls in its body", lambda reply: _promised(reply, reply.body)),
    Fault(
        "trickles its body, without end",
        lambda exchange: exchange.creep(
            _endless(
                exchange.forward_for_body().head + b"Content-Length: 100000\r\n\r\n",
                b" ",
            ),
            0.05,
        ),
    ),
    Fault(
        "trickles chunks, without end",
        lambda exchange: exchange.creep(
            _endless(
                exchange.forward_for_body().head
                + b"Transfer-Encoding: chunked\r\n\r\n",
                b"1\r\n \r\n",
            ),
            0.05,
        ),
    ),
)
"""It takes forever to come to the end of its answer's body."""


def _html(status: int, body: bytes = PAGE) -> Fault:
    return answers(
        status,
        f"answers {status} with a web page",
        ("Content-Type", "text/html; charset=utf-8"),
        body=body,
    )


NO_HTTP = (
    says("answers with a page without headers", PAGE),
    says("answers with noise", bytes(range(256)) * 20),
    says("answers with NUL bytes", bytes(4000)),
    says("answers as an SSH server does", b"SSH-2.0-OpenSSH_9.6\r\n", at_once=True),
    says("answers as a mail server does", b"220 mail.example ESMTP\r\n", at_once=True),
    says("answers with a status that is no number", b"HTTP/1.1 OK fine\r\n\r\n"),
    says(
        "answers with a status of five digits",
        b"HTTP/1.1 20000 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    says(
        "answers with a negative status",
        b"HTTP/1.1 -200 OK\r\nContent-Length: 0\r\n\r\n",
    ),
    says("answers only with blank lines", b"\r\n" * 50),
    says(
        "answers in TLS where HTTP is spoken",
        b"\x15\x03\x01\x00\x02\x02\x28",
        at_once=True,
    ),
)
"""Answers that are not HTTP."""

TOO_MANY_HEADERS = (
    Fault(
        "sends headers without end",
        lambda each: each.creep(
            _endless(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 50), 0
        ),
    ),
    says(
        "sends a header of a megabyte",
        b"HTTP/1.1 200 OK\r\nX-Long: ",
        b"x" * 1_000_000,
        b"\r\n\r\n",
    ),
    says(
        "sends a status line of a megabyte",
        b"HTTP/1.1 200 ",
        b"x" * 1_000_000,
        b"\r\n\r\n",
    ),
    says(
        "sends 20,000 headers", b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 20_000, b"\r\n"
    ),
    Fault(
        "floods with 100 Continue",
        lambda each: each.pour(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 10**6),
    ),
)
"""Headers, and no end of them."""

TWO_LENGTHS = spoils(
    "gives two different lengths",
    lambda reply: (
        reply.head + b"Content-Length: 2\r\nContent-Length: 200\r\n\r\n" + b"{}"
    ),
    body=True,
)
INFORMS = (
    says(
        "answers 101, switching protocols unasked",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n",
    ),
    says("answers 102 and nothing else", b"HTTP/1.1 102 Processing\r\n\r\n"),
    says("answers 199", b"HTTP/1.1 199 Miscellaneous\r\n\r\n"),
)


def _named(name: str, status: int, *headers: tuple[str, str]) -> Fault:
    return answers(status, name, *headers)


def for_now(now: float) -> tuple[Fault, ...]:
    """Answers after which one has to come again. `now` is in seconds since the epoch."""
    return (
        *(
            answers(status)
            for status in (400, 402, 405, 406, 407, 408, 409, 418, 425, 429, 431, 451)
        ),
        *(
            answers(status)
            for status in (500, 501, 502, 503, 504, 505, 507, 511, 599, 999)
        ),
        _html(502),
        _named("answers 429, to come again in a second", 429, ("Retry-After", "1")),
        _named(
            "answers 503, to come again at a date",
            503,
            ("Retry-After", formatdate(now + 2, usegmt=True)),
        ),
        _named(
            "answers 503, to come again at a date that is over",
            503,
            ("Retry-After", formatdate(0, usegmt=True)),
        ),
        _named(
            "answers 429, to come again some time", 429, ("Retry-After", "soon, \u00e9")
        ),
        _named(
            "answers 503, to come again minus 5 seconds from now",
            503,
            ("Retry-After", "-5"),
        ),
    )


FOR_AN_HOUR = (
    _named("answers 429, to come again in 30 years", 429, ("Retry-After", "999999999")),
    _named(
        "answers 503, to come again in more seconds than there are",
        503,
        ("Retry-After", "9" * 5000),
    ),
    _named(
        "answers 503, to come again in the year 9999",
        503,
        ("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ),
)
"""The agent waits for an hour at most."""

FOR_GOOD = (404, 410, 413, 422)


def redirects(elsewhere: str, itself: str) -> tuple[Fault, ...]:
    """Redirects to that origin, to the server itself, and to where nobody should go."""
    return (
        *(
            _named(
                f"redirects to another server ({status})",
                status,
                ("Location", f"{elsewhere}/v1/taken"),
            )
            for status in (301, 302, 303, 307, 308)
        ),
        _named(
            "redirects to itself, in a loop", 302, ("Location", f"{itself}/v1/loop")
        ),
        _named("redirects to a file", 302, ("Location", "file:///etc/passwd")),
        _named("redirects to FTP", 307, ("Location", "ftp://127.0.0.1/v1/taken")),
        _named("redirects to where there is nothing", 308, ("Location", "http://[::1")),
        _named("redirects without saying where", 301),
        _named("offers a choice", 300, ("Location", f"{elsewhere}/v1/taken")),
        _named("answers 304 unasked", 304),
        _named("asks to use a proxy", 305, ("Location", elsewhere)),
    )


HANDSHAKES = (
    Fault("never begins the TLS handshake", Exchange.hold, at_once=True),
    Fault("resets the connection in the TLS handshake", _in_request, at_once=True),
    Fault(
        "trickles the TLS handshake",
        lambda each: each.creep(_endless(b"\x16\x03\x03\x40\x00", b"\x02")),
        at_once=True,
    ),
    says("refuses the TLS handshake", b"\x15\x03\x03\x00\x02\x02\x28", at_once=True),
    says("speaks HTTP where TLS is asked for", Reply(400).raw, at_once=True),
    says("speaks noise where TLS is asked for", bytes(range(256)) * 20, at_once=True),
)
"""Faults in TLS."""

UNUSUAL_SUCCESS = (
    spoils("answers 201", lambda reply: Reply(201, body=reply.body).raw, keep=True),
    spoils("answers 202", lambda reply: Reply(202, body=reply.body).raw, keep=True),
    spoils("answers 204", lambda _: Reply(204).raw, keep=True),
    spoils("answers 205", lambda _: Reply(205).raw, keep=True),
    spoils(
        "closes the connection after its answer, unannounced", lambda reply: reply.raw
    ),
    spoils(
        "answers with HTTP/1.0",
        lambda reply: reply.raw.replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    ),
    spoils("answers without a length", lambda reply: reply.head + b"\r\n" + reply.body),
    spoils(
        "says 100 Continue first, three times",
        lambda reply: b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + reply.raw,
    ),
)
"""It has done what it was asked to do, and says so in its own way."""


@cache
def _bomb(wrapped: int) -> bytes:
    """A gigabyte of nothing, compressed; and compressed again, that often."""
    found = gzip.compress(bytes(10_000_000)) * 100
    for _ in range(wrapped):
        found = gzip.compress(found)
    return found


def _encoded(name: str, encoding: str, body: Callable[[], bytes]) -> Fault:
    return Fault(
        name,
        lambda exchange: exchange.send(
            Reply(
                200,
                "",
                (*exchange.forward_for_body().headers, ("Content-Encoding", encoding)),
                body(),
            ).raw
        ),
    )


COMPRESSED = (
    _encoded("answers with a gzip bomb of a gigabyte", "gzip", lambda: _bomb(0)),
    _encoded("answers with a gzip bomb in another one", "gzip, gzip", lambda: _bomb(1)),
    _encoded(
        "answers with a deflate bomb",
        "deflate",
        lambda: zlib.compress(bytes(100_000_000)),
    ),
    _encoded(
        "answers compressed, though nobody asked for that",
        "gzip",
        lambda: gzip.compress(b"{}"),
    ),
    _encoded("says that it is compressed, and is not", "gzip", lambda: b"{}"),
    _encoded(
        "answers in an encoding that nobody knows", "x-nobody-knows", lambda: b"{}"
    ),
    _encoded(
        "is compressed a hundred times, as it says",
        ", ".join(["gzip"] * 100),
        lambda: b"{}",
    ),
)

MEGABYTE = b" " * 1_000_000


def _pours(name: str, framing: bytes, data: bytes) -> Fault:
    def act(exchange: Exchange) -> None:
        exchange.send(exchange.forward_for_body().head + framing)
        exchange.pour(data, 4000)

    return Fault(name, act)


HUGE = (
    _pours("answers with 4 GB", b"Content-Length: 4000000000\r\n\r\n", MEGABYTE),
    _pours("answers with 4 GB, and does not say so", b"\r\n", MEGABYTE),
    _pours(
        "answers with 4 GB in chunks",
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"%x\r\n%b\r\n" % (len(MEGABYTE), MEGABYTE),
    ),
    spoils(
        "claims to answer with more than there is",
        lambda reply: reply.head + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n{}",
        body=True,
    ),
)

NO_DOCUMENT = (
    _html(200),
    _html(200, PAGE * 1000),
    _html(203),
    _html(200, b"<!-- for people -->\n" + PAGE),
    answers(200, "answers with a web page of no type", body=PAGE),
    answers(200, "answers with nothing", body=b""),
    answers(200, "answers with NUL bytes only", body=bytes(1000)),
    answers(200, "answers with half of JSON", body=b'{"deployments": [{"id": "x"'),
    answers(
        200,
        "answers with two documents",
        body=b'{"deployments": []}{"deployments": []}',
    ),
    answers(
        200,
        "answers with a document type",
        body=b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    ),
    answers(
        200,
        "answers in another encoding",
        ("Content-Type", "application/json; charset=utf-16"),
        body='{"deployments": []}'.encode("utf-16"),
    ),
    answers(
        200,
        "answers with bytes that are no text",
        body=b'{"deployments": [], "x": "\xff\xfe\x80"}\xc3',
    ),
    answers(200, "answers with a million brackets", body=b"[" * 1_000_000),
    answers(
        200,
        "answers with millions of empty lists",
        body=b"[" + b"[]," * 5_000_000 + b"[]]",
    ),
    answers(200, "answers with a number", body=b"42"),
    answers(200, "answers null", body=b"null"),
    answers(
        200,
        "answers with an error as JSON",
        body=json.dumps({"error": {"code": 500, "title": "x"}}).encode(),
    ),
)
"""Answers that are not metadata, and no usual error either."""

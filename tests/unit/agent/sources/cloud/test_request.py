from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import pytest

from heat_config_agent import web
from heat_config_agent.model.errors import AccessError, SourceError
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud.request import Request
from support.loopback import Answer, SignalServer

METADATA = {
    "deployments": [{"id": "1"}],
    "os-collect-config": {"request": {"metadata_url": "x"}},
}
BODY = json.dumps(METADATA).encode()
LONG_AGO = "Sat, 21 Nov 2020 12:46:39 GMT"
SECRET = "c2lnbmVk"


@pytest.fixture
def swift() -> Iterator[SignalServer]:
    """A server that has metadata."""
    server = SignalServer()
    server.start()
    server.always = Answer(body=BODY)
    yield server
    server.stop()


def source(swift: SignalServer, seconds: float = 10.0) -> Request:
    """A source that asks there."""
    return Request({"metadata_url": swift.url("object")}, Reach(seconds=seconds))


def trouble(asked: Request) -> str:
    """Why it cannot be had; nothing of the URL but its host may be in that."""
    with pytest.raises(SourceError) as raised:
        asked.collect()
    assert SECRET not in str(raised.value)
    assert "/v1/" not in str(raised.value)
    return str(raised.value)


def conditions(swift: SignalServer) -> list[dict[str, str]]:
    """The conditions of each request."""
    return [
        {name: value for name, value in each.headers.items() if name.startswith("If-")}
        for each in swift.signals
    ]


def test_content_at_the_url_is_the_document(swift: SignalServer) -> None:
    """The content at the URL is the document, and the signed URL is requested exactly as it is."""
    found = source(swift).collect()
    assert (found.source, found.content) == ("request", METADATA)
    assert [(each.verb, each.path, each.body) for each in swift.signals] == [
        ("GET", swift.url("object").removeprefix(swift.origin), b"")
    ]


def test_unchanged_metadata_costs_a_single_request(swift: SignalServer) -> None:
    """Over the same connection, and the very document from before is the answer."""
    swift.answers.append(
        Answer(
            body=BODY, headers={"ETag": "5c269a89ae05a42e", "Last-Modified": LONG_AGO}
        )
    )
    swift.always = Answer(304)
    asked = source(swift)
    first = asked.collect()
    assert [asked.collect() for _ in range(3)] == [first] * 3
    assert all(asked.collect() is first for _ in range(2))
    assert (len(swift.signals), swift.connections) == (6, 1)


@pytest.mark.parametrize(
    "tag", ["5c269a89ae05a42e95bee6a2346c3f31", '"5c269a89"', 'W/"5c269a89"']
)
def test_a_tag_is_given_back_as_it_came(swift: SignalServer, tag: str) -> None:
    """Swift's has no quotes. The date is not sent beside it: Swift would answer 304 if either had not changed."""
    swift.always = Answer(body=BODY, headers={"ETag": tag, "Last-Modified": LONG_AGO})
    asked = source(swift)
    asked.collect()
    asked.collect()
    assert conditions(swift) == [{}, {"If-None-Match": tag}]


def test_without_a_tag_the_date_is_the_condition(swift: SignalServer) -> None:
    """As it came."""
    swift.always = Answer(body=BODY, headers={"Last-Modified": LONG_AGO})
    asked = source(swift)
    asked.collect()
    asked.collect()
    assert conditions(swift) == [{}, {"If-Modified-Since": LONG_AGO}]


def test_current_second_is_not_used_for_if_modified_since(swift: SignalServer) -> None:
    """A date in the present second is not used, because a later change has the same date."""
    swift.always = Answer(body=BODY, headers={"Last-Modified": formatdate(usegmt=True)})
    asked = source(swift)
    asked.collect()
    asked.collect()
    assert conditions(swift) == [{}, {}]


@pytest.mark.parametrize(
    "headers",
    [
        {"Last-Modified": "yesterday"},
        {"Last-Modified": ""},
        {"Last-Modified": "Sat, 99 Nov 99999 12:46:39 GMT"},
        {"ETag": "two words"},
        {"ETag": ""},
        {"ETag": '"\xff"'},
        {"ETag": "x" * 5000},
    ],
)
def test_invalid_date_header_is_not_used_as_a_condition(
    swift: SignalServer, headers: dict[str, str]
) -> None:
    """An invalid header is not used as a condition, and has no other effect."""
    swift.always = Answer(body=BODY, headers=headers)
    asked = source(swift)
    first = asked.collect()
    assert asked.collect() is first
    assert conditions(swift) == [{}, {}]


def test_a_server_may_ignore_conditions(swift: SignalServer) -> None:
    """The same bytes are the same document; a new tag is the next condition."""
    swift.answers.extend(
        [
            Answer(body=BODY, headers={"ETag": "one"}),
            Answer(body=BODY, headers={"ETag": "two"}),
        ]
    )
    asked = source(swift)
    first = asked.collect()
    assert asked.collect() is first
    assert asked.collect() is first
    assert conditions(swift) == [{}, {"If-None-Match": "one"}, {"If-None-Match": "two"}]


def test_other_bytes_are_another_document(swift: SignalServer) -> None:
    """Changed bytes are another document, also where Python compares the values as equal."""
    swift.answers.extend([Answer(body=b'{"a": 1}'), Answer(body=b'{"a": true}')])
    asked = source(swift)
    first = asked.collect()
    second = asked.collect()
    assert second is not first
    assert json.dumps(second.content) == '{"a": true}'


def test_unreadable_document_does_not_move_the_condition(swift: SignalServer) -> None:
    """The next question is still for what is newer than the last good document, which stays what it was."""
    swift.answers.extend(
        [
            Answer(body=BODY, headers={"ETag": "one"}),
            Answer(body=b"[]", headers={"ETag": "two"}),
            Answer(304),
        ]
    )
    asked = source(swift)
    first = asked.collect()
    assert "expected an object, not a list" in trouble(asked)
    assert asked.collect() is first
    assert conditions(swift) == [{}, {"If-None-Match": "one"}, {"If-None-Match": "one"}]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"[]", "expected an object, not a list"),
        (b"null", "expected an object, not null"),
        (b'"text"', "expected an object, not text"),
        (b"17", "expected an object, not the number 17"),
        (BODY[:-20], "it is not JSON: line 1, column"),
        (b"<html>Bad gateway</html>", "it is a web page"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number of too many digits"),
    ],
)
def test_invalid_answer_is_reported(
    swift: SignalServer, body: bytes, says: str
) -> None:
    """With its place where it has one."""
    swift.always = Answer(body=body)
    said = trouble(source(swift))
    assert said.startswith(
        f"cannot read the metadata from the signed URL at {swift.origin.removeprefix('http://')}: "
    )
    assert says in said


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (401, AccessError, "HTTP 401 Unauthorized (the URL has expired"),
        (403, AccessError, "HTTP 403 Forbidden (the URL has expired"),
        (404, SourceError, "HTTP 404 Not Found (does the stack still exist?)"),
        (410, SourceError, "HTTP 410 Gone (does the stack still exist?)"),
        (204, SourceError, "it answers HTTP 204 No Content"),
        (206, SourceError, "it answers HTTP 206 Partial Content"),
        (300, SourceError, "it answers HTTP 300 Multiple Choices"),
        (304, SourceError, "it answers HTTP 304 Not Modified"),
        (418, SourceError, "it answers HTTP 418"),
        (429, SourceError, "it answers HTTP 429 Too Many Requests"),
        (500, SourceError, "it answers HTTP 500 Internal Server Error"),
        (503, SourceError, "it answers HTTP 503 Service Unavailable"),
        (799, SourceError, "it answers HTTP 799"),
    ],
)
def test_every_other_status_is_reported(
    swift: SignalServer, status: int, kind: type[SourceError], says: str
) -> None:
    """304 too, where nothing was fetched before; and what cannot be fetched because of the keys is of its own kind."""
    swift.always = Answer(
        status,
        body=b"" if status in (204, 206, 304) else b"<html>Temp URL invalid</html>",
    )
    asked = source(swift)
    assert says in trouble(asked)
    with pytest.raises(SourceError) as raised:
        asked.collect()
    assert type(raised.value) is kind


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "says"),
    [
        (
            f"https://elsewhere.example:8443/v1/x?Signature={SECRET}",
            "it redirects to https://elsewhere.example:8443 (",
        ),
        (
            f"https://user:{SECRET}@elsewhere.example/",
            "it redirects to https://elsewhere.example (H",
        ),
        ("/v1/login", "it redirects to another place on it (H"),
        ("http://[::1", "it redirects to another place on it (H"),
        (f"http://{SECRET}\x1b[31m/", "it redirects to another place on it (H"),
        ("", "it redirects to another place on it (H"),
    ],
)
def test_a_redirect_is_not_followed(
    swift: SignalServer, status: int, location: str, says: str
) -> None:
    """A redirect is reported with its target host only."""
    swift.always = Answer(status, headers={"Location": location})
    said = trouble(source(swift))
    assert says in said
    assert "is metadata_url of [request] right?" in said
    assert len(swift.signals) == 1


def test_a_redirect_has_a_body_as_others_have(
    swift: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more of it is read."""
    monkeypatch.setattr(web, "LARGEST", 1024 * 1024)
    swift.always = Answer(
        302,
        headers={"Location": "http://elsewhere.example/"},
        body=b" " * 3 * 1024 * 1024,
    )
    assert "its answer is longer than 1 MiB" in trouble(source(swift))


def test_an_answer_that_nobody_asked_to_be_compressed_is_read(
    swift: SignalServer,
) -> None:
    """Some servers do that."""
    swift.always = Answer(
        body=gzip.compress(BODY), headers={"Content-Encoding": "gzip"}
    )
    assert source(swift).collect().content == METADATA


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=BODY, headers={"Content-Encoding": "gzip"}),
        Answer(
            body=BODY[:-20],
            headers={"Content-Length": str(len(BODY)), "Connection": "close"},
        ),
        Answer(body=b"zzz\r\n", headers={"Transfer-Encoding": "chunked"}),
        Answer(hang_up=True),
        Answer(reset=True),
    ],
    ids=["not compressed", "cut", "not chunked", "hangs up", "resets"],
)
def test_incomplete_answer_is_not_used(swift: SignalServer, answer: Answer) -> None:
    """The next one is, over a new connection."""
    swift.answers.append(answer)
    asked = source(swift)
    assert trouble(asked).startswith(
        "cannot get the metadata from the signed URL at 127.0.0.1:"
    )
    assert asked.collect().content == METADATA


def test_an_answer_without_end_is_not_read_to_its_end(
    swift: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endless answer is neither read to its end nor stored."""
    monkeypatch.setattr(web, "LARGEST", 1024 * 1024)
    swift.always = Answer(body=b" " * 3 * 1024 * 1024)
    assert "its answer is longer than 1 MiB" in trouble(source(swift))


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=BODY, trickle=0.05),
        Answer(body=BODY, creep=0.05),
        Answer(body=BODY, delay=5),
    ],
    ids=["body", "headers", "nothing"],
)
def test_nobody_is_waited_for_for_ever(swift: SignalServer, answer: Answer) -> None:
    """A slow server is given up at the deadline, however often it sends a little."""
    swift.always = answer
    assert trouble(source(swift, seconds=0.3)).startswith(
        "cannot get the metadata from the signed URL at 127.0.0.1:"
    )


def test_unreachable_server_is_reported(swift: SignalServer) -> None:
    """A server that does not answer is reported, and asked again."""
    swift.stop()
    asked = source(swift)
    assert trouble(asked).endswith(": Connection refused")
    swift.start()
    assert asked.collect().content == METADATA


def test_server_without_tls_is_reported(swift: SignalServer) -> None:
    """As is one that nobody knows."""
    url = swift.url().replace("http:", "https:")
    assert "127.0.0.1" in trouble(Request({"metadata_url": url}, Reach(seconds=5)))


def test_host_without_an_address_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the resolver's words."""

    def nowhere(*_host: Any, **_options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    asked = Request(
        {"metadata_url": f"http://swift.example:8080/v1/x?temp_url_sig={SECRET}"},
        Reach(),
    )
    said = trouble(asked)
    assert (
        said
        == "cannot get the metadata from the signed URL at swift.example:8080: Name or service not known"
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "swift",
        f"ftp://swift/v1/{SECRET}",
        f"http:///v1/{SECRET}",
        "http://[::1",
        "http://a:b/",
        "http://a:0/",
    ],
)
def test_unusable_url_is_reported_without_it(url: str) -> None:
    """Without it: it may be a secret."""
    assert "cannot be understood (correct metadata_url of [request])" in trouble(
        Request({"metadata_url": url}, Reach())
    )


def test_password_in_the_url_is_not_shown(swift: SignalServer) -> None:
    """Some clouds sign so."""
    swift.always = Answer(500)
    asked = Request(
        {"metadata_url": swift.url().replace("//", f"//user:{SECRET}@")}, Reach()
    )
    assert "at 127.0.0.1:" in trouble(asked)

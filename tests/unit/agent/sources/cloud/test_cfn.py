from __future__ import annotations

import calendar
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit
from xml.sax.saxutils import escape

import pytest

from heat_config_agent.model.errors import AccessError, SourceError
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud.cfn import Cfn, signed
from support import certificates, pace
from support.http import Handler
from support.loopback import Answer, SignalServer

METADATA = {
    "deployments": [
        {
            "id": "1",
            "config": '#!/bin/sh\necho "<&>" > $heat_outputs_path.greeting\n',
            "größe": None,
        }
    ],
    "os-collect-config": {"cfn": {"path": "server.Metadata"}, "polling_interval": 5},
}
KEY = "65973babd65c415fa7ff91dc49cd77d9"
SECRET = "8^0LiDWerl987fKe#jVxCTT1CU1pMmQg"
WRONG = "<ErrorResponse><Error><Type>Sender</Type><Code>{}</Code><Message>{}</Message></Error></ErrorResponse>"


def described(text: str, more: str = "") -> bytes:
    """Return Heat's answer with the given metadata."""
    detail = f"<LastUpdatedTimestamp>{more}</LastUpdatedTimestamp><Metadata>{escape(text)}</Metadata>"
    return (
        "<DescribeStackResourceResponse><DescribeStackResourceResult><StackResourceDetail>"
        f"{detail}<ResourceType>OS::Nova::Server</ResourceType></StackResourceDetail></DescribeStackResourceResult>"
        "</DescribeStackResourceResponse>"
    ).encode()


def wrong(code: str, message: str) -> bytes:
    """Return an error of Heat."""
    return WRONG.format(code, message).encode()


@pytest.fixture
def heat() -> Iterator[SignalServer]:
    """A server that has metadata."""
    server = SignalServer()
    server.start()
    server.always = Answer(body=described(json.dumps(METADATA)))
    yield server
    server.stop()


def source(heat: SignalServer, reach: Reach | None = None, **values: Any) -> Cfn:
    """A source that asks there."""
    usual = {
        "metadata_url": f"{heat.origin}/v1/",
        "metadata_hint": "/nowhere/cfn-metadata-server",
        "access_key_id": KEY,
        "secret_access_key": SECRET,
        "stack_name": "web",
        "path": ("server.Metadata",),
        "ca_certificate": "",
    }
    return Cfn({**usual, **values}, reach or Reach(seconds=10))


def trouble(asked: Cfn) -> SourceError:
    """Why it cannot be had; nothing secret may be in that."""
    with pytest.raises(SourceError) as raised:
        asked.collect()
    said = str(raised.value)
    assert not [
        each
        for each in (KEY, SECRET, "Signature=", "/v1/?", "Timestamp")
        if each in said
    ]
    return raised.value


def asked_for(heat: SignalServer) -> list[str]:
    """The resource of each request."""
    return [
        parse_qs(urlsplit(each.path).query)["LogicalResourceId"][0]
        for each in heat.signals
    ]


def test_the_metadata_of_a_resource_is_the_document(heat: SignalServer) -> None:
    """As Heat's JSON in Heat's XML says."""
    found = source(heat).collect()
    assert (found.source, found.content) == ("cfn", METADATA)


def test_the_signature_is_the_one_that_keystone_computes() -> None:
    """The signature is that of keystoneclient 6.0, by whose code Keystone checks it."""
    query = signed(
        {
            "Action": "DescribeStackResource",
            "AWSAccessKeyId": "0123456789abcdef0123456789abcdef",
            "LogicalResourceId": "my server",
            "StackName": "arn:openstack:heat::p1:stacks/web~1/8cd0-f294*",
            "Timestamp": "2026-11-21T12:00:00Z",
            "Version": "2010-05-15",
        },
        SECRET,
        "heat.example:8000",
        "/v1/",
    )
    assert (
        dict(parse_qsl(query))["Signature"]
        == "zTB1Us2Xq+0BVmVY3rLutL3eQ8ftYxuk7zRiNNA10U8="
    )


def test_a_request_is_signed_as_it_is_sent(heat: SignalServer) -> None:
    """With the time, in UTC."""
    source(heat, stack_name="arn:openstack:heat::p1:stacks/web/8cd0").collect()
    (sent,) = heat.signals
    path, _, query = sent.path.partition("?")
    words = dict(parse_qsl(query, strict_parsing=True))
    mac = words.pop("Signature")
    stamp = time.strptime(words["Timestamp"], "%Y-%m-%dT%H:%M:%SZ")
    assert abs(calendar.timegm(stamp) - time.time()) < 60
    assert (sent.verb, path, words["StackName"]) == (
        "GET",
        "/v1/",
        "arn:openstack:heat::p1:stacks/web/8cd0",
    )
    assert (words["SignatureVersion"], words["SignatureMethod"]) == ("2", "HmacSHA256")
    again = signed(words, SECRET, sent.headers["Host"], path)
    assert (dict(parse_qsl(again))["Signature"], again) == (mac, query)
    assert SECRET not in sent.path


def test_unchanged_metadata_costs_a_single_request(heat: SignalServer) -> None:
    """Over the same connection; and the very document from before is the answer, whatever else Heat says."""
    asked = source(heat)
    first = asked.collect()
    heat.always = Answer(
        body=described(json.dumps(METADATA), more="2026-11-21T12:51:23Z")
    )
    assert all(asked.collect() is first for _ in range(4))
    assert (len(heat.signals), heat.connections) == (5, 1)


def test_other_metadata_is_another_document(heat: SignalServer) -> None:
    """Changed metadata is another document, also where Python compares the values as equal."""
    heat.answers.extend(
        [Answer(body=described('{"a": 1}')), Answer(body=described('{"a": true}'))]
    )
    asked = source(heat)
    assert [json.dumps(asked.collect().content) for _ in range(2)] == [
        '{"a": 1}',
        '{"a": true}',
    ]


def test_several_resources_are_put_together_in_order(heat: SignalServer) -> None:
    """Each key comes from the last resource that has it, and no resource is fetched twice."""
    heat.answers.extend(
        [
            Answer(body=described(f'{{"a": "{each}", "{each}": {{"b": 1}}}}'))
            for each in ("x", "y.z")
        ]
    )
    asked = source(heat, path=("x.Metadata", "y.z.Metadata", "x.Metadata.x"))
    assert asked.collect().content == {
        "a": "y.z",
        "x": {"b": 1},
        "y.z": {"b": 1},
        "b": 1,
    }
    assert asked_for(heat) == ["x", "y.z"]


@pytest.mark.parametrize("name", ["Metadata", "web.server", "server-1"])
def test_a_resource_may_have_any_name(heat: SignalServer, name: str) -> None:
    """A resource may have any name, also one with dots."""
    source(heat, path=(f"{name}.Metadata.os-collect-config.cfn",)).collect()
    assert asked_for(heat) == [name]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            ("server",),
            "the path 'server' is not valid (write RESOURCE.Metadata in path of [cfn])",
        ),
        (("Metadata",), "the path 'Metadata' is not valid"),
        ((".Metadata",), "the path '.Metadata' is not valid"),
        (("server.Description",), "the path 'server.Description' is not valid"),
        (("server.Metadata.",), "the path 'server.Metadata.' is not valid"),
        ((), "no resource is set for its metadata (set path of [cfn])"),
    ],
)
def test_path_to_nothing_is_reported(
    heat: SignalServer, path: tuple[str, ...], says: str
) -> None:
    """Before anything is asked."""
    assert says in str(trouble(source(heat, path=path)))
    assert not heat.signals


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "server.Metadata.absent",
            "cannot read the metadata at 'server.Metadata.absent': there is no 'absent'",
        ),
        ("server.Metadata.os-collect-config.x", "there is no 'x'"),
        ("server.Metadata.deployments", "'deployments' is a list, not an object"),
        ("server.Metadata.deployments.id", "'deployments' is a list, not an object"),
        (
            "server.Metadata.os-collect-config.polling_interval",
            "'polling_interval' is the number 5, not an object",
        ),
    ],
)
def test_missing_keys_are_reported_with_the_path(
    heat: SignalServer, path: str, says: str
) -> None:
    """With the path."""
    assert says in str(trouble(source(heat, path=(path,))))


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/heat-cfn", "/heat-cfn/v1/"])
def test_heat_is_asked_where_it_answers(heat: SignalServer, path: str) -> None:
    """Heat is asked at the path of its version, with a trailing slash."""
    source(heat, metadata_url=heat.origin + path).collect()
    assert urlsplit(heat.signals[0].path).path == (
        "/heat-cfn/v1/" if "cfn" in path else "/v1/"
    )


@pytest.mark.parametrize("text", ["{}/v1/\n", "{}\n", "{}/v1"])
def test_without_a_url_a_file_has_it(
    heat: SignalServer, tmp_path: Path, text: str
) -> None:
    """The URL is read from a file each time."""
    hint = tmp_path / "cfn-metadata-server"
    asked = source(heat, metadata_url="", metadata_hint=str(hint))
    assert (
        f"cannot read {hint}: No such file or directory (set metadata_url of [cfn])"
        in str(trouble(asked))
    )
    hint.write_bytes(b"\xff")
    assert f"cannot read {hint}: it is not text" in str(trouble(asked))
    hint.write_text("")
    assert f"correct metadata_url of [cfn], or the content of {hint}" in str(
        trouble(asked)
    )
    hint.write_text(text.format(heat.origin))
    assert asked.collect().content == METADATA


@pytest.mark.parametrize(
    ("url", "at"),
    [
        ("http://HEAT.example:80/v1/", "heat.example"),
        ("http://heat.example:8000/v1/", "heat.example:8000"),
        ("http://user:word@heat.example/v1/", "heat.example"),
        ("http://heat.example:443/v1/", "heat.example:443"),
    ],
)
def test_the_host_is_signed_as_it_is_sent(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch, url: str, at: str
) -> None:
    """Without a port that goes without saying."""
    monkeypatch.setenv("http_proxy", heat.origin)
    source(heat, metadata_url=url).collect()
    (sent,) = heat.signals
    assert sent.headers["Host"] == at
    words = dict(parse_qsl(urlsplit(sent.path).query))
    mac = words.pop("Signature")
    assert dict(parse_qsl(signed(words, SECRET, at, "/v1/")))["Signature"] == mac


@pytest.mark.parametrize(
    "body",
    [
        described(json.dumps(METADATA)).replace(
            b"<Describe", b"<?xml version='1.0' encoding='utf-8'?>\n<Describe", 1
        ),
        described(json.dumps(METADATA)).replace(
            b"Response>", b"Response xmlns='http://h.example/doc/2010-05-15/'>", 1
        ),
        described(json.dumps(METADATA))
        .replace(b"<", b"<h:")
        .replace(b"<h:/", b"</h:")
        .replace(b"Response>", b"Response xmlns:h='x'>", 1),
        described(json.dumps(METADATA, ensure_ascii=False)),
        described("x").replace(
            b">x<", b"><![CDATA[" + json.dumps(METADATA).encode() + b"]]><"
        ),
    ],
    ids=["declared", "namespace", "prefixes", "UTF-8", "CDATA"],
)
def test_xml_can_be_written_in_many_ways(heat: SignalServer, body: bytes) -> None:
    """All forms of the XML have the same content."""
    heat.always = Answer(body=body)
    assert source(heat).collect().content == METADATA


LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a0 "ha">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    + "]>"
).encode()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the answer is not XML: no element found"),
        (b"Bad gateway", "the answer is not XML: syntax error: line 1, column 0"),
        (b'{"DescribeStackResourceResponse": {}}', "the answer is not XML"),
        (b"<html><body><p>Bad gateway<br></body></html>", "it is a web page"),
        (b"<html><body>Welcome</body></html>", "it is a web page"),
        (b"<!DOCTYPE html><html></html>", "it is a web page"),
        (
            b"<!DOCTYPE other><other/>",
            "the answer declares a document type, as web pages do",
        ),
        (
            LAUGHS + described("&a11;").replace(b"&amp;", b"&"),
            "the answer declares a document type",
        ),
        (
            b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]>' + described("{}"),
            "declares a document type",
        ),
        (
            ("\ufeff<!DOCTYPE x>" + described("{}").decode()).encode("utf-16-le"),
            "declares a document type",
        ),
        (
            described("&f;").replace(b"&amp;", b"&"),
            "the answer is not XML: undefined entity",
        ),
        (b"<?xml version='1.0' encoding='klingon'?>" + described("{}"), "klingon"),
        (
            b"<?xml version='1.0' encoding='utf-7'?>" + described("{}"),
            "encodings are not supported",
        ),
        (
            described("{}").replace(b"Metadata", b"Meta"),
            "the answer contains no metadata of a resource",
        ),
        (b"<a>" * 5000 + b"</a>" * 5000, "the answer is nested too deeply"),
        (b"\xff\xfe\x00", "the answer"),
        (described(json.dumps(METADATA))[:300], "the answer is not XML: "),
        (described(""), "it is empty"),
        (described("{}").replace(b"{}", b""), "it is empty"),
        (
            described("{}").replace(b"<Metadata>{}</Metadata>", b"<Metadata/>"),
            "it is empty",
        ),
        (described("null"), "expected an object, not null"),
        (described("[]"), "expected an object, not a list"),
        (described("17"), "expected an object, not the number 17"),
        (described('{"a": 1'), "it is not JSON: line 1, column 8"),
        (described('{"a": NaN}'), "NaN is not a number"),
        (described("{'a': 1}"), "it is not JSON: line 1, column 2"),
    ],
)
def test_invalid_answer_is_reported(heat: SignalServer, body: bytes, says: str) -> None:
    """An answer that is not metadata is reported, and not used."""
    heat.always = Answer(body=body)
    said = str(trouble(source(heat)))
    place = heat.origin.removeprefix("http://")
    begins = f"cannot read the metadata from Heat's CloudFormation API at {place} (resource 'server'): "
    assert said.startswith(begins)
    assert says in said


def test_a_bad_answer_changes_nothing(heat: SignalServer) -> None:
    """The next good one is the very document from before it."""
    asked = source(heat)
    first = asked.collect()
    heat.answers.extend(
        [Answer(body=described("[]")), Answer(503), Answer(body=b"<html>")]
    )
    for _ in range(3):
        trouble(asked)
    assert asked.collect() is first


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (
            Answer(
                403,
                body=wrong("AccessDenied", "User is not authorized to perform action"),
            ),
            AccessError,
            "HTTP 403 Forbidden: AccessDenied: User is not authorized to perform action (are access_key_id and secret",
        ),
        (
            Answer(
                403,
                body=wrong(
                    "AccessDenied",
                    "User …:Action DescribeStackResource not allowed for user",
                ),
            ),
            AccessError,
            "(Heat's policy denies this to the users of stacks: see cloudformation:DescribeStackResource in it)",
        ),
        (
            Answer(
                403,
                body=wrong(
                    "AccessDenied", "User …:You are not authorized to use this action."
                ),
            ),
            AccessError,
            "(does the stack have that resource, and are the keys those of its user?)",
        ),
        (
            Answer(
                400,
                body=wrong(
                    "SignatureDoesNotMatch",
                    "The request signature we calculated does not match",
                ),
            ),
            AccessError,
            "SignatureDoesNotMatch: The request signature we calculated does not match (are access_key_id and",
        ),
        (
            Answer(403, body=wrong("InvalidClientTokenId", "No such key")),
            AccessError,
            "No such key (are access_key_id",
        ),
        (
            Answer(401, body=b"<html>Log in</html>"),
            AccessError,
            "HTTP 401 Unauthorized (are access_key_id",
        ),
        (
            Answer(400, body=wrong("RequestExpired", "Request expired")),
            SourceError,
            "it answers HTTP 400 Bad Request: RequestExpired: Request expired (is the clock of this machine right?)",
        ),
        (
            Answer(
                400,
                body=wrong(
                    "InvalidParameterValue", "The Stack (web) could not be found."
                ),
            ),
            SourceError,
            "The Stack (web) could not be found. (does the stack still exist, and does it have that resource?)",
        ),
        (
            Answer(404),
            SourceError,
            "HTTP 404 Not Found (does metadata_url of [cfn] lead to",
        ),
        (
            Answer(300, body=b'{"versions": []}'),
            SourceError,
            "HTTP 300 Multiple Choices (does metadata_url of [cfn]",
        ),
        (
            Answer(500, body=b"Internal"),
            SourceError,
            "(Heat also answers this if it does not know access_key_id, or cannot reach Keystone)",
        ),
        (
            Answer(503, body=b"<html>Busy</html>"),
            SourceError,
            "it answers HTTP 503 Service Unavailable",
        ),
        (Answer(204), SourceError, "it answers HTTP 204 No Content"),
        (Answer(304), SourceError, "it answers HTTP 304 Not Modified"),
        (
            Answer(
                302,
                {"Location": f"https://login.example/?Signature={SECRET}"},
                b"<html>",
            ),
            SourceError,
            "it redirects to https://login.example (HTTP 302 Found) (a signed request is never redirected: ",
        ),
    ],
)
def test_every_other_answer_is_reported(
    heat: SignalServer, answer: Answer, kind: type[SourceError], says: str
) -> None:
    """With what to do about it; what cannot be had because of the keys is of its own kind."""
    heat.always = answer
    said = trouble(source(heat))
    assert type(said) is kind
    assert says in str(said)


@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize(
    "code", ["AccessDenied", "RequestExpired", "SignatureDoesNotMatch"]
)
def test_wrong_clock_is_reported(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    """Heat answers as if the keys were wrong; the message names the clock as well."""
    monkeypatch.setattr(
        Handler, "date_time_string", lambda *_: "Fri, 21 Nov 2036 12:55:10 GMT"
    )
    heat.always = Answer(status, body=wrong(code, "No"))
    said = trouble(source(heat))
    assert type(said) is SourceError
    assert said.hint.startswith("correct the clock of this machine: it shows ")
    assert said.hint.endswith(" GMT, the server's Fri, 21 Nov 2036 12:55:10 GMT")


@pytest.mark.parametrize("date", ["", "yesterday", "Fri, 99 Nov 99999 12:55:10 GMT"])
def test_a_server_that_does_not_know_the_time_says_nothing_about_ours(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch, date: str
) -> None:
    """A refusal without a date is not reported as a difference of the clocks."""
    monkeypatch.setattr(Handler, "date_time_string", lambda *_: date)
    heat.always = Answer(403, body=wrong("AccessDenied", "No"))
    assert "are access_key_id" in trouble(source(heat)).hint


@pytest.mark.parametrize(
    "message",
    [
        f"No such key: {KEY}",
        "Cannot GET /v1/?Action=x&amp;Signature=abc",
        "\x1b[31mred" * 1000,
        "long " * 10_000,
    ],
)
def test_message_of_heat_is_cleaned_before_it_is_repeated(
    heat: SignalServer, message: str
) -> None:
    """Heat's message is shortened and cleaned, because it may contain our own request."""
    heat.always = Answer(403, body=wrong("AccessDenied", message))
    said = str(trouble(source(heat)))
    assert said.isprintable()
    assert len(said) < 500


@pytest.mark.parametrize(
    "answer",
    [
        Answer(
            body=described("{}")[:-20],
            headers={"Content-Length": "5000", "Connection": "close"},
        ),
        Answer(body=described("{}"), headers={"Content-Encoding": "gzip"}),
        Answer(hang_up=True),
        Answer(reset=True),
        Answer(body=described("{}"), trickle=0.05),
        Answer(body=described("{}"), creep=0.05),
        Answer(body=described("{}"), delay=5),
    ],
    ids=[
        "cut",
        "not compressed",
        "hangs up",
        "resets",
        "body trickles",
        "headers trickle",
        "silent",
    ],
)
def test_half_an_answer_is_none(heat: SignalServer, answer: Answer) -> None:
    """A truncated answer counts as none, however long it took."""
    heat.always = answer
    said = str(trouble(source(heat, Reach(seconds=0.3))))
    assert said.startswith(
        "cannot get the metadata from Heat's CloudFormation API at 127.0.0.1:"
    )


def test_all_resources_together_are_waited_for_no_longer(heat: SignalServer) -> None:
    """All resources together have the deadline of one request."""
    heat.always = Answer(body=described("{}"), delay=0.5)
    begun = time.monotonic()
    trouble(
        source(
            heat,
            Reach(seconds=0.5),
            path=tuple(f"server{i}.Metadata" for i in range(50)),
        )
    )
    assert time.monotonic() - begun < pace.seconds(15)


def test_unreachable_server_is_reported(heat: SignalServer) -> None:
    """A server that does not answer is reported, and asked again."""
    heat.refuse()
    asked = source(heat)
    assert str(trouble(asked)).endswith(": Connection refused")
    heat.start()
    assert asked.collect().content == METADATA


def test_the_certificates_of_the_section_go_before_all_others(tmp_path: Path) -> None:
    """As metadata brings them."""
    path = tmp_path / "server.pem"
    path.write_text(certificates.CERTIFICATE + certificates.KEY)
    server = SignalServer(path)
    server.start()
    server.always = Answer(body=described("{}"))
    good = str(path)
    try:
        assert source(server, Reach(ca_file=good)).collect().content == {}
        assert (
            source(server, Reach(ca_file="/nowhere"), ca_certificate=good)
            .collect()
            .content
            == {}
        )
        assert "certificate" in str(trouble(source(server)))
        assert "/nowhere" in str(
            trouble(source(server, Reach(ca_file=good), ca_certificate="/nowhere"))
        )
    finally:
        server.stop()

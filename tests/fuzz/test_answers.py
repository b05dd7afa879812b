"""Any answer of a server and any data of an instance is metadata, or one sentence says what came instead."""

# ruff: noqa: SLF001  # an answer is given to what reads it: a server would be too slow for thousands

from __future__ import annotations

import base64
import gzip
import json
import time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import strategies as st

from fuzz.examples import (
    KNOWN,
    SHARE,
    TESTS,
    changed,
    damaged,
    objects,
    odd,
    tries,
    values,
    yamlish,
)
from heat_config_agent import web
from heat_config_agent.model.deployment import WAIT_LIMIT, Target
from heat_config_agent.model.errors import AgentError, SourceError, UsageError
from heat_config_agent.signals import outbox, servers
from heat_config_agent.signals.delivery import Fate
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud import cfn, heat, request, user_data, zaqar
from heat_config_agent.sources.cloud.zaqar import Zaqar
from heat_config_hooks.values import replace

pytestmark = [pytest.mark.takes(20), pytest.mark.torture(share=SHARE)]

LONGEST = 2000

answers = pytest.mark.fault(
    5,
    "any bytes as the answer of Heat, its CloudFormation API, a signed URL, or Zaqar; any messages in a queue",
    "metadata, or one sentence that says who answered what",
)
headers = pytest.mark.fault(
    3,
    "any Retry-After, Date, ETag or Last-Modified of a server, any status",
    "a wait of an hour at most; nonsense is ignored",
)

known = st.sampled_from(KNOWN) | changed() | values
as_json = known.map(lambda each: json.dumps(each).encode())
bodies = (
    as_json
    | damaged(as_json)
    | st.binary()
    | st.sampled_from([b"[" * 100_000, b"<html></html>", b"\x1f\x8b", b""])
)


def understood(read: Any, *arguments: object) -> Any:
    """Return what was read; None where it was refused, which is one sentence."""
    try:
        found = read(*arguments)
    except AgentError as error:
        said = str(error)
        assert "\n" not in said
        assert 0 < len(said) < LONGEST
        return None
    json.dumps(found, allow_nan=False)
    return found


@answers
@tries(100, bodies | known.map(lambda each: json.dumps({"metadata": each}).encode()))
def test_any_answer_of_heat_is_metadata_or_a_mistake(body: bytes) -> None:
    """Any answer of Heat, or at a signed URL, is metadata or a mistake."""
    assert isinstance(understood(heat._metadata, body), dict | None)
    assert isinstance(
        understood(lambda: request.metadata(request._text(body, "x"), "x")), dict | None
    )


XML = (
    '<?xml version="1.0"?>{}<DescribeStackResourceResponse><DescribeStackResourceResult><StackResourceDetail>'
    "<Metadata>{}</Metadata>{}</StackResourceDetail></DescribeStackResourceResult></DescribeStackResourceResponse>"
)
BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n} "{"&a" * 10};">' for n in range(20))
    + '<!ENTITY f SYSTEM "file:///etc/passwd">]>'
)
xml = st.builds(
    XML.format,
    st.sampled_from(["", BOMB, "<!DOCTYPE html>"]),
    yamlish | st.sampled_from(["&f;", "{}"]),
    st.text(),
).map(lambda each: each.encode("utf-8", "replace"))
encodings = st.sampled_from([b"utf-16", b"x", b"utf-7", b"\xff", b""]).map(
    lambda each: b'<?xml version="1.0" encoding="' + each + b'"?><a/>'
)


@answers
@tries(
    100,
    xml
    | damaged(xml)
    | encodings
    | st.binary()
    | st.sampled_from([b"<a>" * 100_000, b"<a" + b" b=''" * 10]),
)
def test_any_xml_has_texts_or_is_refused(body: bytes) -> None:
    """Nothing that it declares is expanded or fetched."""
    try:
        found = cfn._texts(body, cfn._DETAIL, ("Metadata",))
    except ValueError as error:
        said = str(error)
        assert len(said) < LONGEST
        return
    assert set(found) <= {"Metadata"}
    assert "root:" not in found.get("Metadata", "")


class Queue:
    """Zaqar, which answers what it is told."""

    def __init__(self, body: bytes, status: int) -> None:
        self.answers = [web.Answer(status, "", {}, body)]

    def ask(self, *_: object, **__: object) -> web.Answer:
        """Answer, and then that there is nothing more."""
        return self.answers.pop() if self.answers else web.Answer(204, "", {}, b"")


CREDENTIALS = dict.fromkeys(
    ("auth_url", "user_id", "password", "project_id", "queue_id"), "http://x"
)
message = objects(
    id=st.text(min_size=1, max_size=3),
    age=st.floats() | st.integers(),
    href=st.text(max_size=5)
    | st.sampled_from(["/v2/x?claim_id=1", "//[", "?claim_id"]),
    body=changed(),
    ttl=st.integers(),
)
queued = st.lists(message | odd, max_size=4).map(
    lambda each: json.dumps({"messages": each}).encode()
)


@answers
@tries(
    100,
    queued | damaged(queued) | bodies,
    st.sampled_from([200, 201, 201, 204, 302, 401, 503]),
)
def test_any_messages_in_a_queue_are_metadata_or_a_mistake(
    body: bytes, status: int
) -> None:
    """The newest that can be understood counts, and is deleted once it is safe."""
    source = Zaqar(CREDENTIALS, Reach(ca_file=None))
    source._cloud = Queue(body, status)  # type: ignore[assignment]  # a real one is in the tests of its source
    try:
        found = source.collect()
    except SourceError as error:
        said = str(error)
        assert len(said) < LONGEST
        return
    if found is not None:
        assert isinstance(found.content, dict)
        source.taken(found)


@pytest.mark.fault(
    3,
    "a queue with a thousand messages of many deployments",
    "they are read in seconds",
)
def test_a_long_queue_is_read_in_time() -> None:
    """A long queue is read within the deadline."""
    entry = {
        "id": "a",
        "creation_time": "2026",
        "inputs": [{"name": "deploy_signal_id", "value": "http://h/"}],
    }
    body = {"deployments": [{**entry, "id": f"d{each}"} for each in range(10)]}
    messages = [
        zaqar._Message(
            id=str(each), claim="", earliest=0, latest=0, content=body, problem=""
        )
        for each in range(1000)
    ]
    began = time.process_time()
    assert [each.id for each in zaqar._in_order(messages)] == [
        str(each) for each in range(1000)
    ]
    assert time.process_time() - began < 10


# What an instance was given.


def multipart(parts: list[tuple[str, str, bytes]], boundary: str) -> bytes:
    """Return a message of parts: type, name, content."""
    head = f'Content-Type: multipart/mixed; boundary="{boundary}"\nMIME-Version: 1.0\n\n'.encode(
        "utf-8", "replace"
    )
    inner = b"".join(
        f"--{boundary}\nContent-Type: {kind}\nContent-Disposition: attachment; filename={name}\n\n".encode(
            "utf-8", "replace"
        )
        + content
        + b"\n"
        for kind, name, content in parts
    )
    return head + inner + f"--{boundary}--\n".encode("utf-8", "replace")


kinds = st.sampled_from(
    [
        user_data.TYPE,
        "text/plain",
        "multipart/mixed; boundary=x",
        "message/rfc822",
        "x",
        '"',
    ]
)
filenames = st.sampled_from(
    [user_data.NAME, f'"{user_data.NAME}"', "*0=cfn", "=?x?q?y?=", "../x", '"']
)
messages = st.builds(
    multipart,
    st.lists(st.tuples(kinds, filenames, bodies), max_size=4),
    st.sampled_from(["==x==", "", "a\nb", "x"]),
)
ignitions = st.builds(
    lambda path, source: json.dumps(
        {
            "ignition": {},
            "storage": {"files": [{"path": path, "contents": {"source": source}}]},
        }
    ).encode(),
    st.sampled_from([f"/var/lib/{user_data.NAME}", "/x"]),
    bodies.map(lambda each: "data:," + quote(each))
    | bodies.map(lambda each: "data:;base64," + base64.b64encode(each).decode())
    | st.text().map(lambda each: f"data:;base64,{each}"),
)
SAMPLES = [
    path.read_bytes() for path in sorted((TESTS / "samples").glob("user-data-*.txt"))
]
given = st.sampled_from(SAMPLES) | messages | ignitions | as_json


@pytest.mark.fault(
    5,
    "any user data: multipart messages, Ignition configs, JSON, packed, damaged, nested, with odd names and encodings",
    "metadata where there is a part for the agent, nothing where there is none, one sentence where that part is wrong",
)
@tries(
    150,
    given
    | damaged(given)
    | st.binary()
    | given.map(gzip.compress)
    | damaged(given.map(gzip.compress)),
)
def test_any_user_data_is_metadata_or_none_or_a_mistake(data: bytes) -> None:
    """Any user data is metadata, nothing for us, or a mistake; parts for other programs are not mistakes."""
    try:
        found = user_data.content(data, "the user data")
    except UsageError as error:
        said = str(error)
        assert said.startswith(f"cannot read {user_data.NAME} in the user data: ")
        assert len(said) < LONGEST
        return
    json.dumps(found, allow_nan=False)


# Headers, and where results go.

dates = st.sampled_from(
    [
        *(
            "Wed, 21 Oct 2015 07:28:00 GMT",
            "Wed, 21 Oct 9999 07:28:00 GMT",
            "Wed, 31 Feb 2015 07:28:00",
            "Oct",
            "x, 1",
        ),
        *(
            "0",
            "-1",
            "5",
            "1e9",
            "9" * 400,
            "٣",
            "inf",
            "nan",
            "5, 6",
            "5;x",
            "",
            " 7 ",
            "Thu, 01 Jan 0000 00:00:00 -9999",
        ),
        *(
            "Mon, 1 Jan 99999999999999999999 0:0:0 GMT",
            "1 1 1 1",
            "Mon, 99 Jan 2020 99:99:99 +9999999999",
            "-" * 99,
        ),
    ]
)
dated = (
    dates
    | st.text()
    | damaged(dates.map(str.encode)).map(lambda each: each.decode("latin-1"))
)


@headers
@tries(150, dated, st.integers(100, 599))
def test_any_answer_to_a_signal_is_judged(value: str, status: int) -> None:
    """Any answer accepts or refuses the result, or leads to another attempt within an hour."""
    found = servers.judge("a", web.Answer(status, "", {"Retry-After": value}))
    assert (found.fate is Fate.SENT) == (200 <= status < 300)
    assert 0 <= found.wait <= WAIT_LIMIT


@headers
@tries(100, dated, dated, dated)
def test_any_conditions_can_be_asked(tag: str, changed_at: str, now: str) -> None:
    """A header of the server is sent back only if its value is valid in a header."""
    found = request._conditions({"ETag": tag, "Last-Modified": changed_at, "Date": now})
    assert len(found) <= 1
    for value in found.values():
        value.encode("latin-1")
        assert "\n" not in value
        assert "\r" not in value


urls = st.text() | st.sampled_from(
    [
        *(
            "http://",
            "http://[::1",
            "http://h:99999/",
            "http://h:x/",
            "http://\0/",
            "http://h\n/",
            "HTTP://H/",
            "//h/x",
        ),
        *(
            "http://u:p@/",
            "http://@h/",
            "file:///etc/passwd",
            "http://ä/",
            "http://h/\r\nX: y",
            "http:h",
            "http://%00/",
        ),
    ]
)


@pytest.mark.fault(
    4,
    "a signal URL of any characters",
    "it can be sent to by HTTP, or is refused at once with a sentence",
)
@tries(150, urls, st.sampled_from(["POST", "PUT", "GET", "", "post\n", "\0"]))
def test_any_signal_url_can_be_sent_to_or_is_refused(url: str, verb: str) -> None:
    """Any signal URL is used or refused, and is shown without its query and its user."""
    target = Target(kind="url", url=url, verb=verb)
    said = outbox.unsendable(target)
    assert len(said) < LONGEST + len(url)
    assert said or (url.lower().lstrip().startswith("http") and verb in ("POST", "PUT"))
    for signed in (
        target,
        replace(target, url=f"{url}?temp_url_sig=1&temp_url_expires={url}"),
    ):
        assert said or isinstance(servers.denial(signed, 1e9), str)
    assert "?" not in target.described

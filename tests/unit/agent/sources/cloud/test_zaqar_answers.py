"""The source `zaqar`: messages and answers that are nonsense, and clouds that refuse."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.model.errors import AccessError, SourceError
from support import cloud
from support.certificates import CERTIFICATE, KEY
from support.loopback import Answer
from support.zaqar import Make, Message, Queue, content, metadata, offer

DEEP: Any = {"deployments": []}
for _ in range(150):
    DEEP = {"deployments": [DEEP]}


BAD = [
    None,
    [],
    ["x"],
    "text",
    "<html>",
    7,
    True,
    {},
    {"x": 1},
    ...,
    DEEP,
    {"deployments": [float("nan")]},
]


@pytest.mark.parametrize("body", BAD, ids=lambda body: str(body)[:24])
def test_invalid_message_is_reported_and_removed_later(
    make: Make, queue: Queue, body: object
) -> None:
    """An invalid message is reported, again after its claim ends, and removed with the next valid one."""
    zaqar = make()
    queue.post(body)
    with pytest.raises(
        SourceError,
        match=r"^the newest message in the Zaqar queue .* is not metadata: ",
    ):
        zaqar.collect()
    assert zaqar.collect() is None
    queue.expire()
    with pytest.raises(SourceError, match="not metadata"):
        zaqar.collect()
    queue.post(metadata("good"))
    assert content(zaqar.collect()) == metadata("good")
    zaqar.taken()
    assert queue.messages == []


def test_the_good_message_before_a_bad_one_counts(make: Make, queue: Queue) -> None:
    """The last valid message is used, and the invalid one after it stays and is reported."""
    zaqar = make()
    queue.post(metadata("good"))
    queue.post("nonsense")
    assert content(zaqar.collect()) == metadata("good")
    assert "not metadata: it is text, not an object" in zaqar.trouble
    zaqar.taken()
    assert queue.bodies() == ["nonsense"]
    queue.expire()
    with pytest.raises(SourceError, match="it is text"):
        zaqar.collect()


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (201, b"<html>Login</html>", "its answer is not a list of messages"),
        (200, b"", "its answer is not a list of messages"),
        (201, b"[]", "its answer is not a list of messages"),
        (201, b"null", "its answer is not a list of messages"),
        (201, b"\xff\xfe", "its answer is not a list of messages"),
        (201, b"[" * 100_000, "its answer is not a list of messages"),
        (201, b'{"messages": {}}', "its answer is not a list of messages"),
        (201, b'{"messages": [{"id": "1", "bo', "its answer is not a list of messages"),
        (
            201,
            b'{"messages": [null, 7, {}, {"id": 7, "body": {}}, {"id": ""}]}',
            "have no ids",
        ),
        (404, b"{}", "HTTP 404 Not Found"),
        (503, b"{}", "HTTP 503 Service Unavailable"),
        (302, b"", "HTTP 302 Found"),
    ],
)
def test_invalid_answer_is_reported(
    make: Make, queue: Queue, status: int, body: bytes, sentence: str
) -> None:
    """An invalid answer is reported in one sentence, and the next answer is used."""
    zaqar = make()
    queue.said["POST", "claims"] = (status, body)
    with pytest.raises(SourceError, match=sentence) as caught:
        zaqar.collect()
    assert cloud.PASSWORD not in str(caught.value)
    assert "token-1" not in str(caught.value)
    queue.said.clear()
    queue.post(metadata("good"))
    assert content(zaqar.collect()) == metadata("good")


def test_endless_messages_do_not_keep_the_source(make: Make, queue: Queue) -> None:
    """A server that returns the same message for ever does not keep the source busy for ever."""
    queue.said["POST", "claims"] = (
        201,
        Queue.listed([Message(metadata("one"), time.monotonic())]),
    )
    assert content(make().collect()) == metadata("one")
    assert len(queue.requests) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_reported_as_such(
    make: Make, queue: Queue, status: int
) -> None:
    """Refused credentials are reported as such, apart from other errors."""
    queue.said["POST", "claims"] = (status, b"{}")
    with pytest.raises(AccessError, match=f"HTTP {status}"):
        make().collect()


def test_keystone_lets_nobody_in(make: Make, openstack: cloud.Cloud) -> None:
    """A refused password is reported without the password."""
    openstack.keystone.always = Answer(401)
    with pytest.raises(AccessError, match="Keystone answers HTTP 401") as caught:
        make().collect()
    assert cloud.PASSWORD not in str(caught.value)


def test_certificates_are_checked(
    make: Make, queue: Queue, openstack: cloud.Cloud, tmp_path: Path
) -> None:
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

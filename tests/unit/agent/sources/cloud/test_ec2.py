from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from heat_config_agent.model.errors import SourceError
from heat_config_agent.sources.base import Reach
from heat_config_agent.sources.cloud.ec2 import Ec2
from support import pace
from support.http import Answer, Request, Stub

METADATA = {"os-collect-config": {"heat": {"password": "x"}}}
TTL = "X-aws-ec2-metadata-token-ttl-seconds"


class Service:
    """An EC2 metadata service."""

    def __init__(self) -> None:
        self.tokens = 200
        """The answers to requests for a token."""
        self.page = False
        """True if the answer to such a request is a page."""
        self.needs_token = True
        self.seconds: str | None = None
        """The lifetime of its tokens in seconds."""
        self.instance = b"i-00000001"
        self.user_data: bytes | None = json.dumps(METADATA).encode()
        self.status: int | None = None
        """The status of all other answers."""
        self.silent = 0.0
        """Seconds before it answers."""
        self.given: list[str] = []
        """The tokens that are good."""
        self.asked: list[str] = []
        """Method and path of each request."""
        self.server = Stub(self._respond)
        self.server.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/latest"

    def _respond(self, request: Request) -> Answer:
        status, body, headers = self.answer(request.verb, request.path, request.headers)
        return Answer(status, headers, body)

    def answer(
        self, verb: str, path: str, headers: dict[str, str]
    ) -> tuple[int, bytes, dict[str, str]]:
        self.asked.append(f"{verb} {path}")
        time.sleep(self.silent)
        if (verb, path) == ("PUT", "/latest/api/token"):
            if self.tokens != 200 or self.page:
                return self.tokens, b"<html>Welcome to our site</html>", {}
            assert int(headers[TTL]) == 21600
            self.given.append(f"token-{len(self.given)}==")
            return (
                200,
                self.given[-1].encode(),
                {TTL: self.seconds} if self.seconds else {},
            )
        if self.status is not None:
            return self.status, b"<html>no</html>", {}
        token = headers.get("X-aws-ec2-metadata-token")
        if token not in self.given and (self.needs_token or token is not None):
            return 401, b"", {}
        found = {
            "/latest/meta-data/instance-id": self.instance,
            "/latest/user-data": self.user_data,
        }.get(path)
        return (
            (404, b"<html>not found</html>", {}) if found is None else (200, found, {})
        )


@pytest.fixture
def service() -> Iterator[Service]:
    """A metadata service that insists on tokens."""
    service = Service()
    yield service
    service.server.stop()


def source(url: str, timeout: float = 5.0) -> Ec2:
    """A source that asks there."""
    return Ec2({"metadata_url": url, "timeout": timeout}, Reach())


def test_the_user_data_is_the_document(service: Service) -> None:
    """Asked for with a token."""
    asked = source(service.url + "/")
    found = asked.collect()
    assert found is not None
    assert (found.source, found.content, asked.instance, asked.trouble) == (
        "ec2",
        METADATA,
        "i-00000001",
        "",
    )
    assert service.asked == [
        "PUT /latest/api/token",
        "GET /latest/meta-data/instance-id",
        "GET /latest/user-data",
    ]


def test_unchanged_user_data_costs_a_single_request(service: Service) -> None:
    """With the token from before, and the very document from before is the answer."""
    asked = source(service.url)
    first = asked.collect()
    del service.asked[:]
    assert asked.collect() is first
    assert service.asked == ["GET /latest/meta-data/instance-id"]


@pytest.mark.parametrize("status", [400, 403, 404, 405, 501])
def test_a_service_without_tokens_is_asked_without(
    service: Service, status: int
) -> None:
    """As OpenStack's; it is not asked for one each time."""
    service.tokens, service.needs_token = status, False
    asked = source(service.url)
    assert asked.collect() is not None
    asked.collect()
    assert service.asked.count("PUT /latest/api/token") == 1


def test_a_page_in_the_place_of_a_token_is_none(service: Service) -> None:
    """The server answers every request with a page."""
    service.page, service.needs_token = True, False
    assert source(service.url).collect() is not None


def test_a_service_that_cannot_say_whether_it_has_tokens_is_asked_again_later(
    service: Service,
) -> None:
    """An error is not taken as an answer without tokens."""
    service.tokens = 503
    asked = source(service.url)
    with pytest.raises(SourceError, match="gave no token: it answered with HTTP 503"):
        asked.collect()
    service.tokens = 200
    assert asked.collect() is not None


def test_a_token_is_renewed_before_it_expires_and_when_it_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lifetime of a token is what the service says."""
    service.seconds = "1000"
    asked = source(service.url)
    asked.collect()
    now = time.monotonic()
    for later, tokens in ((600, 1), (720, 2)):
        monkeypatch.setattr(
            "heat_config_agent.sources.cloud.ec2.time.monotonic",
            lambda later=later: now + later,
        )
        asked.collect()
        assert len(service.given) == tokens
    service.given[:] = ["of another host", "of another host"]
    assert asked.collect() is not None
    assert service.asked.count("PUT /latest/api/token") == 3


def test_a_service_that_comes_to_insist_on_tokens_gets_one(service: Service) -> None:
    """Without waiting until it would be asked for one again."""
    service.tokens, service.needs_token = 404, False
    asked = source(service.url)
    asked.collect()
    service.tokens, service.needs_token = 200, True
    assert asked.collect() is not None


def test_nothing_is_taken_over_to_another_instance(service: Service) -> None:
    """A machine that was copied as it ran has another id, and user data of its own, or none."""
    asked = source(service.url)
    first = asked.collect()
    service.instance, service.user_data = b"i-00000002", b'{"deployments": []}'
    second = asked.collect()
    assert second is not None
    assert second is not first
    assert (second.content, asked.instance) == ({"deployments": []}, "i-00000002")
    service.instance, service.user_data = b"i-00000003", None
    assert asked.collect() is None


@pytest.mark.parametrize(
    "text", [b"#!/bin/sh\nreboot\n", b"#cloud-config\ndeployments: []\n", b"", None]
)
def test_user_data_of_other_programs_gives_no_document(
    service: Service, text: bytes | None
) -> None:
    """User data for other programs, or none, is ignored, and is not fetched again each time."""
    service.user_data = text
    asked = source(service.url)
    assert asked.collect() is None
    assert asked.collect() is None
    assert service.asked.count("GET /latest/user-data") == 1


@pytest.mark.parametrize(
    ("instance", "identity"),
    [
        (b"i-00000001\n", "i-00000001"),
        (b"\n", ""),
        (b"", ""),
        (b"ami-id\ninstance-id\n", ""),
        (b"<html><body>Welcome</body></html>", ""),
        (b"\xff\x00", ""),
        (b"x" * 5000, ""),
    ],
)
def test_an_odd_answer_about_the_id_is_tolerated(
    service: Service, instance: bytes, identity: str
) -> None:
    """Without an id, nothing is remembered: the user data is fetched each time."""
    service.instance = instance
    asked = source(service.url)
    first = asked.collect()
    assert first is not None
    assert asked.instance == identity
    assert asked.collect() is first
    assert service.asked.count("GET /latest/user-data") == (1 if identity else 2)


@pytest.mark.parametrize("status", [301, 401, 403, 500, 503])
def test_failed_answer_is_reported(service: Service, status: int) -> None:
    """A failed answer is reported, and the service is asked again when it is back."""
    service.status = status
    asked = source(service.url)
    with pytest.raises(
        SourceError,
        match=f"the EC2 metadata service at 127.0.0.1:[0-9]+ answered with HTTP {status}",
    ):
        asked.collect()
    service.status = None
    assert asked.collect() is not None


def test_web_page_in_place_of_user_data_is_reported(service: Service) -> None:
    """Something else is in the place of the service, and that is said: it does not mean that there is none."""
    service.user_data = b"<!DOCTYPE html><html><p>Please log in.</p></html>"
    with pytest.raises(SourceError, match="it is a web page"):
        source(service.url).collect()


def test_an_id_without_its_user_data_is_not_remembered(service: Service) -> None:
    """Else the user data would never be asked for again."""
    asked = source(service.url)
    service.user_data = b"\x1f\x8b damaged"
    service.instance = b""
    assert asked.collect() is None
    service.instance, service.user_data = b"i-00000001", json.dumps(METADATA).encode()
    assert asked.collect() is not None


def test_a_silent_service_is_left_after_the_time_limit(service: Service) -> None:
    """The limit is that of the settings."""
    service.silent = 3.0
    with pytest.raises(
        SourceError,
        match=r"cannot reach .*: no (answer within 0\.2 s|full answer in time)",
    ):
        source(service.url, timeout=pace.seconds(0.2)).collect()


def test_refused_connection_is_reported() -> None:
    """As on a machine in no cloud; a password in the URL is not."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(SourceError, match="Connection refused") as caught:
        source(f"http://me:secret@127.0.0.1:{port}/latest").collect()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "169.254.169.254/latest",
        "ftp://127.0.0.1/latest",
        "http://[/",
        "http://a:b/",
    ],
)
def test_invalid_url_is_reported(url: str) -> None:
    """With where to correct it."""
    with pytest.raises(
        SourceError, match=r"cannot be understood \(correct metadata_url of \[ec2\]\)"
    ):
        source(url).collect()


def test_no_proxy_is_asked(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy is used, because it would return the user data of its own machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    assert source(service.url).collect() is not None

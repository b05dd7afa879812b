from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import CERTIFICATE, KEY
from heat_config_agent import web
from heat_config_agent.errors import UnreachableError
from heat_config_agent.web import Connection
from loopback import Answer, SignalServer

JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of whoever runs the tests has no say."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv(name)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with the certificate of the secure server."""
    path = tmp_path / "ca.pem"
    path.write_text(CERTIFICATE)
    return path


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[SignalServer]:
    """A server that speaks HTTPS, with a certificate that nobody knows."""
    path = tmp_path / "server.pem"
    path.write_text(CERTIFICATE + KEY)
    server = SignalServer(path)
    server.start()
    yield server
    server.stop()


def send(server: SignalServer, ca_file: Path | None = None) -> web.Answer:
    """Send one signal over a new connection."""
    connection = Connection(server.origin, str(ca_file) if ca_file else None)
    return connection.send("POST", server.url(), b"{}", JSON)


def test_an_answer_is_what_the_server_said(heat: SignalServer) -> None:
    """Its status, its reason, and its headers under any spelling."""
    heat.always = Answer(status=418, headers={"X-Some": "thing"}, body=b"short and stout")
    answer = send(heat)
    assert (answer.status, answer.reason) == (418, "I'm a Teapot")
    assert answer.headers["x-some"] == "thing"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/signal/arn%3Aopenstack%3Aheat?Timestamp=2026-11-20T18%3A26%3A35Z&Signature=c2ln%2Bbm%2Fk%3D",
        "/lower?Signature=c2ln%2bbm%2fk%3d",
        "/needless?a=%41%7E%2D",
        "/plain?a=~!$'()*,;:@[]|{}^",
        "/a/./b/../c",
        "/twice//slashes",
        "/empty?",
        "/no-value?a&b=&&c",
        "",
        "?query=only",
    ],
)
def test_a_url_is_sent_to_exactly_as_given(heat: SignalServer, path: str) -> None:
    """It is signed: another spelling of the same would not be the same."""
    Connection(heat.origin).send("POST", heat.origin + path, b"{}", JSON)
    assert heat.signals[0].path == (path if path.startswith("/") else f"/{path}")


def test_a_request_says_who_sends_it_and_no_more(heat: SignalServer) -> None:
    """No cookies, no credentials from a `.netrc`, nothing that asks for a compressed answer."""
    send(heat)
    headers = heat.signals[0].headers
    assert headers["User-Agent"].startswith("heat-config-agent/")
    assert headers["Accept-Encoding"] == "identity"
    assert not {"Authorization", "Cookie"} & set(headers)


def test_a_netrc_is_not_looked_at(heat: SignalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in it is for people's own programs."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    send(heat)
    assert "Authorization" not in heat.signals[0].headers


def test_a_connection_is_kept(heat: SignalServer) -> None:
    """Whatever was answered, the next request needs no new one."""
    heat.answers.extend([Answer(body=b"x" * 100_000), Answer(status=404, body=b"no")])
    connection = Connection(heat.origin)
    for _ in range(3):
        connection.send("POST", heat.url(), b"{}", JSON)
    assert heat.connections <= 2  # an answer that is not read to its end costs its connection


def test_a_redirect_is_not_followed(heat: SignalServer) -> None:
    """It is an answer like others."""
    heat.always = Answer(status=301, headers={"Location": heat.url("elsewhere")})
    assert send(heat).status == 301
    assert len(heat.signals) == 1


def test_a_long_answer_is_not_waited_for(heat: SignalServer) -> None:
    """Nothing in it changes what it means."""
    heat.always = Answer(status=503, body=b"x" * 50_000_000)
    begun = time.monotonic()
    assert send(heat).status == 503
    assert time.monotonic() - begun < 5


def test_a_compressed_answer_is_an_answer(heat: SignalServer) -> None:
    """Nobody asked for it, and it is not decompressed."""
    heat.always = Answer(body=gzip.compress(b"\0" * 10_000_000)[:2000], headers={"Content-Encoding": "gzip"})
    assert send(heat).status == 200


@pytest.mark.parametrize("length", [12, 25])
def test_half_of_a_compressed_document_is_none(heat: SignalServer, length: int) -> None:
    """As YAML, it might be read as a whole one."""
    content = b"- id: a\n- id: b\n" * 100
    packed = gzip.compress(content)
    heat.answers.extend(Answer(body=each, headers={"Content-Encoding": "gzip"}) for each in (packed, packed[:length]))
    connection = Connection(heat.origin)
    assert connection.fetch(heat.url(), {}, 5).body == content
    with pytest.raises(UnreachableError, match="cannot be unpacked"):
        connection.fetch(heat.url(), {}, 5)


def test_an_answer_that_breaks_off_is_an_answer(heat: SignalServer) -> None:
    """The status is what counts."""
    heat.always = Answer(status=200, body=b"short", headers={"Content-Length": "100", "Connection": "close"})
    assert send(heat).status == 200


def test_a_body_that_trickles_is_left_after_its_time(heat: SignalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status is known by then."""
    monkeypatch.setattr(web, "DRAIN_SECONDS", 0.2)
    heat.always = Answer(status=503, body=b"x" * 400, trickle=0.05)
    begun = time.monotonic()
    assert send(heat).status == 503
    assert time.monotonic() - begun < 10


def test_a_server_that_says_nothing_is_left_after_its_time(heat: SignalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not there."""
    monkeypatch.setattr(web, "READ_SECONDS", 0.2)
    heat.always = Answer(delay=1)
    with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
        send(heat)


def test_what_is_fetched_is_there_in_time_or_not_at_all(heat: SignalServer) -> None:
    """Also where every byte of it, or of its headers, comes soon after the one before."""
    connection = Connection(heat.origin)
    for slow in (Answer(creep=0.1), Answer(body=b"x" * 1000, trickle=0.1), Answer(delay=15)):
        heat.answers.append(slow)
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"in time|took too long"):
            connection.fetch(heat.url(), {}, 0.2)
        assert time.monotonic() - began < 10
    heat.always = Answer(body=b"there")
    assert connection.fetch(heat.url(), {}, 5).body == b"there"


@pytest.mark.parametrize("answer", [Answer(hang_up=True), Answer(reset=True)], ids=["hangs up", "resets"])
def test_a_server_that_hangs_up_is_not_there(heat: SignalServer, answer: Answer) -> None:
    """And why is said without the URL, which is a secret."""
    heat.always = answer
    with pytest.raises(UnreachableError) as caught:
        send(heat)
    assert str(caught.value)
    assert "Signature" not in str(caught.value)


def test_nobody_listening_is_said_in_the_systems_words(heat: SignalServer) -> None:
    """Without the URL, which is a secret."""
    heat.refuse()
    with pytest.raises(UnreachableError, match=r"^Connection refused$"):
        send(heat)


def test_a_certificate_that_nobody_knows_is_not_accepted(secure: SignalServer) -> None:
    """There is no way around it."""
    with pytest.raises(
        UnreachableError, match=r"^its certificate cannot be trusted: self.signed certificate \(.*ca_file"
    ):
        send(secure)
    assert secure.signals == []


def test_a_certificate_of_the_given_file_is_accepted(secure: SignalServer, certificate: Path) -> None:
    """As private clouds have them."""
    assert send(secure, certificate).status == 200


def test_certificates_of_the_environment_are_accepted(
    secure: SignalServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where whoever runs the agent has named a file for all programs."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    assert send(secure).status == 200


def test_a_file_without_certificates_is_no_reason_to_trust(secure: SignalServer, tmp_path: Path) -> None:
    """A wrong setting is said, and nothing is sent."""
    with pytest.raises(UnreachableError):
        send(secure, tmp_path / "missing.pem")
    assert secure.signals == []


def test_a_certificate_is_for_its_host(secure: SignalServer, certificate: Path) -> None:
    """Another name of the same machine is another host."""
    address = secure.url().replace("127.0.0.1", "127.0.0.2")
    with pytest.raises(UnreachableError):
        Connection(address, str(certificate)).send("POST", address, b"{}", JSON)
    assert secure.signals == []


def test_the_proxy_of_the_environment_is_used(heat: SignalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for the whole URL."""
    monkeypatch.setenv("http_proxy", heat.origin)
    address = "http://cloud.invalid:8000/v1/signal?Signature=abc"
    assert Connection("http://cloud.invalid:8000").send("POST", address, b"{}", JSON).status == 200
    assert heat.signals[0].path == address


def test_a_host_without_a_proxy_is_spoken_to_itself(heat: SignalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """`no_proxy` names it."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert send(heat).status == 200

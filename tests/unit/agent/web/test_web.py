from __future__ import annotations

import gc
import gzip
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from heat_config_agent import web
from heat_config_agent.model.errors import ProxyError, UnreachableError
from heat_config_agent.web import Connection, direct
from support import pace, proxy_faults
from support.certificates import CERTIFICATE, KEY
from support.loopback import Answer, SignalServer
from support.proxy import Proxy

JSON = {"Content-Type": "application/json"}


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
    """An answer has its status, its reason, and its headers in any spelling."""
    heat.always = Answer(
        status=418, headers={"X-Some": "thing"}, body=b"short and stout"
    )
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
    """A signed URL is requested byte for byte."""
    Connection(heat.origin).send("POST", heat.origin + path, b"{}", JSON)
    assert heat.signals[0].path == (path if path.startswith("/") else f"/{path}")


def test_a_request_says_who_sends_it_and_no_more(heat: SignalServer) -> None:
    """No cookies, no credentials from a `.netrc`, nothing that asks for a compressed answer."""
    send(heat)
    headers = heat.signals[0].headers
    assert headers["User-Agent"].startswith("heat-config-agent/")
    assert headers["Accept-Encoding"] == "identity"
    assert not {"Authorization", "Cookie"} & set(headers)


def test_a_netrc_is_not_looked_at(
    heat: SignalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A netrc is not read, because it is for other programs."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    send(heat)
    assert "Authorization" not in heat.signals[0].headers


def test_a_connection_is_kept(heat: SignalServer) -> None:
    """A connection is reused for any request and after any answer."""
    heat.answers.extend([Answer(body=b"x" * 100_000), Answer(status=404, body=b"no")])
    connection = Connection(heat.origin)
    for _ in range(3):
        connection.send("POST", heat.url(), b"{}", JSON)
    # an answer that is not read to its end costs its connection
    assert heat.connections <= 2


def leave_a_cycle(port: int) -> None:
    """Leave a connection in a cycle, whose socket is older, so that the collector ends it first."""
    older = socket.create_connection(("127.0.0.1", port))
    connection = direct._Connection("127.0.0.1", port)  # noqa: SLF001  # as `Connection` makes it
    connection._create_connection = lambda *_, **__: older  # type: ignore[attr-defined]  # noqa: SLF001
    connection.connect()
    cycle: list[object] = [connection]
    cycle.append(cycle)


def test_connection_in_a_cycle_closes_a_socket_that_is_older(
    heat: SignalServer,
) -> None:
    """The fixture of these tests has closed it before the collector ends it; else this test has a warning."""
    leave_a_cycle(urlsplit(heat.origin).port or 0)

    assert gc.collect() > 0


def test_a_redirect_is_not_followed(heat: SignalServer) -> None:
    """A redirect is returned as the answer."""
    heat.always = Answer(status=301, headers={"Location": heat.url("elsewhere")})
    assert send(heat).status == 301
    assert len(heat.signals) == 1


def test_a_long_answer_is_not_waited_for(heat: SignalServer) -> None:
    """Nothing in it changes what it means."""
    heat.always = Answer(status=503, body=b"x" * 50_000_000)
    begun = time.monotonic()
    assert send(heat).status == 503
    assert time.monotonic() - begun < pace.seconds(5)


def test_a_compressed_answer_is_an_answer(heat: SignalServer) -> None:
    """A compressed answer that was not asked for is returned as it is."""
    heat.always = Answer(
        body=gzip.compress(b"\0" * 10_000_000)[:2000],
        headers={"Content-Encoding": "gzip"},
    )
    assert send(heat).status == 200


@pytest.mark.parametrize("length", [12, 25])
def test_half_of_a_compressed_document_is_none(heat: SignalServer, length: int) -> None:
    """As YAML, it might be read as a whole one."""
    content = b"- id: a\n- id: b\n" * 100
    packed = gzip.compress(content)
    heat.answers.extend(
        Answer(body=each, headers={"Content-Encoding": "gzip"})
        for each in (packed, packed[:length])
    )
    connection = Connection(heat.origin)
    assert connection.fetch(heat.url(), {}, 5).body == content
    with pytest.raises(UnreachableError, match="cannot be decompressed"):
        connection.fetch(heat.url(), {}, 5)


def test_an_answer_that_breaks_off_is_not_whole(heat: SignalServer) -> None:
    """An incomplete answer has its status, and is reported as incomplete."""
    heat.always = Answer(
        status=200,
        body=b"short",
        headers={"Content-Length": "100", "Connection": "close"},
    )
    answer = send(heat)
    assert (answer.status, answer.cut) == (200, "its answer was cut short")
    heat.always = Answer(status=200, body=b"short")
    assert send(heat).cut == ""


def test_a_body_that_trickles_is_left_after_its_time(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow body is given up at the deadline, and its status is known."""
    monkeypatch.setattr(web, "DRAIN_SECONDS", 0.2)
    heat.always = Answer(status=503, body=b"x" * 400, trickle=0.05)
    begun = time.monotonic()
    assert send(heat).status == 503
    assert time.monotonic() - begun < pace.seconds(10)


def test_a_server_that_says_nothing_is_left_after_its_time(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent server counts as unreachable after the deadline."""
    monkeypatch.setattr(web, "READ_SECONDS", 0.2)
    heat.always = Answer(delay=1)
    with pytest.raises(UnreachableError, match=r"no answer within 0\.2 s"):
        send(heat)


def test_fetch_ends_at_its_deadline(heat: SignalServer) -> None:
    """A fetch ends at its deadline, even if each byte comes soon after the one before."""
    connection = Connection(heat.origin)
    for slow in (
        Answer(creep=0.1),
        Answer(body=b"x" * 1000, trickle=0.1),
        Answer(delay=15),
    ):
        heat.answers.append(slow)
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=r"in time|took too long"):
            connection.fetch(heat.url(), {}, 0.2)
        assert time.monotonic() - began < pace.seconds(10)
    heat.always = Answer(body=b"there")
    assert connection.fetch(heat.url(), {}, 5).body == b"there"


@pytest.mark.parametrize(
    "answer", [Answer(hang_up=True), Answer(reset=True)], ids=["hangs up", "resets"]
)
def test_a_server_that_hangs_up_is_not_there(
    heat: SignalServer, answer: Answer
) -> None:
    """A closed connection is reported without the URL, which is a secret."""
    heat.always = answer
    with pytest.raises(UnreachableError) as caught:
        send(heat)
    assert str(caught.value)
    assert "Signature" not in str(caught.value)


def test_refused_connection_is_reported_in_the_words_of_the_system(
    heat: SignalServer,
) -> None:
    """Without the URL, which is a secret."""
    heat.refuse()
    with pytest.raises(UnreachableError, match=r"^Connection refused$"):
        send(heat)


def test_a_certificate_that_nobody_knows_is_not_accepted(secure: SignalServer) -> None:
    """There is no way around it."""
    with pytest.raises(
        UnreachableError,
        match=r"^its certificate cannot be trusted: self.signed certificate \(.*ca_file",
    ):
        send(secure)
    assert secure.signals == []


def test_a_certificate_of_the_given_file_is_accepted(
    secure: SignalServer, certificate: Path
) -> None:
    """As private clouds have them."""
    assert send(secure, certificate).status == 200


def test_certificates_of_the_environment_are_accepted(
    secure: SignalServer, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where whoever runs the agent has named a file for all programs."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    assert send(secure).status == 200


def test_file_without_certificates_is_refused(
    secure: SignalServer, tmp_path: Path
) -> None:
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


def test_the_proxy_of_the_environment_is_used(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is asked for the whole URL."""
    monkeypatch.setenv("http_proxy", heat.origin)
    address = "http://cloud.invalid:8000/v1/signal?Signature=abc"
    assert (
        Connection("http://cloud.invalid:8000")
        .send("POST", address, b"{}", JSON)
        .status
        == 200
    )
    assert heat.signals[0].path == address


def test_host_in_no_proxy_is_reached_directly(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts in `no_proxy` get no request through the proxy."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert send(heat).status == 200


def through(
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    proxy: str,
    origin: str,
    ca_file: str | None = None,
) -> str:
    """Return why nothing can be sent to a server through a proxy."""
    monkeypatch.setenv(variable, proxy)
    with pytest.raises(ProxyError) as caught:
        Connection(origin, ca_file).send(
            "POST", f"{origin}/v1/signal?Signature=abc", b"{}", JSON
        )
    assert "secret" not in str(caught.value)
    assert "Signature" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_refuses_is_named(
    heat: SignalServer, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """By its host, its port, and the variable that names it, without its password."""
    heat.refuse()
    place = heat.origin.removeprefix("http://")
    said = through(
        monkeypatch,
        f"{scheme}_proxy",
        f"http://user:secret@{place}",
        f"{scheme}://cloud.invalid:8000",
    )
    assert said.startswith(f"the proxy {place} ({scheme}_proxy) refused the connection")


def test_a_proxy_without_an_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown name of the proxy is not reported as the server's."""
    said = through(
        monkeypatch,
        "HTTP_PROXY",
        "http://no-such-host.invalid:3128",
        "http://cloud.invalid",
    )
    assert said.startswith("the proxy no-such-host.invalid:3128 (HTTP_PROXY): ")


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "http://user:secret@host:port",
        "http://user:secret@:3128",
        "ftp://user:secret@host",
        "foo bar",
    ],
)
def test_unreadable_proxy_setting_is_called_a_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """An invalid URL of the proxy is not reported as the server's."""
    said = through(monkeypatch, "all_proxy", url, "http://cloud.invalid")
    assert said.startswith(
        "the URL of the proxy in all_proxy cannot be understood (write it as http://HOST:PORT"
    )


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_password_is_named(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """A 407 is reported as the proxy's answer."""
    stands = Proxy()
    stands.fail(
        proxy_faults.says(
            "wants a password",
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
        )
    )
    place = stands.origin.removeprefix("http://")
    said = through(
        monkeypatch,
        f"{scheme}_proxy",
        f"http://user:secret@{place}",
        f"{scheme}://cloud.invalid:8000",
    )
    assert said.startswith(
        f"the proxy {place} ({scheme}_proxy) requires a user and password (HTTP 407)"
    )
    assert "cloud.invalid into no_proxy" in said
    stands.close()


def test_a_proxy_that_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it answers."""
    stands = Proxy()
    stands.fail(
        proxy_faults.says(
            "denies", b"HTTP/1.1 403 Not you, secret\r\nContent-Length: 0\r\n\r\n"
        )
    )
    place = stands.origin.removeprefix("http://")
    said = through(
        monkeypatch, "https_proxy", stands.origin, "https://cloud.invalid:8000"
    )
    assert said.startswith(
        f"the proxy {place} (https_proxy) does not connect to cloud.invalid: HTTP 403 Forbidden"
    )
    stands.close()


def test_a_proxy_with_a_certificate_that_nobody_knows_is_named(
    secure: SignalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown certificate of the proxy is not reported as the server's."""
    place = secure.origin.removeprefix("https://")
    said = through(
        monkeypatch, "https_proxy", secure.origin, "https://cloud.invalid:8000"
    )
    assert said.startswith(
        f"the proxy {place} (https_proxy): its certificate cannot be trusted: "
    )
    assert secure.signals == []

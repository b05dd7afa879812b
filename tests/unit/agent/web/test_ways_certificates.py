"""Certificates are checked the same over each way to a server, and requests is loaded only where it is needed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heat_config_agent.web import Connection
from support import pace, proxy_faults
from support.certificates import CERTIFICATE, ELSEWHERE, EXPIRED, STRANGER
from support.loopback import SignalServer
from support.proxy import Fault, Proxy
from support.tunnel import Tunnel
from support.ways import PATH, asked, known, pem, trouble

ITS_NAME = "ce275665.0"
"""The file name of the certificate in a folder that OpenSSL has indexed: the hash of its subject."""


SURE = "is its authority's certificate in ca_file of [agent]?"


@pytest.fixture(params=["https", "https through a proxy"])
def secured(
    request: pytest.FixtureRequest,
    heat: SignalServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Callable[[str], str]]:
    """Return what makes servers with a certificate, and says where they are."""
    tunnel = Tunnel()
    stands: list[Proxy] = []
    if request.param.endswith("proxy"):
        monkeypatch.setenv("https_proxy", tunnel.origin)

    def made(certificate: str) -> str:
        stands.append(Proxy(heat.origin, pem(tmp_path, certificate)))
        return stands[-1].origin

    yield made
    tunnel.close()
    for each in stands:
        each.close()


@pytest.mark.parametrize(
    ("certificate", "words"),
    [
        (EXPIRED, "certificate has expired"),
        (ELSEWHERE, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        (STRANGER, f"self-signed certificate ({SURE})"),
    ],
    ids=["expired", "elsewhere", "stranger"],
)
def test_a_wrong_certificate_is_not_accepted(
    secured: Callable[[str], str], tmp_path: Path, certificate: str, words: str
) -> None:
    """A wrong certificate is refused, and the error says what is wrong."""
    origin, ca_file = (
        secured(certificate),
        known(tmp_path, CERTIFICATE, EXPIRED, ELSEWHERE),
    )
    found = trouble(lambda: asked(origin, ca_file))
    assert (
        found.replace("self signed", "self-signed")
        == f"its certificate cannot be trusted: {words}"
    )


def test_who_signs_certificates_is_said_in_many_ways(
    secured: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a setting, by the environment, as a file or as a folder; the setting goes first."""
    origin, ca_file, folder = (
        secured(CERTIFICATE),
        known(tmp_path, STRANGER, CERTIFICATE),
        tmp_path / "folder",
    )
    folder.mkdir()
    (folder / ITS_NAME).write_text(CERTIFICATE)
    assert SURE in trouble(lambda: asked(origin))
    assert asked(origin, ca_file) == asked(origin, folder) == 200
    for name in ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
        for path in (ca_file, folder):
            monkeypatch.setenv(name, str(path))
            assert asked(origin) == 200
        monkeypatch.setenv(name, str(tmp_path / "missing.pem"))
        assert asked(origin, ca_file) == 200
        assert trouble(lambda: asked(origin)).endswith(
            f"invalid path: {tmp_path}/missing.pem"
        )


def test_a_file_that_is_corrected_is_read_again(
    secured: Callable[[str], str], tmp_path: Path
) -> None:
    """By a connection that has read it before."""
    origin, ca_file = secured(CERTIFICATE), tmp_path / "ca.pem"
    connection = Connection(origin, str(ca_file))
    for text, words in (
        ("", "invalid path"),
        ("nothing\n", "no certificate"),
        (STRANGER, SURE),
        (CERTIFICATE, ""),
    ):
        if text:
            ca_file.write_text(text)
        if words:
            assert words in trouble(lambda: connection.fetch(origin + PATH, {}, 10))
    assert connection.fetch(origin + PATH, {}, 10).status == 200


@pytest.mark.usefixtures("_hasty")
@pytest.mark.parametrize("fault", proxy_faults.HANDSHAKES, ids=lambda each: each.name)
def test_failed_handshake_is_reported_in_words(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heat: SignalServer
) -> None:
    """In time."""
    for proxied in (False, True):
        stands, tunnel = Proxy(heat.origin), Tunnel()
        if proxied:
            monkeypatch.setenv("https_proxy", tunnel.origin)
        stands.fail(fault)
        origin = stands.origin.replace("http:", "https:")
        words = "^no answer within 0.6 s$|^the TLS handshake failed(: |$)|reset|hung up"
        connection = Connection(origin, str(known(tmp_path, CERTIFICATE)))
        assert re.search(
            words,
            trouble(lambda: connection.fetch(origin + PATH, {}, 30)),  # noqa: B023  # at once
        )
        stands.close()
        tunnel.close()


RUN = """if True:
    import sys
    from heat_config_agent import web
    def asked(origin, path="/", ca_file=None):
        return web.Connection(origin, ca_file).fetch(origin + path, {}, 10).status
    def loaded():
        return "requests" in sys.modules or "urllib3" in sys.modules
"""


def run(code: str, *arguments: str, **environment: str) -> None:
    """Run code of which every part has to be so, in a process that has loaded nothing."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            RUN + "".join(f"    {line}\n" for line in code.splitlines()),
            *arguments,
        ],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(60),
    )
    assert done.returncode == 0, done.stderr


def test_requests_is_loaded_for_proxies_and_what_is_odd(heat: SignalServer) -> None:
    """The library requests is loaded only when needed: that takes as long as the rest of a short run."""
    direct_ones = "assert asked(sys.argv[1]) == 200 and not loaded()"
    run(direct_ones, heat.origin)
    run(direct_ones, heat.origin, no_proxy="example.org", http_proxy="")
    run(
        "assert asked(sys.argv[1]) == 200 and loaded()",
        heat.origin,
        HTTP_PROXY=heat.origin,
    )
    run(
        "assert asked(sys.argv[1]) == 200 and loaded()",
        heat.origin,
        http_proxy="http://127.0.0.1:1",
        NO_PROXY="127.0.0.1",
    )
    run("assert asked(sys.argv[1], '/\u00fc') == 200 and loaded()", heat.origin)


def test_the_usual_certificates_are_those_of_requests(
    secured: Callable[[str], str], tmp_path: Path
) -> None:
    """The default certificates are those of requests, found without loading it, also without certifi."""
    run(
        "from heat_config_agent.web import direct\n"
        "found = direct.default_certificates()\n"
        "assert not loaded()\n"
        "import requests\n"
        "assert found == requests.certs.where()"
    )
    origin, trusted = secured(CERTIFICATE), str(known(tmp_path, CERTIFICATE))
    theirs = tmp_path / "distribution"
    theirs.mkdir()
    certifi = theirs / "certifi.py"
    certifi.write_text(f"def where():\n    return {trusted!r}\n")
    run(
        "assert asked(sys.argv[1]) == 200 and not loaded()",
        origin,
        PYTHONPATH=str(theirs),
    )
    certifi.write_text("raise ImportError\n")
    run(
        "assert asked(sys.argv[1]) == 200 and not loaded()",
        origin,
        PYTHONPATH=str(theirs),
        SSL_CERT_FILE=trusted,
    )
    folder = tmp_path / "system"
    folder.mkdir()
    (folder / ITS_NAME).write_text(CERTIFICATE)
    system = {
        "SSL_CERT_FILE": str(tmp_path / "missing.pem"),
        "SSL_CERT_DIR": str(folder),
    }
    run(
        "assert asked(sys.argv[1]) == 200 and not loaded()",
        origin,
        PYTHONPATH=str(theirs),
        **system,
    )

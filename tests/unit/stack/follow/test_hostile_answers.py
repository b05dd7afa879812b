"""No answer of a server ends a follow, and none takes more memory or time than there is for a revision."""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_agent.settings import effective
from heat_config_stack.follow import allowance, follower, git
from heat_config_stack.follow.origin import Origin
from heat_config_stack.follow.sources import source
from support.sites import Site

GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing: apt-get install git")

DOCUMENT = b'[{"name": "a", "group": "script", "config": "true"}]'


class Server(http.server.ThreadingHTTPServer):
    """A server that answers with one status, some headers and a body; the headers and the body can be changed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.headers, self.body = 200, dict[str, str](), DOCUMENT

    @property
    def place(self) -> str:
        """The host and the port."""
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = b"" if "/blobs/" in self.path else self.server.body
        self.send_response(self.server.status)
        for name, value in {**self.server.headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a server on loopback."""
    with Server() as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield serving
        finally:
            serving.shutdown()
            thread.join()


def manifest(title: str) -> bytes:
    """Return the manifest of an artifact whose one layer is empty and has a title."""
    empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    notes = {"org.opencontainers.image.title": title}
    layer = {"mediaType": "x", "digest": empty, "size": 0, "annotations": notes}
    return json.dumps({"layers": [layer]}).encode()


ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "a redirection to half a URL": (302, {"Location": "http://[::1"}, b""),
    "a redirection to a port that is none": (302, {"Location": "http://127.0.0.1:x/"}, b""),
    "a realm that is half a URL": (401, {"WWW-Authenticate": 'Bearer realm="http://[::1"'}, b""),
    "a title that is no text": (200, {}, manifest("\ud800.json")),
    "a title with a control character": (200, {}, manifest("a\nb.json")),
    "nesting without end": (200, {}, b"[" * 1_000_000),
    "a manifest that is no object": (200, {}, b"7"),
    "a manifest that is too large": (200, {}, b" " * (5 * 1024 * 1024)),
}


@pytest.mark.fault(
    3,
    "a malformed answer of a registry to a follower",
    "it is the trouble of that source, and the next poll asks again",
)
@pytest.mark.parametrize("answer", ANSWERS)
def test_malformed_answer_is_the_trouble_of_one_step(server: Server, tmp_path: Path, answer: str) -> None:
    """It is recorded and shown once; when the registry is right again, its artifact is carried out."""
    site = Site(tmp_path)
    site.values = {"url": f"oci+http://{server.place}/team/site"}
    server.status, server.headers, server.body = ANSWERS[answer]
    record = site.step()
    assert record.trouble or record.reason
    assert record.problem
    notes = len(site.notes)
    site.step()
    assert len(site.notes) == notes
    server.status, server.headers, server.body = 200, {}, b"{}"
    assert "the artifact has no layers" in site.step().reason


@pytest.mark.fault(
    3,
    "a defect in a step of a follower",
    "it is the trouble of that source, and the next poll asks again",
)
@pytest.mark.parametrize("error", [ValueError("t0ken and text"), RecursionError(), UnicodeError(), MemoryError()])
def test_defect_of_a_source_is_the_trouble_of_one_step(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The kind of the error is shown, and no secret; afterwards the source is followed as before."""
    site = Site(tmp_path)
    site.values = {"url": f"http://{server.place}/site.json", "user": "u", "token": "t0ken"}

    def fail(*_arguments: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(follower, "source", fail)
        record = site.step()
    assert f"the answer of the source cannot be used: {type(error).__name__}" in record.trouble
    assert "t0ken" not in record.trouble
    assert site.step().state == "in force"


@contextlib.contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Have a server on loopback talk to whoever connects; yield its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def origin(url: str, home: Path, seconds: float = 60, path: str = "") -> Origin:
    """Return the settings of a source."""
    environment = {"PATH": path or "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    return Origin(
        url=url, ref="main", seconds=seconds, size=1024**2, user="", token="", ca_file=None, environment=environment
    )


@GIT
@pytest.mark.fault(
    3, "a followed git server that sends refs without end", "git is stopped at its limit of memory, and it is said"
)
def test_refs_without_end_stop_git_at_its_limit_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent does not grow with them, and asks again at the next poll."""
    monkeypatch.setattr(git, "_MEMORY", 24 * 1024 * 1024)

    def talk(connection: socket.socket) -> None:
        connection.recv(4096)
        number = 0
        while True:
            lines = []
            for _ in range(1000):
                line = f"{number:040x} refs/heads/{number:0200}\n"
                lines.append(f"{len(line) + 4:04x}{line}")
                number += 1
            connection.sendall("".join(lines).encode())

    with talking(talk) as place, pytest.raises(SourceError, match="more than fits into the memory"):
        source(origin(f"git://{place}/x.git", tmp_path), tmp_path).newest()


@pytest.mark.parametrize("stream", ["1", "2"])
@pytest.mark.fault(
    3, "a followed git server whose messages have no end", "git is ended, and the agent keeps the end of them only"
)
def test_messages_without_end_are_not_kept(tmp_path: Path, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of the server are on git's standard error; what does not end is ended."""
    monkeypatch.setattr(git, "_MOST_PRINTED", 1024 * 1024)
    program = tmp_path / "git"
    program.write_text(f'#!/bin/sh\n[ "$2" = init ] || [ "$1" = init ] && exit 0\nexec yes \'remote: x\' >&{stream}\n')
    program.chmod(0o755)
    path = f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"
    with pytest.raises(SourceError, match="more than fits into the memory"):
        source(origin("git://127.0.0.1:1/x.git", tmp_path, path=path), tmp_path).newest()


def test_all_requests_of_a_revision_have_one_limit(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many layers cannot add up their timeouts: no request begins once the time for all of them is over."""
    layers = json.loads(manifest("x"))["layers"] * 50
    for number, layer in enumerate(layers):
        layers[number] = {**layer, "annotations": {"org.opencontainers.image.title": f"f{number}"}}
    server.body = json.dumps({"layers": layers}).encode()
    clock = itertools.count()
    monkeypatch.setattr(allowance, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    artifact = source(origin(f"oci+http://{server.place}/team/site", tmp_path, seconds=2), tmp_path)
    (tmp_path / "tree").mkdir()
    with pytest.raises(SourceError, match=r"the revision did not arrive within 20 s \(all requests of a revision"):
        artifact.fetch("", tmp_path / "tree")
    assert 10 < len([*(tmp_path / "tree").iterdir()]) < 20


def test_section_that_is_there_twice_is_a_mistake(tmp_path: Path) -> None:
    """The sentence has both lines; the other settings are used, with a warning."""
    path = tmp_path / "agent.conf"
    path.write_text("[agent]\nstate_dir = /s\n[follow a]\nurl = /x\n\n[follow  a]\nurl = /y\n[agent]\nparallel = 2\n")
    with pytest.raises(UsageError, match=r"line 6: \[follow a\] is there twice: first in line 3"):
        effective.make({}, config=path)
    mistakes: list[str] = []
    assert effective.make({}, config=path, mistakes=mistakes).number("parallel") == 2
    assert len(mistakes) == 1

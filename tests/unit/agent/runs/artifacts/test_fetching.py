"""Artifacts are fetched, verified and kept by their digests."""

from __future__ import annotations

import hashlib
import io
import os
import ssl
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent.runs.artifacts.cache import Cache
from heat_config_agent.runs.artifacts.fetching import ArtifactError, Means, fetch
from heat_config_hooks.artifacts import Artifact
from heat_config_hooks.values import replace
from support.certificates import CERTIFICATE, KEY, STRANGER
from support.http import Answer, Request, Stub

MEBI = 1024 * 1024


class Files:
    """A server with files."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[Request] = []
        self.stub = Stub(self._answer)
        self.stub.start()

    def put(
        self, name: str, body: bytes, *, to: str = "", unpack: bool = False
    ) -> Artifact:
        """Serve a file, and return it as an artifact."""
        self.answers[f"/{name}"] = Answer(body=body)
        return self.artifact(name, body, to=to, unpack=unpack)

    def artifact(
        self, name: str, body: bytes, *, to: str = "", unpack: bool = False
    ) -> Artifact:
        """Return a file of the server as an artifact, whether it is there or not."""
        url = f"http://user:hunter2@127.0.0.1:{self.stub.port}/{name}?sig=hunter2"
        return Artifact(
            url=url, sha256=hashlib.sha256(body).hexdigest(), to=to, unpack=unpack
        )

    def _answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.answers.get(request.path.partition("?")[0], Answer(status=404))


@pytest.fixture
def served() -> Iterator[Files]:
    """Return a server of files on loopback."""
    files = Files()
    yield files
    files.stub.stop()


@pytest.fixture
def means(tmp_path: Path) -> Means:
    """Return means of a mebibyte."""
    return Means(cache=tmp_path / "cache", size=MEBI, ca_file=None)


def archive(name: str, body: bytes) -> bytes:
    """Return a compressed tar archive with one file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as members:
        member = tarfile.TarInfo(name)
        member.size = len(body)
        members.addfile(member, io.BytesIO(body))
    return made.getvalue()


def test_artifact_is_fetched_once(tmp_path: Path, served: Files, means: Means) -> None:
    """A file is fetched once and then comes from the cache, unless the cached one is damaged."""
    plain = served.put("plain", b"one", to="a/plain")
    packed = served.put(
        "packed.tar.gz", archive("x/y", b"two"), to="roles", unpack=True
    )
    for number in range(2):
        fetch([plain, packed], tmp_path / str(number), means)
        assert (tmp_path / f"{number}/a/plain").read_text() == "one"
        assert (tmp_path / f"{number}/roles/x/y").read_text() == "two"
    assert len(served.requests) == 2
    assert served.requests[0].headers["Authorization"] == "Basic dXNlcjpodW50ZXIy"
    assert served.requests[0].path == "/plain?sig=hunter2"
    kept = means.cache / plain.sha256
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("two")
    fetch([plain], tmp_path / "again", means)
    assert (tmp_path / "again/a/plain").read_text() == "one"
    assert len(served.requests) == 3
    (tmp_path / "again/a/plain").write_text("changed by a run")
    assert kept.read_text() == "one"


def test_failed_fetch_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, served: Files, means: Means
) -> None:
    """A failed fetch is one sentence with the host and no secret, and leaves nothing in the folder or the cache."""
    good = served.put("good", b"good", to="good")
    bare = "artifacts[1] from 127.0.0.1"
    wrong = served.put("wrong", b"other", to="x")
    cases = {
        f"cannot fetch {bare}: it answers HTTP 404 Not Found": served.artifact(
            "missing", b"", to="x"
        ),
        f"cannot use {bare}: its SHA-256 digest is {hashlib.sha256(b'other').hexdigest()}, not {'0' * 64}": Artifact(
            url=wrong.url, sha256="0" * 64, to="x", unpack=False
        ),
        f"cannot use {bare}: it is larger than {MEBI - 4} bytes (keep_size": served.put(
            "huge", b"x" * MEBI, to="x"
        ),
        f"cannot use {bare}: the archive cannot be unpacked: ": served.put(
            "text", b"no archive", unpack=True
        ),
        f"cannot use {bare}: good is there already": served.put(
            "again", b"again", to="good"
        ),
        f"cannot use {bare}: good exists, and is not a folder": served.put(
            "below", b"again", to="good/x"
        ),
        f"cannot use {bare}: the archive has 'good', which is there already": served.put(
            "pack", archive("good", b""), unpack=True
        ),
        f"cannot use {bare}: the artifacts of the deployment are larger than {MEBI}": served.put(
            "bomb", archive("zeros", b"\0" * 2 * MEBI), unpack=True
        ),
        f"cannot fetch {bare}: it hung up without an answer": served.artifact(
            "gone", b"", to="x"
        ),
        f"cannot fetch {bare}: it redirects more than 5 times": served.artifact(
            "round", b"", to="x"
        ),
        f"cannot fetch {bare}: it redirects to a place that is not of https": served.artifact(
            "ftp", b"", to="x"
        ),
    }
    served.answers["/gone"] = Answer(hang_up=True)
    served.answers["/round"] = Answer(status=302, headers={"Location": "/round"})
    served.answers["/ftp"] = Answer(
        status=302, headers={"Location": "ftp://127.0.0.1/x"}
    )
    for number, (says, artifact) in enumerate(cases.items()):
        folder = tmp_path / f"run{number}" / "artifacts"
        folder.parent.mkdir()
        with pytest.raises(ArtifactError) as caught:
            fetch([good, artifact], folder, means)
        assert says in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert [*folder.parent.iterdir()] == []
    for kept in means.cache.iterdir():
        assert hashlib.sha256(kept.read_bytes()).hexdigest() == kept.name


def test_redirects_are_followed_without_credentials(
    tmp_path: Path, served: Files, means: Means
) -> None:
    """Redirects are followed without the user and the password of the first URL."""
    body = b"moved"
    served.put("new/place", body)
    served.answers["/old"] = Answer(
        status=302, headers={"Location": "/new/place?other"}
    )
    fetch([served.artifact("old", body, to="x")], tmp_path / "run", means)
    assert (tmp_path / "run/x").read_bytes() == body
    assert "Authorization" not in served.requests[1].headers
    assert served.requests[1].path == "/new/place?other"


def test_server_needs_a_trusted_certificate(
    tmp_path: Path, served: Files, means: Means
) -> None:
    """The server has to have a certificate of a trusted authority, and cannot redirect to one without TLS."""
    pem, trusted, stranger = (
        tmp_path / "server.pem",
        tmp_path / "ca.pem",
        tmp_path / "stranger.pem",
    )
    pem.write_text(CERTIFICATE + KEY)
    trusted.write_text(CERTIFICATE)
    stranger.write_text(STRANGER)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    served.put("plain", b"one")
    moved = f"http://127.0.0.1:{served.stub.port}/plain"
    answers = {
        "/x": Answer(body=b"one"),
        "/down": Answer(status=302, headers={"Location": moved}),
    }
    secure = Stub(lambda request: answers[request.path])
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    secure.start()
    base = f"https://127.0.0.1:{secure.port}"
    artifact = Artifact(
        url=f"{base}/x", sha256=hashlib.sha256(b"one").hexdigest(), to="x", unpack=False
    )
    with pytest.raises(
        ArtifactError,
        match=r"cannot fetch artifacts\[0\] from 127.0.0.1: .*certificate",
    ):
        fetch([artifact], tmp_path / "run", replace(means, ca_file=str(stranger)))
    fetch([artifact], tmp_path / "run", replace(means, ca_file=str(trusted)))
    assert (tmp_path / "run/x").read_bytes() == b"one"
    down = replace(artifact, url=f"{base}/down", sha256="0" * 64)
    with pytest.raises(
        ArtifactError, match="it redirects to a place that is not of https"
    ):
        fetch([down], tmp_path / "down", replace(means, ca_file=str(trusted)))
    assert served.requests == []
    secure.stop()


def test_full_disk_leaves_nothing(
    tmp_path: Path, served: Files, means: Means, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is one sentence, and nothing is left."""
    real = os.open

    def full(path: str, flags: int, *args: int, **more: int) -> int:
        return real(
            "/dev/full" if str(path).endswith(".arriving") else path,
            flags & ~os.O_EXCL,
            *args,
            **more,
        )

    monkeypatch.setattr("heat_config_agent.runs.artifacts.fetching.os.open", full)
    with pytest.raises(
        ArtifactError,
        match=r"cannot store artifacts\[0\] from 127.0.0.1: No space left on device",
    ):
        fetch([served.put("plain", b"one", to="x")], tmp_path / "run", means)
    assert not (tmp_path / "run").exists()


def test_the_cache_stays_within_its_size(tmp_path: Path) -> None:
    """The files that were not used for longest go first, and those that are too old."""
    cache = Cache(tmp_path / "cache")
    now = time.time()
    for number in range(5):
        (tmp_path / "new").write_bytes(b"x" * 4096)
        cache.add(tmp_path / "new", str(number))
        os.utime(cache.folder / str(number), (now - number, now - number))
    assert cache.total == (5 * 4096, 5)
    cache.trim(3 * 4096)
    assert sorted(os.listdir(cache.folder)) == ["0", "1", "2"]
    cache.trim(MEBI, now - 0.5)
    assert os.listdir(cache.folder) == ["0"]
    cache.trim(0)
    assert cache.total == (0, 0)
    Cache(tmp_path / "missing").trim(0)

"""An OCI artifact as a source, against a stand-in of a registry on loopback: it wants a token, redirects, and lies."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent.model.errors import SourceError, UsageError
from heat_config_stack.follow import oci
from heat_config_stack.follow.origin import Origin
from heat_config_stack.follow.sources import source
from support.artifacts import ARCHIVE, digest, layer, manifest
from support.http import Answer, Request, Stub


class Registry(Stub):
    """A registry with the artifact `team/site`, whose blobs are elsewhere."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.blobs: dict[str, bytes] = {}
        self.layers: list[dict[str, object]] = []
        self.asked: list[tuple[str, str]] = []

    @property
    def manifest(self) -> bytes:
        """The manifest."""
        return manifest(self.layers)

    def add(self, body: bytes, kind: str, title: str = "") -> None:
        """Add a layer."""
        self.blobs[digest(body)] = body
        self.layers.append(layer(body, title, kind))

    def _answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        login = request.headers.get("Authorization", "")
        self.asked.append((path.rpartition("/")[0], login))
        if path == "/token":
            scoped = "scope=repository%3Ateam%2Fsite%3Apull" in request.path
            status = 200 if scoped and login == "Basic dTp0" else 403
            return Answer(status, body=b'{"token": "abc"}')
        if path.startswith("/store/"):
            return Answer(body=self.blobs[path.removeprefix("/store/")])
        if login != "Bearer abc":
            scope = f'Bearer realm="http://{self.place}/token",service="r",scope="repository:team/site:pull"'
            return Answer(401, {"WWW-Authenticate": scope})
        if path == "/v2/team/site/manifests/stable":
            return Answer(body=self.manifest)
        if path.startswith("/v2/team/site/blobs/"):
            return Answer(307, {"Location": f"/store/{path.rpartition('/')[2]}"})
        return Answer(404)


@pytest.fixture
def registry() -> Iterator[Registry]:
    """Return a registry on loopback."""
    with Registry() as serving:
        yield serving


def origin(registry: Registry, ref: str = "stable", token: str = "t") -> Origin:  # noqa: S107  # of a test
    """Return the settings of the artifact."""
    url = f"oci+http://{registry.place}/team/site"
    return Origin(
        url=url,
        ref=ref,
        seconds=5,
        size=1024 * 1024,
        user="u",
        token=token,
        ca_file=None,
        environment={},
    )


def test_an_artifact_is_fetched_with_a_token(
    registry: Registry, tmp_path: Path
) -> None:
    """Layers are files and archives, the token goes only to the registry, and a poll is one request."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as members:
        member = tarfile.TarInfo("sub/a")
        member.size = 1
        members.addfile(member, io.BytesIO(b"1"))
    registry.add(b"template", "application/yaml", "stack.yaml")
    registry.add(packed.getvalue(), ARCHIVE)
    followed = source(origin(registry), tmp_path)
    revision = followed.newest()
    assert revision == digest(registry.manifest)
    tree = tmp_path / "tree"
    tree.mkdir()
    assert followed.fetch(revision, tree) == revision
    assert (tree / "stack.yaml").read_text() == "template"
    assert (tree / "sub/a").read_text() == "1"
    assert {given for path, given in registry.asked if path == "/store"} == {""}
    registry.asked.clear()
    assert followed.newest() == revision
    assert registry.asked == [("/v2/team/site/manifests", "Bearer abc")]


@pytest.mark.fault(
    2,
    "a registry that sends other content than its digests say, or denies access",
    "the revision is refused, or not there, with a sentence",
)
def test_layer_with_a_wrong_digest_is_refused(
    registry: Registry, tmp_path: Path
) -> None:
    """A layer counts only with its digest and size, and has no name that leads out."""
    registry.add(b"good", "application/yaml", "stack.yaml")
    registry.blobs = dict.fromkeys(registry.blobs, b"evil")
    with pytest.raises(SourceError, match="a layer whose digest is not"):
        source(origin(registry), tmp_path).fetch("", tmp_path)
    registry.layers.clear()
    for layers, says in (
        (0, "has no layers"),
        (1, "neither an archive nor a file with a title"),
    ):
        if layers:
            registry.add(b"x", "application/yaml", "../out")
        with pytest.raises(UsageError, match=says):
            source(origin(registry), tmp_path).fetch("", tmp_path)
    registry.layers[0]["size"] = 2 * 1024 * 1024
    with pytest.raises(UsageError, match="larger than"):
        source(origin(registry), tmp_path).fetch("", tmp_path)
    with pytest.raises(SourceError, match="gives no token: HTTP 403"):
        source(origin(registry, token="wrong"), tmp_path).newest()
    with pytest.raises(SourceError, match="HTTP 404"):
        source(origin(registry, ref="missing"), tmp_path).newest()
    with pytest.raises(UsageError, match="no artifact has the tag"):
        source(origin(registry, ref="a/../b"), tmp_path).newest()
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("place", ["/token", "/v2/", "/store/"])
def test_no_answer_of_a_registry_leads_past_the_policy(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The registry, the place of its tokens, and the one to which it redirects may each be another host."""
    monkeypatch.setattr(
        oci, "refused_url", lambda url: f"refused: {place}" if place in url else ""
    )
    registry.add(b"template", "application/yaml", "stack.yaml")
    artifact = source(origin(registry), tmp_path)
    with pytest.raises(SourceError, match=f"refused: {place}"):
        artifact.fetch(artifact.newest(), tmp_path)
    assert not any(f"{path}/".startswith(place) for path, _ in registry.asked if path)

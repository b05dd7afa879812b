"""Followed sources where the policy has the rule `signers`: what is not signed is refused before it is looked at."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_agent.model import signed
from heat_config_agent.signing import ssh
from support import artifacts
from support.governed import Governed
from support.http import Answer, Request, Stub
from support.repositories import Repository, template
from support.signers import BOMB, SIGNERS, Signer, sign

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("ssh-keygen")),
    reason="needs git and ssh-keygen: install openssh-client",
)


class Followed:
    """A machine that follows one source."""

    def __init__(self, governed: Governed, proof: Path) -> None:
        self.governed, self.proof = governed, proof
        self.files: dict[str, bytes] = {}
        """Of the server, by path."""
        self.server = Stub(self._answer)
        self.path = governed.machine.folder / "agent.conf"

    def _answer(self, request: Request) -> Answer:
        body = self.files.get(request.path)
        return Answer(404) if body is None else Answer(body=body)

    @property
    def base(self) -> str:
        """Where the server is."""
        return f"127.0.0.1:{self.server.port}"

    def configure(self, **values: object) -> None:
        """Follow a source with these settings."""
        lines = [f"[agent]\nstate_dir = {self.governed.machine.state}\n\n[follow web]"]
        self.path.write_text(
            "\n".join(
                [*lines, *(f"{name} = {value}" for name, value in values.items()), ""]
            )
        )

    def follow(self, *words: str) -> str:
        """Poll once, and return what is said."""
        done = self.governed.run(
            "heat-config-agent", "source", "sync", "--config", str(self.path), *words
        )
        return done.out + done.err

    def document(self, line: str) -> str:
        """Return a document whose deployment adds a line to the proof."""
        config = f"#!/bin/sh\necho {line} >>{shlex.quote(str(self.proof))}\n"
        return json.dumps(
            [{"id": line, "name": "d", "group": "script", "config": config}]
        )

    @property
    def ran(self) -> list[str]:
        """The lines of the proof."""
        return self.proof.read_text().split() if self.proof.exists() else []


@pytest.fixture
def followed(governed: Governed, tmp_path: Path) -> Iterator[Followed]:
    """A machine that follows a source, and the server of it."""
    made = Followed(governed, tmp_path / "proof")
    made.server.start()
    yield made
    made.server.stop()


def listed(signer: Signer, **files: bytes) -> bytes:
    """Return a signed list of files; `__` stands for a dot in their names."""
    lines = (
        f"{signed.digest(content)}  {name.replace('__', '.')}\n"
        for name, content in files.items()
    )
    return ssh.sign(signer.key, signed.FILES, "".join(lines)).encode()


def test_a_document_at_a_url_runs_with_its_list(
    followed: Followed, alice: Signer, tmp_path: Path
) -> None:
    """Without a list, with that of another file, another content or another user, it is refused and nothing runs."""
    followed.configure(url=f"http://{followed.base}/site.json")
    mallory = Signer(tmp_path, "mallory")
    body = [followed.document(f"d{number}").encode() for number in range(7)]
    for number, (text, why) in enumerate(
        (
            (None, "site.json is not signed: there is no site.json.signed next to it"),
            (
                listed(mallory, site__json=body[1]),
                "its signature does not count: its signer is not an allowed one",
            ),
            (
                listed(alice, other__json=body[2]),
                "site.json.signed signs another version of site.json",
            ),
            (
                listed(alice, site__json=body[2]),
                "site.json.signed signs another version of site.json",
            ),
            (b"#" + listed(alice, site__json=body[4]), "signature verification failed"),
            (b"0" * 2 * 1024**2, "its signature does not count: it has no signature"),
        )
    ):
        followed.files = {"/site.json": body[number]} | (
            {} if text is None else {"/site.json.signed": text}
        )
        assert why in followed.follow()
    assert followed.ran == []
    followed.files = {
        "/site.json": body[6],
        "/site.json.signed": listed(alice, site__json=body[6]),
    }
    assert "is in force" in followed.follow()
    assert followed.ran == ["d6"]


def test_an_archive_at_a_url_is_not_unpacked_before_it_is_known_to_be_signed(
    followed: Followed, alice: Signer
) -> None:
    """One that unpacks to far more than is allowed is refused for its signature, and not for its size."""
    followed.configure(
        url=f"http://{followed.base}/svc.tar.gz", path="site.json", size_limit=200_000
    )
    bomb = io.BytesIO()
    with (
        gzip.open(bomb, "wb") as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        info = tarfile.TarInfo("site.json")
        info.size = 1_000_000
        archive.addfile(info, io.BytesIO(bytes(info.size)))
    followed.files = {"/svc.tar.gz": bomb.getvalue()}
    assert "svc.tar.gz is not signed" in followed.follow()
    good = io.BytesIO()
    with tarfile.open(fileobj=good, mode="w:gz") as archive:
        content = followed.document("d1").encode()
        info = tarfile.TarInfo("site.json")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    list_of = listed(alice, svc__tar__gz=good.getvalue())
    followed.files = {
        "/svc.tar.gz": good.getvalue() + b"\0",
        "/svc.tar.gz.signed": list_of,
    }
    assert "signs another version of svc.tar.gz" in followed.follow()
    followed.files["/svc.tar.gz"] = good.getvalue()
    assert "is in force" in followed.follow()
    assert followed.ran == ["d1"]


def test_an_artifact_is_not_parsed_before_it_is_known_to_be_signed(
    followed: Followed, alice: Signer, tmp_path: Path
) -> None:
    """A text that cannot be parsed is refused for its signature. A list next to the template is for all it names."""
    followed.configure(url=f"oci+http://{followed.base}/site")

    def push(**files: bytes) -> None:
        for content in files.values():
            place = f"/v2/site/blobs/{artifacts.digest(content)}"
            followed.files[place] = content
        followed.files["/v2/site/manifests/latest"] = artifacts.manifest(
            [
                artifacts.layer(content, name.replace("__", "."))
                for name, content in files.items()
            ]
        )

    push(site__yaml=BOMB.encode())
    assert (
        "is not signed, and the rule signers of the policy requires it"
        in followed.follow()
    )
    push(
        site__yaml=BOMB.encode(),
        site__yaml__signed=listed(
            Signer(tmp_path, "mallory"), site__yaml=BOMB.encode()
        ),
    )
    assert "its signer is not an allowed one" in followed.follow()
    document = followed.document("d1").encode()
    push(
        site__yaml=document + b"\n",
        site__yaml__signed=listed(alice, site__yaml=document),
    )
    assert "site.yaml: it was changed after it was signed" in followed.follow()
    assert followed.ran == []
    push(site__yaml=document, site__yaml__signed=listed(alice, site__yaml=document))
    assert "is in force" in followed.follow()
    assert followed.ran == ["d1"]


def test_a_path_is_followed_with_the_list_next_to_it(
    followed: Followed, alice: Signer, tmp_path: Path
) -> None:
    """A file with its list, and a folder in which other files are not signed; each change of both is a revision."""
    path = tmp_path / "site.json"
    followed.configure(url=path)
    path.write_text(followed.document("d1"))
    assert "site.json is not signed" in followed.follow()
    path.with_name("site.json.signed").write_bytes(
        listed(alice, site__json=path.read_bytes())
    )
    assert "is in force" in followed.follow()
    folder = tmp_path / "folder"
    folder.mkdir()
    followed.configure(url=folder, path="stack.yaml")
    (folder / "extra.yaml").write_text(BOMB)
    (folder / "stack.yaml").write_text(template(followed.proof, "d2"))
    text = (folder / "stack.yaml").read_bytes()
    (folder / "stack.yaml.signed").write_bytes(listed(alice, stack__yaml=text))
    assert "the machine has the deployments of a document (forget them first" in (
        followed.follow()
    )
    assert followed.governed.agent("forget", "--yes", "web/d1").code == 0
    assert "is in force" in followed.follow("web", "--again")
    (folder / "stack.yaml").write_text(template(followed.proof, "d3"))
    assert "it was changed after it was signed" in followed.follow()
    assert followed.ran == ["d1", "d2", "red"]


SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {template_name: svc, template_version: 1.0.0, template_author: t}
topology_template:
  node_templates:
    app:
      type: tosca.nodes.SoftwareComponent
      interfaces: {Standard: {operations: {create: {implementation: run.sh}}}}
"""


def test_service_in_a_followed_folder_is_a_signed_folder_of_its_own(
    followed: Followed, alice: Signer, tmp_path: Path
) -> None:
    """At the top of the source there is no place for its list: nothing runs, and the message names the way out."""
    folder = tmp_path / "source/app"
    folder.mkdir(parents=True)
    (folder / "service.yaml").write_text(SERVICE)
    (folder / "run.sh").write_text(
        f"#!/bin/sh\necho ran >>{shlex.quote(str(followed.proof))}\n"
    )
    sign(followed.governed, alice, str(folder))
    for path in ("service.yaml", "."):
        followed.configure(url=folder, path=path)
        name = "the source itself" if path == "." else path
        printed = followed.follow()
        assert f"{name} is not signed, and the rule signers" in printed
        assert "a TOSCA service is an archive or a folder in the source" in printed
    followed.configure(url=folder.parent, path="app")
    assert "is in force" in followed.follow()
    assert followed.ran == ["ran"]
    (folder / "run.sh").write_text("#!/bin/sh\ntrue\n")
    assert "app/run.sh: it was changed after it was signed" in followed.follow()


@pytest.mark.slow
def test_older_signed_revision_is_refused_once_the_rule_is_there(
    governed: Governed, followed: Followed, tmp_path: Path
) -> None:
    """Once the rule is there, a signed revision before the one in force is refused, also if a ref is made again."""
    alice, repository = Signer(tmp_path, "alice"), Repository(tmp_path / "repository")
    (governed.own / "allowed_signers").write_text(alice.line())
    followed.configure(url=repository.url, ref="main", path="stack.yaml")
    one = repository.commit({"stack.yaml": template(followed.proof, "one")}, *alice.git)
    two = repository.commit({"stack.yaml": template(followed.proof, "two")})
    assert f"revision {two[:12]} is in force" in followed.follow()
    governed.policy(f"signers = {SIGNERS}")
    repository.git("reset", "-q", "--hard", one)
    assert f"commit {one[:12]} does not follow {two[:12]}" in followed.follow()
    repository.git("checkout", "-q", "--detach")
    repository.git("branch", "-q", "-D", "main")
    assert "no branch or tag main" in followed.follow()
    repository.git("branch", "main", one)
    repository.git("tag", "main")
    assert f"{two[:12]} is in force" not in followed.follow()
    repository.git("checkout", "-q", "-B", "main", two)
    repository.git("tag", "-d", "main")
    three = repository.commit(
        {"stack.yaml": template(followed.proof, "three")}, *alice.git
    )
    assert f"revision {three[:12]} is in force" in followed.follow()
    assert followed.ran == ["two", "red", "three", "red"]

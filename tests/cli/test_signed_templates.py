"""Templates, archives and followed repositories on a machine whose policy has the rule `signers`."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import threading
import zipfile
from pathlib import Path

import pytest

from support import pace
from support.governed import Governed
from support.machine import deployment
from support.repositories import Repository, template
from support.signers import Signer, sign

pytestmark = pytest.mark.skipif(
    not (shutil.which("git") and shutil.which("ssh-keygen")),
    reason="needs git and ssh-keygen: install openssh-client",
)

HOT = """\
heat_template_version: 2021-04-16
resources:
  one: {type: inner.yaml}
"""
INNER = """\
heat_template_version: 2021-04-16
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: {get_file: SCRIPT}}}
  run:
    type: OS::Heat::SoftwareDeployment
    properties: {server: here, config: {get_resource: config}, actions: [CREATE, UPDATE, DELETE]}
"""


def test_a_template_is_signed_with_all_that_it_names(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """A file that was changed, added, exchanged or linked is refused before it is used, and so is a policy's change."""
    proof, folder = tmp_path / "proof", tmp_path / "site"
    folder.mkdir()
    main, inner, script = folder / "site.yaml", folder / "inner.yaml", folder / "run.sh"
    main.write_text(HOT)
    inner.write_text(INNER.replace("SCRIPT", "run.sh"))
    script.write_text(f"#!/bin/sh\necho $deploy_action >>{shlex.quote(str(proof))}\n")
    (folder / "wipe.sh").write_text("#!/bin/sh\nfalse\n")
    assert (
        "it is not signed, and the rule signers of the policy requires it"
        in governed.apply_file(main).err
    )
    sign(governed, alice, str(main))
    good = {path: path.read_text() for path in (main, inner, script)}
    elsewhere = tmp_path / "elsewhere.sh"
    for path, text, why in (
        (main, HOT + "# more\n", "site.yaml: it was changed after it was signed"),
        (inner, good[inner] + " ", "inner.yaml: it was changed after it was signed"),
        (
            script,
            (folder / "wipe.sh").read_text(),
            "run.sh: it was changed after it was signed",
        ),
        (inner, INNER.replace("SCRIPT", "wipe.sh"), "inner.yaml: it was changed"),
    ):
        path.write_text(text)
        done = governed.apply_file(main)
        assert done.code == 2
        assert why in done.err
        path.write_text(good[path])
    elsewhere.write_text(good[script] + "true\n")
    for target in (elsewhere, inner):
        # the content counts that the name stands for, also if that is signed itself
        script.unlink()
        script.symlink_to(target)
        assert (
            "run.sh: it was changed after it was signed"
            in governed.apply_file(main).err
        )
    script.unlink()
    script.write_text(good[script])
    environment = folder / "more.yaml"
    environment.write_text("resource_registry: {inner.yaml: other.yaml}\n")
    (folder / "other.yaml").write_text(INNER.replace("SCRIPT", str(elsewhere)))
    assert (
        "more.yaml is not in the signed list"
        in governed.apply_file(main, "-e", str(environment)).err
    )
    assert not proof.exists()
    assert not (governed.machine.state / "stacks/site").exists()
    done = governed.apply_file(main)
    assert done.code == 0, done.err + done.out
    assert proof.read_text() == "CREATE\n"
    mallory = Signer(tmp_path, "mallory")
    (governed.own / "allowed_signers").write_text(mallory.line())
    gone = governed.agent("stack", "delete", "--yes", "site")
    assert gone.code == 1
    assert (
        "the signature of the document does not count: its signer is not an allowed one"
        in gone.out
    )
    assert proof.read_text() == "CREATE\n"
    (governed.own / "allowed_signers").write_text(mallory.line() + alice.line())
    assert governed.agent("stack", "delete", "--yes", "site").code == 0
    assert proof.read_text() == "CREATE\nDELETE\n"


def test_an_archive_is_signed_as_a_whole(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """The archive or folder of a TOSCA service is signed as a whole, and read only after the signature counts."""
    proof, folder = tmp_path / "proof", tmp_path / "service"
    folder.mkdir()
    (folder / "service.yaml").write_text(
        "tosca_definitions_version: tosca_simple_yaml_1_3\n"
        "metadata: {template_name: svc, template_version: 1.0.0, template_author: t}\n"
        "topology_template:\n  node_templates:\n    app:\n      type: tosca.nodes.SoftwareComponent\n"
        "      interfaces: {Standard: {operations: {create: {implementation: run.sh}}}}\n"
    )
    (folder / "run.sh").write_text(f"#!/bin/sh\necho ran >>{shlex.quote(str(proof))}\n")
    archive = tmp_path / "svc.csar"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.iterdir():
            file.write(path, path.name)
    for packed in (archive, folder):
        assert "it is not signed" in governed.apply_file(packed).err
        sign(governed, alice, str(packed))
    whole = archive.read_bytes()
    archive.write_bytes(whole + b"\0")
    assert (
        "svc.csar: it was changed after it was signed"
        in governed.apply_file(archive).err
    )
    archive.write_bytes(whole)
    text = (folder / "run.sh").read_text()
    (folder / "run.sh").write_text(text + "true\n")
    assert (
        "run.sh: it was changed after it was signed" in governed.apply_file(folder).err
    )
    (folder / "run.sh").write_text(text)
    assert not proof.exists()
    for number, packed in enumerate((archive, folder), 1):
        done = governed.apply_file(packed, "--name", f"s{number}")
        assert done.code == 0, done.err + done.out
        assert proof.read_text() == "ran\n" * number


@pytest.mark.slow
def test_a_followed_revision_runs_by_the_signature_of_its_commit(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """An older signed revision, and one that is not signed, are refused, and the stack stays as it is."""
    log, repository = tmp_path / "log", Repository(tmp_path / "repository")
    path = governed.machine.folder / "agent.conf"
    path.write_text(
        f"[agent]\nstate_dir = {governed.machine.state}\n\n"
        f"[follow web]\nurl = {repository.url}\nref = main\npath = stack.yaml\n"
    )

    def follow() -> str:
        done = governed.run(
            "heat-config-agent", "source", "sync", "--config", str(path)
        )
        return done.out + done.err

    repository.commit({"stack.yaml": template(log, "zero")})
    assert "has no signature of ssh" in follow()
    one = repository.commit({"stack.yaml": template(log, "one")}, *alice.git)
    assert f"revision {one[:12]} is in force" in follow()
    two = repository.commit({"stack.yaml": template(log, "two")}, *alice.git)
    follow()
    assert log.read_text().split() == ["one", "red", "two", "red"]
    repository.git("reset", "-q", "--hard", one)
    assert f"commit {one[:12]} does not follow {two[:12]}" in follow()
    repository.git("reset", "-q", "--hard", two)
    outside = tmp_path / "outside.sh"
    outside.write_text("#!/bin/sh\n")
    repository.commit({"stack.yaml": INNER.replace("SCRIPT", str(outside))}, *alice.git)
    assert "is not in the signed revision" in follow()
    assert log.read_text().split() == ["one", "red", "two", "red"]


def test_a_followed_document_runs_by_the_signature_of_its_commit(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """A signed tree does not sign a file elsewhere, and a link out of the tree is refused."""
    proof, repository = tmp_path / "proof", Repository(tmp_path / "repository")
    path = governed.machine.folder / "agent.conf"
    path.write_text(
        f"[agent]\nstate_dir = {governed.machine.state}\n\n[follow doc]\nurl = {repository.url}\npath = site.json\n"
    )
    config = f"#!/bin/sh\necho ran >>{shlex.quote(str(proof))}\n"
    given = json.dumps(
        [{"id": "d1", "name": "d1", "group": "script", "config": config}]
    )
    repository.commit({"site.json": given}, *alice.git)
    done = governed.run("heat-config-agent", "source", "sync", "--config", str(path))
    assert "is in force" in done.out + done.err
    assert proof.read_text() == "ran\n"
    (evidence,) = (governed.machine.state / "follow/doc/trees").glob("*.signature")
    elsewhere = governed.machine.write(
        [deployment("d2", f"#!/bin/sh\necho ran >>{shlex.quote(str(proof))}\n")]
    )
    refused = governed.apply_file(elsewhere, "--signature", str(evidence))
    assert "is not in the signed revision" in refused.err
    (repository.folder / "site.json").unlink()
    (repository.folder / "site.json").symlink_to(elsewhere)
    repository.commit({}, *alice.git)
    done = governed.run("heat-config-agent", "source", "sync", "--config", str(path))
    assert "the link site.json leads out of the revision" in done.out + done.err
    assert proof.read_text() == "ran\n"


def test_document_replaced_after_verification_is_not_used(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """A document is read once: what stands in its place a moment later is neither verified nor run."""
    proof, path = tmp_path / "proof", tmp_path / "site.json"
    good = json.dumps(
        [deployment("d1", f"#!/bin/sh\necho good >>{shlex.quote(str(proof))}\n")]
    )
    path.write_text(good)
    sign(governed, alice, str(path))
    path.unlink()
    os.mkfifo(path)
    evil = json.dumps(
        [deployment("d2", f"#!/bin/sh\necho evil >>{shlex.quote(str(proof))}\n")]
    )

    other = tmp_path / "other.json"
    other.write_text(evil)

    def serve() -> None:
        path.write_text(good)  # once there is a reader
        other.replace(path)

    thread = threading.Thread(target=serve)
    thread.start()
    done = governed.apply_file(path)
    thread.join(pace.seconds(10))
    assert path.read_text() == evil
    assert done.code == 0, done.err
    assert proof.read_text() == "good\n"

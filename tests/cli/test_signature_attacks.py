"""Attacks on the rule `signers`: a file in the place of a signed one, or next to it, is not run."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
import zipfile
from pathlib import Path

import pytest

from heat_config_agent.model import signed
from heat_config_agent.signing import ssh
from support import pace
from support.governed import Governed
from support.loopback import SignalServer
from support.machine import deployment
from support.signers import BOMB, Signer, sign

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None,
    reason="needs ssh-keygen: install openssh-client",
)

TEMPLATE = """\
heat_template_version: 2021-04-16
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: {get_file: run.sh}}}
  other: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: {get_file: wipe.sh}}}
  run: {type: OS::Heat::SoftwareDeployment, properties: {server: here, config: {get_resource: config}}}
"""
SERVICE = """\
tosca_definitions_version: tosca_simple_yaml_1_3
metadata: {template_name: svc, template_version: 1.0.0, template_author: t}
topology_template:
  node_templates:
    app:
      type: tosca.nodes.SoftwareComponent
      interfaces: {Standard: {operations: {create: {implementation: run.sh}}}}
"""


def script(proof: Path, line: str = "ran") -> str:
    """Return a script that leaves the proof that it has run."""
    return f"#!/bin/sh\necho {line} >>{shlex.quote(str(proof))}\n"


def site(folder: Path, proof: Path) -> Path:
    """Write a template with two scripts, of which it runs one, and return it."""
    folder.mkdir()
    (folder / "run.sh").write_text(script(proof))
    (folder / "wipe.sh").write_text(script(proof, "wiped"))
    (folder / "site.yaml").write_text(TEMPLATE)
    return folder / "site.yaml"


def packed(path: Path, proof: Path) -> Path:
    """Write the archive of a service that runs a script, and return it."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("service.yaml", SERVICE)
        file.writestr("run.sh", script(proof))
    return path


def test_no_link_puts_one_signed_file_in_the_place_of_another(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """The content has to be that of the name by which the template asks for it; the folder may be behind a link."""
    proof, main = tmp_path / "proof", site(tmp_path / "site", tmp_path / "proof")
    sign(governed, alice, str(main))
    (main.parent / "run.sh").unlink()
    (main.parent / "run.sh").symlink_to("wipe.sh")
    assert "run.sh: it was changed after it was signed" in governed.apply_file(main).err
    assert not proof.exists()
    (main.parent / "run.sh").unlink()
    (main.parent / "run.sh").write_text(script(proof))
    (tmp_path / "behind").symlink_to("site")
    done = governed.apply_file(tmp_path / "behind/site.yaml")
    assert done.code == 0, done.err
    assert proof.read_text() == "ran\n"


def test_an_archive_in_the_place_of_a_signed_template_is_not_opened(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """Archives are known by their content too, and only their signed content is read, under any name."""
    proof, main = tmp_path / "proof", site(tmp_path / "site", tmp_path / "proof")
    sign(governed, alice, str(main))
    packed(main, proof)
    assert (
        "site.yaml: it was changed after it was signed" in governed.apply_file(main).err
    )
    main.unlink()
    main.mkdir()
    packed(main / "service.yaml", proof)
    refused = governed.apply_file(main)
    assert refused.code == 2
    assert (
        f"cannot use {main}/service.yaml: it is not signed, and the rule signers"
        in refused.err
    )
    plain = packed(tmp_path / "service", proof)
    sign(governed, alice, str(plain))
    whole = plain.read_bytes()
    plain.write_bytes(whole + b"\0")
    assert (
        "service: it was changed after it was signed" in governed.apply_file(plain).err
    )
    assert not proof.exists()
    plain.write_bytes(whole)
    done = governed.apply_file(plain)
    assert done.code == 0, done.err
    assert proof.read_text() == "ran\n"


def test_a_script_is_read_once(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """A pipe in its place gives the signed content once, and what it gives afterwards is not asked for."""
    proof, main = tmp_path / "proof", site(tmp_path / "site", tmp_path / "proof")
    sign(governed, alice, str(main))
    path = main.parent / "run.sh"
    good = path.read_text()
    path.unlink()
    os.mkfifo(path)
    (tmp_path / "evil").write_text(script(proof, "evil"))

    def serve() -> None:
        path.write_text(good)  # once there is a reader
        (tmp_path / "evil").replace(path)

    thread = threading.Thread(target=serve)
    thread.start()
    done = governed.apply_file(main)
    thread.join(pace.seconds(10))
    assert done.code == 0, done.err
    assert proof.read_text() == "ran\n"
    assert "run.sh: it was changed after it was signed" in governed.apply_file(main).err


def test_a_script_of_a_signed_folder_sees_signed_files_only(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """A file that was added is not there for it, a link stands for its content, and the stack is deleted as signed."""
    proof, folder = tmp_path / "proof", tmp_path / "service"
    folder.mkdir()
    interface = "{operations: {create: {implementation: run.sh}, delete: {implementation: gone.sh}}}"
    (folder / "service.yaml").write_text(
        SERVICE.replace("{operations: {create: {implementation: run.sh}}}", interface)
    )
    (folder / "run.sh").write_text(
        f'#!/bin/sh\ncd "$(dirname "$0")" && cat *.txt >>{shlex.quote(str(proof))}\n'
    )
    (folder / "gone.sh").write_text(script(proof, "gone"))
    (tmp_path / "kept.txt").write_text("signed\n")
    (folder / "linked.txt").symlink_to(tmp_path / "kept.txt")
    (folder / ".hidden.txt").write_text("hidden\n")
    sign(governed, alice, str(folder))
    (folder / "added.txt").write_text("added\n")
    (folder / "RUN.SH").write_text(script(proof, "shouted"))
    (folder / "TOSCA-Metadata").mkdir()
    (folder / "TOSCA-Metadata/TOSCA.meta").write_text("Entry-Definitions: evil.yaml\n")
    (folder / "evil.yaml").write_text(SERVICE.replace("run.sh", "added.txt"))
    done = governed.apply_file(folder)
    assert done.code == 0, done.err + done.out
    assert proof.read_text() == "signed\n"
    shutil.rmtree(folder)
    (tmp_path / "service.signed").unlink()
    assert governed.agent("stack", "delete", "--yes", "svc").code == 0
    assert proof.read_text() == "signed\ngone\n"


def test_folder_with_one_template_is_signed_as_a_whole(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """Its list is next to the folder, also as long as the template has no name of its own, which an archive needs."""
    proof, folder = tmp_path / "proof", tmp_path / "service"
    folder.mkdir()
    (folder / "run.sh").write_text(script(proof))
    plain = "".join(
        line
        for line in SERVICE.splitlines(keepends=True)
        if "template_name" not in line
    )
    (folder / "service.yaml").write_text(plain)
    sign(governed, alice, str(folder))
    done = governed.apply_file(folder)
    assert done.code == 2
    assert "template_name" in done.err
    assert not proof.exists()
    (folder / "service.yaml").write_text(SERVICE)
    assert "it was changed after it was signed" in governed.apply_file(folder).err
    sign(governed, alice, str(folder))
    done = governed.apply_file(folder)
    assert done.code == 0, done.err
    assert proof.read_text() == "ran\n"


@pytest.mark.slow
def test_signature_is_checked_before_parsing(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """A template, an archive and a folder that are too much for any parser: the signature is looked at first."""
    template, archive, folder = (
        tmp_path / "site.yaml",
        tmp_path / "svc.csar",
        tmp_path / "service",
    )
    template.write_text(f"heat_template_version: 2021-04-16\n{BOMB}")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(20):
            file.writestr(f"{number}.yaml", bytes(8 * 1024**2))
    folder.mkdir()
    (folder / "service.yaml").write_text(
        f"tosca_definitions_version: tosca_simple_yaml_1_3\n{BOMB}"
    )
    mallory = Signer(tmp_path, "mallory")
    for path in (template, archive, folder, folder / "service.yaml"):
        assert (
            "it is not signed, and the rule signers of the policy requires it"
            in governed.apply_file(path).err
        )
        name = path.name if path.is_file() else f"{path.name}/service.yaml"
        content = (
            path.read_bytes()
            if path.is_file()
            else (folder / "service.yaml").read_bytes()
        )
        for signer, digest, why in (
            (mallory, signed.digest(content), "its signer is not an allowed one"),
            (alice, "0" * 64, "it was changed after it was signed"),
        ):
            text = ssh.sign(signer.key, signed.FILES, f"{digest}  {name}\n")
            path.with_name(f"{path.name}.signed").write_text(text)
            assert why in governed.apply_file(path).err
    document = tmp_path / "site.json"
    document.write_text(BOMB)
    assert (
        "it is not signed, and the rule signers of the policy requires it"
        in governed.apply_file(document).err
    )
    document.with_name("site.json.signed").write_text(
        ssh.sign(alice.key, signed.FILES, f"{'0' * 64}  site.json\n")
    )
    assert (
        "site.json: it was changed after it was signed"
        in governed.apply_file(document).err
    )


def test_a_deployment_that_calls_itself_a_cleanup_is_not_one(
    governed: Governed, alice: Signer, heat: SignalServer, tmp_path: Path
) -> None:
    """A cleanup needs no signature, and only the agent makes one: an action of that name is nothing but a name."""
    proof = tmp_path / "proof"
    assert alice.key.exists()  # the policy requires signatures
    given = deployment("d1", script(proof))
    others = [each for each in given["inputs"] if each["name"] != "deploy_action"]
    done = governed.apply(
        [{**given, "inputs": [*others, {"name": "deploy_action", "value": "(left)"}]}]
    )
    assert "only the agent makes cleanups" in done.out
    given = deployment("d2", script(proof), signal=heat.url(), heat_config_left="d3")
    assert "only the agent makes cleanups" in governed.apply([given]).out
    assert not proof.exists()

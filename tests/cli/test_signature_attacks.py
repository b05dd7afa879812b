"""Attacks on the rule `signers`: what is in the place of a signed file, or around it, is not run."""

from __future__ import annotations

import shlex
import shutil
import zipfile
from pathlib import Path

import pytest

from support.governed import Governed
from support.machine import Done, Machine
from support.signers import Signer

SIGNERS = "/etc/heat-config-agent/allowed_signers"

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen: install openssh-client")

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


@pytest.fixture
def governed(machine: Machine) -> Governed:
    """A machine whose /etc/heat-config-agent is a folder of the test."""
    return Governed(machine)


@pytest.fixture
def alice(governed: Governed, tmp_path: Path) -> Signer:
    """A signer whose signatures the policy accepts."""
    signer = Signer(tmp_path, "alice")
    (governed.own / "allowed_signers").write_text(signer.line())
    governed.policy(f"signers = {SIGNERS}")
    return signer


def apply(governed: Governed, path: Path, *words: str) -> Done:
    """Apply a template or a document."""
    return governed.run("heat-config-apply", "--state-dir", str(governed.machine.state), *words, str(path))


def sign(governed: Governed, signer: Signer, *words: str) -> None:
    """Sign with the command."""
    done = governed.run("heat-config-agent", "sign", "--key", str(signer.key), *words)
    assert done.code == 0, done.err


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
    assert "run.sh: it was changed after it was signed" in apply(governed, main).err
    assert not proof.exists()
    (main.parent / "run.sh").unlink()
    (main.parent / "run.sh").write_text(script(proof))
    (tmp_path / "behind").symlink_to("site")
    done = apply(governed, tmp_path / "behind/site.yaml")
    assert done.code == 0, done.err
    assert proof.read_text() == "ran\n"


def test_an_archive_in_the_place_of_a_signed_template_is_not_opened(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """Archives are known by their content too, and only their signed content is read, whatever they are called."""
    proof, main = tmp_path / "proof", site(tmp_path / "site", tmp_path / "proof")
    sign(governed, alice, str(main))
    packed(main, proof)
    assert "site.yaml: it was changed after it was signed" in apply(governed, main).err
    main.unlink()
    main.mkdir()
    packed(main / "service.yaml", proof)
    assert "Is a directory" in apply(governed, main).err
    plain = packed(tmp_path / "service", proof)
    sign(governed, alice, str(plain))
    whole = plain.read_bytes()
    plain.write_bytes(whole + b"\0")
    assert "service: it was changed after it was signed" in apply(governed, plain).err
    assert not proof.exists()
    plain.write_bytes(whole)
    done = apply(governed, plain)
    assert done.code == 0, done.err
    assert proof.read_text() == "ran\n"

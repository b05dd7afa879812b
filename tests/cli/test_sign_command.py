"""`heat-config-agent sign`: its lists, its messages about keys that cannot sign, and the verdicts of `sign check`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from support.machine import Done, Machine, deployment
from support.signers import Signer

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None,
    reason="needs ssh-keygen: install openssh-client",
)

TEMPLATE = """\
heat_template_version: 2021-04-16
resources:
  first: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: {get_file: run.sh}}}
  second: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: "true"}}
  server: {type: OS::Nova::Server, metadata: {heat-config-signatures: {get_file: site.yaml.signed}}}
"""


@pytest.fixture
def alice(tmp_path: Path) -> Signer:
    """A user with a key."""
    return Signer(tmp_path, "alice")


@pytest.fixture
def signers(alice: Signer, tmp_path: Path) -> str:
    """The path of an allowed signers file with that user."""
    path = tmp_path / "allowed_signers"
    path.write_text(alice.line())
    return str(path)


def run(machine: Machine, *words: str, **environment: str) -> Done:
    """Run the command."""
    return machine.command("heat-config-agent", ["sign", *words], environment)


def verify(machine: Machine, signers: str, *words: str) -> Done:
    """Run the command that checks a signed file."""
    return run(machine, "check", *words, "--signers", signers)


def test_check_agrees_with_the_verification_of_a_machine(
    machine: Machine, alice: Signer, signers: str, tmp_path: Path
) -> None:
    """The documents are not signed, signed, altered, and signed by another user."""
    path = tmp_path / "site.json"
    path.write_text(json.dumps([deployment("d1", "true")]))
    done = verify(machine, signers, str(path))
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"error: {path} is not signed: there is no {path}.signed "
        "(`heat-config-agent sign FILE --key KEY` signs it)\n"
    )
    done = run(machine, "--key", str(alice.key), "--json", str(path))
    listed = {
        "file": str(path),
        "list": f"{path}.signed",
        "signer": None,
        "names": ["site.json"],
        "ignored": [],
    }
    assert done.data == listed
    done = verify(machine, signers, str(path))
    assert (
        done.out
        == f"{path}.signed counts: its signer is alice@example.com, and 1 file is unchanged\n"
    )
    done = verify(machine, signers, "--json", str(path))
    assert done.data == {**listed, "signer": "alice@example.com"}
    path.write_text("[]")
    done = verify(machine, signers, str(path))
    assert done.code == 1
    assert "site.json: it was changed after it was signed" in done.err
    done = verify(machine, signers, str(path), "--json")
    assert (done.code, done.json["data"]) == (1, None)
    assert done.json["error"]["code"] == "refused"
    Path(signers).write_text(Signer(tmp_path, "mallory").line())
    assert "its signer is not an allowed one" in verify(machine, signers, str(path)).err
    assert verify(machine, str(tmp_path / "missing"), str(path)).code == 2


def test_file_with_the_name_of_the_command_is_signed(
    machine: Machine, alice: Signer
) -> None:
    """A file with the name check is written ./check; after an option, the name alone will do."""
    (machine.folder / "check").write_text("[]")
    assert run(machine, "./check", "--key", str(alice.key)).code == 0
    assert (machine.folder / "check.signed").exists()
    assert run(machine, "--key", str(alice.key), "check").code == 0
    done = run(machine, "check", "--key", str(alice.key))
    assert done.code == 2
    assert "sign check: there is no option --key" in done.err


def test_a_folder_and_a_template_are_verified_with_all_that_they_name(
    machine: Machine, alice: Signer, signers: str, tmp_path: Path
) -> None:
    """A file that was added to a folder is named; one that a template names is read, and a new one refused."""
    folder = tmp_path / "service"
    folder.mkdir()
    (folder / "service.yaml").write_text(
        "tosca_definitions_version: tosca_simple_yaml_1_3\n"
    )
    assert run(machine, "--key", str(alice.key), f"{folder}/../service/.").code == 0
    assert verify(machine, signers, str(folder)).err == ""
    (folder / "run.sh").write_text("true\n")
    done = verify(machine, signers, str(folder))
    assert (done.code, done.err) == (
        0,
        "warning: service/run.sh is not in the list: the machine does not see it\n",
    )
    done = run(machine, "--key", str(alice.key), str(folder / "service.yaml"))
    assert (
        "service.yaml: it is only one file of a TOSCA service (sign its folder, or the archive that `heat-config"
        in done.err
    )
    template = tmp_path / "site.yaml"
    (tmp_path / "run.sh").write_text("#!/bin/sh\ntrue\n")
    template.write_text(TEMPLATE.replace("site.yaml.signed", "run.sh"))
    assert run(machine, "--key", str(alice.key), str(template)).code == 0
    assert "and 2 files are unchanged" in verify(machine, signers, str(template)).out
    (tmp_path / "run.sh").write_text("#!/bin/sh\nfalse\n")
    assert (
        "run.sh: it was changed after it was signed"
        in verify(machine, signers, str(template)).err
    )


def test_configs_are_verified_one_by_one(
    machine: Machine, alice: Signer, signers: str, tmp_path: Path
) -> None:
    """A config that was changed is named; a list that could not be made leaves nothing behind."""
    template, script = tmp_path / "site.yaml", tmp_path / "run.sh"
    template.write_text(TEMPLATE)
    done = run(machine, "--configs", "--key", str(alice.key), str(template))
    assert done.code == 2
    assert "cannot read" in done.err
    assert not (tmp_path / "site.yaml.signed").exists()
    script.write_text("#!/bin/sh\ntrue\n")
    assert run(machine, "--configs", "--key", str(alice.key), str(template)).code == 0
    assert (
        "and 2 configs are in it"
        in verify(machine, signers, "--configs", str(template)).out
    )
    assert "namespace" in verify(machine, signers, str(template)).err
    script.write_text("#!/bin/sh\nfalse\n")
    done = verify(machine, signers, "--configs", str(template))
    assert "the config first is not in the signed list" in done.err
    # Those of nested templates are in it too.
    (tmp_path / "more").mkdir()
    (tmp_path / "more/inner.yaml").write_text(
        TEMPLATE.replace("site.yaml.signed", "../site.yaml.signed")
    )
    (tmp_path / "more/run.sh").write_text("#!/bin/sh\necho inner\n")
    template.write_text(f"{TEMPLATE}  inner: {{type: more/inner.yaml}}\n")
    assert run(machine, "--configs", "--key", str(alice.key), str(template)).code == 0
    assert (
        "and 4 configs are in it"
        in verify(machine, signers, "--configs", str(template)).out
    )
    done = run(machine, "--key", str(alice.key), str(template))
    assert (
        "names site.yaml.signed, which its list of files would replace (let --configs write another"
        in done.err
    )
    # Two deployments of one name, as Heat has them for two actions, are two configs.
    document = tmp_path / "site.json"
    document.write_text(
        json.dumps(
            [
                deployment("d1", "true", name="web"),
                deployment("d2", "false", name="web"),
            ]
        )
    )
    assert run(machine, "--configs", "--key", str(alice.key), str(document)).code == 0
    assert (
        "and 2 configs are in it"
        in verify(machine, signers, "--configs", str(document)).out
    )


def test_a_key_that_cannot_sign_is_explained(machine: Machine, tmp_path: Path) -> None:
    """Each kind of failure of ssh-keygen has a sentence, and nothing is written."""
    path, alice = tmp_path / "site.json", Signer(tmp_path, "alice")
    path.write_text("[]")
    locked, wide = tmp_path / "locked", Signer(tmp_path, "wide").key
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(locked)],
        check=True,
    )
    wide.chmod(0o644)
    alice.key.unlink()
    public = alice.key.with_suffix(".pub")
    for key, why in (
        (
            locked,
            f"its passphrase is missing or wrong (type it again, or run ssh-add {locked} and name {locked}.pub)",
        ),
        (
            wide,
            f"other users can read it, so ssh-keygen does not use it (run chmod 600 {wide})",
        ),
        (
            public,
            "its private key is neither next to it nor in ssh-agent (ssh-add -l lists the keys in ssh-agent)",
        ),
        (
            path,
            "it is not a key of OpenSSH, and has no public key next to it (ssh-keygen makes keys of OpenSSH)",
        ),
    ):
        done = run(
            machine,
            "--key",
            str(key),
            str(path),
            SSH_ASKPASS="/bin/false",
            SSH_ASKPASS_REQUIRE="force",
        )
        assert (done.code, done.err) == (1, f"error: cannot sign with {key}: {why}\n")
    done = run(machine, "--key", str(tmp_path / "missing"), str(path))
    assert (
        done.err
        == f"error: cannot read the key {tmp_path}/missing: No such file or directory\n"
    )
    assert not (tmp_path / "site.json.signed").exists()


def test_a_key_in_an_agent_signs(
    machine: Machine, alice: Signer, signers: str, tmp_path: Path
) -> None:
    """The option names the public key. A file whose name cannot be in a list is refused."""
    path, socket = tmp_path / "site.json", tmp_path / "agent"
    path.write_text("[]")
    agent = machine.start("/usr/bin/ssh-agent", "-D", "-a", str(socket))
    assert agent.stdout is not None
    agent.stdout.readline()  # it is ready
    variables = {**machine.environment, "SSH_AUTH_SOCK": str(socket)}
    subprocess.run(["ssh-add", "-q", str(alice.key)], env=variables, check=True)
    alice.key.unlink()
    public = str(alice.key.with_suffix(".pub"))
    assert run(machine, "--key", public, str(path), SSH_AUTH_SOCK=str(socket)).code == 0
    assert verify(machine, signers, str(path)).code == 0
    folder = tmp_path / "service"
    folder.mkdir()
    for name in ("new\nline", b"byte\xff".decode("utf-8", "surrogateescape")):
        (folder / name).write_text("")
        done = run(machine, "--key", public, str(folder), SSH_AUTH_SOCK=str(socket))
        assert (
            f"cannot sign {f'service/{name}'!a}: a signed list cannot contain this name (rename the file)"
            in done.err
        )
        (folder / name).unlink()

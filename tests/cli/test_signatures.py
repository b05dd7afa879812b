"""The rule `signers`: what is not signed by somebody whom the machine trusts is refused, and nothing of it runs."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from heat_config_agent.model import signed
from heat_config_agent.signing import ssh
from support.governed import POLICY, Governed
from support.loopback import SignalServer
from support.machine import deployment
from support.signers import SIGNERS, Signer

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None,
    reason="needs ssh-keygen: install openssh-client",
)


@pytest.fixture
def alice(tmp_path: Path) -> Signer:
    """A user with a key."""
    return Signer(tmp_path, "alice")


def trust(governed: Governed, *lines: str) -> None:
    """Write the policy and the allowed signers."""
    (governed.own / "allowed_signers").write_text("".join(lines))
    governed.policy(f"signers = {SIGNERS}")


def script(proof: Path) -> str:
    """Return a script that leaves the proof that it has run."""
    return f"#!/bin/sh\necho ran >>{shlex.quote(str(proof))}\n"


def sign(governed: Governed, signer: Signer, *words: str) -> None:
    """Sign with the command."""
    done = governed.run("heat-config-agent", "sign", "--key", str(signer.key), *words)
    assert done.code == 0, done.err


def test_a_document_runs_only_as_it_was_signed(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """Unsigned, unknown, expired, of another purpose or altered, it is refused with the reason."""
    proof, mallory = tmp_path / "proof", Signer(tmp_path, "mallory")
    trust(governed, alice.line())
    given = [deployment("d1", script(proof))]
    path = governed.machine.write(given)
    unsigned = governed.apply(given)
    assert unsigned.code == 1
    assert (
        f"refused by the rule signers of {POLICY}: neither the document nor the config is signed"
        in unsigned.out
    )
    given = [deployment("d2", script(proof))]
    governed.machine.write(given)
    sign(governed, mallory, str(path))
    said = "its signature does not count: "
    assert f"{said}its signer is not an allowed one" in governed.apply(given).err
    sign(governed, alice, str(path))
    for options, why in (
        ('valid-before="20200101"', "key has expired"),
        ('valid-after="20990101"', "key is not yet valid"),
        ('namespaces="git"', "key is not permitted for use in signature namespace"),
    ):
        trust(governed, alice.line(options))
        done = governed.apply(given)
        assert done.code == 2
        assert f"{said}{why}" in done.err
    trust(governed, alice.line())
    altered = governed.apply([deployment("d2", script(proof) + "# more\n")])
    assert "it was changed after it was signed" in altered.err
    assert not proof.exists()
    assert governed.apply(given).code == 0
    assert proof.read_text() == "ran\n"
    said = governed.agent("policy", "explain").out
    assert said.endswith(
        "would be refused today\nsignatures were checked only for documents that the daemon keeps\n"
    )


def test_a_config_from_heat_runs_if_its_list_is_signed(
    governed: Governed, alice: Signer, tmp_path: Path, heat: SignalServer
) -> None:
    """Heat rewrites the metadata, so the template carries a signed list of its configs, tools and options."""
    proof = tmp_path / "proof"
    trust(governed, alice.line())
    template = tmp_path / "site.yaml"
    (tmp_path / "run.sh").write_text(script(proof))
    template.write_text(
        "heat_template_version: 2021-04-16\nresources:\n"
        "  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: {get_file: run.sh}}}\n"
        "  server:\n    type: OS::Nova::Server\n"
        "    metadata: {heat-config-signatures: {get_file: site.yaml.signed}}\n"
        "    properties: {image: i, flavor: f}\n"
    )
    sign(governed, alice, "--configs", str(template))
    listed = (tmp_path / "site.yaml.signed").read_text()

    def metadata(entry: dict[str, object], text: str = listed) -> dict[str, object]:
        return {"deployments": [entry], "heat-config-signatures": text}

    def refused(entry: dict[str, object], text: str = listed) -> str:
        done = governed.apply(metadata(entry, text))
        assert done.code == 1
        assert not proof.exists()
        return done.out

    assert "the config is not in the signed list" in refused(
        deployment("d1", "#!/bin/sh\ntrue\n")
    )
    assert "is not in the signed list" in refused(
        deployment("d2", script(proof), options={"timeout": 9})
    )
    assert "is not in the signed list" in refused(
        deployment("d3", script(proof), group="python")
    )
    more = f"{'0' * 64}  other\n{listed}"
    assert "the signed list does not count: signature verification failed" in refused(
        deployment("d4", script(proof)), more
    )
    # of another purpose: a list of files
    sign(governed, alice, str(tmp_path / "run.sh"))
    other = (tmp_path / "run.sh.signed").read_text()
    assert "namespace does not match" in refused(deployment("d5", script(proof)), other)
    done = governed.apply(
        metadata(deployment("d6", script(proof), signal=heat.url("d6")))
    )
    assert done.code == 0, done.out
    assert proof.read_text() == "ran\n"
    trust(governed, alice.line('valid-before="20200101"'))
    again = governed.apply(metadata(deployment("d7", script(proof))))
    assert "the signed list does not count: key has expired" in again.out
    assert proof.read_text() == "ran\n"


def test_only_declared_inputs_of_a_signed_config_are_variables(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """The author of the metadata chooses the inputs, and the signer which of them programs can see."""
    trust(governed, alice.line())
    seen, template = tmp_path / "seen", tmp_path / "site.yaml"
    config = f"#!/bin/sh\nenv >{seen}\ncat $HEAT_INPUTS_FILE >>{seen}\n"
    (tmp_path / "run.sh").write_text(config)
    template.write_text(
        "heat_template_version: 2021-04-16\nresources:\n  config:\n    type: OS::Heat::SoftwareConfig\n"
        "    properties:\n      group: script\n      config: {get_file: run.sh}\n"
        "      inputs: [{name: greeting}, {name: other, default: 1}]\n"
    )
    sign(governed, alice, "--configs", str(template))
    listed = (tmp_path / "site.yaml.signed").read_text()
    assert listed.partition("\n")[0].endswith('  config  ["greeting", "other"]')
    given = deployment(
        "d1", config, inputs={"greeting": "hello", "SOME_TOOL_CONFIG": "/evil"}
    )
    done = governed.apply({"deployments": [given], "heat-config-signatures": listed})
    assert done.code == 0, done.out
    variables, _, inputs = seen.read_text().rpartition("\n")
    assert "greeting=hello\n" in variables
    assert "SOME_TOOL_CONFIG" not in variables
    assert json.loads(inputs)["SOME_TOOL_CONFIG"] == "/evil"
    sentence = "the input SOME_TOOL_CONFIG is not in the environment, because the signed config does not declare it"
    assert sentence in done.out + done.err

    # The list of an earlier version has no names of inputs.
    digest = signed.config_digest("script", config, {})
    old = ssh.sign(alice.key, signed.CONFIGS, f"{digest}  config\n")
    with_input = {**given, "id": "d2"}
    done = governed.apply({"deployments": [with_input], "heat-config-signatures": old})
    assert done.code == 1
    assert (
        "the signed list does not name the inputs of the config, and there is "
        in done.out
    )
    inputs_of_heat = [
        each for each in given["inputs"] if each["name"].startswith("deploy_")
    ]
    without = {**given, "id": "d3", "inputs": inputs_of_heat}
    done = governed.apply({"deployments": [without], "heat-config-signatures": old})
    assert done.code == 0, done.out


def replace_by_link(path: Path, target: Path) -> None:
    """Move a file, and leave a link to it."""
    path.rename(target)
    path.symlink_to(target)


def test_a_policy_whose_signers_cannot_be_trusted_allows_nothing(
    governed: Governed, alice: Signer, tmp_path: Path
) -> None:
    """Others may not write to the allowed signers, and no link leads to them."""
    proof = tmp_path / "proof"
    signers = governed.own / "allowed_signers"
    trust(governed, alice.line())
    for spoil, why in (
        (lambda: signers.chmod(0o666), "other users than root may write to"),
        (lambda: replace_by_link(signers, tmp_path / "s"), "signers: cannot read"),
        (signers.unlink, "signers: there is no"),
        (lambda: signers.write_text("# nobody\n"), "names no signer"),
        (
            lambda: governed.policy("signers = allowed_signers"),
            "expected the full path",
        ),
    ):
        spoil()
        done = governed.apply([deployment("d1", script(proof))])
        assert done.code != 0
        assert why in done.out + done.err
        assert why in governed.agent("policy", "explain").err
    assert not proof.exists()

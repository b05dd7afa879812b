"""Inputs that refer to secrets: resolved in the run, masked in what it prints, and nowhere once it has ended."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import pace, planted
from support.loopback import SignalServer, wait_until
from support.machine import Done, Machine, deployment
from support.tools import need

SECRET = f'{planted.WORD}-by/reference"&ünd'
SH = "#!/bin/sh\n"


@pytest.fixture
def vault(machine: Machine) -> Path:
    """The folder of secrets of a machine, with one in it."""
    place = machine.folder / "secrets"
    place.mkdir(mode=0o700)
    (place / "password").write_text(f"{SECRET}\n")
    (place / "password").chmod(0o600)
    machine.config = machine.folder / "agent.conf"
    lines = [
        "[agent]",
        f"secrets_dir = {place}",
        f"age_identity = {machine.folder}/age.key",
    ]
    machine.config.write_text(
        "\n".join([*lines, f"provider_dirs = {machine.folder}/providers", ""])
    )
    return place


def provider(machine: Machine, name: str, script: str) -> None:
    """Install a provider."""
    place = machine.folder / "providers"
    place.mkdir(exist_ok=True)
    (place / name).write_text(f"{SH}{script}\n")
    (place / name).chmod(0o755)


def apply(machine: Machine, given: object, *arguments: str, **environment: Any) -> Done:
    """Run `heat-config-apply` with the settings of the machine."""
    return machine.apply(
        given, "--config", str(machine.config), *arguments, **environment
    )


def referring(
    identity: str, config: str, reference: str = "file:password", **more: Any
) -> dict[str, Any]:
    """Return a deployment whose input `password` refers to a secret. No other secret is planted in it."""
    given = {
        "inputs": {"password": {"secret": reference}, **more.pop("inputs", {})},
        **more,
    }
    found = deployment(identity, config, **given)
    found["inputs"] = [
        item
        for item in found["inputs"]
        if item["name"] not in ("deploy_password", "planted")
    ]
    return found


@pytest.mark.usefixtures("vault")
def test_a_run_gets_its_secrets_and_leaves_none(
    machine: Machine, heat: SignalServer
) -> None:
    """Built-in and executable hooks get the secret, and an output that is the secret is masked."""
    expected = machine.folder / "expected"
    expected.write_text(SECRET)
    machine.hook(
        "reads",
        f"{SH}cat >{machine.folder}/read\necho '{{\"deploy_status_code\": 0}}'\n",
    )
    script = (
        f'{SH}printf %s "$password" | cmp - {expected} && [ "$SECRET_X" = "" ] && [ "$other" = one ] || exit 1\n'
        'echo "it is $password"; echo "$password" >&2\n'
        'printf %s "$password" >"$heat_outputs_path.same"; echo fine >"$heat_outputs_path.fine"\n'
    )
    given = [
        referring(
            "d1",
            script,
            outputs=["same", "fine"],
            inputs={"other": {"secret": "env:X"}},
            signal=heat.url("d1"),
        ),
        referring("d2", "", group="reads"),
    ]
    plan = apply(machine, given, "--plan")
    assert plan.code == 0
    done = apply(machine, given, SECRET_X="one")
    assert done.code == 0, done.out
    (signal,) = heat.signals
    assert json.loads(signal.body) == {
        "deploy_stdout": "it is ***\n",
        "deploy_stderr": "***\n",
        "deploy_status_code": 0,
        "same": "***",
        "fine": "fine\n",
    }
    read = {
        item["name"]: item["value"]
        for item in json.loads((machine.folder / "read").read_text())["inputs"]
    }
    assert read["password"] == SECRET
    (machine.folder / "read").unlink()
    assert "file:password" in machine.agent("show", "d1").out
    assert machine.agent("log", "d1").out.strip("*\n") == "it is "
    assert planted.left(machine.state) == []


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["ansible", "python", "puppet"])
@pytest.mark.usefixtures("vault")
def test_other_tools_get_their_secrets(machine: Machine, tool: str) -> None:
    """Files that hooks write into their own folders are removed with the inputs of the run."""
    if tool == "puppet":
        need("puppet", "puppet")
    proof = machine.folder / "proof"
    config = {
        "python": f"open({str(proof)!r}, 'w').write(inputs['password'])\n",
        "puppet": f"file {{ '{proof}': content => $facts['password'] }}\n"
        "notify { \"it is ${facts['password']}\": }\n",
        "ansible": "- hosts: localhost\n  connection: local\n  gather_facts: false\n"
        "  vars: {ansible_python_interpreter: '{{ ansible_playbook_python }}'}\n  tasks:\n"
        f'  - copy: {{dest: {proof}, content: "{{{{ password }}}}"}}\n',
    }[tool]
    done = apply(machine, [referring("d1", config, group=tool)])
    assert done.code == 0, done.out
    assert proof.read_text() == SECRET
    assert planted.left(machine.state) == []
    if tool == "puppet":  # heat-agents' log, which was a copy of the output
        log = machine.state / "run/deployed/2026-11-20-18-26-35Z-d1-stdout.log"
        assert "it is *****" in log.read_text()


@pytest.mark.parametrize("name", ["age", "systemd-creds"])
def test_encrypted_secrets_are_decrypted_on_the_machine_only(
    machine: Machine, vault: Path, name: str
) -> None:
    """The real programs decrypt them on the machine; another identity or another name cannot."""
    need(name, {"age": "age", "systemd-creds": "systemd"}[name])
    if name == "age":
        key = machine.folder / "age.key"
        subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
        recipient = subprocess.run(
            ["age-keygen", "-y", key], check=True, capture_output=True, text=True
        ).stdout
        command = ["age", "--encrypt", "--recipient", recipient.strip()]
        file = vault / "it.age"
    else:
        command, file = (
            ["systemd-creds", "encrypt", "--with-key=host", "--name=it", "-", "-"],
            vault / "it.cred",
        )
    encrypted = subprocess.run(
        command, input=SECRET.encode(), capture_output=True, check=False
    )
    if encrypted.returncode:
        pytest.skip(f"{name} cannot encrypt here: {encrypted.stderr.decode().strip()}")
    file.write_bytes(encrypted.stdout)
    other = file.with_name(f"other{file.suffix}")
    other.write_bytes(encrypted.stdout)
    if name == "age":
        foreign = subprocess.run(
            ["age-keygen"], check=True, capture_output=True, text=True
        ).stdout
        recipient = subprocess.run(
            ["age-keygen", "-y"],
            input=foreign,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        theirs = ["age", "--encrypt", "--recipient", recipient.strip()]
        other.write_bytes(
            subprocess.run(
                theirs, input=SECRET.encode(), check=True, capture_output=True
            ).stdout
        )
        file.with_name("cut.age").write_bytes(encrypted.stdout[:-20])
    wanted = machine.folder / "wanted"
    wanted.write_text(SECRET)
    script = f'{SH}printf %s "$password" | cmp - {wanted}\n'
    assert apply(machine, [referring("d1", script, f"{name}:it")]).code == 0
    assert apply(machine, [referring("d2", script, f"{name}:other")]).code == 1
    assert (
        f"the secret {name}:other is missing: the provider '{name}' has failed"
        in machine.agent("show", "d2").out
    )
    if name == "age":
        assert (
            "no identity matched any of the recipients"
            in machine.agent("show", "d2").out
        )
        assert apply(machine, [referring("d3", script, "age:cut")]).code == 1
    assert planted.left(machine.state) == []


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("file:nothing", "cannot read {vault}/nothing: No such file or directory"),
        (
            "file:../agent.conf",
            "expected the name of a file in {vault}, not '../agent.conf'",
        ),
        ("file:link", "cannot read {vault}/link: it is a symbolic link"),
        ("env:PATH", "the agent was started without the variable SECRET_PATH"),
        ("none:x", "there is no provider 'none'"),
        ("broken:x", "the provider 'broken' has failed: the vault is sealed"),
    ],
)
def test_a_secret_that_cannot_be_had_fails_its_deployment(
    machine: Machine, vault: Path, heat: SignalServer, reference: str, why: str
) -> None:
    """With its own sentence; nothing of the deployment is run, and others are not affected."""
    (vault / "link").symlink_to("password")
    provider(machine, "broken", "echo the vault is sealed >&2; exit 1")
    proof = machine.folder / "proof"
    given = [
        referring("d1", f"{SH}echo ran >{proof}\n", reference, signal=heat.url("d1")),
        deployment("d2"),
    ]
    assert apply(machine, given).code == 1
    assert not proof.exists()
    result = json.loads(heat.signals[0].body)
    assert result["deploy_status_code"] == 126
    assert f"the secret {reference} is missing: " in result["deploy_stderr"]
    assert why.format(vault=vault) in result["deploy_stderr"]
    assert not machine.status()["d2"]["failed"]


@pytest.mark.usefixtures("vault")
def test_a_provider_gets_no_secret_of_another_one(
    machine: Machine, heat: SignalServer
) -> None:
    """Neither in its environment, nor in the sentence with which it fails."""
    provider(
        machine,
        "tells",
        f"env | grep -c SECRET_; cat {machine.folder}/secrets/password >&2; exit 1",
    )
    references = {"one": {"secret": "file:password"}, "two": {"secret": "env:X"}}
    given = referring(
        "d1", f"{SH}true\n", "tells:x", inputs=references, signal=heat.url("d1")
    )
    given["inputs"].sort(key=lambda item: item["name"] == "password")
    assert apply(machine, [given], SECRET_X=SECRET).code == 1
    assert (
        "the provider 'tells' has failed: ***\n"
        in f"{heat.values('d1')[0]['deploy_stderr']}\n"
    )
    provider(machine, "tells", "env | grep -c SECRET_X; true")
    given = referring(
        "d2",
        f"{SH}echo it is $password\n",
        "tells:x",
        inputs=references,
        signal=heat.url("d2"),
    )
    assert apply(machine, [given], SECRET_X=SECRET).code == 0
    assert heat.values("d2")[0]["deploy_stdout"] == "it is 0\n"
    assert planted.left(machine.state) == []


@pytest.mark.fault(
    3,
    "a provider of secrets hangs, and ignores signals",
    "its deployment times out; others go on; no process is left",
)
@pytest.mark.usefixtures("vault")
def test_a_provider_that_hangs_delays_no_other_deployment(machine: Machine) -> None:
    """The timeout of the run ends a hung provider with all its processes."""
    provider(machine, "hangs", "trap '' TERM; sleep 600 & sleep 600")
    given = [
        referring("d1", f"{SH}true\n", "hangs:x", options={"timeout": 1}),
        deployment("d2"),
    ]
    assert apply(machine, given, "--grace", "0.5").code == 1
    shown = machine.status()
    assert (shown["d1"]["failed"], shown["d2"]["failed"]) == (True, False)
    assert "it timed out after 1 s" in machine.agent("show", "d1").out
    assert machine.processes() == []


@pytest.mark.fault(
    4, "the secrets of a run are removed while it runs", "its output is withheld"
)
@pytest.mark.usefixtures("vault")
def test_output_that_cannot_be_masked_is_withheld(
    machine: Machine, heat: SignalServer
) -> None:
    """The run has failed then, because its outputs are lost."""
    script = f'{SH}echo "$password"\nrm {machine.state}/runs/d1/resolved.json\n'
    assert apply(machine, [referring("d1", script, signal=heat.url("d1"))]).code == 1
    result = json.loads(heat.signals[0].body)
    assert result["deploy_stdout"] == ""
    assert result["deploy_status_code"] == 125
    assert "its output is withheld" in result["deploy_stderr"]
    machine.agent("forget", "--yes", "d1")


def test_log_of_a_running_deployment_is_masked(machine: Machine, vault: Path) -> None:
    """Before its secrets are known, nothing is shown; then they are masked."""
    go, resolve = machine.folder / "go", machine.folder / "resolve"
    provider(
        machine,
        "waits",
        f"until [ -e {resolve} ]; do sleep 0.05; done; cat {vault}/password",
    )
    script = f'{SH}echo "it is $password"\nuntil [ -e {go} ]; do sleep 0.05; done\n'
    agent = machine.start_apply(
        [referring("d1", script, "waits:x")], "--config", str(machine.config)
    )
    wait_until(
        lambda: (
            machine.state.is_dir()
            and machine.status().get("d1", {}).get("state") == "running"
        )
    )
    assert machine.agent("log", "d1").out == ""
    resolve.touch()
    wait_until(lambda: bool(machine.agent("log", "d1").out))
    assert machine.agent("log", "d1").out == "it is ***\n"
    go.touch()
    agent.communicate(timeout=pace.seconds(30))
    assert agent.returncode == 0
    assert planted.left(machine.state) == []


@pytest.mark.fault(
    4,
    "a process that a run has left behind prints a secret after the result",
    "it is neither kept nor shown",
)
@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize("stream", [1, 2])
def test_leftover_process_cannot_print_secrets_later(
    machine: Machine, stream: int
) -> None:
    """The output of a run is final once its secrets are overwritten in it."""
    go, said = machine.folder / "go", machine.folder / "said"
    later = f'until [ -e {go} ]; do sleep 0.05; done; echo "later $password" >&{stream}; touch {said}'
    assert (
        apply(
            machine,
            [referring("d1", f'{SH}echo "now $password" >&{stream}\n({later}) &\n')],
        ).code
        == 0
    )
    go.touch()
    wait_until(said.exists)
    log = machine.agent("log", "d1")
    assert (log.out + log.err).strip("*\n") == "now "
    assert planted.left(machine.state) == []


HOT = """\
heat_template_version: 2018-08-31
parameters:
  text: {type: string, hidden: true}
  map: {type: json}
resources:
  server: {type: OS::Nova::Server, properties: {image: x, flavor: y, user_data_format: SOFTWARE_CONFIG}}
  config:
    type: OS::Heat::SoftwareConfig
    properties:
      group: script
      config: {get_file: script.sh}
      inputs: [{name: one}, {name: two}, {name: three, type: Json}]
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties:
      config: {get_resource: config}
      server: {get_resource: server}
      input_values: {one: {get_param: text}, two: {secret: "file:password"}, three: {get_param: map}}
outputs:
  printed: {value: {get_attr: [deployment, deploy_stdout]}}
"""

TOSCA = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs:
    text: {type: string}
    map: {type: map, entry_schema: {type: string}}
  node_templates:
    host: {type: tosca.nodes.Compute}
    app:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: host}]
      interfaces:
        Standard:
          operations:
            create: &all
              implementation: script.sh
              inputs: {one: {get_input: text}, two: {secret: "file:password"}, three: {get_input: map}}
            delete: *all
"""


@pytest.mark.slow
@pytest.mark.parametrize("language", ["hot", "tosca"])
@pytest.mark.usefixtures("vault")
def test_stacks_pass_references_through(machine: Machine, language: str) -> None:
    """References are passed on from parameters and from values of the template, also at the deletion."""
    expected, proof = machine.folder / "expected", machine.folder / "proof"
    expected.write_text(SECRET)
    checks = "".join(
        f'printf %s "${name}" | cmp - {expected} || exit 1\n'
        for name in ("one", "two", "three")
    )
    (machine.folder / "script.sh").write_text(
        f"{SH}{checks}echo ran >>{proof}\n" + 'echo "it is $one"\n'
    )
    template = machine.write({"hot": HOT, "tosca": TOSCA}[language], "site.yaml")
    option = {"hot": "--parameter", "tosca": "--input"}[language]
    given = [f'{name}={{"secret": "file:password"}}' for name in ("text", "map")]
    done = apply(
        machine, template, *(word for value in given for word in (option, value))
    )
    assert done.code == 0, done.out + done.err
    assert proof.read_text() == "ran\n"
    if language == "hot":
        assert "it is ***" in done.out
    assert planted.left(machine.state) == []
    places = ["--config", str(machine.config), "--state-dir", str(machine.state)]
    deleted = machine.command(
        "heat-config-agent", ["stack", "delete", "--yes", *places, "site"], {}
    )
    assert deleted.code == 0, deleted.out + deleted.err
    assert proof.read_text() == ("ran\n" if language == "hot" else "ran\nran\n")
    assert planted.left(machine.state) == []

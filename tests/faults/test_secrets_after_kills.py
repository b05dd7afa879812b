"""Secrets to which inputs refer, with every provider, and kills at every transition of their run."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support import leftovers, planted
from support.cloud import PASSWORD, PROJECT, Cloud
from support.http import Answer, Stub
from support.loopback import SignalServer
from support.machine import Done, Machine, deployment
from support.mounts import may_mount
from support.stories import Traps
from support.tools import need_root

pytestmark = pytest.mark.takes(20)

SH = "#!/bin/sh\n"
SECRET = f'{planted.WORD}-by/reference"&ünd'
BARBICAN = "0a1b2c3d-1111-2222-3333-444455556666"

TRANSITIONS = (
    *(
        "journal.accepted.before",
        "journal.accepted.after",
        "runner.folder",
        "runner.prepared",
        "runner.spawned",
    ),
    *(
        "journal.running.before",
        "journal.running.after",
        "runner.announced",
        "runner.word",
        "deployed.deployment",
    ),
    *(
        "runner.closed",
        "runner.concluded",
        "journal.finished.before",
        "journal.finished.after",
    ),
    *("deployed.result", "runner.tidied", "signals.before", "signals.after"),
    *("journal.settled.before", "journal.settled.after"),
)
"""All that an agent passes on the way of such a deployment, in this order."""


class Safe:
    """A machine with a secret in each place that a provider knows, and the inputs that refer to them."""

    def __init__(self, machine: Machine, cloud: Cloud, vault: Stub) -> None:
        self.machine = machine
        self._folder = machine.folder / "secrets"
        self._folder.mkdir(mode=0o700)
        self.references = {
            "file": "file:it",
            "env": "env:IT",
            "vault": "vault:a/b#f",
            "own": "own:it",
        }
        self.references["barbican"] = f"barbican:{BARBICAN}"
        self._private(self._folder / "it", f"{SECRET}-file")
        self._private(machine.folder / "vault.json", '{"token": "t"}')
        self.provider("own", f"echo '{SECRET}-own'")
        self._encrypted()
        settings = {
            "secrets_dir": self._folder,
            "age_identity": machine.folder / "age.key",
            "provider_dirs": machine.folder / "providers",
            "vault_url": f"http://127.0.0.1:{vault.port}",
            "vault_credentials": machine.folder / "vault.json",
        }
        machine.config = machine.folder / "agent.conf"
        machine.config.write_text(
            "[agent]\n"
            + "".join(f"{name} = {value}\n" for name, value in settings.items())
        )
        user = {
            "auth_url": cloud.keystone.origin,
            "user_id": "u1",
            "password": PASSWORD,
            "project_id": PROJECT,
        }
        self._user = {f"deploy_{name}": value for name, value in user.items()}

    def _private(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o600)

    def _encrypted(self) -> None:
        """Encrypt secrets by the programs that are here and can do so."""
        text = f"{SECRET}-encrypted"
        if shutil.which("age"):
            key = self.machine.folder / "age.key"
            subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
            made = subprocess.run(
                ["age-keygen", "-y", key], check=True, capture_output=True, text=True
            ).stdout.strip()
            words = [
                "age",
                "--encrypt",
                "--recipient",
                made,
                "--output",
                str(self._folder / "it.age"),
            ]
            subprocess.run(words, input=text.encode(), check=True, capture_output=True)
            self.references["age"] = "age:it"
        if shutil.which("systemd-creds"):
            words = [
                "systemd-creds",
                "encrypt",
                "--with-key=host",
                "--name=it",
                "-",
                str(self._folder / "it.cred"),
            ]
            if not subprocess.run(
                words, input=text.encode(), check=False, capture_output=True
            ).returncode:
                self.references["creds"] = "systemd-creds:it"

    def provider(self, name: str, script: str) -> None:
        """Install a provider."""
        folder = self.machine.folder / "providers"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"{SH}{script}\n")
        (folder / name).chmod(0o755)

    def deployment(
        self,
        identity: str,
        url: str,
        more: str = "",
        *,
        options: dict[str, Any] | None = None,
        references: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return a deployment that prints all secrets, then does more."""
        known = {**self.references, **(references or {})}
        given: dict[str, object] = {
            **self._user,
            "deploy_signal_transport": "CFN_SIGNAL",
        }
        given |= {name: {"secret": reference} for name, reference in known.items()}
        script = f"{SH}echo it is {' '.join(f'${name}' for name in known)}\n{more}"
        found = deployment(
            identity, script, inputs=given, signal=url, options=options or {}
        )
        found["inputs"] = [
            each for each in found["inputs"] if each["name"] != "planted"
        ]
        return found

    def apply(
        self, given: dict[str, Any] | Path, *words: str, **environment: Any
    ) -> Done:
        """Run `heat-config-apply` with the settings of the machine, on a deployment or a template."""
        document = given if isinstance(given, Path) else [given]
        settings = ("--config", str(self.machine.config), *words)
        return self.machine.apply(document, *settings, SECRET_IT=SECRET, **environment)

    def apply_through(
        self, given: dict[str, Any] | Path, points: Iterable[str], *words: str
    ) -> list[str]:
        """Apply a document again and again, each time killed at another point; return the points that none passes."""
        aims = [(point, 1) for point in points]
        traps = Traps(self.machine.folder, *aims, root=self.machine.state)
        while (done := self.apply(given, *words, **traps.environment)).code == -9:
            assert self.found(self.machine.said[-1:]) == []
        assert done.code == 0, done.out + done.err
        return [point for point, _ in traps.left]

    def found(self, places: Iterable[tuple[str, str | bytes]]) -> list[str]:
        """Return the places that have a secret in them, in any form."""
        return planted.leaks(places, planted.pattern(planted.WORD))

    def traces(self) -> list[str]:
        """Return the files in the state directory that have a secret in them, in any form."""
        return planted.left(self.machine.state)


@pytest.fixture
def safe(machine: Machine) -> Iterator[Safe]:
    """A machine with all providers; Keystone, Barbican and Vault are stand-ins."""
    cloud = Cloud()
    cloud.start()
    cloud.service.always = Answer(
        headers={"Content-Type": "text/plain"}, body=f"{SECRET}-barbican".encode()
    )
    answer = json.dumps({"data": {"data": {"f": f"{SECRET}-vault"}}}).encode()
    vault = Stub(lambda _request: Answer(body=answer))
    vault.start()
    yield Safe(machine, cloud, vault)
    vault.stop()
    cloud.stop()


@pytest.mark.fault(
    4,
    "kill -9 of the agent at each transition of a run whose inputs refer to secrets of every provider",
    "no secret is on disk after it",
)
def test_no_secret_is_left_after_kills(
    safe: Safe, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """The next agent masks what the run has printed, and sends the one result; each dies at another transition."""
    traps = Traps(safe.machine.folder, *((point, 1) for point in TRANSITIONS))
    for life in range(3):
        given = safe.deployment(f"d{life}", heat.url(f"d{life}"))
        while safe.apply(given, **traps.environment).code == -9:
            pass
        results = heat.values(f"d{life}")
        assert results, life
        expected = f"it is{' ***' * len(safe.references)}\n"
        assert all(each["deploy_stdout"] == expected for each in results), results
        assert safe.machine.agent("log", f"d{life}").out.count(planted.WORD) == 0
        assert safe.traces() == [], life
        if not traps.left:
            break
    assert traps.left == []
    tried(len(TRANSITIONS))


SOME = (
    *(
        "runner.prepared",
        "runner.announced",
        "runner.word",
        "runner.closed",
        "runner.concluded",
    ),
    *("journal.finished.before", "journal.finished.after", "runner.tidied"),
)
"""The transitions between which secrets are on disk."""


@pytest.mark.fault(
    4,
    "kill -9 of the agent at transitions of runs of another user, of isolated runs, and of a run that is tried again, "
    "with secrets of every provider",
    "no secret is on disk after it, and none is in the folder of the user",
)
@pytest.mark.parametrize("kind", ["user", "isolated", "retry"])
def test_no_secret_is_left_of_other_runs(
    safe: Safe, heat: SignalServer, kind: str, tried: Callable[[int], None]
) -> None:
    """They have other folders, other processes, or several of them."""
    options: dict[str, dict[str, Any]] = {
        "user": {"user": "nobody"},
        "isolated": {"isolate": {"network": True, "tmp": True}},
        "retry": {"retry": {"times": 1, "codes": [3], "delay": 0.01}},
    }
    need_root()
    if not may_mount():
        pytest.skip(
            "runs can only be isolated where mounts are allowed: run the tests as root"
        )
    own = Path(tempfile.mkdtemp(prefix="heat-users-", dir="/var/lib"))
    leftovers.belongs(own)
    own.chmod(0o755)
    assert safe.machine.config is not None
    safe.machine.config.write_text(
        f"{safe.machine.config.read_text()}user_dir = {own}/users\n"
    )
    more = '[ "$HEAT_ATTEMPT" = 2 ] || exit 3\n' if kind == "retry" else ""
    try:
        given = safe.deployment("d1", heat.url("d1"), more, options=options[kind])
        # a copy takes the place of the output, and is masked
        calls = [f"{call}@runs/d1/stdout" for call in ("rename", "pwrite")]
        missed = safe.apply_through(given, [*SOME, *calls])
        left = [path for path in own.rglob("*") if path.is_file()]
    finally:
        safe.machine.end()
        shutil.rmtree(own)
    (result,) = heat.values("d1")
    assert result["deploy_stdout"] == f"it is{' ***' * len(safe.references)}\n"
    assert (missed, left, safe.traces()) == ([], [], [])
    tried(len(SOME) + len(calls))


HOT = """\
heat_template_version: 2018-08-31
parameters: {text: {type: string, hidden: true}}
resources:
  server: {type: OS::Nova::Server, properties: {image: x, flavor: y, user_data_format: SOFTWARE_CONFIG}}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: {get_file: script.sh}, inputs: INPUTS, outputs: [{name: said}]}
  deployment:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}, input_values: VALUES}
outputs:
  said: {value: {get_attr: [deployment, said]}}
  composed: {value: {str_replace: {template: "it is ~", params: {"~": {get_attr: [deployment, deploy_stdout]}}}}}
  given: {value: {str_replace: {template: "given ~", params: {"~": {get_param: text}}}}}
"""

TOSCA = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs: {text: {type: string}}
  node_templates:
    host: {type: tosca.nodes.Compute}
    app:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: host}]
      interfaces:
        Standard: {operations: {create: &all {implementation: script.sh, inputs: VALUES}, delete: *all}}
  outputs:
    said: {value: {get_operation_output: [app, Standard, create, said]}}
    given: {value: {concat: ["given ", {get_input: text}]}}
"""


@pytest.mark.fault(
    4,
    "kill -9 of a command at transitions of a stack or a TOSCA service whose inputs refer to secrets of every provider",
    "no secret is on disk after it, nor in the outputs of the stack",
)
@pytest.mark.parametrize("language", ["hot", "tosca"])
def test_no_secret_is_left_of_stacks(
    safe: Safe, language: str, tried: Callable[[int], None]
) -> None:
    """Also not in outputs that are made of the parameter, or of what the deployment has printed."""
    # which needs a user of Keystone
    names = [name for name in safe.references if name != "barbican"]
    values: dict[str, object] = {
        name: {"secret": safe.references[name]} for name in names
    }
    values["text"] = {"get_param" if language == "hot" else "get_input": "text"}
    texts = {
        "VALUES": json.dumps(values),
        "INPUTS": json.dumps([{"name": name} for name in values]),
    }
    template = {"hot": HOT, "tosca": TOSCA}[language]
    for name, text in texts.items():
        template = template.replace(name, text)
    script = f'{SH}echo it is {" ".join(f"${name}" for name in values)}\necho "said $text" >$heat_outputs_path.said\n'
    (safe.machine.folder / "script.sh").write_text(script)
    option = {"hot": "--parameter", "tosca": "--input"}[language]
    words = (option, 'text={"secret": "file:it"}')
    # for a server that gets the result
    points = [point for point in SOME if point != "runner.concluded"]
    missed = safe.apply_through(
        safe.machine.write(template, "site.yaml"), points, *words
    )
    assert missed == []
    assert safe.traces() == []
    place = ("--state-dir", str(safe.machine.state), "site")
    wanted = (("output", "show", "--all"), ("show", "--json"))
    shown = [
        safe.machine.command("heat-config-agent", ["stack", *each, *place], {})
        for each in wanted
    ]
    assert (
        safe.found(
            (str(number), each.out + each.err) for number, each in enumerate(shown)
        )
        == []
    )
    assert "said = said ***\n" in shown[0].out
    assert {"hot": "given ***", "tosca": 'given {"secret": "file:it"}'}[
        language
    ] in shown[0].out
    tried(len(points))


@pytest.mark.fault(
    4,
    "kill -9 of the program that resolves secrets, of the command that has printed them, and of its supervisor",
    "a failure; no secret is on disk after it",
)
@pytest.mark.parametrize("victim", ["program", "command", "supervisor"])
def test_no_secret_is_left_after_a_run_that_was_killed(
    safe: Safe, heat: SignalServer, victim: str
) -> None:
    """No secret of any provider is left, whether it was only resolved or also printed."""
    safe.provider("kills", f"kill -9 $PPID; echo '{SECRET}-late'")
    more = {
        "program": "",
        "command": "kill -9 $$\n",
        "supervisor": "kill -9 $PPID; kill -9 $$\n",
    }[victim]
    last = {"last": "kills:x"} if victim == "program" else {}
    given = safe.deployment("d1", heat.url("d1"), more, references=last)
    assert safe.apply(given).code == 1
    (result,) = heat.values("d1")
    printed = f"it is{' ***' * len(safe.references)}\n"
    assert result["deploy_stdout"] == ("" if victim == "program" else printed)
    assert result["deploy_status_code"] != 0
    assert planted.WORD not in json.dumps(result)
    assert safe.traces() == []

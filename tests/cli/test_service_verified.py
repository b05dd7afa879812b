"""TOSCA services whose machine was changed behind their back: the operation `verify` of a node says whether it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.machine import Machine
from support.stacking import Stacks

SCRIPTS = {
    "create.sh": 'touch "$folder/made"; echo create >>"$folder/log"; export url=http://made',
    "start.sh": 'touch "$folder/runs"; echo start >>"$folder/log"',
    "verify.sh": '[ -e "$folder/runs" ] || { echo "$who does not run"; exit 1; }',
    "url.sh": '[ "$url" = http://made ] || { echo "the URL is $url"; exit 1; }',
}
STANDARD = "tosca.interfaces.node.lifecycle.Standard"


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """The commands, with the scripts of a service."""
    for name, text in SCRIPTS.items():
        (machine.folder / name).write_text(f"#!/bin/bash\n{text}\n")
    return Stacks(machine)


def service(stacks: Stacks, verify: dict[str, Any] | None = None, **parts: Any) -> Path:
    """Write the template of a service `t` with the node `app`, whose operation `verify` is of its own interface."""
    inputs = {"folder": str(stacks.machine.folder), "who": "app"}
    operations = {"create": "create.sh", "start": "start.sh"}
    interfaces: dict[str, Any] = {
        "Standard": {"inputs": inputs, "operations": operations}
    }
    if verify is not None:
        interfaces["Checks"] = {"operations": {"verify": verify}}
    app = {
        "type": "App",
        "requirements": [{"host": "server"}],
        "interfaces": interfaces,
    }
    declared = {"verify": {"description": "says whether it is in effect"}}
    content = {
        "tosca_definitions_version": "tosca_simple_yaml_1_3",
        "interface_types": {
            "Checks": {"derived_from": "tosca.interfaces.Root", "operations": declared}
        },
        "node_types": {
            "App": {
                "derived_from": "tosca.nodes.SoftwareComponent",
                "interfaces": {"Checks": {"type": "Checks"}},
            }
        },
        "topology_template": {
            "node_templates": {"server": {"type": "Compute"}, "app": {**app, **parts}}
        },
    }
    path = stacks.machine.folder / "t.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def script(stacks: Stacks, name: str = "verify.sh", **inputs: Any) -> dict[str, Any]:
    """Return the operation `verify` with a script."""
    given = {"folder": str(stacks.machine.folder), "who": "app", **inputs}
    return {"implementation": name, "inputs": given}


def verified(stacks: Stacks, *words: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the exit code of `verify`, and the states and reasons by name."""
    done = stacks.machine.agent("verify", "--json", *words)
    rows = json.loads(done.out)["data"]["deployments"]
    return done.code, {row["name"]: (row["state"], row["message"]) for row in rows}


def nodes(stacks: Stacks) -> dict[str, str]:
    """Return the states of the nodes."""
    rows = stacks("node", "list", "t", "--json").data["nodes"]
    return {row["node_name"]: row["message"] for row in rows}


def ran(stacks: Stacks) -> list[str]:
    """Return the operations that ran, in order."""
    return stacks.log.read_text().split()


def test_operation_verify_says_whether_a_node_is_in_effect(stacks: Stacks) -> None:
    """Its node is in the state error after a failed check; the next update runs its operations again, once."""
    stacks.apply(service(stacks, script(stacks)))
    names = ("t/app.create", "t/app.start")
    assert verified(stacks) == (0, dict.fromkeys(names, ("ok", "")))
    assert stacks("check", "t").code == 0
    (stacks.machine.folder / "runs").unlink()
    gone = ("drifted", "app does not run")
    assert verified(stacks) == (9, dict.fromkeys(names, gone))

    stack = stacks("check", "t", "--json", code=9).data

    assert stack["stack_status"] == "CHECK_FAILED"
    reason = "Error: resources.app.create: app does not run"
    assert stack["stack_status_reason"] == f"Resource CHECK failed: {reason}"
    assert [each["state"] for each in stack["checks"]] == ["drifted", "drifted"]
    assert "error" in stacks("node", "list", "t").out
    plan = stacks("update", "t", "--existing", "--plan").out
    assert plan.count("it has drifted; runs UPDATE") == 2
    stacks("update", "t", "--existing")
    assert ran(stacks) == ["create", "start"] * 2
    assert stacks("check", "t").code == 0
    assert verified(stacks)[0] == 0


def test_operation_verify_may_be_one_of_the_standard_interface(stacks: Stacks) -> None:
    """The type of the node declares it."""
    path = service(stacks)
    content = yaml.safe_load(path.read_text())
    content["node_types"]["App"]["interfaces"] = {
        "Standard": {"type": STANDARD, "operations": {"verify": {}}}
    }
    app = content["topology_template"]["node_templates"]["app"]
    app["interfaces"]["Standard"]["operations"]["verify"] = "verify.sh"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    stacks.apply(path)
    assert verified(stacks)[0] == 0
    (stacks.machine.folder / "runs").unlink()

    assert verified(stacks)[0] == 9


def test_new_operation_verify_counts_for_operations_that_have_run(
    stacks: Stacks,
) -> None:
    """Nothing runs again for it."""
    stacks.apply(service(stacks))
    code, rows = verified(stacks)
    assert code == 1
    why = "its node has no operation `verify`, and a script cannot be verified"
    assert rows["t/app.start"] == ("unknown", why)

    stacks.apply(service(stacks, script(stacks)))
    assert verified(stacks)[0] == 0
    (stacks.machine.folder / "runs").unlink()
    stacks.apply(service(stacks, script(stacks, who="the app")))

    assert verified(stacks)[1]["t/app.start"] == ("drifted", "the app does not run")
    assert ran(stacks) == ["create", "start"]


def test_operation_verify_gets_the_outputs_of_earlier_operations(
    stacks: Stacks,
) -> None:
    """Those before them are unknown: they have run without these values."""
    output = {"get_operation_output": ["SELF", "Standard", "create", "url"]}
    stacks.apply(service(stacks, script(stacks, "url.sh", url=output)))

    code, rows = verified(stacks)

    assert code == 1
    assert rows["t/app.start"] == ("ok", "")
    assert rows["t/app.create"][0] == "unknown"


def test_changed_copy_of_an_artifact_has_drifted_and_is_put_back(
    stacks: Stacks,
) -> None:
    """It needs no operation."""
    (stacks.machine.folder / "app.conf").write_text("port 80\n")
    copy = stacks.machine.folder / "etc" / "app.conf"
    artifact = {"file": "app.conf", "type": "File", "deploy_path": str(copy)}
    stacks.apply(service(stacks, script(stacks), artifacts={"conf": artifact}))
    assert verified(stacks)[0] == 0
    copy.write_text("port 81\n")

    code, rows = verified(stacks)
    stacks("check", "t", code=9)
    stacks("update", "t", "--existing")

    assert code == 9
    assert rows["t/app.artifacts"] == ("drifted", f"{copy}: its content differs")
    assert copy.read_text() == "port 80\n"
    assert verified(stacks)[0] == 0


def test_playbook_as_operation_verify_is_refused(stacks: Stacks) -> None:
    """The exit code of a script is the answer."""
    (stacks.machine.folder / "play.yaml").write_text("- hosts: localhost\n")

    done = stacks.apply(service(stacks, script(stacks, "play.yaml")), code=2)

    assert "the operation verify has to be a script" in done.err


def test_service_is_suspended_without_anything_in_force(stacks: Stacks) -> None:
    """Its verification counts again once it is resumed."""
    stacks.apply(service(stacks, script(stacks)))
    stacks("suspend", "t")
    (stacks.machine.folder / "runs").unlink()
    assert verified(stacks) == (0, {})

    stacks("resume", "t")

    assert verified(stacks)[0] == 0
    assert ran(stacks) == ["create", "start", "start"]


@pytest.mark.slow  # Ansible takes some seconds each time
def test_playbook_of_an_operation_is_verified_by_ansible(stacks: Stacks) -> None:
    """In check mode, which names the task that would change something."""
    place = stacks.machine.folder / "made"
    copy = {"content": "hello\n", "dest": str(place)}
    play = {"hosts": "localhost", "gather_facts": False}
    tasks = [{"name": "the file", "ansible.builtin.copy": copy}]
    playbook = stacks.machine.folder / "play.yml"
    playbook.write_text(yaml.safe_dump([{**play, "tasks": tasks}]))
    operations = {"Standard": {"operations": {"create": "play.yml"}}}
    stacks.apply(service(stacks, interfaces=operations))
    assert verified(stacks)[0] == 0
    place.write_text("changed\n")

    code, rows = verified(stacks)
    stacks("check", "t", code=9)
    stacks("update", "t", "--existing")

    assert code == 9
    assert rows["t/app.create"][0] == "drifted"
    assert rows["t/app.create"][1].startswith("the file: ")
    assert place.read_text() == "hello\n"
    assert verified(stacks)[0] == 0

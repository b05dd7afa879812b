"""Templates of the kinds that people publish for software configuration, carried out by the installed commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from support import tools
from support.machine import BIN, Machine

FOLDER = Path(__file__).with_name("templates")


@pytest.fixture(autouse=True)
def templates(machine: Machine) -> None:
    """The templates in the machine's folder, with that in the place of FOLDER."""
    for path in FOLDER.iterdir():
        (machine.folder / path.name).write_text(
            path.read_text().replace("FOLDER", str(machine.folder))
        )


def run(machine: Machine, *words: str) -> str:
    """Run a command to its good end, and return what it says."""
    done = machine.command("heat-config-agent", words, {})
    assert done.code == 0, done.out + done.err
    return done.out


def stack(machine: Machine, *words: str) -> list[dict[str, Any]]:
    """Run a command on a stack, and return what it says, line by line."""
    out = run(machine, "stack", *words, "--state-dir", str(machine.state), "--json")
    return [json.loads(line) for line in out.splitlines()]


def applied(machine: Machine, name: str, *words: str) -> dict[str, Any]:
    """Apply a template, and return the outputs."""
    given = ("--parameter", f"folder={machine.folder}", *words)
    run(machine, "template", "validate", *given, str(machine.folder / f"{name}.yaml"))
    done = machine.apply(machine.folder / f"{name}.yaml", *given)
    assert done.code == 0, done.out + done.err
    [found] = stack(machine, "show", name)
    outputs = found["data"]["outputs"]
    return {each["output_key"]: each["output_value"] for each in outputs}


def lines(machine: Machine, name: str) -> list[str]:
    """Return what deployments have written down."""
    return (machine.folder / name).read_text().splitlines()


def test_scripts_of_a_server_run_one_after_the_other(machine: Machine) -> None:
    """Scripts on a server run one after the other, and cloud resources do not block them."""
    assert applied(machine, "script") == {
        "result": "fooooo/baaaaa",
        "stdout": "fooooo and baaaaa\n",
        "stderr": "to the side\n",
        "status_code": 0,
        "other_result": "fu/barmy",
    }
    assert lines(machine, "order") == ["fooooo", "fu"]


@pytest.mark.slow
def test_tools_pass_their_outputs_on(machine: Machine) -> None:
    """Each tool passes its output on to the next one."""
    tools.need("puppet", "puppet")
    if not (BIN / "ansible-playbook").exists() and not shutil.which("ansible-playbook"):
        pytest.skip("ansible-playbook is not installed: pip install '.[ansible]'")
    said = "made by ansible, by puppet"
    assert applied(machine, "tools") == {
        "said": said,
        "read": {"word": said, "many": 3, "list": ["a", said]},
    }


def test_user_data_runs_and_wait_condition_hears_it(machine: Machine) -> None:
    """A wait condition hears the script that signals it, over loopback."""
    tools.need("curl", "curl")
    heard = applied(machine, "boot")["heard"]
    assert json.loads(heard) == {"1": "from 1", "2": "from 2"}


def test_deployments_of_a_group_run_for_each_member(machine: Machine) -> None:
    """Deployments of a group run for each member, and their dependents after all of them."""
    backends = json.loads(applied(machine, "cluster")["backends"])
    assert sorted(backends.values()) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert len(set(lines(machine, "members"))) == 3


def test_a_component_has_a_life(machine: Machine) -> None:
    """Each action runs its own config, and an action without one runs none."""
    assert applied(machine, "component") == {"now": "created 1"}
    assert applied(machine, "component", "--parameter", "version=2") == {
        "now": "updated 2"
    }
    for action in ("suspend", "resume"):
        assert stack(machine, action, "component")[-1]["exit_code"] == 0
    assert stack(machine, "delete", "component", "--yes")[-1]["exit_code"] == 0
    assert lines(machine, "life") == [
        "create 1",
        "update 2",
        "SUSPEND",
        "RESUME",
        "DELETE",
    ]

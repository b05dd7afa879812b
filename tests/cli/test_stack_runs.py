"""Nothing that runs is forgotten: a run has ended before the record of what it belongs to goes."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from heat_config_agent.settings import effective
from heat_config_stack.cli.stack import values
from heat_config_stack.records import listing
from support.loopback import wait_until
from support.machine import Machine
from support.stacking import stack

TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "resources": {
        "server": {
            "type": "OS::Nova::Server",
            "properties": {"image": "x", "flavor": "y"},
        },
        "config": {
            "type": "OS::Heat::SoftwareConfig",
            "properties": {
                "group": "script",
                "config": "#!/bin/sh\necho $$ > FOLDER/pid\nexec sleep 600\n",
            },
        },
        "app": {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {
                "config": {"get_resource": "config"},
                "server": {"get_resource": "server"},
            },
        },
    },
}


def interrupted(machine: Machine) -> int:
    """Kill a command while the script of its stack runs, and return the process of the script."""
    text = json.dumps(TEMPLATE).replace("FOLDER", str(machine.folder))
    (machine.folder / "s.yaml").write_text(text)
    process = machine.start(
        "heat-config-apply", "--state-dir", str(machine.state), "s.yaml"
    )
    pid = machine.folder / "pid"
    wait_until(lambda: pid.exists() and pid.read_text().strip() != "", 30)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return int(pid.read_text())


def runs(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("words", [(), ("--force",)])
def test_deleted_stack_has_ended_its_runs(
    machine: Machine, words: tuple[str, ...]
) -> None:
    """Also without a config for DELETE."""
    pid = interrupted(machine)
    try:
        assert runs(pid)
        done = stack(machine, "delete", "s", "--yes", *words)
        assert (done.code, runs(pid)) == (0, False), done.out + done.err
        assert "no stacks" in stack(machine, "list").out
    finally:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


def test_abandoned_stack_has_ended_its_runs(machine: Machine) -> None:
    """The state that is printed says that the deployment was in progress."""
    pid = interrupted(machine)
    try:
        done = stack(machine, "abandon", "s", "--yes", "--output-file", "a.json")
        assert (done.code, runs(pid)) == (0, False), done.out + done.err
        assert (
            json.loads((machine.folder / "a.json").read_text())["resources"]["app"][
                "status"
            ]
            == "IN_PROGRESS"
        )
    finally:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


def test_interrupted_stack_is_shown_with_the_command_that_continues_it(
    machine: Machine,
) -> None:
    """In the list, by show and by the agent's status."""
    pid = interrupted(machine)
    try:
        why = "the CREATE of s was interrupted: `heat-config-agent stack update --existing s"
        assert why in stack(machine, "list").out
        assert why in stack(machine, "show", "s").out
        assert (
            json.loads(stack(machine, "list", "--json").out)["data"]["stacks"][0][
                "interrupted"
            ]
            is True
        )
        assert why in machine.agent("status").out
        [shown] = machine.agent("status", "--json").data["stacks"]
        assert (shown["state"], shown["message"].startswith(why)) == ("unknown", True)
        for words in (
            ["status", "--check"],
            ["wait", "s"],
            ["wait", "s", "--json"],
        ):
            done = machine.agent(*words)
            assert (done.code, why in done.out + done.err) == (1, True), words
        assert (
            machine.agent("wait", "s", "--for-action", "DELETE", "--wait-for", "0").code
            == 1
        )
    finally:
        os.kill(pid, signal.SIGKILL)
    assert stack(machine, "delete", "s", "--yes").code == 0


def test_stack_that_has_ended_since_it_was_read_is_not_interrupted(
    machine: Machine,
) -> None:
    """A command may end, and release its lock, between the two looks of another one."""
    (machine.folder / "s.yaml").write_text(
        json.dumps({"heat_template_version": "2018-08-31"})
    )
    machine.apply(None, "s.yaml")
    record = listing.kept(machine.state, "s")
    assert record is not None
    assert record.record is not None
    settings = effective.make({}, state=machine.state)

    before = replace(record.record, status="IN_PROGRESS")

    assert values.interrupted(settings, before) == ""


def test_wait_says_at_once_what_it_waits_for(machine: Machine) -> None:
    """Without an agent, it says that none is running before it waits."""
    process = machine.start(
        "heat-config-agent", "wait", "--state-dir", str(machine.state)
    )
    assert process.stderr is not None
    try:
        assert "no agent is running" in str(process.stderr.readline())
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


NESTED = """
heat_template_version: 2018-08-31
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: "echo $deploy_action >>FOLDER/ran"}}
  app: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: here}}
"""

PARENT = """
heat_template_version: 2018-08-31
resources:
  config: {type: OS::Heat::SoftwareConfig, properties: {group: script, config: "true"}}
  web: {type: OS::Heat::SoftwareDeployment, properties: {config: {get_resource: config}, server: here}}
  child: {type: child.yaml}
"""


@pytest.mark.parametrize("command", [["retry"], ["forget", "--yes"]])
def test_requested_run_is_shown_until_it_has_run(
    machine: Machine, command: list[str]
) -> None:
    """By status and the list, with the command that begins it, also inside of a nested template."""
    machine.write(NESTED.replace("FOLDER", str(machine.folder)), "child.yaml")
    path = machine.write(PARENT, "s.yaml")
    assert machine.apply(None, str(path)).code == 0
    quiet = machine.agent("status").out
    for name in ("s/web", "s/child/app"):
        assert machine.agent(*command, name).code == 0

    why = "s/child/app, s/web run again as requested: `heat-config-agent stack update --existing s"
    assert why in machine.agent("status").out
    [shown] = machine.agent("status", "--json").data["stacks"]
    assert shown["asked"].startswith(why)
    assert why in stack(machine, "list").out
    assert "as requested" not in machine.agent("status", "--check").out
    for action in ("suspend", "check"):
        done = stack(machine, action, "s")
        printed = done.out + done.err
        assert (done.code, "its run was requested again" in printed) == (1, True)
        assert "has failed: a person" not in printed

    ran = machine.folder / "ran"
    ran.unlink()
    assert stack(machine, "update", "--existing", "s").code == 0
    assert ran.read_text() == "CREATE\n"
    assert "again as requested" not in machine.agent("status").out
    assert "again as requested" not in quiet + stack(machine, "list").out


def test_removal_that_has_failed_is_shown_until_it_has_succeeded(
    machine: Machine,
) -> None:
    """The stack is complete again after a suspension and a resumption, and what was to be removed is still there."""
    good = machine.folder / "good"
    template = PARENT.replace("  child: {type: child.yaml}\n", "")
    component = f"""
  both:
    type: OS::Heat::SoftwareComponent
    properties:
      configs:
        - {{actions: [CREATE], tool: script, config: "true"}}
        - {{actions: [DELETE], tool: script, config: "test -e {good} || {{ echo it hangs >&2; exit 7; }}"}}
  old: {{type: OS::Heat::SoftwareDeployment, properties: {{config: {{get_resource: both}}, server: here}}}}
"""
    path = machine.write(template + component, "s.yaml")
    assert machine.apply(None, str(path)).code == 0
    machine.write(template, "s.yaml")
    assert machine.apply(None, str(path)).code == 1
    for word in ("suspend", "resume"):
        assert stack(machine, word, "s").code == 0

    why = "the DELETE of old has failed, and is due again"
    assert why in machine.agent("status").out
    assert "it hangs" in machine.agent("status", "--failed").out
    assert f"stack s: {why}" in machine.agent("status", "--check").out

    good.touch()
    assert machine.apply(None, str(path)).code == 0
    assert why not in machine.agent("status").out
    assert machine.agent("status", "--failed").code == 0

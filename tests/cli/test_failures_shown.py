"""Failures stay in sight: in status, in its exit codes, in a repeated command, in the words of the tool."""

from __future__ import annotations

import json

from support.machine import Machine, deployment

FAILS = "#!/bin/sh\necho about to fail >&2; echo no such page >&2; exit 3\n"


def stack(machine: Machine, script: str, *arguments: str) -> str:
    """Apply a stack with one deployment, and return what the command printed."""
    resources = {
        "config": {"type": "OS::Heat::SoftwareConfig", "properties": {"group": "script", "config": script}},
        "web": {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {"config": {"get_resource": "config"}, "server": "here"},
        },
    }
    template = json.dumps({"heat_template_version": "2018-08-31", "resources": resources})
    return machine.apply(None, str(machine.write(template, "site.yaml")), *arguments).out


def test_line_of_a_failed_resource_says_why(machine: Machine) -> None:
    """The words are those of the tool, as for a deployment of a document."""
    [line] = [line for line in stack(machine, FAILS).splitlines() if line.startswith("FAILED")]
    assert line.endswith("exit code 3: no such page")


def test_status_names_a_failed_stack_with_its_reason(machine: Machine) -> None:
    """So do the checks for monitors; once the stack is complete, there is nothing to say."""
    stack(machine, FAILS)
    sentence = "stack site: CREATE_FAILED: web: exit code 3: no such page"
    assert sentence in machine.agent("status").out
    for option in ("--check", "--failed"):
        done = machine.agent("status", option)
        assert (done.code, sentence in done.out) == (1, True), option
    assert machine.agent("status", "--json").json["failed_stacks"] == {"site": sentence.removeprefix("stack site: ")}

    stack(machine, "#!/bin/sh\ntrue\n")
    done = machine.agent("status", "--failed")
    assert (done.code, done.out) == (0, "")


def test_failed_deployments_are_named_and_counted_again(machine: Machine) -> None:
    """A repeated command runs nothing, and does not look as if all were well."""
    documents = [deployment("d1", FAILS, name="bad"), deployment("d2", "#!/bin/sh\ntrue\n", name="good")]
    assert machine.apply(documents).code == 1
    assert machine.apply(documents).out.splitlines()[-1] == "2 deployments: 2 skipped, 1 of them failed earlier"
    done = machine.agent("status", "--failed")
    assert (done.code, done.out) == (1, "bad: exit code 3: no such page\n")
    assert machine.apply(documents[:1]).out.splitlines()[-1] == "1 deployment: 1 skipped, which failed earlier"


def test_reason_of_an_earlier_action_is_not_shown_again(machine: Machine) -> None:
    """Only what failed in the last action is the reason of a stack."""
    stack(machine, FAILS)
    printed = stack(machine, "#!/bin/sh\necho another reason >&2; exit 4\n")
    assert "no such page" not in printed
    assert "stack site: UPDATE_FAILED: web: exit code 4: another reason" in machine.agent("status").out

"""Failures stay in sight: in status, in its exit codes, in a repeated command, in the words of the tool."""

from __future__ import annotations

import json

from support.machine import Machine, deployment

FAILS = "#!/bin/sh\necho about to fail >&2; echo no such page >&2; exit 3\n"


def stack(machine: Machine, script: str, *arguments: str) -> str:
    """Apply a stack with one deployment, and return what the command printed."""
    resources = {
        "config": {
            "type": "OS::Heat::SoftwareConfig",
            "properties": {"group": "script", "config": script},
        },
        "web": {
            "type": "OS::Heat::SoftwareDeployment",
            "properties": {"config": {"get_resource": "config"}, "server": "here"},
        },
    }
    template = json.dumps(
        {"heat_template_version": "2018-08-31", "resources": resources}
    )
    return machine.apply(
        None, str(machine.write(template, "site.yaml")), *arguments
    ).out


def test_line_of_a_failed_resource_says_why(machine: Machine) -> None:
    """The words are those of the tool, as for a deployment of a document."""
    [line] = [
        line for line in stack(machine, FAILS).splitlines() if line.startswith("FAILED")
    ]
    assert line.endswith("exit code 3: no such page")


def test_status_names_a_failed_stack_with_its_reason(machine: Machine) -> None:
    """So do the checks for monitors; once the stack is complete, there is nothing to say."""
    stack(machine, FAILS)
    sentence = "stack site: CREATE_FAILED: web: exit code 3: no such page"
    assert sentence in machine.agent("status").out
    for option in ("--check", "--failed"):
        done = machine.agent("status", option)
        assert (done.code, sentence in done.out) == (1, True), option
    assert machine.agent("status", "--json").json["failed_stacks"] == {
        "site": sentence.removeprefix("stack site: ")
    }

    stack(machine, "#!/bin/sh\ntrue\n")
    done = machine.agent("status", "--failed")
    assert (done.code, done.out) == (0, "")


def test_failed_deployments_are_named_and_counted_again(machine: Machine) -> None:
    """A repeated command runs nothing, and does not look as if all were well."""
    documents = [
        deployment("d1", FAILS, name="bad"),
        deployment("d2", "#!/bin/sh\ntrue\n", name="good"),
    ]
    assert machine.apply(documents).code == 1
    assert (
        machine.apply(documents).out.splitlines()[-1]
        == "2 deployments: 2 skipped, 1 of them failed earlier"
    )
    done = machine.agent("status", "--failed")
    assert (done.code, done.out) == (1, "bad: exit code 3: no such page\n")
    assert (
        machine.apply(documents[:1]).out.splitlines()[-1]
        == "1 deployment: 1 skipped, which failed earlier"
    )


def test_reason_of_an_earlier_action_is_not_shown_again(machine: Machine) -> None:
    """Only what failed in the last action is the reason of a stack."""
    stack(machine, FAILS)
    printed = stack(machine, "#!/bin/sh\necho another reason >&2; exit 4\n")
    assert "no such page" not in printed
    assert (
        "stack site: UPDATE_FAILED: web: exit code 4: another reason"
        in machine.agent("status").out
    )


def test_edited_deployment_is_not_failed_any_more(machine: Machine) -> None:
    """Once another edition has succeeded, in whatever file, nothing names the failed one or its retry."""
    good, bad = (
        [{"name": "web", "group": "script", "config": text}]
        for text in ("#!/bin/sh\ntrue\n", FAILS)
    )
    for file in ("a.json", "b.json"):
        machine.write(json.dumps(bad), file)
        assert machine.apply(machine.folder / file).code == (
            1 if file == "a.json" else 0
        )
        assert (
            machine.agent("status", "--failed").out
            == "web: exit code 3: no such page\n"
        )
    assert machine.agent("retry", "web").code == 0
    machine.write(json.dumps(good), "b.json")
    assert machine.apply(machine.folder / "b.json").code == 0

    done = machine.agent("status", "--failed")
    assert (done.code, done.out) == (0, "")
    assert machine.agent("status", "--failed", "--json").json == {
        "deployments": [],
        "failed_stacks": {},
    }
    assert "will run again" not in machine.agent("status").out


def test_failures_are_one_object_for_programs(machine: Machine) -> None:
    """With --json, the failed deployments and stacks are values, and the exit code is the same."""
    machine.apply(
        [
            deployment("d1", FAILS, name="bad"),
            deployment("d2", "#!/bin/sh\ntrue\n", name="good"),
        ]
    )
    stack(machine, FAILS)
    done = machine.agent("status", "--failed", "--json")
    assert (done.code, [each["name"] for each in done.json["deployments"]]) == (
        1,
        ["bad"],
    )
    assert done.json["failed_stacks"] == {
        "site": "CREATE_FAILED: web: exit code 3: no such page"
    }
    assert machine.agent("status", "--unfinished", "--json").json == {"deployments": []}


COMPONENT = [
    {"actions": ["CREATE"], "tool": "script", "config": "#!/bin/sh\ntrue\n"},
    {
        "actions": ["DELETE"],
        "tool": "script",
        "config": "#!/bin/sh\necho it is in use >&2; exit 9\n",
    },
]


def test_reason_of_a_failed_removal_is_that_of_its_tool(machine: Machine) -> None:
    """An update that removes a deployment and the deletion of a stack say why its DELETE has failed."""
    config = {
        "type": "OS::Heat::SoftwareComponent",
        "properties": {"configs": COMPONENT},
    }
    uses = {"config": {"get_resource": "config"}, "server": "here"}
    web = {"type": "OS::Heat::SoftwareDeployment", "properties": uses}
    version = {"heat_template_version": "2018-08-31"}
    template = {**version, "resources": {"config": config, "web": web}}
    assert (
        machine.apply(None, str(machine.write(json.dumps(template), "site.yaml"))).code
        == 0
    )
    path = str(
        machine.write(
            json.dumps({**version, "resources": {"config": config}}), "site.yaml"
        )
    )
    delete = ["stack", "delete", "site", "--yes", "--state-dir", str(machine.state)]
    for action in ("UPDATE", "DELETE"):
        done = (
            machine.apply(None, path)
            if action == "UPDATE"
            else machine.command("heat-config-agent", delete, {})
        )
        assert (done.code, "site/web printed last:\n  | it is in use" in done.out) == (
            1,
            True,
        ), done.out
        sentence = f"stack site: {action}_FAILED: web: exit code 9: it is in use\n"
        assert machine.agent("status", "--failed").out == sentence

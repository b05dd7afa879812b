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


BAD = ["bad", "failed", "CREATE", "script", "-", "exit code 3: no such page"]


def rows(machine: Machine, *options: str) -> list[list[str]]:
    """Return the rows of status without their times."""
    lines = machine.agent("status", *options).out.splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith("NAME "))
    table = [line.split(maxsplit=6) for line in lines[begin + 1 :]]
    end = table.index([]) if [] in table else len(table)
    return [[*row[:5], *row[6:]] for row in table[:end]]


def test_line_of_a_failed_resource_says_why(machine: Machine) -> None:
    """The words are those of the tool, as for a deployment of a document."""
    [line] = [
        line
        for line in stack(machine, FAILS).splitlines()
        if line.startswith(("failed", "FAILED"))
    ]
    assert line.endswith("exit code 3: no such page")


def test_status_names_a_failed_stack_with_its_reason(machine: Machine) -> None:
    """So do the checks for monitors; once the stack is complete, there is nothing to say."""
    stack(machine, FAILS)
    why = "web: exit code 3: no such page"
    row = ["site", "failed", "CREATE", "stack", "-", why]
    assert row in rows(machine)
    assert rows(machine, "--failed") == [row]
    done = machine.agent("status", "--check")
    assert (done.code, f"stack site: CREATE_FAILED: {why}" in done.out) == (1, True)
    [shown] = machine.agent("status", "--json").data["stacks"]
    assert (shown["state"], shown["stack_status"], shown["message"]) == (
        "failed",
        "CREATE_FAILED",
        why,
    )

    stack(machine, "#!/bin/sh\ntrue\n")
    done = machine.agent("status", "--failed")
    assert (done.code, done.out) == (0, "nothing has failed\n")


def test_failed_deployments_are_named_and_counted_again(machine: Machine) -> None:
    """A repeated command runs nothing, and does not look as if all were well."""
    documents = [
        deployment("d1", FAILS, name="bad"),
        deployment("d2", "#!/bin/sh\ntrue\n", name="good"),
    ]
    assert machine.apply(documents).code == 1
    assert (
        machine.apply(documents).out.splitlines()[-1]
        == "2 deployments: nothing to do (1 failed before: bad)"
    )
    assert machine.agent("status", "--failed").code == 1
    done = machine.agent("status", "--check")
    assert (done.code, done.out) == (1, "no agent is running; 1 failed: bad\n")
    assert rows(machine, "--failed") == [BAD]
    assert (
        machine.apply(documents[:1]).out
        == "1 deployment: nothing to do (1 failed before: bad)\n"
    )


def test_strict_run_fails_for_earlier_failures_and_for_drift(machine: Machine) -> None:
    """The exit code is about the state of the deployments, whichever pass has run them; the text is the same."""
    page = machine.folder / "page"
    documents = [
        deployment("d1", FAILS, name="bad"),
        deployment(
            "d2",
            f"#!/bin/sh\ntouch {page}\n",
            name="page",
            options={"verify": f"#!/bin/sh\n[ -e {page} ]\n"},
        ),
    ]
    assert machine.apply(documents).code == 1
    assert machine.apply(documents).code == 0
    done = machine.apply(documents, "--strict")
    assert (done.code, done.out) == (1, machine.apply(documents).out)
    answer = machine.apply(documents, "--strict", "--json").json
    assert (answer["exit_code"], answer["error"]["code"]) == (1, "failed")
    assert machine.apply(documents[1:], "--strict").code == 0
    page.unlink()
    assert machine.agent("verify").code == 9
    assert machine.apply(documents[1:]).code == 0
    assert machine.apply(documents[1:], "--strict").code == 9
    done = machine.agent("wait", "page")
    assert (done.code, "page (CREATE): drifted: " in done.err) == (1, True)
    assert machine.apply(documents, "--strict").code == 1


def test_earlier_failures_are_counted_next_to_new_work(machine: Machine) -> None:
    """The line of totals names them, whatever else was run."""
    documents = [deployment("d1", FAILS, name="bad")]
    assert machine.apply(documents).code == 1
    done = machine.apply([*documents, deployment("d2", "#!/bin/sh\ntrue\n")])
    assert done.code == 0
    assert done.out.splitlines()[-1].endswith(
        ": 1 ok, 1 skipped (1 failed before: bad)"
    )


def test_reason_of_an_earlier_action_is_not_shown_again(machine: Machine) -> None:
    """Only what failed in the last action is the reason of a stack."""
    stack(machine, FAILS)
    printed = stack(machine, "#!/bin/sh\necho another reason >&2; exit 4\n")
    assert "no such page" not in printed
    why = "web: exit code 4: another reason"
    assert rows(machine) == [["site", "failed", "UPDATE", "stack", "-", why]]


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
        assert rows(machine, "--failed") == [["web", *BAD[1:]]]
    assert machine.agent("retry", "web").code == 0
    machine.write(json.dumps(good), "b.json")
    assert machine.apply(machine.folder / "b.json").code == 0

    done = machine.agent("status", "--failed")
    assert (done.code, done.out) == (0, "nothing has failed\n")
    data = machine.agent("status", "--failed", "--json").data
    assert (data["deployments"], data["stacks"]) == ([], [])
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
    names = [each["name"] for each in done.data["deployments"]]
    assert (done.code, names) == (1, ["bad"])
    [failed] = done.data["stacks"]
    assert (failed["stack_name"], failed["message"]) == (
        "site",
        "web: exit code 3: no such page",
    )
    assert done.json["error"]["message"] == "2 failed: site, bad"
    unfinished = machine.agent("status", "--unfinished", "--json").data
    assert (unfinished["deployments"], unfinished["stacks"]) == ([], [])


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
        assert (done.code, "         | it is in use\n" in done.out) == (
            1,
            True,
        ), done.out
        why = "web: exit code 9: it is in use"
        row = ["site", "failed", action, "stack", "-", why]
        assert rows(machine, "--failed") == [row]

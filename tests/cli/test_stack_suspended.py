"""A suspended stack: nothing forgets that its software is stopped, and an update starts again what a failure has left.

Each service is a file: CREATE, UPDATE and RESUME make it, SUSPEND removes it. The last one that is suspended cannot be
stopped before the parameter `stops` says so, nor be resumed before `starts` does.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.machine import Done, Machine
from support.stacking import stack

SCRIPT = """\
#!/bin/sh
echo "$deploy_resource_name $deploy_action" >> FOLDER/log
case $deploy_action$stops$starts in
SUSPENDno*) echo it does not stop >&2; exit 3;;
RESUME*no) echo it does not start >&2; exit 4;;
SUSPEND*) rm FOLDER/$deploy_resource_name.runs;;
*) touch FOLDER/$deploy_resource_name.runs;;
esac
"""
ACTIONS = ["CREATE", "UPDATE", "SUSPEND", "RESUME"]
NO = {"stops": {"get_param": "stops"}, "starts": {"get_param": "starts"}}


def deployment(**more: Any) -> dict[str, Any]:
    """Return a deployment of the script for all actions."""
    values = {
        "config": {"get_resource": "config"},
        "server": {"get_resource": "server"},
        "actions": ACTIONS,
    }
    inner = {
        "type": "OS::Heat::SoftwareDeployment",
        "properties": {**values, "input_values": more.pop("values", {})},
    }
    return {**inner, **more}


def apply(machine: Machine, *words: str, **resources: Any) -> Done:
    """Apply a template with `base`, and with `top` that depends on it, as the stack `s`."""
    inputs = [{"name": "stops", "default": "yes"}, {"name": "starts", "default": "yes"}]
    config = {
        "group": "script",
        "inputs": inputs,
        "config": SCRIPT.replace("FOLDER", str(machine.folder)),
    }
    content = {
        "heat_template_version": "2018-08-31",
        "parameters": {
            name: {"type": "string", "default": "yes"} for name in ("stops", "starts")
        },
        "resources": {
            "server": {
                "type": "OS::Nova::Server",
                "properties": {"image": "x", "flavor": "y"},
            },
            "config": {"type": "OS::Heat::SoftwareConfig", "properties": config},
            "base": deployment(values=NO),
            "top": deployment(depends_on=["base"]),
            **resources,
        },
    }
    (machine.folder / "s.yaml").write_text(json.dumps(content))
    return machine.apply(machine.folder / "s.yaml", *words)


def running(machine: Machine) -> list[str]:
    """Return the services that run."""
    return sorted(each.stem for each in machine.folder.glob("*.runs"))


def ran(machine: Machine) -> list[str]:
    """Return what has run since the last call."""
    log = machine.folder / "log"
    lines = log.read_text().splitlines()
    log.write_text("")
    return lines


GROUP = {
    "type": "OS::Heat::ResourceGroup",
    "depends_on": ["base"],
    "properties": {"count": 1, "resource_def": deployment()},
}


@pytest.mark.parametrize(
    "top", [deployment(depends_on=["base"]), GROUP], ids=["deployment", "group"]
)
def test_update_after_a_failed_suspension_starts_everything_again(
    machine: Machine, top: dict[str, Any]
) -> None:
    """A stack is complete only with its software running, and the plan has named each RESUME."""
    name = "top" if top is not GROUP else "0"
    assert apply(machine, "--parameter", "stops=no", top=top).code == 0
    assert stack(machine, "suspend", "s").code == 1
    assert running(machine) == ["base"]
    done = stack(machine, "resume", "s")
    assert (done.code, "heat-config-agent stack update --existing s" in done.err) == (
        1,
        True,
    ), done.err
    ran(machine)

    plan = {
        each["name"]: each["runs"]
        for each in apply(machine, "--plan", "--json", top=top).data["changes"]
    }
    assert plan["base"] == ["RESUME", "UPDATE"]
    assert [each.rpartition(" ")[2] for each in plan["top"]] == ["RESUME"]
    assert apply(machine, top=top).code == 0
    assert ran(machine) == ["base RESUME", "base UPDATE", f"{name} RESUME"]
    assert running(machine) == sorted([name, "base"])


def test_failed_resumption_is_made_up_by_the_next_update(machine: Machine) -> None:
    """It resumes by its new values, also what was not begun, and nothing twice."""
    assert apply(machine, "--parameter", "starts=no").code == 0
    assert stack(machine, "suspend", "s").code == 0
    assert stack(machine, "resume", "s").code == 1
    assert running(machine) == []
    ran(machine)
    assert apply(machine, "--parameter", "starts=no").code == 1
    assert (ran(machine), running(machine)) == (["base RESUME"], [])

    assert apply(machine).code == 0
    assert ran(machine) == ["base RESUME", "base UPDATE", "top RESUME"]
    assert running(machine) == ["base", "top"]
    assert apply(machine).code == 0
    assert ran(machine) == []


@pytest.mark.parametrize(
    "words", [("check",), ("snapshot", "create"), ("update", "--existing", "--dry-run")]
)
def test_suspended_stack_is_not_taken_for_another_state(
    machine: Machine, words: tuple[str, ...]
) -> None:
    """A check, a snapshot and a dry run of an update are refused, and the stack can be resumed after that."""
    assert apply(machine).code == 0
    assert stack(machine, "suspend", "s").code == 0
    done = stack(machine, *words, "s")
    assert (done.code, "suspended" in done.err, "resume it first" in done.err) == (
        2,
        True,
        True,
    ), done.err
    assert (
        json.loads(stack(machine, "show", "s", "--json").out)["data"]["stack_status"]
        == "SUSPEND_COMPLETE"
    )
    assert stack(machine, "resume", "s").code == 0
    assert running(machine) == ["base", "top"]


def test_check_fails_for_what_is_still_suspended(machine: Machine) -> None:
    """After a failed resumption, a check does not make it complete."""
    assert apply(machine, "--parameter", "starts=no").code == 0
    stack(machine, "suspend", "s")
    stack(machine, "resume", "s")
    assert stack(machine, "check", "s").code == 1
    assert apply(machine).code == 0
    assert running(machine) == ["base", "top"]


def test_adopted_stack_knows_that_it_was_suspended(machine: Machine) -> None:
    """Its deployments are not complete before they are resumed, which its next update does."""
    assert apply(machine).code == 0
    assert stack(machine, "suspend", "s").code == 0
    kept = machine.folder / "kept.json"
    assert stack(machine, "abandon", "s", "--yes", "--output-file", str(kept)).code == 0
    assert stack(machine, "adopt", "s", "--adopt-file", str(kept)).code == 0
    listed = json.loads(stack(machine, "resource", "list", "s", "--json").out)["data"][
        "resources"
    ]
    states = {each["resource_name"]: each["resource_status"] for each in listed}
    assert (states["base"], states["top"]) == ("SUSPEND_COMPLETE", "SUSPEND_COMPLETE")
    assert running(machine) == []
    assert stack(machine, "update", "--existing", "s").code == 0
    assert running(machine) == ["base", "top"]


def test_reason_of_an_earlier_failure_is_not_shown_for_a_suspension(
    machine: Machine,
) -> None:
    """A stack that cannot be suspended because an update has failed does not show the output of that update as new."""
    assert apply(machine).code == 0
    broken = deployment(values={"stops": "x"})
    broken["properties"]["config"] = {"get_resource": "other"}
    other = {"group": "script", "config": "#!/bin/sh\necho out of date >&2; exit 5\n"}
    more = {
        "top": broken,
        "other": {"type": "OS::Heat::SoftwareConfig", "properties": other},
    }
    assert "out of date" in apply(machine, **more).out
    done = stack(machine, "suspend", "s")
    assert (
        done.code,
        "out of date" in done.out,
        "invalid for suspend" in done.err,
    ) == (1, False, True), done.err

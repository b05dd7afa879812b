"""A resource for another server is left out, not done; names on the command line are those of the template."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.test_stack_failed_again import apply, component, deployment, log, planned, stack, template
from support.machine import Machine


def two() -> dict[str, Any]:
    """Return a template with a deployment for each of two servers."""
    return template(one=deployment(service="one"), two=deployment("other", service="two"))


def states(machine: Machine) -> dict[str, str]:
    """Return the status of each deployment by `stack resource list`."""
    rows = json.loads(stack(machine, "resource", "list", "s", "--json").out)
    return {each["resource_name"]: each["resource_status"] for each in rows if "Deployment" in each["resource_type"]}


@pytest.mark.parametrize("words", [(), ("--plan",)])
def test_unknown_server_is_refused(machine: Machine, words: tuple[str, ...]) -> None:
    """Nothing is begun, and a close name is suggested; also in a stack that exists."""
    done = apply(machine, two(), "--server", "othr", *words)
    assert (done.code, log(machine)) == (2, [])
    assert "the template has no server 'othr' (did you mean other?)" in done.err
    assert "no stacks" in stack(machine, "list").out
    assert apply(machine, two()).code == 0
    log(machine)
    assert apply(machine, two(), "--server", "config", *words).code == 2
    assert "has no server 'othr'" in stack(machine, "suspend", "s", "--server", "othr").err
    assert log(machine) == []


def test_left_out_deployment_is_begun_when_it_is_for_this_machine(machine: Machine) -> None:
    """Every listing says that it was left out, and CREATE runs as soon as it is for this machine."""
    assert planned(machine, two(), "--server", "server") == {"one": ("added", ["CREATE"]), "two": ("left out", [])}
    done = apply(machine, two(), "--server", "server")
    assert (done.code, log(machine)) == (0, ["one CREATE"])
    assert "left out  two                      CREATE       0.00 s  it is for the server" in done.out
    assert "left to other servers than server: two" in done.err
    assert states(machine) == {"one": "CREATE_COMPLETE", "two": "LEFT_OUT"}
    assert planned(machine, two(), "--server", "server") == {"one": ("unchanged", []), "two": ("left out", [])}
    done = apply(machine, two(), "--server", "server")
    assert (log(machine), states(machine)["two"]) == ([], "LEFT_OUT")
    assert "left out  two" in done.out
    assert planned(machine, two()) == {"one": ("unchanged", []), "two": ("again", ["CREATE"])}
    assert apply(machine, two()).code == 0
    assert (log(machine), states(machine)["two"]) == (["two CREATE"], "CREATE_COMPLETE")
    assert "left out" not in apply(machine, two()).out


def test_update_that_was_left_out_is_an_update_later(machine: Machine) -> None:
    """What was made here, and was changed for another server, gets the change as UPDATE."""
    assert apply(machine, two()).code == 0
    changed = template(one=deployment(service="one"), two=deployment("other", service="two", more="x"))
    assert apply(machine, changed, "--server", "server").code == 0
    log(machine)
    assert states(machine)["two"] == "LEFT_OUT"
    assert apply(machine, changed).code == 0
    assert log(machine) == ["two UPDATE"]
    assert stack(machine, "delete", "s", "--yes").code == 0
    assert sorted(log(machine)) == ["one DELETE", "two DELETE"]


@pytest.mark.parametrize("action", ["suspend", "delete"])
def test_nothing_is_undone_that_was_never_made(machine: Machine, action: str) -> None:
    """DELETE and SUSPEND run only what was carried out here."""
    content = two()
    content["resources"]["config"] = component("CREATE", "UPDATE", "SUSPEND", "DELETE")
    assert apply(machine, content, "--server", "server").code == 0
    log(machine)
    assert stack(machine, action, "s", *(("--yes",) if action == "delete" else ())).code == 0
    assert log(machine) == [f"one {action.upper()}"]


def test_removed_deployment_that_was_left_out_runs_no_delete(machine: Machine) -> None:
    """Its record goes, and the replacement is created."""
    assert apply(machine, two(), "--server", "server").code == 0
    log(machine)
    assert apply(machine, template(one=deployment(service="one"), new=deployment(service="new"))).code == 0
    assert log(machine) == ["new CREATE"]


def test_members_of_groups_are_left_out(machine: Machine) -> None:
    """A group has a member for each server; those of others are begun later."""
    group = {
        "type": "OS::Heat::SoftwareDeploymentGroup",
        "properties": {
            "config": {"get_resource": "config"},
            "servers": {"a": {"get_resource": "server"}, "b": {"get_resource": "other"}},
            "input_values": {"ok": "yes", "service": "g"},
        },
    }
    assert apply(machine, template(g=group), "--server", "other").code == 0
    assert log(machine) == ["b CREATE"]
    assert apply(machine, template(g=group)).code == 0
    assert log(machine) == ["a CREATE"]

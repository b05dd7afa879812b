"""Deployments that Heat replaces: the metadata has two of one resource, and the DELETE of the old one runs last."""

from __future__ import annotations

from typing import Any

import pytest

from support.daemon import LONG, Daemon, counting, ran
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment


def component(
    machine: Machine,
    identity: str,
    action: str = "CREATE",
    *,
    can: str = "DELETE",
    then: str = "",
) -> Any:
    """Return a component of a resource, as Heat has it in the metadata, with configs for CREATE and another action."""
    configs = [
        {
            "actions": ["CREATE", "UPDATE"],
            "tool": "script",
            "config": counting(machine, identity, then),
        },
        {"actions": [can], "tool": "script", "config": counting(machine, identity)},
    ]
    inputs = {"deploy_stack_id": "shop/3c1f", "deploy_resource_name": "web"}
    return deployment(
        identity,
        {"configs": configs},
        group="component",
        name="shop-c-6smozlcg",
        inputs=inputs,
        action=action,
    )


def by_name(given: Any, heat: SignalServer) -> Any:
    """Return a deployment with a result for the name of its resource, as `CFN_SIGNAL` has it."""
    items = [
        {"name": "deploy_signal_id", "type": "String", "value": heat.url(given["id"])},
        {"name": "deploy_signal_verb", "type": "String", "value": "POST"},
    ]
    return {**given, "inputs": [*given["inputs"], *items]}


def test_replaced_deployment_is_explained_before_and_after_its_delete(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The journal, `status`, `show` and `doctor` say what the DELETE may undo, and what frees the stack."""
    old = by_name(component(machine, "old", then="exit 3"), heat)
    new = by_name(component(machine, "new"), heat)
    delete = by_name(component(machine, "gone", "DELETE"), heat)

    def shown(command: str, *arguments: str) -> str:
        return " ".join(daemon.command(command, *arguments).out.split())

    machine.have_quick_tools()
    daemon.start()
    daemon.put([old])
    daemon.wait_state("old", "signalled")
    assert "of the new one" not in shown("status") + daemon.log

    daemon.put([old, new])
    daemon.wait_state("new", "signalled")
    soon = "shop/web: Heat is replacing it, and the DELETE of the old one runs after the CREATE of the new one: "
    soon += "it may undo it; Heat may take its result for the new one's, and wait for the old one's"
    daemon.wait_said(soon)
    assert soon in shown("status")
    assert soon in shown("status", "--check")
    assert soon in shown("show", "new")
    assert soon in shown("show", "old")
    assert soon in shown("doctor")

    daemon.put([delete, new])
    daemon.wait_state("gone", "signalled")
    assert ran(machine) == ["old", "new", "gone"]
    late = "the DELETE of the old one ran after the CREATE of the new one: it may have undone it; Heat may take"
    todo = "set the status of the old deployment, whose config is gone, to COMPLETE by Heat's API"
    wait_until(lambda: late in shown("status"), LONG)
    for command in (["status"], ["show", "new"], ["show", "gone"], ["doctor"]):
        assert late in shown(*command)
        assert todo in shown(*command)

    daemon.put([new])
    done = "shop/web: Heat has replaced it, and the DELETE of the old one ran after the CREATE of the new one"
    wait_until(lambda: done in shown("status"), LONG)
    assert "heat-config-agent retry new" in shown("status")
    [told] = daemon.command("status", "--json").data["replaced"]
    assert (told["name"], told["old"], told["new"]) == ("shop/web", "gone", "new")

    daemon.command("retry", "new")
    wait_until(lambda: ran(machine) == ["old", "new", "gone", "new"], LONG)
    daemon.wait_state("new", "signalled")
    wait_until(lambda: "of the new one" not in shown("status"), LONG)


@pytest.mark.parametrize(
    "kind", ["no config for DELETE", "another resource", "deleted alone"]
)
def test_other_pairs_of_deployments_are_not_called_replaced(
    daemon: Daemon, machine: Machine, kind: str
) -> None:
    """Only a DELETE that runs after the CREATE of its successor can undo anything."""
    old = component(
        machine, "old", can="SUSPEND" if kind == "no config for DELETE" else "DELETE"
    )
    new = component(
        machine, "new", can="SUSPEND" if kind == "no config for DELETE" else "DELETE"
    )
    if kind == "another resource":
        new["inputs"] = [
            {**each, "value": each["value"].replace("web", "db")}
            for each in new["inputs"]
        ]
    daemon.start()
    daemon.put([old])
    daemon.wait_state("old", "unasked")
    daemon.put(
        [component(machine, "gone", "DELETE")]
        if kind == "deleted alone"
        else [old, new]
    )
    daemon.wait_state("gone" if kind == "deleted alone" else "new", "unasked")
    assert "of the new one" not in daemon.command("status").out + daemon.log
    assert daemon.command("status", "--json").data["replaced"] == []


def test_resource_that_is_created_after_its_delete_is_not_called_replaced(
    daemon: Daemon, machine: Machine
) -> None:
    """A resource that an update of the stack removes, and another one adds, has been deleted before."""
    daemon.start()
    for given in ("old", "gone", "new"):
        daemon.put(
            [component(machine, given, "DELETE" if given == "gone" else "CREATE")]
        )
        daemon.wait_state(given, "unasked")
    assert daemon.command("status", "--json").data["replaced"] == []


def test_result_of_a_temporary_url_cannot_be_mistaken(
    daemon: Daemon, machine: Machine
) -> None:
    """Heat reads the results of both deployments; only the machine may need a look."""
    daemon.start()
    given = []
    for name, action in (("old", "CREATE"), ("gone", "DELETE"), ("new", "CREATE")):
        each = component(machine, name, action)
        url = f"http://127.0.0.1:9/v1/AUTH_a/c/{name}?temp_url_sig=5ec&temp_url_expires=2147483647"
        each["inputs"] += [
            {"name": "deploy_signal_id", "type": "String", "value": url},
            {"name": "deploy_signal_verb", "type": "String", "value": "PUT"},
        ]
        given.append(each)
    old, gone, new = given
    for document in ([old], [old, new], [gone, new]):
        daemon.put(document)
        daemon.wait_state(document[-1]["id"], "finished")
    daemon.wait_state("gone", "finished")
    [told] = daemon.command("status", "--json").data["replaced"]
    assert "may have undone it" in told["message"]
    assert "Heat may take" not in told["message"]
    assert "retry new" in told["hint"]

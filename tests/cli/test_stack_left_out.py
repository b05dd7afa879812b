"""A resource for another server is left out, not done; names on the command line are those of the template."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cli.test_stack_failed_again import (
    apply,
    component,
    deployment,
    log,
    planned,
    template,
)
from support.machine import Done, Machine
from support.stacking import stack


def two() -> dict[str, Any]:
    """Return a template with a deployment for each of two servers."""
    return template(
        one=deployment(service="one"), two=deployment("other", service="two")
    )


def states(machine: Machine) -> dict[str, str]:
    """Return the status of each deployment by `stack resource list`."""
    rows = json.loads(stack(machine, "resource", "list", "s", "--json").out)["data"][
        "resources"
    ]
    return {
        each["resource_name"]: each["resource_status"]
        for each in rows
        if "Deployment" in each["resource_type"]
    }


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
    assert (
        "has no server 'othr'" in stack(machine, "suspend", "s", "--server", "othr").err
    )
    assert log(machine) == []


def test_left_out_deployment_is_begun_when_it_is_for_this_machine(
    machine: Machine,
) -> None:
    """Every listing says that it was left out, and CREATE runs as soon as it is for this machine."""
    assert planned(machine, two(), "--server", "server") == {
        "one": ("add", ["CREATE"]),
        "two": ("skip", []),
    }
    done = apply(machine, two(), "--server", "server")
    assert (done.code, log(machine)) == (0, ["one CREATE"])
    skipped = r"^skipped  two        CREATE +[0-9.]+ s  it is for the server"
    assert re.search(skipped, done.out, re.MULTILINE), done.out
    assert "left to other servers than server: two" in done.err
    assert states(machine) == {"one": "CREATE_COMPLETE", "two": "LEFT_OUT"}
    assert planned(machine, two(), "--server", "server") == {
        "one": ("unchanged", []),
        "two": ("skip", []),
    }
    done = apply(machine, two(), "--server", "server")
    assert (log(machine), states(machine)["two"]) == ([], "LEFT_OUT")
    assert "skipped  two" in done.out
    assert planned(machine, two()) == {
        "one": ("unchanged", []),
        "two": ("repeat", ["CREATE"]),
    }
    assert apply(machine, two()).code == 0
    assert (log(machine), states(machine)["two"]) == (["two CREATE"], "CREATE_COMPLETE")
    assert "skipped" not in apply(machine, two()).out


def test_update_that_was_left_out_is_an_update_later(machine: Machine) -> None:
    """A deployment that was created here, and was changed for another server, gets the change as UPDATE."""
    assert apply(machine, two()).code == 0
    changed = template(
        one=deployment(service="one"), two=deployment("other", service="two", more="x")
    )
    assert apply(machine, changed, "--server", "server").code == 0
    log(machine)
    assert states(machine)["two"] == "LEFT_OUT"
    assert apply(machine, changed).code == 0
    assert log(machine) == ["two UPDATE"]
    assert stack(machine, "delete", "s", "--yes").code == 0
    assert sorted(log(machine)) == ["one DELETE", "two DELETE"]


@pytest.mark.parametrize("action", ["suspend", "delete"])
def test_deployment_that_never_ran_here_is_not_undone(
    machine: Machine, action: str
) -> None:
    """DELETE and SUSPEND run only what was carried out here."""
    content = two()
    content["resources"]["config"] = component("CREATE", "UPDATE", "SUSPEND", "DELETE")
    assert apply(machine, content, "--server", "server").code == 0
    log(machine)
    assert (
        stack(machine, action, "s", *(("--yes",) if action == "delete" else ())).code
        == 0
    )
    assert log(machine) == [f"one {action.upper()}"]


def test_removed_deployment_that_was_left_out_runs_no_delete(machine: Machine) -> None:
    """Its record goes, and the replacement is created."""
    assert apply(machine, two(), "--server", "server").code == 0
    log(machine)
    assert (
        apply(
            machine,
            template(one=deployment(service="one"), new=deployment(service="new")),
        ).code
        == 0
    )
    assert log(machine) == ["new CREATE"]


def test_members_of_groups_are_left_out(machine: Machine) -> None:
    """A group has a member for each server; those of others are begun later."""
    group = {
        "type": "OS::Heat::SoftwareDeploymentGroup",
        "properties": {
            "config": {"get_resource": "config"},
            "servers": {
                "a": {"get_resource": "server"},
                "b": {"get_resource": "other"},
            },
            "input_values": {"ok": "yes", "service": "g"},
        },
    }
    assert apply(machine, template(g=group), "--server", "other").code == 0
    assert log(machine) == ["b CREATE"]
    assert apply(machine, template(g=group)).code == 0
    assert log(machine) == ["a CREATE"]


TOSCA = """\
tosca_definitions_version: tosca_simple_yaml_1_3
topology_template:
  inputs: {title: {type: string, default: x}}
  node_templates:
    server: {type: tosca.nodes.Compute}
    other: {type: tosca.nodes.Compute}
    one:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: server}]
      interfaces: {Standard: {operations: {create: create.sh, delete: delete.sh}}}
    two:
      type: tosca.nodes.SoftwareComponent
      requirements: [{host: other}]
      interfaces: {Standard: {operations: {create: create.sh, delete: delete.sh}}}
"""


def service(machine: Machine, *words: str) -> Done:
    """Apply a service with a node on each of two servers, as the stack `t`."""
    (machine.folder / "t.yaml").write_text(TOSCA)
    for name in ("create", "delete"):
        text = f'#!/bin/sh\necho "$deploy_resource_name {name.upper()}" >> {machine.folder}/log\n'
        (machine.folder / f"{name}.sh").write_text(text)
    return machine.command(
        "heat-config-apply", ["t.yaml", "--state-dir", str(machine.state), *words], {}
    )


def test_operations_of_a_service_are_left_out(machine: Machine) -> None:
    """As deployments of a template are: begun when they are for this machine, and not undone before that."""
    done = service(machine, "--server", "othr")
    assert (
        done.code,
        "the template has no server 'othr' (did you mean other?)" in done.err,
    ) == (2, True)
    assert service(machine, "--server", "server").code == 0
    assert log(machine) == ["one.create CREATE"]
    rows = json.loads(stack(machine, "resource", "list", "t", "--json").out)["data"][
        "resources"
    ]
    assert {each["resource_name"]: each["resource_status"] for each in rows}[
        "two.create"
    ] == "LEFT_OUT"
    assert stack(machine, "delete", "t", "--yes").code == 0
    assert log(machine) == ["one.create DELETE"]
    assert service(machine, "--server", "server").code == 0
    plan = {
        each["name"]: each["runs"]
        for each in json.loads(service(machine, "--plan", "--json").out)["data"][
            "changes"
        ]
    }
    assert plan["two.create"] == ["CREATE"]
    log(machine)
    assert service(machine).code == 0
    assert log(machine) == ["two.create CREATE"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ("resource", "show", "s", "servr"),
            "s has no resource 'servr' (did you mean server?)",
        ),
        (
            ("event", "list", "s", "--resource", "servr"),
            "s has no resource 'servr' (did you mean server?)",
        ),
        (
            ("resource", "signal", "s", "servr"),
            "there is no resource servr in s (did you mean server?)",
        ),
        (
            ("output", "show", "s", "vlue"),
            "s has no output 'vlue' (did you mean value?)",
        ),
        (
            ("update", "s", "--existing", "--clear-parameter", "okk"),
            "no parameter 'okk' (did you mean ok?)",
        ),
        (("update", "s", "--existing", "--parameter", "okk=1"), "(did you mean ok?)"),
        (
            ("update", "s", "--existing", "--attribute", "servr.x=1"),
            "'servr' (did you mean server?)",
        ),
        (
            ("snapshot", "show", "s", "frst"),
            "s has no snapshot 'frst' (did you mean first?)",
        ),
        (("node", "show", "t", "on"), "the stack t has no node on (did you mean one?)"),
        (
            ("update", "t", "--existing", "--clear-parameter", "titel"),
            "no parameter 'titel' (did you mean title?)",
        ),
        (
            ("update", "t", "--existing", "--parameter", "titel=1"),
            "(did you mean title?)",
        ),
        (
            ("update", "t", "--existing", "--attribute", "servr.x=1"),
            "(did you mean server?)",
        ),
    ],
)
def test_unknown_name_is_refused(
    machine: Machine, words: tuple[str, ...], problem: str
) -> None:
    """With a close name, and nothing runs: a value is bad usage, and a thing is not there."""
    if words[-1] != "on" and "t" not in words:
        content = template(svc=deployment()) | {"outputs": {"value": {"value": "x"}}}
        assert apply(machine, content).code == 0
    else:
        assert service(machine).code == 0
    if "snapshot" in words:
        assert stack(machine, "snapshot", "create", "s", "--name", "first").code == 0
    log(machine)
    done = stack(machine, *words)
    of_values = {"--parameter", "--clear-parameter", "--attribute"}
    code = 2 if of_values & {*words} else 8
    assert (done.code, problem in done.err, log(machine)) == (code, True, []), (
        done.out + done.err
    )


def test_unknown_deployment_of_only_is_refused(machine: Machine) -> None:
    """In documents too, a close name is suggested."""
    (machine.folder / "d.yaml").write_text(
        "- {id: c1, name: alpha, group: script, config: 'true'}\n"
    )
    words = ["d.yaml", "--state-dir", str(machine.state), "--only", "alpa"]
    done = machine.command("heat-config-apply", words, {})
    assert (
        done.code,
        "no deployment has the name or id 'alpa' (did you mean alpha?)" in done.err,
    ) == (2, True)

"""A failed deployment of a stack runs its action again in place, and what is replaced is deleted before its successor.

Every script appends its resource and action to a log, and keeps a file per service: the machine at the end is as the
template says.
"""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest

from support.loopback import wait_until
from support.machine import Done, Machine
from support.stacking import stack

SCRIPT = """\
#!/bin/sh
echo "$deploy_resource_name $deploy_action" >> FOLDER/log
[ "$deploy_action" = DELETE ] && rm -f FOLDER/$service || touch FOLDER/$service
echo "the value is $ok" >&2
[ "$ok" != "not $deploy_action" ] && [ "$ok" != no ]
"""


def component(*actions: str) -> dict[str, Any]:
    """Return a component with one script for each of some actions."""
    configs = [{"actions": list(actions), "tool": "script", "config": SCRIPT}]
    inputs = [
        {"name": "ok"},
        {"name": "service"},
        {"name": "place", "replace_on_change": True},
    ]
    return {
        "type": "OS::Heat::SoftwareComponent",
        "properties": {"configs": configs, "inputs": inputs},
    }


def deployment(server: str = "server", **values: Any) -> dict[str, Any]:
    """Return a deployment of the component."""
    given = {"ok": {"get_param": "ok"}, "service": "svc", **values}
    properties = {
        "config": {"get_resource": "config"},
        "server": {"get_resource": server},
        "input_values": given,
    }
    return {"type": "OS::Heat::SoftwareDeployment", "properties": properties}


def template(*actions: str, **resources: Any) -> dict[str, Any]:
    """Return a template with two servers, the component and some resources."""
    servers = {
        name: {"type": "OS::Nova::Server", "properties": {"image": "x", "flavor": "y"}}
        for name in ("server", "other")
    }
    return {
        "heat_template_version": "2018-08-31",
        "parameters": {"ok": {"type": "string", "default": "yes"}},
        "resources": {
            **servers,
            "config": component(*(actions or ("CREATE", "UPDATE", "DELETE"))),
            **resources,
        },
    }


def write(machine: Machine, name: str, content: dict[str, Any]) -> None:
    """Write a template, whose scripts work in the folder of the machine; JSON is YAML too."""
    (machine.folder / name).write_text(
        json.dumps(content).replace("FOLDER", str(machine.folder))
    )


def apply(machine: Machine, content: dict[str, Any], *words: str) -> Done:
    """Apply a template as the stack `s`."""
    write(machine, "s.yaml", content)
    done = machine.command(
        "heat-config-apply", ["s.yaml", "--state-dir", str(machine.state), *words], {}
    )
    assert "Traceback" not in done.err
    return done


def log(machine: Machine) -> list[str]:
    """Return what has run since the last call."""
    path = machine.folder / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def test_failed_create_runs_create_again(machine: Machine) -> None:
    """Until CREATE has succeeded it is what runs; after that, UPDATE; the service stays."""
    content = template(svc=deployment())
    assert apply(machine, content, "--parameter", "ok=no").code == 1
    assert apply(machine, content, "--parameter", "ok=no").code == 1
    done = apply(machine, content)
    assert (done.code, log(machine)) == (0, ["svc CREATE"] * 3), done.out
    assert "ok       svc        CREATE" in done.out
    assert apply(machine, content, "--parameter", "ok=no").code == 1
    assert apply(machine, content).code == 0
    assert log(machine) == ["svc UPDATE"] * 2
    assert (machine.folder / "svc").exists()
    assert "unchanged" in apply(machine, content).out
    assert log(machine) == []


def test_config_for_failures_runs_before_the_rollback(machine: Machine) -> None:
    """It has the end of its run before anything of the rollback begins, also of another resource."""
    slow = {
        "actions": ["FAILED"],
        "tool": "script",
        "config": '#!/bin/sh\nsleep 0.5\necho "$deploy_resource_name FAILED" >> FOLDER/log\n',
    }
    content = template(other_svc=deployment(service="first"), svc=deployment())
    content["resources"]["config"]["properties"]["configs"].append(slow)
    content["resources"]["svc"]["depends_on"] = "other_svc"
    content["resources"]["other_svc"]["properties"]["input_values"]["ok"] = "yes"
    assert apply(machine, content).code == 0
    log(machine)
    changed = json.loads(json.dumps(content))
    changed["resources"]["other_svc"]["properties"]["input_values"]["more"] = "x"

    done = apply(machine, changed, "--parameter", "ok=no", "--rollback")

    assert done.code == 1, done.out
    assert log(machine) == [
        "other_svc UPDATE",
        "svc UPDATE",
        "svc FAILED",
        *sorted(["svc UPDATE", "other_svc UPDATE"]),
    ]


@pytest.mark.fault(
    1,
    "`kill -9` of a command on a stack while a config for failures runs, before the rollback",
    "the same command waits for its end, and then rolls back; nothing runs twice",
)
def test_config_for_failures_survives_the_command(machine: Machine) -> None:
    """The rollback that the next command goes on with begins after its end."""
    slow = {
        "actions": ["FAILED"],
        "tool": "script",
        "config": "#!/bin/sh\ntouch FOLDER/begun\nwhile ! [ -e FOLDER/go ]; do sleep 0.05; done\n"
        'echo "$deploy_resource_name FAILED" >> FOLDER/log\n',
    }
    content = template(svc=deployment())
    content["resources"]["config"]["properties"]["configs"].append(slow)
    assert apply(machine, content).code == 0
    log(machine)
    words = ["s.yaml", "--state-dir", str(machine.state), "--rollback"]
    words += ["--parameter", "ok=no"]
    process = machine.start("heat-config-apply", *words, stdin=None)
    try:
        wait_until((machine.folder / "begun").exists)
    finally:
        process.kill()
        process.communicate()
    again = machine.start("heat-config-apply", *words, stdin=None)
    try:
        assert not log(machine)[1:]
        (machine.folder / "go").touch()
    finally:
        (machine.folder / "go").touch()
        again.communicate()

    assert log(machine) == ["svc FAILED", "svc UPDATE"]


def test_script_runs_before_what_was_made_is_removed(machine: Machine) -> None:
    """A stack that could not be made is gone with --rollback, and the script has still seen it."""
    content = template(svc=deployment())
    content["resources"]["config"]["properties"]["options"] = {
        "on_failure": "sleep 0.5; ls FOLDER/svc >/dev/null && echo seen >> FOLDER/log"
    }

    assert apply(machine, content, "--parameter", "ok=no", "--rollback").code == 1

    assert log(machine) == ["svc CREATE", "seen", "svc DELETE"]


def test_rollback_of_an_update_runs_update(machine: Machine) -> None:
    """A rollback brings the failed deployment back in place."""
    content = template(svc=deployment())
    assert apply(machine, content).code == 0
    log(machine)
    done = apply(machine, content, "--parameter", "ok=no", "--rollback")
    assert (done.code, log(machine)) == (1, ["svc UPDATE"] * 2)
    assert "error: stack s: rolled back after" in done.err
    assert (machine.folder / "svc").exists()


@pytest.mark.parametrize("existed", [True, False])
def test_reason_and_output_of_a_run_survive_the_rollback(
    machine: Machine, existed: bool
) -> None:
    """The command that rolls back shows both, and they are shown until the next update."""
    content = template(svc=deployment())
    if existed:
        assert apply(machine, content).code == 0
    done = apply(machine, content, "--parameter", "ok=no", "--rollback")
    assert done.code == 1
    why = "svc: exit code 1: the value is no"
    said = r"error: stack s: (rolled back|ROLLBACK failed) after \S+ s: "
    assert re.match(said + why, done.err)
    assert "         | the value is no\n" in done.out
    words = re.search(r"  all output  heat-config-agent (log s/\S+ .*)\n", done.err)
    assert words is not None
    assert (
        machine.command("heat-config-agent", words[1].split(), {}).err
        == "the value is no\n"
    )
    assert f"rolled back after: {why}" in stack(machine, "show", "s").out
    assert apply(machine, content).code == 0
    assert "rolled back" not in stack(machine, "show", "s").out


def test_failed_deployments_of_nested_templates_and_groups_run_again(
    machine: Machine,
) -> None:
    """In a group and in a nested template, too, a failed member runs its CREATE again."""
    group = {
        "type": "OS::Heat::SoftwareDeploymentGroup",
        "properties": {
            "config": {"get_resource": "config"},
            "servers": {"a": "x", "b": "y"},
            "input_values": {"ok": {"get_param": "ok"}, "service": "group"},
        },
    }
    write(machine, "child.yaml", template(inner=deployment(service="inner")))
    child = {"type": "child.yaml", "properties": {"ok": {"get_param": "ok"}}}
    content = template(group=group, child=child)
    assert apply(machine, content, "--parameter", "ok=no").code == 1
    log(machine)
    assert apply(machine, content).code == 0
    assert sorted(log(machine)) == ["a CREATE", "b CREATE", "inner CREATE"]
    assert (machine.folder / "group").exists()
    assert (machine.folder / "inner").exists()


@pytest.mark.parametrize("change", ["server", "input", "type", "name"])
def test_replaced_deployment_is_deleted_before_its_successor_is_created(
    machine: Machine, change: str
) -> None:
    """Whatever the reason of the replacement is, the service is there at the end."""
    assert apply(machine, template(svc=deployment())).code == 0
    log(machine)
    write(machine, "child.yaml", template(svc=deployment()))
    after = {
        "server": template(svc=deployment("other")),
        "input": template(svc=deployment(place="there")),
        "type": template(svc={"type": "child.yaml"}),
        "name": template(new=deployment()),
    }[change]
    assert apply(machine, after).code == 0
    name = "new" if change == "name" else "svc"
    assert log(machine) == ["svc DELETE", f"{name} CREATE"]
    assert (machine.folder / "svc").exists()


def test_deployment_that_left_a_nested_template_is_deleted_first(
    machine: Machine,
) -> None:
    """A deployment with another name in a nested template is created after the DELETE of the old one."""
    write(machine, "child.yaml", template(old=deployment()))
    content = template(child={"type": "child.yaml"})
    assert apply(machine, content).code == 0
    write(machine, "child.yaml", template(new=deployment()))
    log(machine)
    assert apply(machine, content).code == 0
    assert log(machine) == ["old DELETE", "new CREATE"]
    assert (machine.folder / "svc").exists()


def test_nothing_runs_after_a_removal_that_failed(machine: Machine) -> None:
    """The DELETE is tried again by the next update, before anything else."""
    assert apply(machine, template(old=deployment(ok="not DELETE"))).code == 0
    log(machine)
    assert apply(machine, template(new=deployment())).code == 1
    assert apply(machine, template(new=deployment())).code == 1
    assert log(machine) == ["old DELETE"] * 2
    done = apply(machine, template(old=deployment()))
    assert (done.code, log(machine)) == (0, ["old CREATE"])
    assert (machine.folder / "svc").exists()


def test_removed_deployments_are_deleted_in_the_order_of_their_dependencies(
    machine: Machine,
) -> None:
    """The one that depended on the other goes first, also where a resource between them runs nothing."""
    between = {
        "type": "OS::Heat::Value",
        "properties": {"value": "v"},
        "depends_on": ["low"],
    }
    high = {**deployment(service="high"), "depends_on": ["between"]}
    assert (
        apply(
            machine, template(low=deployment(service="low"), between=between, high=high)
        ).code
        == 0
    )
    log(machine)
    assert apply(machine, template(new=deployment())).code == 0
    assert log(machine) == ["high DELETE", "low DELETE", "new CREATE"]


@pytest.mark.parametrize("action", ["check", "snapshot"])
def test_check_and_snapshot_leave_a_failed_deployment_failed(
    machine: Machine, action: str
) -> None:
    """A check and a snapshot leave a failed deployment failed, so that the next update runs it again."""
    content = template(svc=deployment())
    assert apply(machine, content, "--parameter", "ok=no").code == 1
    done = (
        stack(machine, "check", "s")
        if action == "check"
        else stack(machine, "snapshot", "create", "s")
    )
    assert done.code == 1
    assert "CREATE has failed: Deployment to server failed" in done.out + done.err
    listed = json.loads(stack(machine, "resource", "list", "s", "--json").out)["data"][
        "resources"
    ]
    states = {each["resource_name"]: each["resource_status"] for each in listed}
    assert states["svc"] == "CREATE_FAILED"
    log(machine)
    assert apply(machine, content, "--parameter", "ok=no").code == 1
    assert log(machine) == ["svc CREATE"]
    assert apply(machine, content).code == 0


def test_adopted_deployment_stays_failed(machine: Machine) -> None:
    """A deployment that had failed when its stack was abandoned is failed in the stack that adopts it."""
    content = template(svc=deployment())
    assert apply(machine, content).code == 0
    assert apply(machine, content, "--parameter", "ok=no").code == 1
    assert stack(machine, "abandon", "s", "--yes", "--output-file", "a.json").code == 0
    done = stack(machine, "adopt", "s", "--adopt-file", "a.json")
    assert done.code == 1, done.out + done.err
    assert "svc: it was adopted after its UPDATE had not succeeded" in done.err
    log(machine)
    assert apply(machine, content).code == 0
    assert log(machine) == ["svc UPDATE"]


def planned(
    machine: Machine, content: dict[str, Any], *words: str
) -> dict[str, tuple[str, list[str]]]:
    """Return the effect on each resource but servers and config by a plan, and the actions that it names."""
    done = apply(machine, content, "--plan", "--json", *words)
    rows = json.loads(done.out)["data"]["changes"]
    plain = {"server", "other", "config"}
    return {
        each["name"]: (each["change"], each["runs"])
        for each in rows
        if each["name"] not in plain
    }


def test_plan_names_the_actions_that_will_run(machine: Machine) -> None:
    """New, failed, changed, replaced and removed deployments have their actions, also those in child stacks."""
    write(machine, "child.yaml", template(inner=deployment(service="inner")))
    child = {"type": "child.yaml", "properties": {"ok": {"get_param": "ok"}}}
    content = template(svc=deployment(), child=child)
    bad = ("--parameter", "ok=no")
    assert planned(machine, content) == {
        "svc": ("add", ["CREATE"]),
        "child": ("add", ["CREATE"]),
    }
    assert apply(machine, content, *bad).code == 1
    assert planned(machine, content, *bad) == {
        "svc": ("repeat", ["CREATE"]),
        "child": ("update", ["inner CREATE"]),
    }
    assert planned(machine, content) == {
        "svc": ("update", ["CREATE"]),
        "child": ("update", ["inner CREATE"]),
    }
    assert apply(machine, content).code == 0
    assert planned(machine, content) == {
        "svc": ("unchanged", []),
        "child": ("unchanged", []),
    }
    assert planned(machine, content, *bad) == {
        "svc": ("update", ["UPDATE"]),
        "child": ("update", ["inner UPDATE"]),
    }
    assert planned(machine, template(svc=deployment("other"))) == {
        "svc": ("replace", ["DELETE", "CREATE"]),
        "child": ("remove", ["DELETE"]),
    }
    line = next(
        each
        for each in apply(machine, content, *bad, "--plan").out.splitlines()
        if " svc " in each
    )
    assert line.split()[:3] == ["update", "svc", "OS::Heat::SoftwareDeployment"]
    assert line.endswith("; runs UPDATE")


def test_plan_names_no_action_that_no_config_has(machine: Machine) -> None:
    """A component without a config for DELETE runs nothing when it is removed."""
    assert apply(machine, template("CREATE", svc=deployment())).code == 0
    assert planned(machine, template("CREATE", new=deployment())) == {
        "new": ("add", ["CREATE"]),
        "svc": ("remove", []),
    }


def test_plan_names_the_member_that_a_group_removes(machine: Machine) -> None:
    """A plan removes the member that the policy names, and nothing once it is removed."""

    def group(count: int, *removed: str) -> dict[str, Any]:
        member = {
            "resource_def": deployment(),
            "count": count,
            "removal_policies": [{"resource_list": [*removed]}],
        }
        return template(group={"type": "OS::Heat::ResourceGroup", "properties": member})

    assert apply(machine, group(3)).code == 0
    assert planned(machine, group(2, "1")) == {"group": ("update", ["1 DELETE"])}
    assert apply(machine, group(2, "1")).code == 0
    assert planned(machine, group(2, "1")) == {"group": ("unchanged", [])}


def test_plan_names_a_removal_that_failed(machine: Machine) -> None:
    """A deployment whose DELETE has failed is still to be removed."""
    assert apply(machine, template(old=deployment(ok="not DELETE"))).code == 0
    assert apply(machine, template()).code == 1
    assert planned(machine, template()) == {"old": ("remove", ["DELETE"])}


def test_interrupted_update_repeated_with_other_values_runs_with_these(
    machine: Machine,
) -> None:
    """The run of the killed command ends first, and its result is not taken for that of the new one."""
    content = template(svc=deployment())
    script = f"while [ $ok = wait ] && [ ! -e {machine.folder}/go ]; do sleep 0.1; done\necho $ok >> FOLDER/log\n"
    content["resources"]["config"]["properties"]["configs"][0]["config"] = (
        f"#!/bin/sh\ntouch FOLDER/$ok\n{script}"
    )
    assert apply(machine, content).code == 0
    words = ["--state-dir", str(machine.state), "s.yaml", "--parameter", "ok=wait"]
    process = machine.start("heat-config-apply", *words)
    wait_until((machine.folder / "wait").exists, 30)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (machine.folder / "go").touch()
    assert apply(machine, content, "--parameter", "ok=other").code == 0
    assert log(machine) == ["yes", "wait", "other"]


def test_interrupted_creation_repeated_with_other_values_begins_nothing_of_the_former(
    machine: Machine,
) -> None:
    """A deployment that the killed command had not begun is created with the new values alone, as the plan says."""
    content = template(svc=deployment(), later=deployment())
    content["resources"]["later"]["depends_on"] = "svc"
    script = (
        f"while [ $ok = wait ] && [ ! -e {machine.folder}/go ]; do sleep 0.1; done\n"
    )
    script += "echo $deploy_resource_name $deploy_action $ok >> FOLDER/log\n"
    content["resources"]["config"]["properties"]["configs"][0]["config"] = (
        f"#!/bin/sh\ntouch FOLDER/$ok\n{script}"
    )
    write(machine, "s.yaml", content)
    words = ["--state-dir", str(machine.state), "s.yaml", "--parameter", "ok=wait"]
    process = machine.start("heat-config-apply", *words)
    try:
        wait_until((machine.folder / "wait").exists, 30)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (machine.folder / "go").touch()
    plan = planned(machine, content, "--parameter", "ok=other")
    assert (plan["svc"], plan["later"]) == (
        ("update", ["CREATE"]),
        ("add", ["CREATE"]),
    )
    assert apply(machine, content, "--parameter", "ok=other").code == 0
    assert log(machine) == ["svc CREATE wait", "svc CREATE other", "later CREATE other"]
    assert apply(machine, content, "--parameter", "ok=other").code == 0
    assert log(machine) == []


@pytest.mark.parametrize("before", [1, 2])
def test_plan_names_the_create_of_a_member_that_a_group_adds(
    machine: Machine, before: int
) -> None:
    """It has the actions of the first member; then the update runs what the plan has named."""

    def group(count: int) -> dict[str, Any]:
        properties = {"count": count, "resource_def": deployment()}
        return template(
            group={"type": "OS::Heat::ResourceGroup", "properties": properties}
        )

    assert apply(machine, group(before)).code == 0
    log(machine)
    assert planned(machine, group(before + 1)) == {
        "group": ("update", [f"{before} CREATE"])
    }
    assert apply(machine, group(before + 1)).code == 0
    assert log(machine) == [f"{before} CREATE"]


def rolled(**values: Any) -> dict[str, Any]:
    """Return a template with a group of one member, of which one stays in service while it is updated."""
    properties = {"count": 1, "resource_def": deployment(**values)}
    policy = {"rolling_update": {"min_in_service": 1, "max_batch_size": 1}}
    return template(
        group={
            "type": "OS::Heat::ResourceGroup",
            "properties": properties,
            "update_policy": policy,
        },
    )


def test_group_gets_no_temporary_member_in_the_place_of_another(
    machine: Machine,
) -> None:
    """Members without their number are alike: the DELETE of a temporary one would undo what the other has set up."""
    assert apply(machine, rolled()).code == 0
    log(machine)
    content = rolled(more="x")
    assert planned(machine, content) == {"group": ("update", ["0 UPDATE"])}
    assert apply(machine, content).code == 0
    assert log(machine) == ["0 UPDATE"]
    assert (machine.folder / "svc").exists()


def test_plan_names_a_temporary_member_with_a_place_of_its_own(
    machine: Machine,
) -> None:
    """Members that use their number have places of their own, so one stays in service as in Heat."""
    assert apply(machine, rolled(service="svc-%index%")).code == 0
    log(machine)
    content = rolled(service="svc-%index%", more="x")
    assert planned(machine, content) == {
        "group": ("update", ["1 CREATE", "0 UPDATE", "1 DELETE"])
    }
    assert apply(machine, content).code == 0
    assert log(machine) == ["1 CREATE", "0 UPDATE", "1 DELETE"]
    assert (machine.folder / "svc-0").exists()
    assert not (machine.folder / "svc-1").exists()
    assert planned(machine, content) == {"group": ("unchanged", [])}


def test_scaling_group_gets_no_temporary_member_on_one_machine(
    machine: Machine,
) -> None:
    """The members of a scaling group are alike by their nature."""

    def group(**values: Any) -> dict[str, Any]:
        policy = {"min_in_service": 1, "max_batch_size": 1}
        properties = {
            "min_size": 1,
            "max_size": 2,
            "resource": deployment(**values),
            "rolling_updates": policy,
        }
        return template(
            group={"type": "OS::Heat::AutoScalingGroup", "properties": properties}
        )

    assert apply(machine, group()).code == 0
    log(machine)
    assert apply(machine, group(more="x")).code == 0
    assert [line.partition(" ")[2] for line in log(machine)] == ["UPDATE"]
    assert (machine.folder / "svc").exists()


@pytest.mark.parametrize("needed", [False, True])
def test_deployment_that_moves_out_of_a_nested_template_is_deleted_first(
    machine: Machine, needed: bool
) -> None:
    """Also where the nested template, which stays, gets an output of the new one, and is updated after it."""
    rest = deployment(service="rest")
    child = {
        **template(svc=deployment(), rest=rest),
        "parameters": {"ok": {"default": "yes"}, "of": {"default": ""}},
    }
    for each in child["parameters"].values():
        each["type"] = "string"
    write(machine, "child.yaml", child)
    nested: dict[str, Any] = {"type": "child.yaml"}
    assert apply(machine, template(child=nested)).code == 0
    log(machine)
    del child["resources"]["svc"]
    write(machine, "child.yaml", child)
    if needed:
        nested["properties"] = {"of": {"get_attr": ["svc", "deploy_status_code"]}}
    assert apply(machine, template(child=nested, svc=deployment())).code == 0
    assert [each for each in log(machine) if each.startswith("svc")] == [
        "svc DELETE",
        "svc CREATE",
    ]
    assert (machine.folder / "svc").exists()
    assert (machine.folder / "rest").exists()


def test_deployment_that_moves_between_nested_templates_is_deleted_first(
    machine: Machine,
) -> None:
    """The one that gets it is updated before the other, and after the DELETE all the same."""
    rest = {"one": deployment(service="one"), "two": deployment(service="two")}
    write(machine, "one.yaml", template(one=rest["one"], svc=deployment()))
    write(machine, "two.yaml", template(two=rest["two"]))
    content = template(
        b={"type": "two.yaml"}, c={"type": "one.yaml", "depends_on": ["b"]}
    )
    assert apply(machine, content).code == 0
    log(machine)
    write(machine, "one.yaml", template(one=rest["one"]))
    write(machine, "two.yaml", template(two=rest["two"], svc=deployment()))
    assert apply(machine, content).code == 0
    assert log(machine) == ["svc DELETE", "svc CREATE"]
    assert (machine.folder / "svc").exists()


def test_failed_removal_in_a_nested_template_names_its_path(machine: Machine) -> None:
    """Nothing new begins, and the next update tries the DELETE again."""
    write(
        machine,
        "child.yaml",
        template(svc=deployment(ok="not DELETE"), rest=deployment(service="rest")),
    )
    content = template(child={"type": "child.yaml"})
    assert apply(machine, content).code == 0
    log(machine)
    write(machine, "child.yaml", template(rest=deployment(service="rest")))
    content = template(child={"type": "child.yaml"}, svc=deployment())
    failed = apply(machine, content)
    assert (failed.code, apply(machine, content).code) == (1, 1)
    assert "resources.child.resources.svc" in failed.err
    assert log(machine) == ["svc DELETE"] * 2


def test_deployment_that_a_condition_may_keep_is_not_deleted_early(
    machine: Machine,
) -> None:
    """A nested template that may still have it, by a value that is known later, decides about it in its own update."""
    child = template(
        svc={**deployment(), "condition": {"equals": [{"get_param": "of"}, "0"]}}
    )
    child["parameters"]["of"] = {"type": "string", "default": "0"}
    write(machine, "child.yaml", child)
    given: dict[str, Any] = {
        "type": "child.yaml",
        "properties": {"of": {"get_attr": ["low", "deploy_status_code"]}},
    }
    low = deployment(service="low")
    assert apply(machine, template(low=low, child=given)).code == 0
    log(machine)
    child["parameters"]["of"]["default"] = "1"
    write(machine, "child.yaml", child)
    assert (
        apply(
            machine, template(low=low, child=given, new=deployment(service="new"))
        ).code
        == 0
    )
    assert log(machine) == ["new CREATE"]

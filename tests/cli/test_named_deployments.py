"""The commands that are given a deployment's name: show, log, retry and forget."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support import pace
from support.commands import SH, counted, let_go, runs, wait_for_text, waiting
from support.machine import Done, Machine, deployment

YES = {"forget": ["--yes"]}
"""The options without which a command asks."""


@pytest.mark.parametrize(
    "command",
    [["status"], ["status", "--json"], ["show", "d1"], ["log", "d1"], ["forget", "d1"]],
)
def test_nothing_has_happened_yet(machine: Machine, command: list[str]) -> None:
    """A directory that is named and missing is said to be so, nothing is written, and a deployment is unknown."""
    done = machine.agent(*command)

    assert done.code == 8
    assert "Traceback" not in done.err
    assert done.out + done.err
    assert not machine.state.exists()


@pytest.mark.parametrize(
    "command", [["forget", "--yes"], ["retry"], ["retry", "--signal"]]
)
def test_running_deployment_can_be_neither_forgotten_nor_retried(
    machine: Machine, command: list[str]
) -> None:
    """A deployment that is running can be neither forgotten nor run again before it ends."""
    process = machine.start_apply([waiting(machine)])
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    done = machine.agent(*command, "d1")
    let_go(machine)
    process.communicate(timeout=pace.seconds(10))

    assert done.code == 1
    assert "running" in done.err
    assert machine.status()["d1"]["failed"] is False


def test_a_wish_is_left_for_the_agent_that_runs(machine: Machine) -> None:
    """Where another agent holds the lock, a wish is left to it and carried out by the next pass."""
    given = [counted(machine, "d0"), waiting(machine)]
    machine.apply(given[:1])
    process = machine.start_apply(given)
    wait_for_text(machine.state / "runs" / "d1" / "stdout", "begun")

    asked = machine.agent("retry", "d0")
    let_go(machine)
    process.communicate(timeout=pace.seconds(10))

    assert asked.code == 0
    assert str(process.pid) in asked.out
    machine.apply(given)
    assert runs(machine) == ["d0", "d0"]


@pytest.mark.parametrize("command", ["show", "log", "retry", "forget"])
def test_a_deployment_may_be_named_in_short(machine: Machine, command: str) -> None:
    """Its id, its name, or a beginning of the id that no other has; an id or a name counts before a beginning.

    Each action has an id of its own: of several with one name the last is looked at, and none is changed.
    """
    entries = {
        "abc1": "web",
        "abc12345678": "db",
        "xyz": "abc12345",
        "other": "same",
        "more": "same",
    }
    given = [
        deployment(identity, f"{SH}echo it is {identity}\n", name=name)
        for identity, name in entries.items()
    ]
    machine.apply(given)

    def meant(wanted: str) -> Done:
        return machine.agent(command, *YES.get(command, ()), wanted)

    assert (meant("").code, meant("").out) == (2, "")
    done = meant("same")
    assert "'same' is more than one deployment: other (CREATE, " in done.err
    if command in ("show", "log"):
        assert (done.code, "it is more\n" in done.out) == (0, True)
        assert "; this is more, the newest deployment\n" in done.err
    else:
        assert (done.code, done.out) == (2, "")
    for wanted in ("nobody", "abc12345679", "ABC1"):
        done = meant(wanted)
        assert (done.code, done.out) == (8, "")
        assert f"no deployment, stack or source '{wanted}'" in done.err
    done = meant("abc1234")
    assert (done.code, "an id has 8 characters or more" in done.err) == (8, True)
    for wanted, identity in {
        "abc1": "abc1",
        "db": "abc12345678",
        "abc12345": "xyz",
        "abc123456": "abc12345678",
    }.items():
        if command == "forget":
            machine.apply(given)
        done = meant(wanted)
        assert done.code == 0, done.err
        assert {"show": f"it is {identity}\n", "log": f"it is {identity}\n"}.get(
            command, entries[identity]
        ) in done.out


def of_resource(identity: str, action: str, resource: str = "web") -> dict[str, object]:
    """Return a deployment of a resource as Heat names it: with a long name, which changes with each action."""
    inputs = {"deploy_stack_id": "shop/3c1f", "deploy_resource_name": resource}
    return deployment(
        identity,
        f"{SH}echo it is {identity}\n",
        name="shop-web-6smozlcg5z57",
        inputs=inputs,
        action=action,
    )


def test_a_deployment_may_be_named_by_its_resource(machine: Machine) -> None:
    """The name in the template is what a person knows; of its actions, the newest is shown."""
    machine.apply([of_resource("c1", "CREATE")])
    machine.apply([of_resource("u1", "UPDATE")])
    assert machine.agent("log", "web").out == "it is u1\n"
    assert machine.agent("show", "--json", "web").data["id"] == "u1"


def test_retry_of_a_name_runs_the_action_in_the_metadata(machine: Machine) -> None:
    """A name means the action in the metadata; a deployment that has left cannot run, and that is an error."""
    machine.apply([of_resource("c1", "CREATE")])
    given = [of_resource("u1", "UPDATE")]
    machine.apply(given)
    gone = machine.agent("retry", "c1")
    assert (gone.code, "no longer in the metadata" in gone.err) == (1, True)
    assert machine.agent("retry", "web").code == 0
    machine.apply(given)
    assert machine.agent("log", "web").out == "it is u1\n"
    assert [entry["again"] for entry in machine.status().values()] == [False, False]


def test_candidates_have_their_action_and_time(machine: Machine) -> None:
    """An id alone tells nobody which one is meant."""
    machine.apply([of_resource("c1", "CREATE"), of_resource("d1", "DELETE")])
    done = machine.agent("retry", "web")
    assert done.code == 2
    time = r"\d{4}-\d\d-\d\dT[\d:.]{12}Z"
    assert re.search(rf"c1 \(CREATE, {time}\), d1 \(DELETE, ", done.err) or re.search(
        rf"d1 \(DELETE, {time}\), c1 \(CREATE, ", done.err
    )


def test_deployments_that_share_a_config_are_told_apart(machine: Machine) -> None:
    """Heat names a deployment after its config; people know it as STACK/RESOURCE, in every list and command."""
    given = [of_resource("c1", "CREATE"), of_resource("c2", "CREATE", "db")]
    planned = machine.apply(given, "--plan")
    assert [line.split()[1] for line in planned.out.splitlines()[1:3]] == [
        "shop/web",
        "shop/db",
    ]
    done = machine.apply(given)
    assert [line.split()[1] for line in done.out.splitlines()[:2]] == [
        "shop/web",
        "shop/db",
    ]
    shown = machine.agent("status").out.splitlines()
    assert [line.split()[0] for line in shown if " script " in line] == [
        "shop/web",
        "shop/db",
    ]
    assert {
        each["name"] for each in machine.agent("status", "--json").data["deployments"]
    } == {
        "shop/web",
        "shop/db",
    }
    facts = machine.agent("show", "shop/db").out
    assert re.search(r"^name +shop/db$", facts, re.MULTILINE)
    assert re.search(r"^config +shop-web-6smozlcg5z57$", facts, re.MULTILINE)
    assert machine.agent("log", "shop/web").out == "it is c1\n"
    assert machine.agent("retry", "shop/db").code == 0
    assert "1 ok, 1 skipped" in machine.apply(given, "--only", "shop/db").out
    assert machine.agent("forget", "--yes", "shop/web").code == 0
    assert set(machine.status()) == {"c2"}


def test_deployment_of_a_stack_is_waited_for(machine: Machine) -> None:
    """`wait` takes STACK/RESOURCE, and the resource alone, as every command does."""
    assert machine.apply(None, str(stack_of_web(machine))).code == 0
    for name in ("web/app", "app"):
        done = machine.agent("wait", name, "--wait-for", "0")
        assert (done.code, done.out) == (0, "web/app (CREATE): ok\n"), done.err
    done = machine.agent("wait", "web/app", "--for-action", "DELETE", "--wait-for", "0")
    assert (done.code, "source 'web/app' for DELETE" in done.err) == (8, True)
    done = machine.agent("wait", "web/ap", "--wait-for", "0")
    assert (done.code, "stack or source 'web/ap' in " in done.err) == (8, True)


def test_group_of_deployments_has_the_daily_commands(machine: Machine) -> None:
    """`deployment show`, `log`, `retry` and `forget` do what the commands without the noun do."""
    machine.apply([deployment("d1", f"{SH}echo it is d1\n", name="web")])

    assert machine.agent("deployment", "log", "web").out == "it is d1\n"
    assert (
        machine.agent("deployment", "show", "web").out
        == machine.agent("show", "web").out
    )
    assert machine.agent("deployment", "retry", "web").out == "web will run again\n"
    assert machine.agent("deployment", "forget", "--yes", "web").code == 0
    assert machine.status() == {}


def test_list_of_deployments_has_those_of_stacks(machine: Machine) -> None:
    """Stacks and sources are left out, and each name is one that every command takes."""
    machine.apply([deployment("d1", name="db")])
    assert machine.apply(None, str(stack_of_web(machine))).code == 0

    rows = machine.agent("deployment", "list").out.splitlines()
    deployments = machine.agent("deployment", "list", "--json").data["deployments"]

    assert [row.split()[0] for row in rows] == ["NAME", "db", "web/app"]
    assert [each["name"] for each in deployments] == ["db", "web/app"]
    for each in deployments:
        assert machine.agent("show", each["name"]).code == 0
        assert machine.agent("show", each["key"]).code == 0


def test_outputs_of_a_deployment_are_printed(machine: Machine) -> None:
    """All of them, or the value of one and nothing else; its standard output is an output too."""
    script = f"{SH}echo said\necho -n 8080 > $heat_outputs_path.port\n"
    machine.apply([deployment("d1", script, name="web", outputs=["port"])])

    output = machine.agent("deployment", "output", "web")
    one = machine.agent("deployment", "output", "web", "port")
    missing = machine.agent("deployment", "output", "web", "prt")

    assert [row.split() for row in output.out.splitlines()] == [
        ["NAME", "VALUE"],
        ["port", "8080"],
    ]
    assert one.out == "8080\n"
    assert machine.agent("deployment", "output", "web", "deploy_stdout").out == "said\n"
    assert (missing.code, "did you mean port?" in missing.err) == (8, True)
    answer = machine.agent("deployment", "output", "web", "port", "--json")
    assert (answer.json["kind"], answer.data["output_value"]) == ("output", "8080")


def test_status_of_a_name_shows_only_that(machine: Machine) -> None:
    """A stack is shown with its deployments, and an unknown name is not there."""
    machine.apply([deployment("d1", name="db"), deployment("d2", name="cache")])
    assert machine.apply(None, str(stack_of_web(machine))).code == 0

    def names(*words: str) -> list[str]:
        data = machine.agent("status", *words, "--json").data
        return [
            *(each["stack_name"] for each in data["stacks"]),
            *(each["name"] for each in data["deployments"]),
        ]

    assert names("db") == ["db"]
    assert names("web") == ["web", "web/app"]
    assert names("web/app", "cache") == ["web/app", "cache"]
    assert machine.agent("status", "nobody").code == 8
    shown = machine.agent("status", "cache").out
    assert ("cache" in shown, "db" in shown) == (True, False)


def test_every_kind_of_name_is_waited_for(machine: Machine) -> None:
    """A stack by its name and its id, a resource that is not a deployment, and the file that was applied."""
    path = machine.write([deployment("d1", name="db")], "a.json")
    machine.apply(None, str(path))
    assert machine.apply(None, str(stack_of_web(machine))).code == 0
    stack_id = machine.agent("status", "--json").data["stacks"][0]["id"]
    source = machine.status()["d1"]["source"]

    for name in ("web", stack_id, stack_id[:8], "web/config", source):
        done = machine.agent("wait", name, "--wait-for", "0")
        assert done.code == 0, (name, done.err)
    subject = machine.agent("wait", stack_id[:8], "--json").data["subject"]
    assert subject == {"kind": "stack", "name": "web"}
    listed = machine.agent("stack", "resource", "list", "web", "--json").data
    for each in listed["resources"]:
        identity, name = each["physical_resource_id"], each["resource_name"]
        for word in (identity, identity[:8]):
            subject = machine.agent("wait", word, "--json").data["subject"]
            assert subject["name"] == f"web/{name}"


def test_stack_stands_for_its_deployments(machine: Machine) -> None:
    """`forget` takes all of them; `retry` only those that have failed, and there are none."""
    assert machine.apply(None, str(stack_of_web(machine))).code == 0

    retried = machine.agent("retry", "web")
    planned = machine.agent("forget", "web", "--plan", "--json").data["changes"]
    done = machine.agent("forget", "--yes", "web")

    assert (retried.code, "web/app" in retried.err) == (8, True)
    assert [(each["change"], each["name"]) for each in planned] == [
        ("forget", "web/app")
    ]
    assert (done.code, done.out.splitlines()[0]) == (
        0,
        "web/app is forgotten, and will run for CREATE",
    )


def stack_of_web(machine: Machine) -> Path:
    """Return the template of the stack `web`, which has one deployment."""
    config = {"group": "script", "config": f"{SH}true\n"}
    uses = {"config": {"get_resource": "config"}, "server": "here"}
    resources = {
        "config": {"type": "OS::Heat::SoftwareConfig", "properties": config},
        "app": {"type": "OS::Heat::SoftwareDeployment", "properties": uses},
    }
    content = {"heat_template_version": "2018-08-31", "resources": resources}
    return machine.write(json.dumps(content), "web.yaml")

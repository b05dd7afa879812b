"""Stacks whose machine was changed behind their back: `verify` and `stack check` say so, the next update repairs it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from heat_config_agent.model.entry import Removed
from heat_config_agent.state import journal
from heat_config_hooks.values import replace
from support.loopback import wait_until
from support.machine import Machine
from support.stacking import Stacks


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """The commands."""
    return Stacks(machine)


def written(stacks: Stacks, name: str, **more: Any) -> dict[str, Any]:
    """Return a deployment that writes the file NAME.json, with its config."""
    path = stacks.machine.folder / f"{name}.json"
    config = {"group": "json-file", "config": {str(path): {"port": 80}}}
    given = {"config": {"get_resource": f"{name}_config"}, "server": "here"}
    deployed = {"type": "OS::Heat::StructuredDeployment", "properties": given, **more}
    return {
        f"{name}_config": {
            "type": "OS::Heat::StructuredConfig",
            "properties": config,
        },
        name: deployed,
    }


def touched(stacks: Stacks, name: str, *actions: str, **more: Any) -> dict[str, Any]:
    """Return a script that makes the file NAME, counts its runs, and verifies that the file is there."""
    path = stacks.machine.folder / name
    resources = stacks.script(name, f"touch {path}", *actions, **more)
    verify = f"[ -e {path} ] || {{ echo {name} is gone; exit 1; }}"
    resources[f"{name}_config"]["properties"]["options"] = {"verify": verify}
    return resources


def verified(stacks: Stacks, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code of `verify`, and its rows by name."""
    done = stacks.machine.agent("verify", "--json", *words)
    assert "Traceback" not in done.err
    rows = json.loads(done.out)["data"]["deployments"]
    return done.code, {row["name"]: row for row in rows}


def checked(stacks: Stacks, code: int = 0) -> dict[str, Any]:
    """Return the stack as `stack check` shows it, with its checks by the names of the resources."""
    data = stacks("check", "t", "--json", code=code).data
    checks = {each["resource_name"]: each for each in data["checks"]}
    return {**data, "checks": checks}


def test_deployments_of_a_stack_are_verified_with_and_without_a_name(
    stacks: Stacks,
) -> None:
    """Without a name, with that of the stack, and with that of a resource."""
    stacks.apply(stacks.template({**written(stacks, "a"), **touched(stacks, "b")}))
    for words in ((), ("t",)):
        code, rows = verified(stacks, *words)
        assert (code, sorted(rows)) == (0, ["t/a", "t/b"])
    (stacks.machine.folder / "a.json").unlink()
    (stacks.machine.folder / "b").unlink()

    code, rows = verified(stacks)

    assert code == 9
    assert rows["t/a"]["message"].endswith("a.json: it is missing")
    assert (rows["t/b"]["state"], rows["t/b"]["message"]) == ("drifted", "b is gone")
    assert list(verified(stacks, "t/b")[1]) == ["t/b"]


def test_stack_is_verified_when_its_journal_keeps_no_documents(stacks: Stacks) -> None:
    """Its records have the configs for as long as the stack is there."""
    stacks.apply(stacks.template(written(stacks, "a")))
    book = journal.Journal(stacks.folder)
    less = {
        key: replace(each, document={}, removed=Removed.SECRETS)
        for key, each in book.entries.items()
    }
    assert book.reduce(less)
    book.close()

    assert verified(stacks)[0] == 0
    (stacks.machine.folder / "a.json").write_text("{}")
    assert verified(stacks)[0] == 9


def test_check_fails_with_the_reason_and_the_next_update_repairs(
    stacks: Stacks,
) -> None:
    """Heat's states and its form of the reason; the deployment runs CREATE again in place, once."""
    template = stacks.template({**written(stacks, "a"), **touched(stacks, "b")})
    stacks.apply(template)
    assert checked(stacks)["stack_status"] == "CHECK_COMPLETE"
    (stacks.machine.folder / "b").unlink()

    stack = checked(stacks, code=9)

    assert stack["stack_status"] == "CHECK_FAILED"
    reason = "Error: resources.b: b is gone"
    assert stack["stack_status_reason"] == f"Resource CHECK failed: {reason}"
    row = stack["checks"]["b"]
    assert row["resource_status"] == "CHECK_FAILED"
    assert row["resource_status_reason"] == reason
    assert (row["state"], row["message"]) == ("drifted", "b is gone")
    assert stack["checks"]["a"]["resource_status"] == "CHECK_COMPLETE"
    assert stacks.ran == ["b CREATE"]

    stacks("update", "--existing", "t")

    assert stacks.ran == ["b CREATE", "b CREATE"]
    assert stacks.state() == "UPDATE_COMPLETE"
    assert checked(stacks)["stack_status"] == "CHECK_COMPLETE"
    assert verified(stacks)[0] == 0
    stacks.apply(template)
    assert stacks.ran == ["b CREATE", "b CREATE"]


def test_check_after_a_repair_by_hand_is_complete_and_runs_nothing(
    stacks: Stacks,
) -> None:
    """A failed check can be repeated, and the update after one that succeeds has nothing to do."""
    template = stacks.template(touched(stacks, "b"))
    stacks.apply(template)
    (stacks.machine.folder / "b").unlink()
    assert checked(stacks, code=9)["stack_status"] == "CHECK_FAILED"
    assert checked(stacks, code=9)["stack_status"] == "CHECK_FAILED"
    (stacks.machine.folder / "b").touch()

    assert checked(stacks)["stack_status"] == "CHECK_COMPLETE"
    stacks.apply(template)

    assert stacks.ran == ["b CREATE"]


def test_drifted_deployment_runs_update_if_it_does_not_run_create(
    stacks: Stacks,
) -> None:
    """It would not be repaired otherwise."""
    template = stacks.template(touched(stacks, "b", "UPDATE"))
    stacks.apply(template)
    changed = json.loads(template.read_text())
    changed["resources"]["b"]["properties"]["name"] = "other"
    template.write_text(json.dumps(changed))
    stacks.apply(template)
    assert stacks.ran == ["b UPDATE"]
    (stacks.machine.folder / "b").unlink()
    checked(stacks, code=9)

    stacks("update", "--existing", "t")

    assert stacks.ran == ["b UPDATE", "b UPDATE"]
    assert (stacks.machine.folder / "b").exists()


def test_retried_deployment_runs_create_if_it_runs_nothing_else(
    stacks: Stacks,
) -> None:
    """The update has no UPDATE of it to run; and it runs once."""
    stacks.apply(stacks.template(touched(stacks, "b", "CREATE")))
    assert stacks.machine.agent("retry", "t/b").code == 0

    stacks("update", "--existing", "t")
    stacks("update", "--existing", "t")

    assert stacks.ran == ["b CREATE"] * 2


def test_repair_of_a_stack_updates_it_unchanged(stacks: Stacks) -> None:
    """Only the deployment that has drifted runs again, once; it is verified again."""
    resources = {**touched(stacks, "a"), **touched(stacks, "b")}
    stacks.apply(stacks.template(resources))
    (stacks.machine.folder / "b").unlink()

    done = stacks.machine.agent("verify", "--repair")

    assert done.code == 0, done.out + done.err
    assert "2 deployments: 2 ok; 1 run again" in done.out
    assert sorted(stacks.ran) == ["a CREATE", "b CREATE", "b CREATE"]
    assert verified(stacks)[0] == 0


def test_repair_of_a_stack_that_fails_is_told(stacks: Stacks) -> None:
    """The row stays drifted or failed, and names the command."""
    stacks.apply(stacks.template(touched(stacks, "b", "CREATE")))
    (stacks.machine.folder / "b").unlink()
    (stacks.machine.folder / "b").symlink_to("missing/b")

    done = stacks.machine.agent("verify", "--repair", "--json")

    assert done.code == 9
    [row] = done.json["data"]["deployments"]
    assert row["repair"] == "refused"
    assert row["message"].startswith(
        "b is gone; not repaired: `heat-config-agent stack update --existing t "
    )


def test_dependents_of_a_drifted_deployment_are_checked_too(stacks: Stacks) -> None:
    """In Heat they are not: here the next update repairs all that has drifted."""
    resources = {**touched(stacks, "a"), **touched(stacks, "b", depends_on="a")}
    stacks.apply(stacks.template(resources))
    for name in ("a", "b"):
        (stacks.machine.folder / name).unlink()

    stack = checked(stacks, code=9)
    stacks("update", "--existing", "t")

    assert {each["state"] for each in stack["checks"].values()} == {"drifted"}
    assert stacks.ran == ["a CREATE", "b CREATE"] * 2


def test_unverified_deployment_is_named_and_does_not_fail_the_check(
    stacks: Stacks,
) -> None:
    """As a type that Heat cannot check, it is CHECK_COMPLETE with that reason; its state is unknown."""
    stacks.apply(stacks.template(stacks.script("one")))

    done = stacks("check", "t")
    row = checked(stacks)["checks"]["one"]

    assert "one: unknown: not verified: the tool script cannot verify" in done.out
    assert "1 deployment: 1 unknown" in done.out
    assert row["resource_status"] == "CHECK_COMPLETE"
    assert row["state"] == "unknown"
    supported = "CHECK not supported for OS::Heat::SoftwareDeployment"
    assert row["resource_status_reason"].startswith(f"{supported}; not verified: ")
    assert verified(stacks)[0] == 1
    assert verified(stacks, "--allow-unknown")[0] == 0


def test_deployments_of_nested_stacks_and_groups_are_checked(stacks: Stacks) -> None:
    """The reason has the path of the resource, and the update repairs the one that has drifted alone."""
    stacks.template(touched(stacks, "b"), "inner")
    stacks.template(touched(stacks, "m"), "member")
    resources = {
        "nested": {"type": "inner.yaml"},
        "group": {
            "type": "OS::Heat::ResourceGroup",
            "properties": {"count": 2, "resource_def": {"type": "member.yaml"}},
        },
    }
    stacks.apply(stacks.template(resources))
    assert checked(stacks)["stack_status"] == "CHECK_COMPLETE"
    (stacks.machine.folder / "b").unlink()

    stack = checked(stacks, code=9)

    path = "resources.nested.resources.b"
    assert stack["stack_status_reason"].endswith(f"Error: {path}: b is gone")
    assert stack["checks"]["nested/b"]["state"] == "drifted"
    assert stack["checks"]["group/0/m"]["state"] == "ok"
    code, rows = verified(stacks, "t")
    assert (code, rows["t/nested/b"]["state"]) == (9, "drifted")
    stacks("update", "--existing", "t")
    assert stacks.ran.count("b CREATE") == 2
    assert stacks.ran.count("m CREATE") == 2
    assert checked(stacks)["stack_status"] == "CHECK_COMPLETE"


def test_suspended_stack_has_nothing_in_force(stacks: Stacks) -> None:
    """Its deployments are in force again after it was resumed."""
    stacks.apply(stacks.template(touched(stacks, "b")))
    stacks("suspend", "t")
    (stacks.machine.folder / "b").unlink()

    assert verified(stacks) == (0, {})
    assert verified(stacks, "t/b") == (0, {})
    stacks("resume", "t")

    assert verified(stacks)[0] == 9


def test_deployment_that_was_left_to_another_server_stays_left_out(
    stacks: Stacks,
) -> None:
    """Its check is complete with that reason, and nothing of it is verified on this machine."""
    resources = {**touched(stacks, "b"), **touched(stacks, "c")}
    resources["c"]["properties"]["server"] = "there"
    stacks.apply(stacks.template(resources), "--server", "here")

    stack = checked(stacks)

    assert stack["checks"]["c"]["resource_status"] == "LEFT_OUT"
    assert stack["checks"]["c"]["state"] == "skipped"
    assert stack["checks"]["b"]["state"] == "ok"
    assert list(verified(stacks)[1]) == ["t/b"]


def test_failed_run_without_a_signal_fails_the_check(stacks: Stacks) -> None:
    """Its stack does not wait for the result, so only the check tells."""
    resources = stacks.script("b", "echo no space left >&2; exit 4")
    resources["b"]["properties"]["signal_transport"] = "NO_SIGNAL"
    stacks.apply(stacks.template(resources))

    stack = checked(stacks, code=1)

    assert stack["stack_status"] == "CHECK_FAILED"
    assert "no space left" in stack["checks"]["b"]["message"]


def test_secret_is_masked_in_the_reason_of_a_check(stacks: Stacks) -> None:
    """Also in the events, in the records of the stack, and in those of the verification."""
    secret = "tr0ub4dor&3"
    path = stacks.machine.folder / "b"
    resources = touched(stacks, "b", input_values={"word": {"get_param": "word"}})
    options = {"verify": f'[ -e {path} ] || {{ echo "no $word"; exit 1; }}'}
    resources["b_config"]["properties"]["options"] = options
    parameters = {"word": {"type": "string", "hidden": True}}
    template = stacks.template(resources, parameters=parameters)
    stacks.apply(template, "--parameter", f"word={secret}")
    path.unlink()

    done = stacks("check", "t", code=9)

    shown = done.out + done.err + stacks("event", "list", "t").out
    assert "no ***" in done.err
    assert secret not in shown
    assert secret not in stacks.machine.agent("verify", "--diff").out
    assert secret not in (stacks.folder / "verified.json").read_text()


def test_killed_check_is_continued(stacks: Stacks) -> None:
    """The same command verifies again."""
    looks, waits = (stacks.machine.folder / name for name in ("looks", "waits"))
    resources = stacks.script("b")
    verify = f"touch {looks}; while [ -e {waits} ]; do sleep 0.05; done"
    resources["b_config"]["properties"]["options"] = {"verify": verify}
    stacks.apply(stacks.template(resources))
    looks.unlink()
    waits.touch()
    words = ("stack", "check", "t", "--state-dir", str(stacks.machine.state))
    process = stacks.machine.start("heat-config-agent", *words)
    try:
        wait_until(looks.exists, 30)
    finally:
        process.kill()
        process.communicate()
        waits.unlink()

    assert stacks.state() == "CHECK_IN_PROGRESS"
    assert checked(stacks)["stack_status"] == "CHECK_COMPLETE"

"""`heat-config-agent verify --repair`: what has drifted is run again, once, and verified again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.daemon import LONG, Daemon
from support.governed import POLICY, Governed
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment


def json_file(machine: Machine, name: str = "page") -> dict[str, Any]:
    """Return a deployment that writes one file."""
    config = {str(machine.folder / f"{name}.json"): {"port": 80}}
    return deployment(name, config, group="json-file")


def repaired(machine: Machine, *words: str) -> tuple[int, dict[str, Any]]:
    """Repair; return the exit code, and what is said of each deployment by its name."""
    done = machine.agent("verify", "--repair", "--json", *words)
    rows = json.loads(done.out)["data"]["deployments"]
    return done.code, {row["name"]: row for row in rows}


def drift(machine: Machine) -> None:
    """Apply two files, and change the first."""
    documents = [json_file(machine, "page"), json_file(machine, "other")]
    assert machine.apply(documents).code == 0
    (machine.folder / "page.json").write_text("{}")


def changed(path: Path) -> tuple[int, int]:
    """Return which file is at a path, and when it was changed last; to read it makes no difference."""
    status = path.stat()
    return status.st_ino, status.st_ctime_ns


def test_drifted_file_is_repaired(machine: Machine) -> None:
    """The other one is not run, and the record of the run names what had drifted."""
    drift(machine)
    untouched = changed(machine.folder / "other.json")

    done = machine.agent("verify", "--repair")

    assert done.code == 0, done.out + done.err
    assert "2 deployments: 2 ok; 1 run again" in done.out
    assert json.loads((machine.folder / "page.json").read_text()) == {"port": 80}
    assert changed(machine.folder / "other.json") == untouched
    path = machine.folder / "page.json"
    reason = machine.status()["page"]["reason"]
    assert reason == f"repaired: {path}: its content differs"
    events = machine.agent("events").out
    assert f"repaired: {path}: its content differs" in events
    assert machine.agent("verify").code == 0


def test_plan_names_the_deployments_that_would_be_repaired(machine: Machine) -> None:
    """Nothing is run."""
    drift(machine)

    done = machine.agent("verify", "--repair", "--plan")

    assert done.code == 0
    rows = [line.split()[:2] for line in done.out.splitlines() if "json-file" in line]
    assert rows == [["repair", "page"]]
    assert (machine.folder / "page.json").read_text() == "{}"


def test_other_deployments_of_the_document_stay(machine: Machine) -> None:
    """A repair offers one deployment, and the others have not left their document."""
    drift(machine)
    assert repaired(machine)[0] == 0

    again = machine.apply([json_file(machine, "page"), json_file(machine, "other")])
    assert again.code == 0
    assert again.out == "2 deployments: nothing to do\n"


def test_repair_without_effect_is_not_repeated(machine: Machine) -> None:
    """It still has drifted after one run, and the exit code says so."""
    runs = machine.folder / "runs"
    answer = '{"state": "drifted", "reason": "off"}'
    reply = '{"deploy_status_code": 0, "deploy_stdout": "", "deploy_stderr": ""}'
    machine.hook(
        "thing", f"#!/bin/sh\necho run >>{runs}; cat >/dev/null; echo '{reply}'"
    )
    machine.hook("thing.verify", f"#!/bin/sh\ncat >/dev/null; echo '{answer}'")
    hooks = ("--hooks-dir", str(machine.hooks))
    assert machine.apply([deployment("web", "", group="thing")]).code == 0
    assert runs.read_text() == "run\n"

    code, rows = repaired(machine, *hooks)

    assert code == 9
    assert rows["web"]["message"] == "the repair did not help: off"
    assert rows["web"]["repair"] == "done"
    assert runs.read_text() == "run\n" * 2


def test_failed_repair_has_its_reason(machine: Machine) -> None:
    """The deployment has failed then, and is not repaired again."""
    runs, flag = machine.folder / "runs", machine.folder / "flag"
    script = f"echo run >>{runs}; [ $(wc -l <{runs}) = 1 ] || exit 3; touch {flag}"
    options = {"verify": f"[ -e {flag} ] || {{ echo no flag; exit 1; }}"}
    assert machine.apply([deployment("web", script, options=options)]).code == 0
    flag.unlink()

    for _ in range(2):
        code, rows = repaired(machine)

        assert code == 1
        assert rows["web"]["state"] == "failed"
        assert rows["web"]["message"].startswith("the repair failed: ")
        assert runs.read_text() == "run\n" * 2


def test_failed_deployment_is_not_repaired(machine: Machine) -> None:
    """`retry` is for those."""
    runs = machine.folder / "runs"
    assert machine.apply([deployment("web", f"echo run >>{runs}; exit 3")]).code == 1

    code, rows = repaired(machine)

    assert code == 1
    assert rows["web"]["state"] == "failed"
    assert rows["web"]["repair"] is None
    assert runs.read_text() == "run\n"


def test_file_is_read_again_if_the_config_is_not_kept(machine: Machine) -> None:
    """The secrets of a deployment are removed after a time, and the file that was applied still has them."""
    keeps = machine.folder / "keep.conf"
    keeps.write_text("[agent]\nkeep_secrets = 0\n")
    config = ("--config", str(keeps))
    drift(machine)
    assert machine.agent("prune", *config).code == 0

    code, rows = repaired(machine)

    assert (code, rows["page"]["repair"]) == (0, "done"), rows
    assert json.loads((machine.folder / "page.json").read_text()) == {"port": 80}


def test_file_that_has_changed_has_to_be_applied(machine: Machine) -> None:
    """Its deployment would be another one, and the sentence names the file."""
    keeps = machine.folder / "keep.conf"
    keeps.write_text("[agent]\nkeep_secrets = 0\n")
    drift(machine)
    assert machine.agent("verify").code == 9
    assert machine.agent("prune", "--config", str(keeps)).code == 0
    path = machine.write([json_file(machine, "other")])

    done = machine.agent("verify", "--repair")

    assert "page" in done.out
    assert f"apply {path}" in done.out or "its config is no longer kept" in done.out
    assert (machine.folder / "page.json").read_text() == "{}"


def test_result_of_a_repair_is_not_sent(machine: Machine, heat: SignalServer) -> None:
    """The server has had the result of the deployment, and would take another one for that of its next action."""
    config = {str(machine.folder / "page.json"): {"port": 80}}
    given = deployment("page", config, group="json-file", signal=heat.url())
    assert machine.apply([given]).code == 0
    assert len(heat.values()) == 1
    (machine.folder / "page.json").write_text("{}")

    assert repaired(machine)[0] == 0
    assert machine.apply([given]).code == 0

    assert len(heat.values()) == 1


def test_paused_agent_repairs_after_the_pause(machine: Machine) -> None:
    """The request stays, and the next run carries it out."""
    drift(machine)
    assert machine.agent("pause", "--reason", "maintenance").code == 0

    code, rows = repaired(machine)

    assert code == 9
    assert rows["page"]["repair"] == "requested"
    assert "paused: maintenance" in rows["page"]["message"]
    assert (machine.folder / "page.json").read_text() == "{}"
    assert machine.agent("resume").code == 0
    documents = [json_file(machine, "page"), json_file(machine, "other")]
    assert machine.apply(documents).code == 0
    assert json.loads((machine.folder / "page.json").read_text()) == {"port": 80}


def test_running_agent_repairs(machine: Machine, daemon: Daemon) -> None:
    """The command asks it, and waits for it."""
    daemon.put([json_file(machine)])
    daemon.start()
    path = machine.folder / "page.json"
    wait_until(path.exists, LONG)
    assert machine.agent("wait").code == 0
    path.write_text("{}")

    code, rows = repaired(machine, "--wait")

    assert (code, rows["page"]["repair"]) == (0, "done"), rows
    assert rows["page"]["message"] == f"repaired: {path}: its content differs"
    assert json.loads(path.read_text()) == {"port": 80}


def test_running_agent_repairs_a_file_applied_by_hand(
    machine: Machine, daemon: Daemon
) -> None:
    """No source of the agent has it, and the deployment is carried out as it was kept."""
    drift(machine)
    daemon.start()

    code, rows = repaired(machine, "--wait")

    assert (code, rows["page"]["repair"]) == (0, "done"), rows
    assert rows["other"]["state"] == "ok"


@pytest.mark.parametrize(
    ("rule", "is_repaired"),
    [
        ("none", False),
        ("hiera, heat", False),
        ("name:other", False),
        ("json-file", True),
        ("file", True),
        ("name:page", True),
    ],
)
def test_policy_says_which_deployments_are_repaired(
    governed: Governed, rule: str, is_repaired: bool
) -> None:
    """By tool, source or name; the refusal names the rule and the file."""
    path = governed.machine.folder / "page.json"
    assert governed.apply([json_file(governed.machine)]).code == 0
    path.write_text("{}")
    governed.policy(f"repair = {rule}")

    done = governed.agent("verify", "--repair", "--json")

    [row] = json.loads(done.out)["data"]["deployments"]
    assert row["repair"] == ("done" if is_repaired else "refused")
    assert done.code == (0 if is_repaired else 9)
    assert (path.read_text() == "{}") != is_repaired
    refusal = (
        f"refused by the rule repair of {POLICY}: the deployment page is not in it"
    )
    assert (refusal in row["message"]) != is_repaired

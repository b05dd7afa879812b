"""The verification on a schedule: the daemon sees drift, says so, and repairs it if the settings say so."""

from __future__ import annotations

import json
import os
import signal
import tarfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.daemon import LONG, Daemon, counting, ran
from support.governed import Governed
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment

SOON = 0.4
"""Seconds between two verifications."""


def json_file(machine: Machine, name: str = "page") -> dict[str, Any]:
    """Return a deployment that writes one file."""
    config = {str(machine.folder / f"{name}.json"): {"port": 80}}
    return deployment(name, config, group="json-file")


def report(daemon: Daemon) -> dict[str, Any]:
    """Return the last verification of the agent's own deployments."""
    reports = daemon.health().get("verifications") or [{}]
    return dict(reports[0])


def passes(daemon: Daemon) -> int:
    """Return the number of verifications so far."""
    return int(report(daemon).get("passes", 0))


def started(daemon: Daemon, machine: Machine, **settings: Any) -> Path:
    """Start a daemon with a deployment of one file, wait until it is in effect, and return the file."""
    daemon.put([json_file(machine)])
    daemon.configure(verify_interval=SOON, **settings)
    daemon.start()
    path = machine.folder / "page.json"
    wait_until(path.exists, LONG)
    wait_until(lambda: report(daemon).get("ok") == 1, LONG)
    return path


def states(machine: Machine) -> dict[str, str]:
    """Return the state of each deployment, as `status` has it."""
    rows = machine.agent("status", "--json").json["data"]["deployments"]
    return {row["name"]: row["state"] for row in rows}


def test_drift_is_seen_and_not_repaired(daemon: Daemon, machine: Machine) -> None:
    """Without the setting `repair`, the daemon only says so: in its log, its health file and its metrics."""
    metrics = machine.folder / "metrics"
    path = started(daemon, machine, metrics_file=str(metrics))
    path.write_text("{}")

    daemon.wait_said(f"page has drifted: {path}: its content differs")
    wait_until(lambda: report(daemon).get("drifted") == 1, LONG)
    seen = passes(daemon)
    wait_until(lambda: passes(daemon) > seen + 1, LONG)

    assert path.read_text() == "{}"
    assert daemon.log.count("page has drifted") == 1
    assert "1 deployment drifted" in daemon.health()["doing"]
    text = metrics.read_text()
    assert 'heat_config_agent_deployments_drifted{source=""} 1.0' in text
    assert 'heat_config_agent_repairs_total{source=""} 0.0' in text


def test_drift_is_repaired(daemon: Daemon, machine: Machine) -> None:
    """With the setting `repair`: once, with its own entry in the record."""
    path = started(daemon, machine, repair="yes")
    path.write_text("{}")

    daemon.wait_said("page will be repaired")
    wait_until(lambda: path.read_text() != "{}", LONG)
    seen = passes(daemon)
    wait_until(lambda: passes(daemon) > seen + 1, LONG)

    assert json.loads(path.read_text()) == {"port": 80}
    assert (report(daemon)["repairs"], report(daemon)["drifted"]) == (1, 0)
    assert machine.status()["page"]["reason"].startswith("repaired: ")


def test_repair_that_does_not_help_is_repeated_less_and_less(
    daemon: Daemon, machine: Machine
) -> None:
    """The next repair has to wait for 2, 4, 8 … intervals, and the log says so."""
    runs = machine.folder / "runs"
    answer = '{"state": "drifted", "reason": "off"}'
    reply = '{"deploy_status_code": 0, "deploy_stdout": "", "deploy_stderr": ""}'
    machine.hook(
        "thing", f"#!/bin/sh\necho run >>{runs}; cat >/dev/null; echo '{reply}'"
    )
    machine.hook("thing.verify", f"#!/bin/sh\ncat >/dev/null; echo '{answer}'")
    daemon.put([deployment("web", "", group="thing")])
    daemon.configure(verify_interval=SOON, repair="yes")
    daemon.start()

    daemon.wait_said("web has drifted: off; its repair is requested")
    daemon.wait_said(
        "web has drifted again after its repair: off; a repair did not help"
    )
    wait_until(lambda: passes(daemon) > 6, LONG)

    assert len(runs.read_text().split()) < passes(daemon)


def test_paused_agent_verifies_and_does_not_repair(
    daemon: Daemon, machine: Machine
) -> None:
    """After the pause, it repairs."""
    path = started(daemon, machine, repair="yes")
    assert machine.agent("pause").code == 0
    path.write_text("{}")
    wait_until(lambda: report(daemon).get("drifted") == 1, LONG)
    seen = passes(daemon)
    wait_until(lambda: passes(daemon) > seen, LONG)
    assert path.read_text() == "{}"

    assert machine.agent("resume").code == 0

    wait_until(lambda: path.read_text() != "{}", LONG)
    assert json.loads(path.read_text()) == {"port": 80}


def test_policy_forbids_the_repair(daemon: Daemon, machine: Machine) -> None:
    """The drift is seen, and the record says which rule forbids the repair."""
    governed = Governed(machine)
    governed.policy("repair = none")
    daemon.put([json_file(machine)])
    daemon.configure(verify_interval=SOON, repair="yes")
    daemon.start(*governed.before)
    path = machine.folder / "page.json"
    wait_until(path.exists, LONG)
    wait_until(lambda: report(daemon).get("ok") == 1, LONG)
    path.write_text("{}")

    daemon.wait_said("refused by the rule repair of")

    assert path.read_text() == "{}"
    assert report(daemon)["repairs"] == 0


def test_failed_deployment_is_not_repaired_on_a_schedule(
    daemon: Daemon, machine: Machine
) -> None:
    """It waits for a person."""
    daemon.put([deployment("bad", counting(machine, "bad", "exit 3"))])
    daemon.configure(verify_interval=SOON, repair="yes")
    daemon.start()

    wait_until(lambda: passes(daemon) > 1, LONG)

    assert ran(machine) == ["bad"]


def test_config_that_is_not_kept_is_handed_on(daemon: Daemon, machine: Machine) -> None:
    """The daemon has it in memory, as long as the document has it."""
    path = started(daemon, machine, repair="yes", keep_secrets=0)
    wait_until(lambda: _is_pruned(machine), LONG)
    path.write_text("{}")

    wait_until(lambda: path.read_text() != "{}", LONG)

    assert json.loads(path.read_text()) == {"port": 80}


def _is_pruned(machine: Machine) -> bool:
    return machine.status()["page"].get("removed") == "secrets"


def hanging(machine: Machine) -> dict[str, Any]:
    """Return a deployment whose verification notes its process and hangs."""
    pid = machine.folder / "pid"
    script = f"[ -e {pid}.off ] && exit 0; echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 1000"
    options = {"verify": {"script": script, "timeout": 1000}}
    (machine.folder / "pid.off").touch()
    return deployment("web", "true", options=options)


def verifying(daemon: Daemon, machine: Machine) -> psutil.Process:
    """Start a daemon whose verification hangs, and return the process of that script."""
    daemon.put([hanging(machine)])
    daemon.configure(verify_interval=SOON)
    daemon.start()
    wait_until(lambda: report(daemon).get("ok") == 1, LONG)
    (machine.folder / "pid.off").unlink()
    wait_until((machine.folder / "pid").exists, LONG)
    return psutil.Process(int((machine.folder / "pid").read_text()))


def test_hanging_verification_holds_up_nothing(
    daemon: Daemon, machine: Machine
) -> None:
    """The daemon runs what is new; and when it ends, it ends the verification with all of its processes."""
    process = verifying(daemon, machine)
    daemon.put([hanging(machine), deployment("d2", counting(machine, "d2"))])
    wait_until(lambda: ran(machine) == ["d2"], LONG)
    assert process.is_running()

    assert daemon.stop() == 0

    wait_until(lambda: not process.is_running(), LONG)
    assert list((machine.state / "verifications").iterdir()) == []


def test_next_verification_ends_the_script_of_a_killed_one(
    daemon: Daemon, machine: Machine
) -> None:
    """The process of the verification is killed, and its script goes on until then."""
    process = verifying(daemon, machine)
    verifier = next(
        each
        for each in psutil.Process(daemon.pid).children()
        if "scheduled" in " ".join(each.cmdline())
    )
    (machine.folder / "pid.off").touch()
    verifier.send_signal(signal.SIGKILL)

    daemon.wait_said("the verification was killed by the signal SIGKILL")
    wait_until(lambda: not process.is_running(), LONG)
    assert daemon.stop() == 0
    assert os.listdir(machine.state / "verifications") == []


@pytest.mark.parametrize("interval", [0, SOON])
def test_interval_of_zero_verifies_nothing(
    daemon: Daemon, machine: Machine, interval: float
) -> None:
    """A reload of the settings begins and ends the verifications."""
    daemon.put([json_file(machine)])
    daemon.configure(verify_interval=SOON - interval)
    daemon.start()
    daemon.configure(verify_interval=interval)
    daemon.send(signal.SIGHUP)
    daemon.wait_said("the settings were read again")

    if interval:
        wait_until(lambda: passes(daemon) > 1, LONG)
    else:
        wait_until(lambda: daemon.health().get("verifications") == [], LONG)


def test_status_show_and_check_tell_the_drift(daemon: Daemon, machine: Machine) -> None:
    """They have the state, the difference, since when it was seen, and the command that repairs it."""
    path = started(daemon, machine)
    assert machine.agent("status", "--check").code == 0
    path.write_text("{}")
    wait_until(lambda: report(daemon).get("drifted") == 1, LONG)

    assert states(machine) == {"page": "drifted"}
    done = machine.agent("status")
    [row] = [line for line in done.out.splitlines() if line.startswith("page  ")]
    assert f"{path}: its content differs; first seen at " in row
    assert "page has drifted: `heat-config-agent verify --repair" in done.out
    shown = machine.agent("show", "page").out
    assert f"drifted: {path}: its content differs" in shown
    check = machine.agent("status", "--check")
    assert check.code == 1
    assert "page has drifted" in check.err + check.out


def test_drift_is_a_notice_for_a_server(
    daemon: Daemon, machine: Machine, other: SignalServer
) -> None:
    """It comes before the end of the repair."""
    path = started(daemon, machine, repair="yes", report_url=f"{other.origin}/events")
    path.write_text("{}")

    def told() -> list[dict[str, Any]]:
        return [json.loads(request.body) for request in other.signals]

    def changes() -> list[str]:
        return [each["type"].rpartition(".")[2] for each in told()]

    wait_until(lambda: len(changes()) >= 3, LONG)

    assert changes()[:3] == ["ended", "drifted", "ended"]
    drifted, ended = (each["data"] for each in told()[1:3])
    drift = f"{path}: its content differs"
    assert drifted["state"] == "drifted"
    assert drifted["reason"] == f"{drift}; its repair is requested"
    assert (ended["state"], ended["reason"]) == ("ok", f"repaired: {drift}")


def test_deployment_of_a_followed_document_is_repaired(
    daemon: Daemon, machine: Machine
) -> None:
    """By the settings of its section; the agent's own deployments are not verified."""
    source = machine.folder / "source"
    source.mkdir()
    path = machine.folder / "page.json"
    given = {
        "id": "page",
        "name": "page",
        "group": "json-file",
        "config": {str(path): {"port": 80}},
    }
    (source / "site.json").write_text(json.dumps([given]))
    daemon.settings["follow site"] = {
        "url": str(source),
        "path": "site.json",
        "interval": 0.3,
        "verify_interval": SOON,
        "repair": "yes",
    }
    daemon.start()
    wait_until(path.exists, LONG)
    wait_until(lambda: report(daemon).get("ok") == 1, LONG)
    assert report(daemon)["name"] == "site"
    path.write_text("{}")

    wait_until(lambda: path.read_text() != "{}", LONG)

    assert json.loads(path.read_text()) == {"port": 80}
    daemon.wait_said(f"site/page has drifted: {path}: its content differs")


def test_verification_during_which_a_run_begins_is_void(
    daemon: Daemon, machine: Machine
) -> None:
    """Its verdict is about the run before."""
    process = verifying(daemon, machine)
    (machine.folder / "pid.off").touch()
    assert machine.agent("retry", "web", "--wait").code == 0
    seen = passes(daemon)

    process.kill()  # the script has failed by that: drift, if it counted

    wait_until(lambda: passes(daemon) > seen + 1, LONG)
    assert states(machine)["web"] == "ok"
    assert "web has drifted" not in daemon.log
    assert daemon.stop() == 0


def test_bundle_has_the_verifications(daemon: Daemon, machine: Machine) -> None:
    """For those who are asked why something was or was not repaired."""
    path = started(daemon, machine)
    path.write_text("{}")
    wait_until(lambda: report(daemon).get("drifted") == 1, LONG)
    bundle = machine.folder / "bundle.tar.gz"

    assert machine.agent("collect-logs", str(bundle)).code == 0

    with tarfile.open(bundle) as file:
        member = file.extractfile("heat-config-agent/verified.json")
        assert member is not None
        assert "its content differs" in member.read().decode()

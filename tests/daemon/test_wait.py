"""heat-config-agent wait: for a deployment, for all of them, and for a stack."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from heat_config_agent.state import health
from support import pace
from support.daemon import LONG, Daemon, counting, ran
from support.daemon_runs import meeting
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment
from support.repositories import Repository, template

STACK = """\
heat_template_version: 2018-08-31
resources:
  server: {type: OS::Heat::DeployedServer}
  config:
    type: OS::Heat::SoftwareConfig
    properties: {group: script, config: "#!/bin/sh\\nexit CODE\\n"}
  web:
    type: OS::Heat::SoftwareDeployment
    properties: {config: {get_resource: config}, server: {get_resource: server}}
"""


def waiting(machine: Machine, *words: str) -> subprocess.Popen[str]:
    """Start `heat-config-agent wait WORDS`."""
    return machine.start(
        "heat-config-agent", "wait", "--state-dir", str(machine.state), *words
    )


def ended(process: subprocess.Popen[str]) -> str:
    """Return what a wait prints at its end; before it, its standard error says for what it waits."""
    out, err = process.communicate(timeout=pace.seconds(LONG))
    assert all(line.startswith("waiting: ") for line in err.splitlines()), err
    return out


def test_a_wait_begins_before_everything_else(daemon: Daemon, machine: Machine) -> None:
    """`wait` works before state directory, agent and document exist, and ends when the deployment has run."""
    assert not machine.state.exists()
    one, every = waiting(machine, "web"), waiting(machine)
    daemon.start()
    daemon.put([deployment("d1", meeting(machine, "d1"), name="web")])
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    time.sleep(1)
    assert one.poll() is None
    (machine.folder / "go-d1").touch()
    out, err = one.communicate(timeout=pace.seconds(LONG))
    assert out.startswith("web (CREATE): ok")  # its end may not be on record yet
    assert all(line.startswith("waiting: ") for line in err.splitlines())
    assert len(err.splitlines()) == len(set(err.splitlines()))
    assert one.returncode == 0
    every.communicate(timeout=pace.seconds(LONG))
    assert every.returncode == 0


def test_nothing_is_done_until_the_agent_has_every_document(
    daemon: Daemon, machine: Machine
) -> None:
    """A machine whose agent is not running, or has no answer yet, is not done, whatever ran there before."""
    daemon.put([deployment("d1", counting(machine))])
    daemon.start()
    done = machine.agent("wait", "--wait-for", str(LONG))
    assert (done.code, done.out) == (0, "1 deployment done\n")
    assert all(line.startswith("waiting: ") for line in done.err.splitlines())
    daemon.stop()
    done = machine.agent("wait", "--wait-for", "0")
    assert (done.code, done.err) == (8, "error: no agent is running\n")
    daemon.local.rename(machine.folder / "away")
    daemon.local.write_text("no folder")
    daemon.start()
    done = machine.agent("wait", "--wait-for", "1")
    assert (done.code, done.err) == (
        7,
        "waiting: no answer yet from local\nerror: no answer yet from local\n",
    )
    daemon.local.unlink()
    (machine.folder / "away").rename(daemon.local)
    assert machine.agent("wait", "--wait-for", str(LONG)).code == 0


def test_wait_that_starts_before_the_agent_sees_its_first_document(
    daemon: Daemon, machine: Machine
) -> None:
    """A wait that starts early does not end before the first document is on record."""
    for number in range(3):
        identity = f"d{number}"
        daemon.put(
            [deployment(identity, counting(machine, identity, "sleep 0.3"), name="web")]
        )
        daemon.start(wait=False)
        done = machine.agent("wait", "--wait-for", str(LONG))
        assert done.code == 0, done.err
        assert ran(machine)[-1] == identity
        assert machine.status()[identity]["ended"] is not None
        daemon.stop()


def test_a_failure_has_its_own_code(daemon: Daemon, machine: Machine) -> None:
    """One failed deployment fails the wait, and is named with the reason."""
    daemon.put(
        [
            deployment("d1", "#!/bin/sh\nexit 3\n", name="web"),
            deployment("d2", name="db"),
        ]
    )
    daemon.start()
    done = machine.agent("wait", "--wait-for", str(LONG))
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1].startswith(
        "error: web (CREATE): failed: exit code 3"
    )
    assert machine.agent("wait", "db", "--wait-for", str(LONG)).code == 0
    done = machine.agent("wait", "web", "--json")
    assert done.code == 1
    answer = json.loads(done.out)
    shown = answer["data"]
    assert (shown["outcome"], [each["id"] for each in shown["deployments"]]) == (
        "failed",
        ["d1"],
    )
    assert shown["subject"] == {"kind": "deployment", "name": "web"}
    assert (answer["kind"], answer["error"]["code"]) == ("wait", "failed")
    assert shown["message"] == answer["error"]["message"]


def test_only_the_action_that_is_named_counts(daemon: Daemon, machine: Machine) -> None:
    """The wait for the UPDATE ends only when it has run, although the CREATE of that name has."""
    daemon.put([deployment("d1", counting(machine, "d1"), name="web")])
    daemon.start()
    assert machine.agent("wait", "web", "--wait-for", str(LONG)).code == 0
    for words in (["web"], []):
        done = machine.agent(
            "wait", *words, "--for-action", "UPDATE", "--wait-for", "2"
        )
        assert done.code == 8, done.err
        assert "for UPDATE" in done.err
    update = waiting(machine, "web", "--for-action", "UPDATE")
    daemon.put([deployment("d2", counting(machine, "d2"), name="web", action="UPDATE")])
    assert ended(update) == "web (UPDATE): ok\n"
    assert ran(machine) == ["d1", "d2"]


def test_a_wait_is_for_the_run_and_not_for_the_delivery(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """While no server accepts the result, what stands on the deployment goes on."""
    heat.always = Answer(503)
    daemon.put([deployment("d1", counting(machine), name="web", signal=heat.url())])
    daemon.start()
    done = machine.agent("wait", "web", "--wait-for", str(LONG))
    assert done.code == 0, done.err
    assert machine.status()["d1"]["state"] == "finished"
    assert machine.agent("wait", "--wait-for", str(LONG)).code == 0


def test_a_paused_agent_is_not_done(daemon: Daemon, machine: Machine) -> None:
    """The reason why nothing begins is said at the end of the time."""
    daemon.start()
    assert machine.agent("pause", "--reason", "moving house").code == 0
    daemon.put([deployment("d1", counting(machine), name="web")])
    wait_until(lambda: "d1" in machine.status(), LONG)
    done = machine.agent("wait", "--wait-for", "2")
    assert done.code == 7
    assert "moving house" in done.err


@pytest.mark.parametrize("name", ["process", "boot", "ticks"])
def test_the_report_of_an_earlier_agent_does_not_count(
    daemon: Daemon, machine: Machine, name: str
) -> None:
    """After a reboot, an agent may have the process id of the one before, and the disk has the report of that one."""
    daemon.start()
    assert machine.agent("wait", "--wait-for", str(LONG)).code == 0
    daemon.send(signal.SIGSTOP)
    report = daemon.health()
    assert report[name]
    (machine.state / health.FILE).write_text(json.dumps({**report, name: "another"}))
    done = machine.agent("wait", "--wait-for", "0")
    daemon.send(signal.SIGCONT)
    assert (done.code, done.err) == (7, "error: the agent is starting\n")


@pytest.mark.parametrize(("code", "outcome"), [(0, 0), (3, 1)])
def test_a_stack_is_waited_for(machine: Machine, code: int, outcome: int) -> None:
    """`wait` waits from before the stack exists to its end, and for one action if that is named."""
    path = machine.write(STACK.replace("CODE", str(code)), "stack.yaml")
    state = ["--state-dir", str(machine.state)]
    assert machine.agent("wait", "shop", "--wait-for", "0").code == 8
    process = waiting(machine, "shop")
    created = machine.command(
        "heat-config-agent", ["stack", "create", "shop", "-t", str(path), *state], {}
    )
    out, err = process.communicate(timeout=pace.seconds(LONG))
    assert process.returncode == outcome == created.code, out + err
    assert f"shop: CREATE_{'FAILED' if code else 'COMPLETE'}" in out + err
    assert (
        machine.agent("wait", "shop", "--for-action", "UPDATE", "--wait-for", "0").code
        == 7
    )
    deleting = waiting(machine, "shop", "--for-action", "DELETE")
    assert deleting.stderr is not None
    assert "it has not begun DELETE" in deleting.stderr.readline()
    deleted = machine.command(
        "heat-config-agent", ["stack", "delete", "shop", "--yes", *state], {}
    )
    assert deleted.code == 0, deleted.err
    deleting.communicate(timeout=pace.seconds(LONG))
    assert deleting.returncode == 0


def test_invalid_waits_are_refused(daemon: Daemon, machine: Machine) -> None:
    """An empty name, a time that is none, and two things at once."""
    daemon.put([deployment("d1", name="web"), deployment("d2", name="db")])
    daemon.start()
    assert machine.agent("wait", "--wait-for", str(LONG)).code == 0
    for words in ([""], ["web", "--wait-for", "soon"], ["web", "shop"]):
        done = machine.agent("wait", *words)
        assert done.code == 2, words
        assert "Traceback" not in done.err


@pytest.mark.skipif(
    shutil.which("git") is None, reason="git is missing: apt-get install git"
)
def test_a_followed_stack_is_waited_for(
    daemon: Daemon, machine: Machine, tmp_path: Path
) -> None:
    """`wait` waits for a followed stack without another source; a refused revision is a failure."""
    repository = Repository(tmp_path / "repository")
    log, go = tmp_path / "ran", tmp_path / "go"
    repository.commit(
        {"stack.yaml": template(log, "one", f"until [ -e {go} ]; do sleep 0.05; done")}
    )
    daemon.settings["follow web"] = {
        "url": repository.url,
        "path": "stack.yaml",
        "interval": 0.2,
    }
    daemon.configure(collectors="file")
    daemon.start()
    words = ("--config", str(daemon.path))
    wait_until(log.exists, LONG)
    assert daemon.health()["sources"] == []
    done = daemon.command("wait", "--wait-for", "0")
    assert (
        done.code,
        "source web: revision " in done.err,
        "is being carried out" in done.err,
    ) == (7, True, True)
    every = machine.start("heat-config-agent", "wait", *words)
    go.touch()
    assert ended(every) == "0 deployments and 1 stack done\n"
    assert every.returncode == 0
    repository.commit(
        {"stack.yaml": "heat_template_version: 2018-08-31\nresources: 7\n"}
    )
    wait_until(lambda: daemon.command("wait", "--wait-for", "0").code == 1, LONG)
    assert "is refused" in daemon.command("wait", "--wait-for", "0").err

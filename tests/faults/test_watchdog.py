"""A daemon that hangs over something, and that systemd's watchdog aborts: it never hangs over the same thing for ever.

What it hangs over is put there by the tests: nothing that is known does so.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import stat
import sys
from pathlib import Path

import pytest

from heat_config_agent.state import attempts
from support.daemon import LONG, Daemon, counting, ran
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment

pytestmark = [pytest.mark.takes(20), pytest.mark.new_process("daemons")]

SECRET = "planted-9d21-secret"

HANGS = """if True:
    import os, sys, time
    from heat_config_agent.engine import applier
    from heat_config_agent.state.removal import pruning
    from heat_config_agent.runs import hook, result
    from heat_config_agent.cli import main
    marker, where = sys.argv[1:3]

    def hanging(function, which):
        def call(*arguments, **options):
            if which(*arguments):
                open(marker, "w").close()
                time.sleep(1e6)
            return function(*arguments, **options)
        return call

    about = lambda place: lambda *arguments: "stuck" in arguments[place].id
    if where == "result":
        result.make = hanging(result.make, about(1))
    if where == "prepare":
        hook.prepare = hanging(hook.prepare, lambda job, *_: "stuck" in job.deployment.id)
    if where == "plan":
        applier.plan.make = hanging(applier.plan.make, lambda found, *_: any("stuck" in each.id for each in found))
    if where == "prune":
        pruning.Pruning.work = hanging(pruning.Pruning.work, lambda *_: True)
    sys.argv = sys.argv[3:]
    sys.exit(main.agent())
"""


class Watched:
    """A daemon that hangs somewhere, and what systemd does about it."""

    def __init__(self, daemon: Daemon, machine: Machine, where: str) -> None:
        self.daemon = daemon
        self._marker = machine.folder / "hangs"
        self._before = (sys.executable, "-c", HANGS, str(self._marker), where)

    def start(self, *, wait: bool = True) -> None:
        self._marker.unlink(missing_ok=True)
        self.daemon.start(*self._before, wait=wait, WATCHDOG_USEC="60000000")

    def abort(self) -> None:
        """Have it hang, and end it as systemd does, as often as it takes."""
        for _ in range(attempts.TIMES):
            self.start(wait=False)
            wait_until(self._marker.exists, LONG)
            self.daemon.send(signal.SIGABRT)
            wait_until(lambda: self.daemon.ended, LONG)


@pytest.mark.parametrize(
    ("where", "says", "runs"),
    [
        (
            "result",
            "making a result of what was left by stuck (File ",
            ["fine", "stuck"],
        ),
        ("prepare", "beginning stuck (File ", ["fine"]),
    ],
)
@pytest.mark.fault(
    3,
    "the watchdog ends the agent again and again over one deployment: while it begins it, or makes a result of its run",
    "after two such ends the deployment is answered as failed, which says so; it is not run again, and others go on",
)
def test_deployment_that_hung_the_agent_is_tried_once_more(  # noqa: PLR0917
    daemon: Daemon,
    machine: Machine,
    heat: SignalServer,
    where: str,
    says: str,
    runs: list[str],
) -> None:
    """A deployment that hung the agent is tried once more, as the machine may have been at fault."""
    stuck = deployment(
        "stuck",
        counting(machine, "stuck"),
        signal=heat.url("stuck"),
        inputs={"password": SECRET},
    )
    fine = deployment("zfine", counting(machine, "fine"), signal=heat.url("fine"))
    watched = Watched(daemon, machine, where)
    daemon.configure()
    daemon.put([stuck, fine])
    watched.abort()
    assert not heat.values("stuck")

    watched.start()
    wait_until(lambda: bool(heat.values("stuck") and heat.values("fine")), LONG)

    [value] = heat.values("stuck")
    assert value["deploy_status_code"] == 125
    assert "the agent was aborted 2 times while it was " in value["deploy_stderr"]
    assert heat.values("fine")[0]["deploy_status_code"] == 0
    assert sorted(ran(machine)) == runs
    assert f"the last agent was aborted while it was {says}" in daemon.log
    folder = machine.state / attempts.FOLDER
    # whoever has it tried again has it tried
    assert json.loads((folder / "counts").read_text()) == {}
    assert daemon.stop() == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert SECRET not in "".join(each.read_text() for each in folder.iterdir())


@pytest.mark.fault(
    3,
    "the watchdog ends the agent again and again over a document",
    "after two such ends the document is set aside until it changes, with a sentence",
)
def test_document_after_a_hanging_one_is_used(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The document after one that hangs the agent is used."""
    watched = Watched(daemon, machine, "plan")
    daemon.configure()
    daemon.put([deployment("stuck", "#!/bin/sh\n", signal=heat.url("stuck"))])
    watched.abort()
    watched.start()
    wait_until(
        lambda: (
            "the document of local is set aside until it changes: the agent was aborted"
            in daemon.log
        ),
        LONG,
    )
    wait_until(
        lambda: any("set aside" in each for each in daemon.health()["troubles"]), LONG
    )

    daemon.put([deployment("fine", counting(machine, "fine"), signal=heat.url("fine"))])
    wait_until(lambda: bool(heat.values("fine")), LONG)
    wait_until(lambda: daemon.health()["troubles"] == [], LONG)
    assert daemon.stop() == 0


def test_hanging_removal_does_not_stop_the_agent(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """All else goes on."""
    watched = Watched(daemon, machine, "prune")
    daemon.configure()
    daemon.put([deployment("fine", counting(machine, "fine"), signal=heat.url("fine"))])
    watched.abort()
    watched.start()
    wait_until(lambda: "nothing is pruned: the agent was aborted" in daemon.log, LONG)
    wait_until(lambda: bool(heat.values("fine")), LONG)
    assert daemon.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_another_end_is_not_counted(
    daemon: Daemon, machine: Machine, heat: SignalServer, number: signal.Signals
) -> None:
    """Only an abort by the watchdog counts: another kill says nothing about the work."""
    daemon.configure()
    for turn in range(3):
        name = f"d{turn}"
        daemon.put([deployment(name, counting(machine, name), signal=heat.url(name))])
        daemon.start(WATCHDOG_USEC="60000000")
        wait_until(lambda: bool(heat.values(name)), LONG)  # noqa: B023
        daemon.send(number)
        wait_until(lambda: daemon.ended, LONG)
    assert "aborted" not in daemon.log
    assert not (machine.state / attempts.FOLDER / "counts").exists()


def test_success_between_failures_resets_the_count(tmp_path: Path) -> None:
    """Two ends count that come one after the other."""
    folder = tmp_path / attempts.FOLDER
    folder.mkdir()
    (folder / "counts").write_text(json.dumps({json.dumps(["beginning", "a"]): 1}))
    found = attempts.Attempts(tmp_path)
    faulthandler.enable(2)
    with found.on("beginning", "a"):
        pass
    assert json.loads((folder / "counts").read_text()) == {}
    assert not found.hopeless("beginning", "a")

"""The daemon with --once: one poll, one exit code."""

from __future__ import annotations

import signal
import time

import psutil

from support import pace
from support.daemon import LONG, Daemon, counting, ran
from support.daemon_runs import meeting
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment


def test_once_polls_every_source_and_exits_with_the_outcome(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """`--once` asks every source, does all there is to do, and says by its exit code how that went."""
    daemon.configure()
    assert daemon.command("run", "--once").code == 0, "there is nothing to do"

    daemon.put([deployment("d1", counting(machine, "d1"), signal=heat.url())])
    done = daemon.command("run", "--once", "--json")
    assert done.code == 0, done.err
    assert done.json["exit_code"] == 0
    assert [each["id"] for each in done.data["deployments"]] == ["d1"]
    assert done.data["summary"]["ok"] == 1, done.json
    assert len(heat.signals) == 1

    daemon.put([deployment("d2", "#!/bin/sh\nexit 1\n")])
    assert daemon.command("run", "--once").code == 1
    daemon.put("{")
    done = daemon.command("run", "--once")
    assert "site.json" in done.out + done.err
    daemon.put([deployment("d3", "#!/bin/sh\nexit 194\n", name="d3")])
    assert daemon.command("run", "--once").code == 6
    assert daemon.states()["d3"] == "reboot"
    assert ran(machine) == ["d1"]


def test_once_exits_with_3_without_an_answer(daemon: Daemon, machine: Machine) -> None:
    """No source, no document: 3, in good time."""
    daemon.settings["file"] = {"path": str(machine.folder / "missing.json")}
    daemon.configure(collectors="file")
    done = daemon.command("run", "--once")
    assert done.code == 3
    assert "missing.json" in done.out + done.err
    assert "Traceback" not in done.err


def test_once_exits_with_2_for_bad_settings(daemon: Daemon) -> None:
    """2."""
    daemon.configure(parallel="none")
    assert daemon.command("run", "--once").code == 2


def test_once_exits_with_5_for_an_undelivered_result(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """5; the next one delivers it, without running anything."""
    heat.refuse()
    daemon.configure()
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    assert daemon.command("run", "--once").code == 5
    heat.start()
    assert daemon.command("run", "--once").code == 0
    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1


def test_interrupted_pass_leaves_its_runs_alone(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """SIGINT ends the pass with 130, and runs continue; other signals neither disturb it nor make it busy."""
    daemon.configure()
    daemon.put([deployment("d1", meeting(machine, "d1"), signal=heat.url())])
    process = machine.start(
        "heat-config-agent", "run", "--once", "--config", str(daemon.path)
    )
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGHUP)
    before = sum(psutil.Process(process.pid).cpu_times()[:2])
    time.sleep(1)
    assert sum(psutil.Process(process.pid).cpu_times()[:2]) - before < 0.5
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=pace.seconds(LONG))
    assert process.returncode == 130
    (machine.folder / "go-d1").touch()
    assert daemon.command("run", "--once").code == 0
    assert ran(machine) == ["d1"]


def test_successful_deployment_of_once_has_no_reason(daemon: Daemon) -> None:
    """The second of two deployments waits for the first one, which means nothing to people once it is done."""
    daemon.configure(parallel="1")
    daemon.put([deployment("d1", "#!/bin/sh\n"), deployment("d2", "#!/bin/sh\n")])
    done = daemon.command("run", "--once")
    assert done.code == 0, done.err
    assert "accepted earlier" not in done.out + done.err

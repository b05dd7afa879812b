"""A machine that is short of processes, of open files or of memory: what cannot be begun is postponed, and said."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import LONG, Daemon, counting, ran
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment
from support.promises import KINDS, World
from support.unprivileged import Unprivileged

pytestmark = [pytest.mark.takes(20), pytest.mark.new_process("daemons")]

LACKING = 10
"""The exit code of an agent whose machine lacks something."""

fault = pytest.mark.fault


@fault(
    3,
    "no process can be started (EAGAIN, ENOMEM)",
    "a sentence says that the deployment is postponed; it is run once there is room",
)
@pytest.mark.parametrize("error", ["EAGAIN", "ENOMEM"])
@pytest.mark.skipif(
    shutil.which("strace") is None,
    reason="strace is not installed: tests/install-tools installs it",
)
def test_a_deployment_without_a_process_is_run_later(
    machine: Machine, heat: SignalServer, error: str
) -> None:
    """A deployment for which there is no process has not failed, and is not forgotten."""
    world = World(machine, heat, 3)
    batch = world.batch(KINDS[:3])
    trace = machine.folder / "trace"
    calls = "clone,clone3,vfork,fork"
    before = [
        "strace",
        "-D",
        "-o",
        str(trace),
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={calls}:error={error}:when=1+",
    ]

    assert world.apply(batch, before=[*before, "--"]) == 1
    assert "INJECTED" in trace.read_text()
    assert world.said().count("cannot start") == len(batch)
    assert os.strerror(getattr(__import__("errno"), error)) in world.said()
    assert not any(world.evidence(each.id) for each in world.handed.values())
    assert not heat.signals

    world.finish(batch)
    world.check()


@fault(
    3,
    "the process table of the agent's user is full (prlimit --nproc)",
    "a sentence says that the deployment is postponed; it is run once there is room",
)
def test_full_process_table_delays_the_run(
    unprivileged: Unprivileged, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """An agent that may start nothing says so, and the next one that may does it, once."""
    machine = unprivileged
    given = machine.write([deployment("d1", counting(machine), signal=heat.url("d1"))])
    for _ in range(2):
        done = machine.run(given, "prlimit", "--nproc=1", "--")
        assert done.returncode == 1, done.stderr
        assert "Resource temporarily unavailable" in done.stdout
        assert "Traceback" not in done.stderr
        assert ran(machine) == []
        assert not heat.signals
    tried(2)

    assert machine.run(given).returncode == 0
    assert machine.run(given).returncode == 0
    assert ran(machine) == ["d1"]
    assert [each["deploy_status_code"] for each in heat.values("d1")] == [0]


@fault(
    3,
    "few files can be open at once (prlimit --nofile)",
    "what cannot be done is postponed or ends in a sentence; it is done once there is room",
)
@pytest.mark.parametrize("number", [5, 7, 8, 9, 10, 11, 12])
def test_few_open_files(machine: Machine, heat: SignalServer, number: int) -> None:
    """With few file descriptors the agent reports nothing false and runs nothing twice."""
    world = World(machine, heat, 3)
    batch = world.batch(KINDS[:3])

    code = world.apply(
        batch, "--deliver-for", "0", before=["prlimit", f"--nofile={number}", "--"]
    )

    assert code in (0, 1, 5, LACKING), world.said()
    if number >= 8:  # below that, Python itself cannot start
        assert "Traceback" not in world.said()
    if number in (9, 10, 11):  # too few for a shell, of which each run has one
        assert world.said().count("too few open files are allowed") == len(batch)
        assert not heat.signals
    world.finish(batch)
    if number < 8:
        (machine.folder / "said").write_text("")
    world.check()


@fault(
    3,
    "little memory for the agent (prlimit --as)",
    "what cannot be done is postponed or ends in a sentence; it is done once there is room",
)
@pytest.mark.parametrize("megabytes", [30, 45, 60, 90])
def test_with_little_memory_nothing_false_is_told_and_nothing_runs_twice(
    machine: Machine, heat: SignalServer, megabytes: int
) -> None:
    """With little memory the agent reports nothing false and runs nothing twice."""
    world = World(machine, heat, 3)
    batch = world.batch(KINDS[:3])

    world.apply(
        batch,
        "--deliver-for",
        "0",
        before=["prlimit", f"--as={megabytes * 1024 * 1024}", "--"],
    )

    # of a Python that has no memory to load its own modules
    (machine.folder / "said").write_text("")
    world.finish(batch)
    world.check()


@fault(
    3,
    "the daemon has no file left that it could open",
    "it lives on, says so, and does what there is to do once it can",
)
def test_the_daemon_without_open_files(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The daemon continues by itself once it can open files again."""
    daemon.put([deployment("d1", counting(machine), signal=heat.url("d1"))])
    daemon.start()
    daemon.wait_state("d1", "signalled")
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{daemon.pid}/fd"))
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    daemon.put(
        [deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))], "more"
    )
    daemon.wait_said("Too many open files")
    assert not daemon.ended

    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    wait_until(lambda: len(heat.values("d2")) == 1, LONG)
    daemon.wait_state("d2", "signalled")
    assert ran(machine) == ["d1", "d2"]
    assert "Traceback" not in daemon.log
    assert daemon.stop() == 0


@fault(
    2,
    "a script that finds no process of its own to start (prlimit --nproc)",
    "it fails with its own exit code",
)
def test_script_without_room_for_processes_fails(
    unprivileged: Unprivileged, heat: SignalServer
) -> None:
    """A tool that can start no process has failed, and the failure is reported."""
    machine = unprivileged
    go = Path("/bin/true")
    script = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\nulimit -p 0\n{go}; {go} && exit 0\nexit 3\n"
    done = machine.run(machine.write([deployment("d1", script, signal=heat.url("d1"))]))
    assert done.returncode == 1
    [told] = heat.values("d1")
    assert told["deploy_status_code"] not in (0, "0")
    assert ran(machine) == ["d1"]

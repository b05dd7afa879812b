"""One agent at a time for each state directory."""

from __future__ import annotations

from pathlib import Path

import psutil

from loopback import SignalServer, wait_until
from machine import Machine, deployment

LOCKED = 4


def waiting(machine: Machine) -> str:
    """Return a script that counts its runs and waits until it is let go."""
    return f"#!/bin/sh\necho ran >>{machine.folder}/ran\nuntil [ -e {machine.folder}/go ]; do sleep 0.02; done\n"


def test_two_at_once(machine: Machine, heat: SignalServer) -> None:
    """While one agent works the other leaves with exit code 4, says who is at work, and does nothing."""
    given = [deployment(config=waiting(machine), signal=heat.url())]
    first = machine.start_apply(given)
    wait_until((machine.folder / "ran").exists)

    second = machine.apply(given)

    assert second.code == LOCKED
    assert str(first.pid) in second.err
    assert second.out == ""
    (machine.folder / "go").touch()
    first.communicate(timeout=10)
    assert first.returncode == 0
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert len(heat.signals) == 1


def test_many_started_together(machine: Machine, heat: SignalServer) -> None:
    """Of many agents started at the same moment none runs a deployment that another has run."""
    given = machine.write([deployment(config=f"#!/bin/sh\necho ran >>{machine.folder}/ran\n", signal=heat.url())])
    agents = [machine.start_apply(given) for _ in range(8)]
    for each in agents:
        each.communicate(timeout=20)

    assert {each.returncode for each in agents} <= {0, LOCKED}
    assert 0 in [each.returncode for each in agents]
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert len(heat.signals) == 1


def test_two_state_directories(machine: Machine, heat: SignalServer, tmp_path: Path) -> None:
    """Agents on different state directories do not know of each other."""
    first = machine.start_apply([deployment(config=waiting(machine))])
    wait_until((machine.folder / "ran").exists)
    elsewhere = Machine(tmp_path / "elsewhere")
    elsewhere.folder.mkdir()

    assert elsewhere.apply([deployment(signal=heat.url())]).code == 0
    assert first.poll() is None
    elsewhere.end()


def test_a_run_does_not_hold_the_lock(machine: Machine, heat: SignalServer) -> None:
    """The lock ends with the agent that held it, even while the run that it started goes on."""
    given = [deployment(config=waiting(machine), signal=heat.url())]
    first = machine.start_apply(given)
    wait_until((machine.folder / "ran").exists)
    first.kill()
    first.communicate()
    assert machine.processes(), "the run goes on"

    second = machine.start_apply(given)
    wait_until(lambda: (machine.state / "lock").read_text().strip() == str(second.pid))
    (machine.folder / "go").touch()
    second.communicate(timeout=10)

    assert second.returncode == 0
    assert (machine.folder / "ran").read_text() == "ran\n"
    assert len(heat.signals) == 1


def test_a_run_has_none_of_our_files_open(machine: Machine) -> None:
    """Neither the lock nor the journal is open in the processes of a run."""
    machine.start_apply([deployment(config=waiting(machine))])
    wait_until((machine.folder / "ran").exists)
    supervisor = psutil.Process(machine.status()["d1"]["process"])

    for each in [supervisor, *supervisor.children(recursive=True)]:
        names = [str(path.readlink()) for path in Path(f"/proc/{each.pid}/fd").iterdir()]
        assert not [name for name in names if name.endswith(("/lock", "/journal")) or name.startswith("socket")]


def test_looking_needs_no_lock(machine: Machine) -> None:
    """What runs can be asked while an agent works; what has to wait for it says so."""
    machine.start_apply([deployment(config=waiting(machine)), deployment("d2")])
    wait_until((machine.folder / "ran").exists)

    assert machine.status()["d1"]["state"] == "running"
    assert "d1" in machine.agent("show", "d1").out
    forget = machine.agent("forget", "d2")
    assert forget.code == 0
    assert "next run" in forget.out

"""Work of os-collect-config is never cut short: tests with real processes of that name."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from heat_config_agent.migration import Unit, steps, survey
from heat_config_agent.model.errors import AgentError
from support import endings
from support.loopback import wait_until

TEXT = """\
import pathlib, subprocess, sys, time
while True:
    if pathlib.Path(sys.argv[1]).exists():
        subprocess.run(["sleep", "300"])
    time.sleep(0.01)
"""


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Unit]:
    """An os-collect-config that begins something as soon as there is a file `change`, and waits for it."""
    program = tmp_path / "os-collect-config"
    program.write_text(TEXT)
    with endings.ended(
        subprocess.Popen([sys.executable, program, tmp_path / "change"])
    ) as process:
        wait_until(lambda: bool(survey.collectors(unit_of(process.pid))))
        yield unit_of(process.pid)


def unit_of(process: int) -> Unit:
    """Return a unit that has this main process."""
    return Unit(
        name="os-collect-config.service", path=Path("/x"), active=True, process=process
    )


def status(unit: Unit) -> str:
    """Return what the main process does."""
    return psutil.Process(unit.process).status()


def test_idle_collector_is_stopped_and_continues(collector: Unit) -> None:
    """An idle collector is stopped, and continues as if nothing had happened."""
    with contextlib.ExitStack() as held:
        assert steps.hold_still(collector, held) == ""
        assert status(collector) == psutil.STATUS_STOPPED
    wait_until(lambda: status(collector) != psutil.STATUS_STOPPED)


def test_collector_with_running_work_is_not_stopped(
    collector: Unit, tmp_path: Path
) -> None:
    """A collector with running work is not stopped, so that it sees the end of it."""
    (tmp_path / "change").touch()
    wait_until(lambda: bool(survey.commands(collector)))
    assert "is at work" in survey.busy([collector])
    with contextlib.ExitStack() as held:
        assert "runs a command (process " in steps.hold_still(collector, held)
    wait_until(lambda: status(collector) != psutil.STATUS_STOPPED)

    told: list[str] = []
    wait = steps.Wait(0, told.append)
    with pytest.raises(AgentError, match=r"runs a command .* must not be cut short"):
        wait.until(lambda held: steps.hold_still(collector, held))
    (tmp_path / "change").unlink()
    survey.commands(collector)[0].kill()
    with steps.Wait(float("inf"), told.append).until(
        lambda held: steps.hold_still(collector, held)
    ):
        assert status(collector) == psutil.STATUS_STOPPED


def test_process_that_a_unit_leaves_is_ended(collector: Unit) -> None:
    """A process that a unit leaves behind is ended, also while it is stopped."""
    with contextlib.ExitStack() as held:
        assert steps.hold_still(collector, held) == ""
        steps.end_collectors(survey.collectors(collector))
        assert survey.collectors(collector) == []


def test_nothing_of_heat_agents_begins_while_their_lock_is_held(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While somebody holds it, something of theirs is at work; while we do, nothing begins."""
    lock = tmp_path / "lock"
    monkeypatch.setattr(survey, "LOCK", str(lock))
    assert survey.busy([]) == ""
    with lock.open("a") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert survey.busy([]) == f"another process holds {lock}"
        with contextlib.ExitStack() as held:
            assert steps.lock_out([], held) == f"another process holds {lock}"
    assert survey.busy([]) == ""
    with contextlib.ExitStack() as held:
        assert steps.lock_out([], held) == ""
        with lock.open("a") as theirs, pytest.raises(BlockingIOError):
            fcntl.flock(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)

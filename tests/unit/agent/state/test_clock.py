from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from heat_config_agent.state.clock import DAY, FILE, Steady
from heat_config_hooks import processes

YEAR = 365 * DAY


class Machine:
    """A machine whose clocks go as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boot, self.up, self.wall = "boot-1/7/1", 1000.0, 1_700_000_000.0
        monkeypatch.setattr(processes, "boot_id", lambda: self.boot)
        monkeypatch.setattr(processes, "since_boot", lambda: self.up)
        monkeypatch.setattr(time, "time", lambda: self.wall)

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.up += seconds
        self.wall += seconds

    def reboot(self, down: float) -> None:
        """Be down for so long."""
        self.boot, self.up = f"boot-{self.wall}/7/1", 5.0
        self.wall += down


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a clock of its own."""
    return Machine(monkeypatch)


def kept(folder: Path) -> Steady:
    """Return a clock that was saved and read again."""
    clock = Steady(folder)
    clock.save()
    return clock


def test_clock_continues_after_a_restart(tmp_path: Path, machine: Machine) -> None:
    """The clock continues after a restart, and includes the time without an agent."""
    clock = Steady(tmp_path)
    machine.passes(50)
    clock.save()
    machine.passes(3 * DAY)
    assert Steady(tmp_path).now() == pytest.approx(50 + 3 * DAY)


@pytest.mark.parametrize("jump", [YEAR, 50 * YEAR, -YEAR])
def test_change_of_the_system_time_does_not_move_the_clock(
    tmp_path: Path, machine: Machine, jump: float
) -> None:
    """While the machine is up, it goes by the kernel's clock that cannot be set."""
    clock = kept(tmp_path)
    machine.wall += jump
    machine.passes(10)
    assert clock.now() == pytest.approx(10)
    assert Steady(tmp_path).now() == pytest.approx(10)


@pytest.mark.parametrize(
    ("down", "counts"),
    [(3600, 3600), (10 * YEAR, DAY), (-YEAR, 0)],
    ids=["an hour", "a jump", "back"],
)
def test_downtime_counts_for_a_day_at_most(
    tmp_path: Path, machine: Machine, down: float, counts: float
) -> None:
    """A clock that is wrong at boot makes nothing old."""
    kept(tmp_path)
    machine.reboot(down)
    assert Steady(tmp_path).now() == pytest.approx(counts)


def test_restart_of_a_container_does_not_count_as_a_reboot(
    tmp_path: Path, machine: Machine
) -> None:
    """The kernel's clock goes on."""
    kept(tmp_path)
    machine.boot = "boot-1/8/99"
    machine.passes(2 * DAY)
    assert Steady(tmp_path).now() == pytest.approx(2 * DAY)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        "{}",
        '{"lived": "x"}',
        '{"lived": -5, "boot": "", "since_boot": 0, "wall": 0}',
        "[" * 100_000,
    ],
)
def test_clock_without_a_file_starts_over(tmp_path: Path, content: str) -> None:
    """Things stay longer then, and the journal's latest moment is still behind us."""
    (tmp_path / FILE).write_text(content)
    clock = Steady(tmp_path)
    assert clock.now() < 60
    assert clock.pruned is None
    clock.at_least(5000.0)
    assert clock.now() >= 5000


def test_invalid_number_resets_the_clock(tmp_path: Path) -> None:
    """An invalid or infinite number resets the clock."""
    kept(tmp_path)
    said = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**said, "lived": float("nan")}))
    assert Steady(tmp_path).now() < 60


def test_measured_time_is_remembered(tmp_path: Path) -> None:
    """With when that was, and how much there is."""
    clock = Steady(tmp_path)
    clock.first_seen["aside/of-x"], clock.last_answers["local"] = 3.0, 4.0
    clock.pruned, clock.grown, clock.bytes, clock.files = 5.0, 6, 7, 8
    clock.save()
    again = Steady(tmp_path)
    assert (again.first_seen, again.last_answers) == (
        {"aside/of-x": 3.0},
        {"local": 4.0},
    )
    assert (again.pruned, again.grown, again.bytes, again.files) == (5.0, 6, 7, 8)


def test_damaged_clock_file_resets_the_clock(tmp_path: Path) -> None:
    """Anything else in the file's place, or in it, resets the clock without a delay."""
    Steady(tmp_path).save()
    said = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**said, "lived": 10**400}))
    assert Steady(tmp_path).now() < DAY
    (tmp_path / FILE).unlink()
    os.mkfifo(tmp_path / FILE)
    assert Steady(tmp_path).now() < DAY

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.daemon.status import INTERVAL, Snapshot, StatusWriter
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.model.log import Log
from heat_config_agent.sources.poller import Condition
from heat_config_agent.state import health
from heat_config_agent.state.followed import Followed
from heat_config_hooks.values import replace

IDLE = Snapshot(
    running=(),
    waiting=0,
    reboots=(),
    rebooting=False,
    may_reboot=True,
    paused="",
    conditions={},
    next_poll=5.0,
    answered=True,
    current=True,
    entries={},
    changes=0,
    skipped=(),
    troubles=(),
    followed=(),
    metrics_file="",
)


class Warnings(Log):
    """Keeps what it is warned of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def warn(self, text: str) -> None:
        self.texts.append(text)


class Clock:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.monotonic() + 1000
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def doing(state: Path) -> object:
    """Return the line of the health file."""
    return health.read(state)["doing"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "idle"),
        ({"answered": False}, "waiting for the first document"),
        (
            {"running": ("a", "b", "c", "d"), "waiting": 2},
            "running a, b, c …; 2 waiting",
        ),
        ({"reboots": ("a",)}, "about to reboot"),
        ({"reboots": ("a",), "rebooting": True}, "rebooting"),
        (
            {"conditions": {"heat": Condition("heat", working=False)}},
            "no answer from heat",
        ),
        (
            {"conditions": {"heat": Condition("heat", working=False, seldom=True)}},
            "idle",
        ),
        ({"paused": "paused: upgrade", "waiting": 1}, "1 waiting; paused: upgrade"),
        ({"answered": False, "followed": (Followed(name="web"),)}, "idle"),
        (
            {"troubles": ("the settings stay as they were: x",)},
            "idle; the settings stay as they were",
        ),
        (
            {"followed": (Followed(name="web", begun="git:abc x", refused="b"),)},
            "carrying out a revision of web",
        ),
        (
            {"followed": (Followed(name="web", refused="b", reason="x: y"),)},
            "idle; revision b is refused",
        ),
        (
            {"followed": (Followed(name="web", refused="b", failed=True),)},
            "idle; revision b has failed",
        ),
    ],
)
def test_status_line_names_work_and_troubles(
    tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    """The line names the present work and the troubles."""
    StatusWriter(tmp_path, Notifier({}), Log()).write(replace(IDLE, **changes))
    assert doing(tmp_path) == line


def test_a_change_is_written_soon_and_everything_else_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change soon after waits for its turn, and the end is written at once."""
    clock, writer = Clock(monkeypatch), StatusWriter(tmp_path, Notifier({}), Log())
    writer.write(IDLE)
    assert (doing(tmp_path), writer.pending, writer.is_due) == ("idle", False, False)
    busy = replace(IDLE, waiting=1)
    writer.write(busy)
    assert (doing(tmp_path), writer.pending, writer.is_due) == ("idle", True, True)
    clock.now += writer.delay
    writer.write(busy)
    assert (doing(tmp_path), writer.pending) == ("1 waiting", False)
    (tmp_path / health.FILE).unlink()
    writer.write(busy)
    assert not (tmp_path / health.FILE).exists()
    clock.now += INTERVAL
    assert writer.is_due
    writer.write(busy)
    assert doing(tmp_path) == "1 waiting"
    writer.write(IDLE, ended=True)
    assert doing(tmp_path) == "idle"
    assert health.read(tmp_path)["ended"] is not None


def test_the_health_needs_no_open_file(tmp_path: Path) -> None:
    """A process that may open no more files writes its health to the place in memory."""
    writer = StatusWriter(tmp_path, Notifier({}), Log())
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        writer.write(IDLE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not (tmp_path / health.FILE).exists()
    report = health.read(tmp_path, os.getpid())
    assert report["doing"] == "idle"
    assert health.is_from(report, os.getpid())


def test_metrics_that_cannot_be_written_are_a_trouble_until_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed writes of metrics are reported once, and are in the health file from its next write on."""
    clock, warnings = Clock(monkeypatch), Warnings()
    writer = StatusWriter(tmp_path, Notifier({}), warnings)
    folder = tmp_path / "metrics"
    snapshot = replace(IDLE, metrics_file=str(folder / "agent.prom"))
    for _ in range(2):
        writer.write(snapshot)
        clock.now += INTERVAL
    [warning] = warnings.texts
    assert warning.startswith(
        f"cannot write the metrics to {folder}/agent.prom: No such file or directory"
    )
    assert health.read(tmp_path)["troubles"] == [warning]
    folder.mkdir()
    for _ in range(2):
        writer.write(snapshot)
        clock.now += INTERVAL
    assert (folder / "agent.prom").read_text().startswith("# HELP heat_config_agent_up")
    assert health.read(tmp_path)["troubles"] == []

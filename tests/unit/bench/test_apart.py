"""A scenario is measured in a process of its own, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bench import apart, peers
from bench.scenario import OURS, Figure, LackingError, Sample, Scenario, Subject
from support import endings, pace

FIGURES = (Figure("wall", "wall time", "s"),)


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the folders of scenarios are made."""
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "venv" / "peers")
    monkeypatch.setattr(apart, "GRACE", 1.0)
    return tmp_path / "venv"


def measured(
    run: Callable[[Path], Sample], *, seconds: float = 60, rounds: int = 3
) -> apart.Outcome:
    """Measure a scenario of one, which is given its folder."""

    @contextlib.contextmanager
    def subjects(folder: Path) -> Iterator[list[Subject]]:
        yield [Subject(OURS, lambda: run(folder))]

    some = Scenario(
        "some", "Something", FIGURES, subjects, rounds=rounds, warm_up=False
    )
    return apart.measured(some, seconds, lambda _text: None)


def wait(_folder: Path) -> Sample:
    """Take a minute."""
    time.sleep(60)
    return {}


def started(told: Path, *argv: str) -> int:
    """Start a process that nobody waits for, in a session of its own, as daemons are; write down which."""
    process = subprocess.Popen(argv, start_new_session=True)
    told.write_text(str(process.pid))
    return process.pid


def test_measurements_of_the_process_are_returned(place: Path) -> None:
    """By that process, run after run; its folder is gone then."""
    outcome = measured(
        lambda folder: {"wall": len(folder.name), "parent": os.getppid()}
    )

    assert [name for name, _ in outcome.samples] == [OURS] * 3
    assert outcome.samples[0][1]["parent"] == os.getpid()
    assert (outcome.lacks, outcome.failed, outcome.cut) == ("", "", False)
    assert not [*place.iterdir()]


def test_hanging_scenario_is_ended_and_its_figures_count(place: Path) -> None:
    """A scenario that hangs is ended with all its processes, and its figures so far count."""
    told = place.parent / "pid"

    def run(_folder: Path) -> Sample:
        if not told.exists():
            told.touch()
            return {"wall": 1.0}
        os.kill(
            started(told, "/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"),
            signal.SIGSTOP,
        )
        while True:
            with contextlib.suppress(SystemExit):
                time.sleep(60)

    begun = time.monotonic()
    outcome = measured(run, seconds=3)

    assert outcome.cut
    assert outcome.samples == [(OURS, {"wall": 1.0})]
    assert time.monotonic() - begun < pace.seconds(30)
    assert not psutil.pid_exists(int(told.read_text()))
    assert not [*place.iterdir()]


def test_process_told_to_end_before_it_begins_ends(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    """A process that is told to end before it begins ends by itself."""
    monkeypatch.setattr(apart, "GRACE", 60.0)
    begun = time.monotonic()
    outcome = measured(wait, seconds=0)

    assert outcome.cut
    assert not outcome.samples
    assert time.monotonic() - begun < pace.seconds(30)
    assert not [*place.iterdir()]


def test_nothing_that_was_started_is_left(place: Path) -> None:
    """All processes of a scenario are ended, also after its own has exited; others continue."""
    told = place.parent / "pid"
    with endings.ended(subprocess.Popen(["sleep", "60"])) as other:
        outcome = measured(
            lambda _folder: {"wall": float(started(told, "sleep", "60"))}, rounds=1
        )

        assert not outcome.failed
        assert not psutil.pid_exists(int(told.read_text()))
        assert other.poll() is None


def test_failure_of_a_scenario_is_reported(place: Path) -> None:
    """With its traceback, or that it has just ended; or what is lacking."""

    def fail(_folder: Path) -> Sample:
        raise AssertionError("expected 2 successes")

    def lack(_folder: Path) -> Sample:
        raise LackingError("there is no thing")

    def end(_folder: Path) -> Sample:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    assert measured(fail).failed.endswith("AssertionError: expected 2 successes\n")
    assert measured(lack).lacks == "there is no thing"
    assert "ended with -9" in measured(end).failed
    assert not [*place.iterdir()]

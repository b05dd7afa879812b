"""Subjects run in turn, and the resources of each process are counted."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench import measure
from bench.scenario import Figure, Sample, Scenario, Spread, Subject


def scenario(*, rounds: int, seconds: float = 60, warm_up: bool = True) -> Scenario:
    """Return one of so many rounds."""
    figures = (Figure("wall", "wall time", "s"),)
    return Scenario(
        "some",
        "Something",
        figures,
        None,  # type: ignore[arg-type]  # nobody sets it up
        rounds=rounds,
        seconds=seconds,
        warm_up=warm_up,
    )


class Runs:
    """The subjects that were run, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def subject(self, name: str, *, rounds: int = 0, warm_up: bool = True) -> Subject:
        """Return a subject whose n-th run shows n."""
        return Subject(name, self._run(name), rounds, warm_up)

    def _run(self, name: str) -> Callable[[], Sample]:
        def run() -> Sample:
            self.names.append(name)
            return {"wall": float(self.names.count(name))}

        return run


def in_turn(
    some: Scenario, *subjects: Subject, begun: float | None = None
) -> measure.Found:
    """Run all of them, and sum up."""
    begun = time.monotonic() if begun is None else begun
    return measure.found(measure.in_turn(some, subjects, lambda _text: None, begun))


def test_all_are_run_in_turn_after_a_warm_up() -> None:
    """A B A B, so that the machine's moods meet all of them; the first run of each does not count."""
    runs = Runs()
    found = in_turn(scenario(rounds=3), runs.subject("a"), runs.subject("b"))

    assert "".join(runs.names) == "ab" + "ababab"
    assert found == {name: {"wall": Spread(3.0, 2.0, 4.0, 3)} for name in ("a", "b")}


def test_slow_subject_is_run_less_often() -> None:
    """In the first rounds, and where it says so without a warm-up."""
    runs = Runs()
    found = in_turn(
        scenario(rounds=3),
        runs.subject("a"),
        runs.subject("b", rounds=1, warm_up=False),
    )

    assert "".join(runs.names) == "a" + "abaa"
    assert found["b"]["wall"] == Spread(1.0, 1.0, 1.0, 1)


def test_no_round_is_begun_when_the_time_is_over() -> None:
    """At least three rounds are run, because a median of fewer says little; preparation counts as time too."""
    runs = Runs()
    in_turn(
        scenario(rounds=9, warm_up=False),
        runs.subject("a"),
        begun=time.monotonic() - 61,
    )

    assert runs.names == ["a"] * 3


def test_no_round_is_begun_that_would_last_too_long() -> None:
    """As long as the one before."""
    runs = Runs()

    def wait() -> Sample:
        time.sleep(0.2)
        return {}

    in_turn(
        scenario(rounds=99, seconds=0.9, warm_up=False),
        runs.subject("a"),
        Subject("slow", wait),
    )

    assert len(runs.names) in (3, 4)


def test_waiting_subjects_run_at_the_same_time() -> None:
    """Two subjects that wait for each other run at the same time, in every round."""
    both = threading.Barrier(2)
    numbers = itertools.count()

    def run() -> Sample:
        both.wait(10)
        return {"wall": next(numbers)}

    with ThreadPoolExecutor(2) as pool:
        subjects = measure.at_once({"a": run, "b": run}, pool)
        found = in_turn(scenario(rounds=2, warm_up=False), *subjects)
    assert next(numbers) == 4
    assert {name: each["wall"].runs for name, each in found.items()} == {"a": 2, "b": 2}


def test_cost_of_a_process_includes_its_children() -> None:
    """Processor time and memory are those of whatever it started and waited for, and of nothing of ours."""
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    work = "import time\nmuch = bytearray(100_000_000)\nwhile time.process_time() < 0.3: pass"
    took = measure.run((sys.executable, "-c", code, work), env=dict(os.environ))

    assert took.wall >= 0.3
    assert took.cpu >= 0.3
    assert 100_000_000 < took.peak < 200_000_000
    # Not the tests' own process, but the bare Python that starts it: 9 to 11 MB, by its version.
    assert measure.run(("/bin/true",), env={}).peak < 20_000_000


def test_a_command_that_fails_is_not_measured() -> None:
    """The time of a failed command does not count, unless its exit code is expected."""
    with pytest.raises(AssertionError, match="ended with 3"):
        measure.run(("/bin/sh", "-c", "exit 3"), env={})
    assert measure.run(("/bin/sh", "-c", "exit 3"), env={}, codes=(3,)).code == 3

"""What is compared is run in turn, and what a process takes is counted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from bench import measure
from bench.scenario import Figure, Sample, Scenario, Spread, Subject


def scenario(*, rounds: int, seconds: float = 60, warm_up: bool = True) -> Scenario:
    """Return one of so many rounds."""
    figures = (Figure("wall", "wall time", "s"),)
    return Scenario("some", "Something", figures, None, rounds=rounds, seconds=seconds, warm_up=warm_up)  # type: ignore[arg-type]  # nobody sets it up


class Runs:
    """Who was run, in this order."""

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


def test_all_are_run_in_turn_after_a_warm_up() -> None:
    """A B A B, so that the machine's moods meet all of them; the first run of each does not count."""
    runs = Runs()
    found = measure.in_turn(scenario(rounds=3), [runs.subject("a"), runs.subject("b")], lambda _text: None)

    assert "".join(runs.names) == "ab" + "ababab"
    assert found == {name: {"wall": Spread(3.0, 2.0, 4.0, 3)} for name in ("a", "b")}


def test_what_takes_long_is_run_less_often() -> None:
    """In the first rounds, and where it says so without a warm-up."""
    runs = Runs()
    subjects = [runs.subject("a"), runs.subject("b", rounds=1, warm_up=False)]
    found = measure.in_turn(scenario(rounds=3), subjects, lambda _text: None)

    assert "".join(runs.names) == "a" + "abaa"
    assert found["b"]["wall"] == Spread(1.0, 1.0, 1.0, 1)


def test_no_round_is_begun_when_the_time_is_over() -> None:
    """One is always done."""
    runs = Runs()
    measure.in_turn(scenario(rounds=3, seconds=0, warm_up=False), [runs.subject("a")], lambda _text: None)

    assert runs.names == ["a"]


def test_what_a_process_took_counts_its_children() -> None:
    """Processor time and memory are those of whatever it started and waited for, and of nothing of ours."""
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    work = "import time\nmuch = bytearray(100_000_000)\nwhile time.process_time() < 0.3: pass"
    took = measure.run((sys.executable, "-c", code, work), env=dict(os.environ))

    assert took.wall >= 0.3
    assert took.cpu >= 0.3
    assert 100_000_000 < took.peak < 200_000_000
    assert measure.run(("/bin/true",), env={}).peak < 10_000_000


def test_a_command_that_fails_is_not_measured() -> None:
    """Its time says nothing, unless its exit code is one of those that it has to have."""
    with pytest.raises(AssertionError, match="ended with 3"):
        measure.run(("/bin/sh", "-c", "exit 3"), env={})
    assert measure.run(("/bin/sh", "-c", "exit 3"), env={}, codes=(3,)).code == 3

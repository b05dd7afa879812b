"""Running what is compared, in turn; and one process, with what it took."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from bench.scenario import LEAST, Sample, Scenario, Spread, Subject

Found = dict[str, dict[str, Spread]]
"""The values of a scenario: subject → figure → values."""


@dataclass(frozen=True)
class Took:
    """The resources that a process used, with all descendants that were waited for."""

    code: int
    wall: float
    """Seconds; this and `cpu`, which is user and system time."""
    cpu: float
    peak: int
    """Bytes of memory, of whichever of the processes took most."""

    @property
    def sample(self) -> Sample:
        """As figures."""
        return {"wall": self.wall, "cpu": self.cpu, "peak": self.peak}


_LAUNCHER = """\
import os, signal, sys, time
tells = int(sys.argv[1])
os.set_inheritable(tells, False)
with open("/proc/self/environ", "rb") as given:  # os.environ may have a locale of Python's own
    env = dict(each.split(b"=", 1) for each in given.read().split(b"\\0") if each)
begun = time.perf_counter()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], env, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ))
_, status, usage = os.wait4(pid, 0)
wall = time.perf_counter() - begun
code = os.waitstatus_to_exitcode(status)
os.write(tells, f"{code} {wall} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss}".encode())
"""
"""A small process (10 MB) that starts the one to be measured.

Linux takes the memory of whoever starts a process for memory of that process, too: the peak of anything smaller than
what measures would be what measures.
"""


def run(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    output: IO[bytes] | int = subprocess.DEVNULL,
    codes: tuple[int, ...] = (0,),
) -> Took:
    """Run a command to its end. It has to end with one of these exit codes."""
    told, tells = os.pipe()
    try:
        command = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(tells), *argv]
        subprocess.run(
            command,
            env=env,
            cwd=cwd,
            stdin=stdin,
            stdout=output,
            stderr=output,
            pass_fds=(tells,),
            check=True,
        )
        code, wall, cpu, peak = os.read(told, 1000).split()
    finally:
        os.close(told)
        os.close(tells)
    assert int(code) in codes, f"{argv} ended with {int(code)}"
    return Took(int(code), float(wall), float(cpu), int(peak) * 1024)


def in_turn(
    scenario: Scenario,
    subjects: Sequence[Subject],
    say: Callable[[str], None],
    begun: float,
) -> Iterator[tuple[str, Sample]]:
    """Run all subjects in turn, round after round, and yield what each run showed.

    It ends with the scenario's rounds, or when the next one would last beyond its time, which has `begun` then.
    """
    if scenario.warm_up:
        for each in subjects:
            if each.warm_up:
                say(f"{scenario.name}: {each.name}, warming up")
                each.run()
    end, took = begun + scenario.seconds, 0.0
    for number in range(scenario.rounds):
        start = time.monotonic()
        if number >= LEAST and start + took > end:
            break
        for each in subjects:
            if not each.rounds or number < each.rounds:
                say(
                    f"{scenario.name}: {each.name}, {number + 1} of at most {scenario.rounds}"
                )
                yield each.name, each.run()
        took = time.monotonic() - start


def at_once(runs: Mapping[str, Callable[[], Sample]], pool: Executor) -> list[Subject]:
    """Return subjects that do not mind one another, and so are run at the same time: all with the first of them."""
    samples: dict[str, Sample] = {}

    def sample(name: str) -> Sample:
        if name not in samples:
            running = {each: pool.submit(run) for each, run in runs.items()}
            samples.update({each: future.result() for each, future in running.items()})
        return samples.pop(name)

    return [Subject(name, partial(sample, name)) for name in runs]


def found(samples: Iterable[tuple[str, Sample]]) -> Found:
    """Sum up what runs showed."""
    by: dict[str, list[Sample]] = {}
    for name, sample in samples:
        by.setdefault(name, []).append(sample)
    return {name: summed_up(each) for name, each in by.items()}


def summed_up(samples: Sequence[Sample]) -> dict[str, Spread]:
    """Return each figure's median, least and most."""
    names = {name for each in samples for name in each}
    values = {name: [each[name] for each in samples if name in each] for name in names}
    return {
        name: Spread(statistics.median(each), min(each), max(each), len(each))
        for name, each in values.items()
    }

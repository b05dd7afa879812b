"""The power goes at any moment, and what was not flushed is gone, or is not: no promise rests on it.

The machine is not switched off. All processes are killed, the state directory is made into what a power cut may leave
of it (see `shadow`), and what comes next is told that it is another boot.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults import shadow
from faults.agent_stories import LONG, AgentStory
from support import endings, promises, shares
from support.loopback import wait_until
from support.mounts import may_mount
from support.promises import KINDS, Kind

pytestmark = pytest.mark.takes(20)

CUTS = 3
"""Power cuts of a world, one after the other."""

AT_ONCE = 4

KEPT = (0.0, 0.5, 0.9)
"""The share of unflushed data that survives: nothing, half, or most of it."""

WAITS = Kind("waits", "sleep 0.5")
WAYS = ("apply", "daemon")


class Power(AgentStory):
    """A world whose power is cut."""

    def __init__(self, folder: Path, seed: int, kept: float, way: str) -> None:
        folder.mkdir()
        super().__init__(folder, seed)
        self.chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
        self._kept = kept
        self._way = way
        self.shadow = folder / "shadow"
        self.shadow.mkdir()
        program = [sys.executable, shadow.__file__, str(self.shadow)]
        programs = folder / "programs"
        programs.mkdir()
        sync = programs / "sync"  # what the supervisor of a run calls
        sync.write_text(
            f"#!/bin/sh\nexec {' '.join(program)} --all {self.machine.state}\n"
        )
        sync.chmod(0o755)
        environment = self.machine.environment
        environment["PATH"] = f"{programs}:{environment['PATH']}"
        self.program = tuple(program)
        self.boot()

    def cut(self) -> None:
        """Have an agent work on new deployments, beside what is left, and cut the power."""
        world = self.world
        batch = world.any_batch(4, KINDS)
        before = (*self.before, *self.program)
        if self._way == "apply":
            agent = world.start(list(self._current(batch)), before=before)
        else:
            self.daemon.put(list(self._current(batch)))
            self.daemon.start(*before, wait=False)
            assert isinstance(self.daemon.process, subprocess.Popen)
            agent = self.daemon.process
        moment = self.chance.uniform(0, 1.2)
        wait_until(
            lambda: (
                agent.poll() is not None
                or any(world.evidence(each["id"]) for each in batch)
            ),
            LONG,
        )
        time.sleep(moment)
        if self.chance.random() < 0.4:  # the agent is away for a while before
            world.kill(agent)
            time.sleep(self.chance.uniform(0, 0.5))
        self.off()
        world.kill(agent)
        world.interrupted |= {each for each in world.handed if not world.heard(each)}
        shadow.Cut(self.shadow, self.chance, self._kept).make(self.machine.state)
        self.boot()

    def _current(self, new: list[dict[str, object]]) -> list[dict[str, object]]:
        known = {str(each["id"]) for each in new}
        return [
            *(
                each.document
                for each in self.world.handed.values()
                if each.id not in known
            ),
            *new,
        ]

    def off(self) -> None:
        """Kill everything, the agent first, so that it makes nothing of what it sees."""
        if self._way == "daemon" and not self.daemon.ended:
            self.daemon.send(signal.SIGKILL)

        def is_off() -> bool:
            found = [
                each for each in self.machine.processes() if not endings.has_ended(each)
            ]
            endings.kill(*sorted(found, key=lambda process: process.pid))
            return not found

        wait_until(is_off, LONG)

    def rest(self) -> None:
        """Have an agent that nobody disturbs do the rest."""
        self.finish(self._current([]))

    def play(self) -> None:
        for _ in range(CUTS):
            self.cut()
        self.rest()


def _play(folder: Path, seed: int, kept: float, way: str) -> str:
    """Play in a new world; return what went wrong."""
    try:
        Power(folder, seed, kept, way).tell()
    except AssertionError as error:
        return f"{way}, {kept:.0%} of what was not flushed kept, POWER_SEED={seed}:\n{error}"
    return ""


def _wrong(folder: Path, seeds: list[int]) -> list[str]:
    """Play in a world for each seed and way, several at once; return what went wrong."""
    plays = [
        (folder / f"world-{seed}-{way}", seed, kept, way)
        for number, seed in enumerate(seeds)
        for kept, way in [
            (KEPT[number % len(KEPT)], WAYS[number // len(KEPT) % len(WAYS)])
        ]
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [each for each in pool.map(lambda play: _play(*play), plays) if each]


@pytest.fixture(autouse=True)
def _mounts() -> None:
    if not may_mount():
        pytest.skip(
            "a boot id can only be changed where mounts are allowed: run the tests as root"
        )


@pytest.mark.fault(
    1,
    "the power goes at random moments; what was not flushed to disk is gone, in part or all",
    "one truthful result",
)
@pytest.mark.timeout(600)
def test_the_power_goes(tmp_path: Path, tried: Callable[[int], None]) -> None:
    """After a power cut nothing is run twice, lost, or reported falsely."""
    first = promises.seed("POWER_SEED")
    seeds = [first + number for number in range(len(KEPT) * len(WAYS))]
    wrong = _wrong(tmp_path, seeds)
    assert not wrong, "\n\n".join(wrong)
    tried(len(seeds) * CUTS)


@pytest.mark.fault(
    2,
    "the power goes after a run ended with no agent there, and takes what it wrote",
    "interrupted, not a success",
)
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 1.0])
def test_the_power_goes_after_a_run_has_ended(
    tmp_path: Path, kept: float, tried: Callable[[int], None]
) -> None:
    """A run that came to its end is told with all its output, or as interrupted."""
    power = Power(tmp_path / "world", 1, kept, "apply")
    world = power.world
    try:
        batch = world.batch([WAITS])
        agent = world.start(batch, before=(*power.before, *power.program))
        world.wait_for(power.began(batch[0]))
        world.kill(agent)
        world.wait_for(lambda: len(world.evidence(batch[0]["id"])) == 2)
        power.off()
        world.interrupted.add(batch[0]["id"])
        shadow.Cut(power.shadow, power.chance, kept).make(power.machine.state)
        power.boot()
        power.rest()
        power.check()
    finally:
        power.end()
    tried(1)


@pytest.mark.fault(
    4,
    "the power goes, and brings back what a run was given that had ended",
    "it is removed at the next start",
)
def test_inputs_that_a_power_cut_brings_back_are_removed(tmp_path: Path) -> None:
    """The journal says that all is settled; the removal of what the run was given was not on disk."""
    power = Power(tmp_path / "world", 1, 1.0, "apply")
    try:
        batch = power.world.batch([promises.KINDS[0]])
        power.apply(batch)
        back = power.machine.state / "runs" / batch[0]["id"] / "inputs.json"
        back.write_text("{}")
        back.chmod(0o600)
        power.boot()
        # which has another line than before: all is looked at
        power.apply(batch, "--only", batch[0]["id"])
        assert not back.exists()
        power.check()
    finally:
        power.end()


@pytest.mark.torture
@pytest.mark.skipif(not shares.FOR, reason="the long form: `make torture`")
def test_the_power_goes_for_long(tmp_path: Path, seconds: float) -> None:
    """The same for as long as asked."""
    seed, until = promises.seed("TORTURE_SEED"), time.monotonic() + seconds
    while time.monotonic() < until:
        wrong = _wrong(tmp_path, list(range(seed, seed + 12)))
        assert not wrong, "\n\n".join(wrong)
        seed += 12

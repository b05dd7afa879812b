"""Plays a scenario of an agent's life, each time in a new world, with agents that are killed at certain points."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import stage as stages
from support.stage import Stage

AT_ONCE = 4
"""Worlds that are played in at the same time."""

IN_ONE = 5
"""Points at which agents are killed in the same life, at most, where that is not tried for each by itself."""

PLAYS = 3
"""Plays of a scenario until a point is passed, at most."""


@dataclass(frozen=True)
class Scenario:
    """A piece of an agent's life, and the points that it has to pass."""

    play: Callable[[Stage], None]
    points: tuple[str, ...]
    mounts: bool = False
    """True if it needs mounts."""
    part: str = ""
    """The indices of its points in this theatre, if they are divided among several."""

    @property
    def name(self) -> str:
        return f"{self.play.__name__.replace('_', ' ')} {self.part}".strip()


class Theatre:
    """Plays a scenario, each time in a new world."""

    def __init__(self, scenario: Scenario, folder: Path, seed: int) -> None:
        if scenario.mounts and not stages.may_mount():
            pytest.skip(
                "a boot or an instance can only be changed where mounts are allowed: run the tests as root"
            )
        self.scenario = scenario
        self.seed = seed
        self._folder = folder
        self._number = 0
        self._lock = threading.Lock()

    def _stage(self) -> Stage:
        with self._lock:
            self._number += 1
            return Stage(self._folder / f"world-{self._number}", self.seed)

    def passed(self) -> dict[str, int]:
        """Play it with nobody killed, and return how often each point is passed."""
        stage = self._stage()
        stage.listen()
        try:
            self.scenario.play(stage)
            stage.world.check()
            return stage.passed()
        finally:
            stage.end()

    def kill(self, point: str, passing: int, *, runs_too: bool = False) -> str:
        """Play it with an agent that dies there, and its supervisors too; return what went wrong.

        Threads decide whether some points are passed, as where one wakes the other up that is awake already: so it is
        played again while the first passing does not happen. All promises are held against each play.
        """
        for _ in range(PLAYS):
            wrong, left = self._kill([(point, passing)], runs_too=runs_too)
            if wrong or not left or passing > 1:
                return wrong
        return f"{self.scenario.name}, killed at {point}, seed {self.seed}: in {PLAYS} plays it was not passed"

    def _kill(
        self, aims: Sequence[tuple[str, int]], *, runs_too: bool
    ) -> tuple[str, list[tuple[str, int]]]:
        """Play it once; return what went wrong, and where no agent died of all that was armed."""
        stage = self._stage()
        stage.arm(aims)
        if runs_too:
            stage.on_death.append(stage.kill_runs)
        points = ", ".join(f"{point} ({passing})" for point, passing in aims)
        where = f"{self.scenario.name}, killed at {points}, seed {self.seed}"
        try:
            self.scenario.play(stage)
            stage.world.check()
        except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
            return f"{where}; not yet at {stage.left}:\n{error}", stage.left
        finally:
            stage.end()
        return "", stage.left

    def kill_at(
        self, aims: Iterable[tuple[str, int]], *, runs_too: bool = False
    ) -> int:
        """Kill at all these points, several worlds at once; return how often. Fails with what went wrong, of each."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            wrong = list(pool.map(lambda aim: self.kill(*aim, runs_too=runs_too), aims))
        assert not any(wrong), "\n\n".join(filter(None, wrong))
        return len(wrong)

    def kill_along(
        self, aims: Sequence[tuple[str, int]], *, runs_too: bool = False
    ) -> int:
        """Kill at all these points as `kill_at` does, at `IN_ONE` of them in the same life; return how often.

        Points that are next to each other are in different lives. Where the agents after the first one did not come by
        a point for the first time, it has a life of its own.
        """
        lives = [
            aims[number :: -(-len(aims) // IN_ONE)]
            for number in range(-(-len(aims) // IN_ONE))
        ]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(
                pool.map(lambda life: self._kill(life, runs_too=runs_too), lives)
            )
        assert not any(wrong for wrong, _ in ends), "\n\n".join(
            wrong for wrong, _ in ends if wrong
        )
        left = [aim for _, missed in ends for aim in missed]
        self.kill_at([aim for aim in left if aim[1] == 1], runs_too=runs_too)
        return len(aims) - sum(passing > 1 for _, passing in left)

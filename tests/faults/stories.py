"""Stories of kills: a piece of an agent's life, in a world where it is killed at some points, and started again.

A `Scenario` is written as a function of a `Stage`, which has the agent and its world.
A `Theatre` plays it, each time in a new world, with agents that are killed at other points.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.model.entry import State
from heat_config_agent.state import lock
from heat_config_hooks import processes
from support import kill_points, pace, promises
from support.daemon import Daemon
from support.loopback import SignalServer
from support.machine import Machine
from support.mounts import after_a_boot, may_mount, on_instance
from support.promises import World

NOT_THERE = 8
"""The exit code of `forget` of a deployment that the agent that was killed has forgotten."""

LONG = 60.0
"""Seconds in which whatever has to happen does, also on a busy machine."""

LOOK = 2.0
"""Seconds after which an agent that works on the state directory has found what runs there."""

AT_ONCE = 4
"""Worlds that are played in at the same time."""

IN_ONE = 5
"""Points at which agents are killed in the same life, at most, where that is not tried for each by itself."""

PLAYS = 3
"""Plays of a scenario until a point is passed, at most."""


class Stage:
    """A world with an agent that is killed once at each of some points, and started again."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        self.machine = Machine(folder)
        self.heat, self.metadata = SignalServer(), SignalServer()
        self.heat.start()
        self.metadata.start()
        self.world = World(self.machine, self.heat, seed)
        self.daemon = Daemon(self.machine)
        self.daemon.configure(grace=0.2)
        self.armed: dict[str, str] = {}
        self.deaths = 0
        self.on_death: list[Callable[[], object]] = []
        """The function to call when the agent is killed."""
        self.before: tuple[str, ...] = ()
        """The command by which agents are started."""
        self._file = folder / "passed"
        self._aims: dict[tuple[str, int], Path] = {}
        """Where the agent is to die → the file that is there until it has."""
        self._reboots = folder / "reboots"

    def listen(self) -> None:
        """Note which points are passed."""
        self.armed = kill_points.environment("?", 0, self._file)

    def passed(self) -> dict[str, int]:
        """Return how often each point was passed by the process that passed it most often."""
        lines = [tuple(line.split()) for line in self._file.read_text().splitlines()]
        most: dict[str, int] = {}
        for (_, point), times in Counter(lines).items():
            most[point] = max(most.get(point, 0), times)
        return most

    def arm(self, aims: Iterable[tuple[str, int]]) -> None:
        """Have the agent die once at each of some points, when it passes it for the N-th time."""
        self._aims = {
            aim: self.machine.folder / f"armed-{number}"
            for number, aim in enumerate(aims)
        }
        for file in self._aims.values():
            file.touch()
        self.armed = kill_points.environment_of(
            (*aim, file) for aim, file in self._aims.items()
        )

    @property
    def left(self) -> list[tuple[str, int]]:
        """Where nobody has died yet, of what was armed."""
        return [aim for aim, file in self._aims.items() if file.exists()]

    def end(self) -> None:
        """End all that goes on."""
        self.daemon.end()
        self.machine.end()
        self.heat.stop()
        self.metadata.stop()

    def apply(
        self,
        document: object,
        *arguments: str,
        once: Callable[[], bool] | None = None,
        then: Callable[[], object] | None = None,
    ) -> None:
        """Run `heat-config-apply`, again when it was killed; and do something while it works, once something is so."""
        left = [then] if then else []
        while (
            code := self._applied(document, arguments, once, left)
        ) == -signal.SIGKILL:
            self._died()
        assert code in (0, 1, 5), f"exit code {code}:\n{self.world.said()[-2000:]}"

    def _applied(
        self,
        document: object,
        arguments: Iterable[str],
        once: Callable[[], bool] | None,
        left: list[Callable[[], object]],
    ) -> int:
        agent = self.world.start(document, *arguments, before=self.before, **self.armed)
        if once and left:
            self.world.wait_for(lambda: agent.poll() is not None or once(), LONG)
            if agent.poll() is None:
                left.pop()()
        return agent.wait(promises.PATIENCE)

    def finish(
        self,
        document: object,
        *,
        lets_go: str = "",
        seen: Callable[[], bool] | None = None,
    ) -> None:
        """Run it until there is nothing left to do; and let a deployment go that holds, once the agent has seen it.

        `seen` tells whether it has; else it surely has after a while.
        """
        since: list[float] = []

        def has_looked() -> bool:
            if not since and lock.holder(self.machine.state):
                since.append(time.monotonic())
            return bool(since) and time.monotonic() - since[0] > LOOK

        for _ in range(5):
            since.clear()
            once = (seen or has_looked) if lets_go else None
            self.apply(document, once=once, then=lambda: self.world.let_go(lets_go))
            if all(entry.settled for entry in self.world.entries().values()):
                return

    def die_at(self, point: str, passing: int, document: object) -> None:
        """Begin with an agent that dies at another point: that is how the scenario begins."""
        file = self.machine.folder / "beginning"
        file.touch()
        armed = kill_points.environment(point, passing, file)
        code = self.world.apply(document, before=self.before, **armed)
        assert code == -signal.SIGKILL, f"{point} was not passed"

    def command(self, command: str, *arguments: str, **environment: str) -> None:
        """Run a command, again when it was killed: it may have done by then all there was to do."""
        dead = False
        while (
            done := self.machine.agent(command, *arguments, **environment)
        ).code == -signal.SIGKILL:
            dead = True
            self._died()
            self.world.note(done.out + done.err)
        self.world.note(done.out + done.err)
        assert done.code == 0 or (dead and done.code in (1, NOT_THERE)), done.err

    def run(self) -> None:
        """Start the daemon."""
        self.daemon.start(*self.before, wait=False, **self.armed)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so, and start the daemon again when it was killed."""
        deadline = time.monotonic() + pace.seconds(LONG)
        while not condition():
            if self.daemon.ended:
                assert self.daemon.process is not None
                assert self.daemon.process.returncode == -signal.SIGKILL, (
                    self.world.said()[-2000:]
                )
                self._died()
                self.run()
            assert time.monotonic() < deadline, (
                f"it did not happen in time:\n{self.world.said()[-3000:]}"
            )
            time.sleep(0.05)

    def stop(self) -> None:
        """End the daemon, if need be twice."""
        self.until(self.is_up)
        while (code := self.daemon.stop()) != 0:
            assert code == -signal.SIGKILL, f"exit code {code}"
            self._died()
            self.run()
            self.until(self.is_up)

    def is_up(self) -> bool:
        """Return whether the daemon handles signals."""
        return (
            not self.daemon.ended
            and self.daemon.health().get("process") == self.daemon.pid
        )

    def tell(self, number: int) -> None:
        """Send the daemon a signal, once it listens."""
        self.until(self.is_up)
        if not self.daemon.ended:
            self.daemon.send(number)

    def settled(self, document: Iterable[dict[str, Any]]) -> Callable[[], bool]:
        """Return what tells whether all these have been carried out and signalled."""

        def are() -> bool:
            entries = self.world.entries()
            return all(
                each["id"] in entries and entries[each["id"]].state is State.SIGNALLED
                for each in document
            )

        return are

    def began(self, document: dict[str, Any]) -> Callable[[], bool]:
        """Return what tells whether a deployment has begun."""
        return lambda: bool(self.world.evidence(document["id"]))

    def kill_runs(self) -> None:
        """Kill all supervisors."""
        for entry in self.world.entries().values():
            if (
                entry.state is State.RUNNING
                and entry.run
                and processes.alive(entry.run.pid, entry.run.ticks)
            ):
                self.world.interrupted.add(entry.id)
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(entry.run.pid).kill()

    def reboot_command(self) -> str:
        """Return a command that notes that the machine was to be rebooted."""
        path = self.machine.folder / "reboot"
        path.write_text(f"#!/bin/sh\necho now >>{self._reboots}\n")
        path.chmod(0o755)
        return shlex.quote(str(path))

    @property
    def reboots(self) -> int:
        """The number of reboots that were requested."""
        return len(self._reboots.read_text().split()) if self._reboots.exists() else 0

    def boot(self) -> None:
        """Boot: from here on agents are started with another boot id."""
        self.before = after_a_boot(self.machine.folder)

    def wake_up_as(self, instance: str) -> None:
        """Go on as another instance."""
        self.before = on_instance(instance)

    def _died(self) -> None:
        self.deaths += 1
        self.world.kills += 1
        for each in self.on_death:
            each()


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
        if scenario.mounts and not may_mount():
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

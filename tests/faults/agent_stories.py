"""Stories of the agent: a piece of its life, in which it is killed at some points, and started again.

A `Scenario` is written as a function of an `AgentStory`, which has the agent and its world.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.model.entry import State
from heat_config_agent.state import lock
from heat_config_hooks import processes
from support import pace, promises
from support.daemon import Daemon
from support.loopback import SignalServer
from support.mounts import after_a_boot, may_mount, on_instance
from support.promises import World
from support.stories import Kills, Story, Traps

NOT_THERE = 8
"""The exit code of `forget` of a deployment that the agent that was killed has forgotten."""

LONG = 60.0
"""Seconds in which whatever has to happen does, also on a busy machine."""

LOOK = 2.0
"""Seconds after which an agent that works on the state directory has found what runs there."""


class AgentStory(Story):
    """A world with an agent, which is started again when it was killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self.heat, self.metadata = SignalServer(), SignalServer()
        self.heat.start()
        self.metadata.start()
        self.world = World(self.machine, self.heat, seed)
        self.daemon = Daemon(self.machine)
        self.daemon.configure(grace=0.2)
        self.on_death: list[Callable[[], object]] = []
        """The functions to call when the agent is killed."""
        self.before: tuple[str, ...] = ()
        """The command by which agents are started."""
        self._reboots = folder / "reboots"

    def check(self) -> None:
        self.world.check()

    def end(self) -> None:
        self.daemon.end()
        super().end()
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
        folder = self.machine.folder / "beginning"
        folder.mkdir()
        armed = Traps(folder, (point, passing)).environment
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

    def send(self, number: int) -> None:
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
        self.world.kills += 1
        for each in self.on_death:
            each()


@dataclass(frozen=True)
class Scenario:
    """A piece of an agent's life, and the points that it has to pass."""

    play: Callable[[AgentStory], None]
    points: tuple[str, ...]
    mounts: bool = False
    """True if it needs mounts."""
    part: str = ""
    """Which of its points these are, if they are divided among several scenarios."""

    @property
    def name(self) -> str:
        return f"{self.play.__name__.replace('_', ' ')} {self.part}".strip()

    def kills(self, folder: Path, seed: int, *, runs_too: bool = False) -> Kills:
        """Return what plays it with kills of the agent, and of its supervisors together with it."""
        if self.mounts and not may_mount():
            pytest.skip(
                "a boot or an instance can only be changed where mounts are allowed: run the tests as root"
            )
        return Kills(lambda world: _Played(world, seed, self, runs_too), folder, seed)


class _Played(AgentStory):
    """A scenario in a world of its own."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        scenario: Scenario,
        runs_too: bool,
    ) -> None:
        super().__init__(folder, seed)
        self.name, self._scenario = scenario.name, scenario
        if runs_too:
            self.on_death.append(self.kill_runs)

    def play(self) -> None:
        self._scenario.play(self)

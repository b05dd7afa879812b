"""A world with an agent in it that is killed once at each of some points, and started again whenever it was killed."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil

from heat_config_agent.model.entry import State
from heat_config_agent.state import lock
from heat_config_hooks import processes
from support import kill_points, pace, promises
from support.daemon import Daemon
from support.loopback import SignalServer
from support.machine import Machine
from support.promises import World

LONG = 60.0
"""Seconds in which whatever has to happen does, also on a busy machine."""

LOOK = 2.0
"""Seconds after which an agent that works on the state directory has found what runs there."""


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
        assert done.code == 0 or (dead and done.code in (1, 2)), done.err

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
        path = self.machine.folder / f"boot-{uuid.uuid4()}"
        path.write_text(f"{uuid.uuid4()}\n")
        self.before = mounted(f"mount --bind {path} /proc/sys/kernel/random/boot_id")

    def wake_up_as(self, instance: str) -> None:
        """Go on as another instance."""
        folder = "/run/cloud-init"
        self.before = mounted(
            "mount -t tmpfs tmpfs /run",
            f"mkdir {folder}",
            f"echo {instance} >{folder}/.instance-id",
        )

    def _died(self) -> None:
        self.deaths += 1
        self.world.kills += 1
        for each in self.on_death:
            each()


def mounted(*script: str) -> tuple[str, ...]:
    """Return the command that starts another one after `script`, with mounts that only that one sees."""
    return (
        "unshare",
        "--mount",
        "/bin/sh",
        "-c",
        f'set -e; {"; ".join(script)}; exec "$@"',
        "sh",
    )


def may_mount() -> bool:
    """Return whether mounts are allowed."""
    return (
        os.geteuid() == 0
        and not subprocess.run(["unshare", "--mount", "true"], check=False).returncode
    )

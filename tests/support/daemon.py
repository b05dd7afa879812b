"""The daemon as people have it: a process, the file of its settings, and documents that are put where it looks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heat_config_agent.model.entry import Removed
from heat_config_agent.state import health, journal, lock
from support import loaded, pace
from support.loopback import wait_until
from support.machine import BIN, Done, Machine

LONG = 60.0
"""Seconds in which whatever has to happen soon does, also on a busy machine."""

Value = str | float | list[str]


class Daemon:
    """`heat-config-agent run` on a machine's state directory. It asks nobody but those that a test names."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.local = machine.folder / "local"
        self.local.mkdir()
        self.path = machine.folder / "agent.conf"
        self.process: subprocess.Popen[bytes] | loaded.Loaded | None = None
        self.settings: dict[str, dict[str, Value]] = {
            "agent": {
                "state_dir": str(machine.state),
                "collectors": "local",
                "polling_interval": 0.3,
                "min_polling_interval": 0.1,
                "splay": 0,
                "grace": 2,
                "hooks_dir": str(machine.hooks),
            },
            "local": {"path": str(self.local)},
        }
        self._started: list[subprocess.Popen[bytes] | loaded.Loaded] = []
        self.begins_loaded = False
        """True if it may begin loaded, see `loaded`."""
        self._log = machine.folder / "daemon.log"
        machine.logs.append(self._log)
        machine.config = self.path

    def configure(self, **settings: Value) -> None:
        """Write the file of settings, with these of `[agent]` beside those that are there."""
        self.settings["agent"].update(settings)
        lines: list[str] = []
        for section, values in self.settings.items():
            lines.append(f"[{section}]")
            for name, value in values.items():
                lines += [
                    f"{name} = {each}"
                    for each in (value if isinstance(value, list) else [value])
                ]
        self.path.write_text("\n".join(lines) + "\n")

    def put(self, deployments: object, name: str = "site") -> None:
        """Put a document into the directory: a text as it is, all else as JSON."""
        path = self.local / f"{name}.json"
        temporary = self.local / f".{name}.new"
        temporary.write_text(
            deployments if isinstance(deployments, str) else json.dumps(deployments)
        )
        temporary.replace(path)

    def start(self, *before: str, wait: bool = True, **environment: str) -> None:
        """Start it, by the command `before` if there is one, and wait until it says in its file how it is."""
        if not self.path.exists():
            self.configure()
        words = [
            *before,
            str(BIN / "heat-config-agent"),
            "run",
            "--config",
            str(self.path),
        ]
        variables = {**self.machine.environment, **environment}
        with self._log.open("ab") as log:
            if self._may_begin_loaded(before, variables):
                program, arguments = (
                    (before[1], words[2:])
                    if before
                    else ("heat-config-agent", words[1:])
                )
                self.process = loaded.Loaded(
                    program, arguments, variables, self.machine.folder, (log, log)
                )
            else:
                self.process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=variables,
                    cwd=self.machine.folder,
                )
        self._started.append(self.process)
        if wait:
            wait_until(lambda: self.ended or self._is_up(), LONG)
            assert not self.ended, self.log

    def _may_begin_loaded(
        self, before: tuple[str, ...], variables: Mapping[str, str]
    ) -> bool:
        """Return whether the daemon may begin loaded: by itself, or by code for Python."""
        is_python = before[:2] == (sys.executable, "-c")
        return (
            self.begins_loaded
            and (not before or is_python)
            and loaded.may_be(variables)
        )

    def _is_up(self) -> bool:
        held = lock.holder(self.machine.state)
        return (
            held == (self.pid, lock.DAEMON) and self.health().get("process") == self.pid
        )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal, and return its exit code."""
        self.send(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        assert self.process is not None
        return self.process.wait(pace.seconds(LONG))

    def send(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self.process is not None
        return self.process.pid

    @property
    def ended(self) -> bool:
        """Return whether the process has ended."""
        return self.process is None or self.process.poll() is not None

    @property
    def log(self) -> str:
        """All that it has said, over all its lives."""
        return self._log.read_text() if self._log.exists() else ""

    def said(self, *words: str) -> list[str]:
        """Return the lines with all these words."""
        return [
            line
            for line in self.log.splitlines()
            if all(word in line for word in words)
        ]

    def wait_said(self, *words: str, times: int = 1) -> None:
        """Wait until it has said a line with all these words."""
        wait_until(lambda: self.ended or len(self.said(*words)) >= times, LONG)
        assert len(self.said(*words)) >= times, self.log

    def health(self) -> dict[str, Any]:
        """Return what it says of itself in its file."""
        return health.read(self.machine.state)

    def source(self, name: str = "local") -> Mapping[str, Any]:
        """Return what it says of a source in use; nothing where it is not."""
        return next(
            (each for each in self.health().get("sources", ()) if each["name"] == name),
            {},
        )

    def command(self, command: str, *arguments: str) -> Done:
        """Run another of the agent's commands, with the same settings."""
        return self.machine.command(
            "heat-config-agent", [command, "--config", str(self.path), *arguments], {}
        )

    def states(self) -> dict[str, str]:
        """Return how far each deployment has come, by id."""
        known = journal.read(self.machine.state).values()
        return {
            each.id: each.state.value
            for each in known
            if each.removed is not Removed.ALL
        }

    def wait_state(self, identity: str, *states: str) -> None:
        """Wait until a deployment has come so far."""
        wait_until(lambda: self.states().get(identity) in states, LONG)

    def end(self) -> None:
        """End whatever is still running."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()


def counting(machine: Machine, identity: str = "d1", then: str = "") -> str:
    """Return a script that counts its runs."""
    return f"#!/bin/sh\necho {identity} >>{machine.folder}/ran\n{then}\n"


def until(path: Path) -> str:
    """Return the command that waits until something is at a path."""
    return f"until [ -e {path} ]; do sleep 0.02; done"


def ran(machine: Machine) -> list[str]:
    """Return the ids of the scripts that ran, once for each time."""
    path = machine.folder / "ran"
    return path.read_text().split() if path.exists() else []

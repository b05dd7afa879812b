"""The systemd of this machine, through systemctl, systemd-analyze and journalctl."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterable, Mapping

from heat_config_hooks import files, programs, protocol, steps
from heat_config_hooks.needs import ANALYZE, SYSTEMCTL
from heat_config_hooks.tools import unit_files

LINES = 50
"""Lines from the journal that are shown for a unit that failed."""


class Systemd:
    """The commands of systemctl that the `systemd-unit` hook needs."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Find systemctl in the PATH of `environment`. Raises MissingTool."""
        self._systemctl = programs.find(SYSTEMCTL, environment)
        self._began = int(time.time())

    def do(self, *words: str) -> int:
        """Run systemctl, whose output becomes the output of the run; return its exit code."""
        return steps.run([*self._systemctl, *words])

    def apply(self, verb: str, units: Iterable[str], *options: str) -> int:
        """Run a command of systemctl for several units, if there are any; return its exit code."""
        names = sorted(units)
        return self.do(verb, *options, "--", *names) if names else 0

    def try_to(self, verb: str, units: Iterable[str]) -> None:
        """Run a command of systemctl for each unit; errors, such as for an unknown unit, are ignored."""
        for unit in units:
            argv = [*self._systemctl, verb, "--", unit]
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            )

    def show(self, patterns: Iterable[str], *names: str) -> list[dict[str, str]]:
        """Return the named properties and `Id` of each unit; a pattern stands for all loaded units that match it."""
        wanted = sorted(patterns)
        if not wanted:
            return []
        properties = [f"--property={name}" for name in ("Id", *names)]
        _, text = steps.ask([*self._systemctl, "show", *properties, "--", *wanted])
        blocks = [block.splitlines() for block in text.split("\n\n") if block.strip()]
        return [
            {name: value for name, _, value in (line.partition("=") for line in block)}
            for block in blocks
        ]

    def enabled(self, unit: str) -> str:
        """Return whether a unit is enabled, by its links on disk, in the words of `systemctl is-enabled`."""
        return steps.ask([*self._systemctl, "is-enabled", "--", unit])[1].strip()

    def explain(self, unit: str) -> None:
        """Print the status of a unit that failed, and its part of the journal."""
        status = [
            *self._systemctl,
            "status",
            "--no-pager",
            "--full",
            "--lines=0",
            "--",
            unit,
        ]
        journal = [
            "journalctl",
            "--no-pager",
            f"--since=@{self._began}",
            f"--lines={LINES}",
            f"--unit={unit}",
        ]
        for argv in (status, ["journalctl", "--sync"], journal):
            with contextlib.suppress(FileNotFoundError):
                if text := steps.ask(argv)[1].rstrip("\n"):
                    steps.say(text, error=True)


def analyze(units: Mapping[str, str], place: protocol.Workplace) -> int:
    """Run `systemd-analyze verify` on copies of unit files; return its exit code."""
    if not units:
        return 0
    folder = place.run / "units"
    for name, text in units.items():
        files.make_directory((folder / name).parent)
        files.replace(folder / name, text.encode())
    program = programs.find(ANALYZE, place.environment)
    names = sorted({unit_files.unit_of(name) for name in units})
    code = steps.run(
        [*program, "verify", "--man=no", "--", *names],
        environment={
            **os.environ,
            "SYSTEMD_UNIT_PATH": f"{folder}:",
        },  # the colon appends systemd's own folders
    )
    if code:
        steps.say(
            "systemd rejects these units, so nothing was changed on the machine",
            error=True,
        )
    return code

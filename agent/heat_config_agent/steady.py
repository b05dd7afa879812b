"""A clock that only goes forward: how long the agent has looked after its state, over restarts and reboots.

Ages are told by it, not by the machine's clock: a clock that is set wrong by years must not make old what is young, nor
keep for years what has to go. While the machine is up, it goes with the kernel's clock that nobody can set. What the
machine was down for cannot be known for certain, and counts for a day at most.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from heat_config_hooks import files, processes

FILE = "retention.json"

DAY = 24 * 3600.0


class Steady:
    """The clock of one state directory, and what else is remembered from one look at it to the next."""

    def __init__(self, directory: Path) -> None:
        """Go on from what is on disk. Where that cannot be read the clock begins anew: things stay longer, then."""
        self._path = directory / FILE
        self._began = processes.since_boot()
        self._lived = 0.0
        self.pruned: float | None = None
        """When everything was last looked through; None where it never was."""
        self.grown = 0
        """Bytes of output that runs have left since then."""
        self.bytes = 0
        """What was kept then, and in how many files."""
        self.files = 0
        self.found: dict[str, float] = {}
        """When things were first found that carry no time of their own."""
        self.asked: dict[str, float] = {}
        """When each source was last asked."""
        try:
            self._read(json.loads(files.read(self._path)))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return

    def _read(self, said: dict[str, object]) -> None:
        lived, began, wall = _number(said["lived"]), _number(said["since_boot"]), _number(said["wall"])
        found, asked = _times(said["found"]), _times(said["asked"])
        size, number, grown = (int(_number(said[name])) for name in ("bytes", "files", "grown"))
        pruned = None if said["pruned"] is None else _number(said["pruned"])
        passed = self._began - began if said["boot"] == _boot() else min(time.time() - wall, DAY)
        self._lived = lived + max(passed, 0.0)
        self.pruned, self.grown, self.bytes, self.files = pruned, grown, size, number
        self.found, self.asked = found, asked

    def now(self) -> float:
        """Return the time, in seconds since the agent first worked here."""
        return self._lived + processes.since_boot() - self._began

    def at_least(self, moment: float) -> None:
        """Go on from a moment that is known to have been: the file may have been lost."""
        self._lived += max(moment - self.now(), 0.0)

    def save(self) -> None:
        """Keep it. Raises OSError."""
        said = {
            "lived": self.now(),
            "boot": _boot(),
            "since_boot": processes.since_boot(),
            "wall": time.time(),
            "pruned": self.pruned,
            "grown": self.grown,
            "bytes": self.bytes,
            "files": self.files,
            "found": self.found,
            "asked": self.asked,
        }
        files.replace(self._path, json.dumps(said).encode())


def _boot() -> str:
    """Return what tells this boot of the kernel, whose clock it is: a container may be started again in it."""
    return processes.boot_id().partition("/")[0]


def _number(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]  # whatever else it is, is a TypeError or a ValueError
    if not 0 <= number < 1e18:
        raise ValueError
    return number


def _times(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise TypeError
    return {str(name): _number(each) for name, each in value.items()}

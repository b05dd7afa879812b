"""A clock that only goes forward: the time since the agent first used its state directory, over restarts and reboots.

The ages of deployments are measured with it. The machine's clock may be set wrong by years, and then files would be
removed too early or kept for years. While the machine is up, this clock follows the kernel's, which no one can set. The
time for which the machine was down is not known for certain, and counts as a day at most.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from heat_config_hooks import files, processes

FILE = "retention.json"

DAY = 24 * 3600.0


class Steady:
    """The clock of one state directory, and the numbers that pruning remembers from one sweep to the next."""

    def __init__(self, directory: Path) -> None:
        """Go on from the time on disk. If that cannot be read, the clock starts at 0: files are kept longer then."""
        self._path = directory / FILE
        self._began = processes.since_boot()
        self._lived = 0.0
        self.pruned: float | None = None
        """When everything was last swept; None if it never was."""
        self.grown = 0
        """The bytes of output that runs have left since then."""
        self.bytes = 0
        """The bytes and the number of files that were kept then."""
        self.files = 0
        self.first_seen: dict[str, float] = {}
        """When files were first seen that do not belong to a deployment, by name."""
        self.last_answers: dict[str, float] = {}
        """When each source last answered."""
        try:
            self._read(json.loads(files.read(self._path)))
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            OverflowError,
        ):
            return

    def _read(self, record: dict[str, object]) -> None:
        lived, began, wall = (
            _number(record["lived"]),
            _number(record["since_boot"]),
            _number(record["wall"]),
        )
        first_seen, last_answers = _times(record["found"]), _times(record["asked"])
        size, number, grown = (
            int(_number(record[name])) for name in ("bytes", "files", "grown")
        )
        pruned = None if record["pruned"] is None else _number(record["pruned"])
        passed = (
            self._began - began
            if record["boot"] == _boot()
            else min(time.time() - wall, DAY)
        )
        self._lived = lived + max(passed, 0.0)
        self.pruned, self.grown, self.bytes, self.files = pruned, grown, size, number
        self.first_seen, self.last_answers = first_seen, last_answers

    def now(self) -> float:
        """Return the time in seconds since the agent first used the state directory."""
        return self._lived + processes.since_boot() - self._began

    def at_least(self, moment: float) -> None:
        """Set the clock forward to a time that the journal has a record of: the clock's file may have been lost."""
        self._lived += max(moment - self.now(), 0.0)

    def save(self) -> None:
        """Write the clock to disk. Raises OSError."""
        record = {
            "lived": self.now(),
            "boot": _boot(),
            "since_boot": processes.since_boot(),
            "wall": time.time(),
            "pruned": self.pruned,
            "grown": self.grown,
            "bytes": self.bytes,
            "files": self.files,
            "found": self.first_seen,
            "asked": self.last_answers,
        }
        files.replace(self._path, json.dumps(record).encode())


def _boot() -> str:
    """Return the boot id of the kernel, without the part for the container: a restart of that keeps the clock."""
    return processes.boot_id().partition("/")[0]


def _number(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]  # any other type raises a TypeError or a ValueError
    if not 0 <= number < 1e18:
        raise ValueError
    return number


def _times(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise TypeError
    return {str(name): _number(moment) for name, moment in value.items()}

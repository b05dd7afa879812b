"""The output of what runs, kept from filling the disk: looked at now and then, and shortened in its middle."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from heat_config_agent import runner, streams
from heat_config_agent.report import Report
from heat_config_hooks import processes

_SOON, _LATER = 0.2, 2.0
"""Seconds between two looks: at the output of what prints much, and of all else."""


class Bounding:
    """Looks after the output of all runs. Whoever runs them calls `look` when it is `due`."""

    def __init__(self, report: Report) -> None:
        """Have somebody told where it cannot be done."""
        self._report = report
        self._said = False
        """Whether they were told."""
        self._due = 0.0

    def begun(self) -> None:
        """Take note that something runs: how much it prints is not known yet."""
        self._due = processes.since_boot() + _SOON

    @property
    def due(self) -> float:
        """Seconds until the next look; 0 where it is time for it."""
        return max(self._due - processes.since_boot(), 0.0)

    def look(self, folders: Iterable[Path], limit: int) -> None:
        """Shorten the output in the folders of runs. `limit` is what `output_limit` says: bytes, 0 for any."""
        most = max(self.shorten(folder, limit) for folder in folders)
        self._due = processes.since_boot() + (_SOON if 0 < limit < 4 * most else _LATER)

    def shorten(self, folder: Path, limit: int) -> int:
        """Leave out the middle of what a run has printed where it is too long; return how many bytes it takes."""
        taken = 0
        for name in runner.STREAMS:
            try:
                taken += streams.bound(f"{folder}/{name}", limit)
            except OSError as error:
                if not self._said:
                    self._said = True
                    why = f"it cannot be bounded as output_limit says: {error.strerror}"
                    self._report.warn(f"{folder / name} is longer than {limit} bytes, and {why}")
        return taken

"""The limit on the output of runs: it is looked at from time to time, and its middle is left out if it is too long."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from heat_config_agent.model.log import Log
from heat_config_agent.runs import run_folder
from heat_config_hooks import files, processes

_SOON, _LATER = 0.2, 2.0
"""Seconds between two looks: while a run prints much, and otherwise."""


class OutputLimit:
    """Keeps the output of all runs from filling the disk. The caller calls `look` when it is `due`."""

    def __init__(self, log: Log) -> None:
        """Begin with no runs. `log` is warned once if output cannot be shortened."""
        self._log = log
        self._warned = False
        self._due = 0.0

    def begun(self) -> None:
        """Note that a run has begun: it is not known yet how much it prints."""
        self._due = processes.since_boot() + _SOON

    @property
    def due(self) -> float:
        """Seconds until the next look; 0 if it is time."""
        return max(self._due - processes.since_boot(), 0.0)

    def look(self, folders: Iterable[Path], limit: int) -> None:
        """Shorten the output in the folders of runs. `limit` is the setting `output_limit` in bytes; 0 for none."""
        largest = max((self.shorten(folder, limit) for folder in folders), default=0)
        self._due = processes.since_boot() + (
            _SOON if 0 < limit < 4 * largest else _LATER
        )

    def shorten(self, folder: Path, limit: int) -> int:
        """Leave out the middle of a run's output if it is too long; return the bytes that it takes on disk."""
        freed = 0
        for name in run_folder.STREAMS:
            try:
                taken = files.taken(f"{folder}/{name}")
                freed += (
                    _bound(f"{folder}/{name}", limit) if 0 < limit < taken else taken
                )
            except OSError as error:
                if not self._warned:
                    self._warned = True
                    self._log.warn(
                        f"cannot shorten {folder / name} to {limit} bytes (output_limit): {error.strerror}"
                    )
        return freed


def _bound(path: str, limit: int) -> int:
    from heat_config_agent.runs import streams  # noqa: PLC0415  # few runs print that much

    return streams.bound(path, limit)

"""The limit on the output of runs: it is looked at from time to time, and its middle is left out if it is too long."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path

from heat_config_agent.model import signal_numbers
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
        self._left: set[Path] = set()
        """The folders of runs that have ended, and whose output is still written by processes that they left."""

    @property
    def watches(self) -> bool:
        """True if a run that has ended has left processes that still hold its output open."""
        return bool(self._left)

    def watch(self, folder: Path) -> None:
        """Look also at the output of a run that has ended, as long as it is still written."""
        if is_written(folder):
            self._left.add(folder)
            self.begun()

    def begun(self) -> None:
        """Note that a run has begun: it is not known yet how much it prints."""
        self._due = processes.since_boot() + _SOON

    @property
    def due(self) -> float:
        """Seconds until the next look; 0 if it is time."""
        return max(self._due - processes.since_boot(), 0.0)

    def look(self, folders: Iterable[Path], limit: int) -> None:
        """Shorten the output in the folders of runs. `limit` is the setting `output_limit` in bytes; 0 for none."""
        self._left = {folder for folder in self._left if is_written(folder)}
        largest = max((self.shorten(folder, limit) for folder in (*folders, *self._left)), default=0)
        self._due = processes.since_boot() + (_SOON if 0 < limit < 4 * largest else _LATER)

    def shorten(self, folder: Path, limit: int) -> int:
        """Leave out the middle of a run's output if it is too long; return the bytes that it takes on disk."""
        freed = 0
        for name in run_folder.STREAMS:
            try:
                taken = files.taken(f"{folder}/{name}")
                freed += _bound(f"{folder}/{name}", limit) if 0 < limit < taken else taken
            except OSError as error:
                if not self._warned:
                    self._warned = True
                    self._log.warn(f"cannot shorten {folder / name} to {limit} bytes (output_limit): {error.strerror}")
        return freed


def is_written(folder: Path) -> bool:
    """Return True if any process may still write the output of a run, as the kernel's leases tell.

    A lease to read is granted only if the file is not open to be written.
    """
    return any(is_open_to_write(f"{folder}/{name}") for name in run_folder.STREAMS[:2])


def is_open_to_write(path: str) -> bool:
    """Return True if any process of this kernel, also in another container, has a file open to write it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # If the file is opened at this moment, the kernel asks for the lease by a signal, which is SIGIO by default:
        # that would end this process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal_numbers.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN  # any other error: the file system has no leases
    finally:
        os.close(descriptor)
    return False


def _bound(path: str, limit: int) -> int:
    from heat_config_agent.runs import streams  # noqa: PLC0415  # few runs print that much

    return streams.bound(path, limit)

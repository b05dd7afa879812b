"""A disk of its own that a test can fill, and deployments that count their runs."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from support import pace
from support.machine import Machine, deployment

PAGE = 4096
ONCE = ("--deliver-for", "0")
SECONDS = 60.0
"""The time to find a moment at which the number of files does not change."""


class Disk:
    """A small file system of its own on which the state directory is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Take all the room that is left."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while file.write(bytes(PAGE)):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink()

    def limit_inodes(self, number: int) -> None:
        """Have room for so many files in all."""
        subprocess.run(
            ["mount", "-o", f"remount,nr_inodes={number}", self.path], check=True
        )

    def take_all_inodes(self) -> None:
        """Have no room for one more file, though a daemon makes and removes some just now."""
        deadline = time.monotonic() + pace.seconds(SECONDS)
        while True:
            room = os.statvfs(self.path)
            try:
                self.limit_inodes(room.f_files - room.f_ffree)
            except subprocess.CalledProcessError:  # there is one more file now
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def remount(self, mode: str) -> None:
        """Make it read-only (ro) or writable (rw)."""
        subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)


def counting(
    machine: Machine, identity: str = "d1", then: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a deployment whose script counts its runs."""
    return deployment(
        identity,
        f"#!/bin/sh\necho {identity} >>{machine.folder}/ran\n{then}\n",
        **fields,
    )


def ran(machine: Machine) -> list[str]:
    """Return the ids of the scripts that ran, once for each time."""
    path = machine.folder / "ran"
    return path.read_text().split() if path.exists() else []

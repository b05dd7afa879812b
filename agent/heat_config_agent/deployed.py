"""The folder `deployed/`, in which heat-agents keep what they have done, and which others read.

`ID.json` is a deployment as it was run, `ID.notify.json` its result as it was signalled. An `ID.json` that an older
agent left means done; removing one means that it is to be run again. We keep both for the same readers; what we
ourselves rely on is in the journal.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import files


class Deployed:
    """The folder, whether it exists yet or not."""

    def __init__(self, directory: Path, *, old: Path | None = None) -> None:
        """Use `directory`; where it does not exist and `old` does, that one becomes it when first written to."""
        self.directory = directory
        self._old = old
        self._new: list[str] = []
        """Kept since the last `sync`."""

    def keys(self) -> frozenset[str]:
        """Return the deployments that are marked as done."""
        old = self._old if self._old and not self.directory.is_dir() else None
        try:
            names = os.listdir(old or self.directory)
        except OSError:  # it is not there, or no folder
            return frozenset()
        return frozenset(name[:-5] for name in names if name.endswith(".json") and not name.endswith(".notify.json"))

    def prepare(self) -> None:
        """Make the folder, 0700, or take over the old one, whole or not at all. Raises OSError."""
        if self._old is None or not self._old.is_dir() or self.directory.is_dir():
            files.make_directory(self.directory)
            return
        files.make_directory(self.directory.parent)
        try:
            self._old.rename(self.directory)
        except OSError:  # it is on another file system, or does not want to be moved
            new = self.directory.with_name(f".{self.directory.name}.new")
            files.remove(new)
            shutil.copytree(self._old, new)
            new.rename(self.directory)
            files.remove(self._old)

    def keep(self, key: str, document: Mapping[str, object], values: Mapping[str, object] | None = None) -> None:
        """Keep a deployment as it was run, and its result once there is one. Raises OSError."""
        if key not in self._new:
            self.prepare()
            files.replace(self.directory / f"{key}.json", json.dumps(document, indent=2).encode())
            self._new.append(key)
        if values is not None:
            files.replace(self.directory / f"{key}.notify.json", json.dumps(values, indent=2).encode())

    def forget(self, key: str) -> None:
        """Remove what is kept of a deployment."""
        for name in (f"{key}.json", f"{key}.notify.json"):
            (self.directory / name).unlink(missing_ok=True)

    def sync(self) -> list[str]:
        """Have the names of all files survive a power cut; return the deployments kept since the last time.

        Raises OSError.
        """
        new, self._new = self._new, []
        if new:
            descriptor = os.open(self.directory, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return new

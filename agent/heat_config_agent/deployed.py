"""The folder `deployed/`, in which heat-agents keep what they have done, and which others read.

`ID.json` is a deployment as it was run, `ID.notify.json` its result as it was signalled. An `ID.json` that an older
agent left means done; removing one means that it is to be run again. We keep both for the same readers; what we
ourselves rely on is in the journal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import kill_points, redaction
from heat_config_agent.errors import StateError
from heat_config_agent.model import STANDARD_OUTPUTS
from heat_config_hooks import files, strict_json


class Deployed:
    """The folder, whether it exists yet or not."""

    def __init__(self, directory: Path, *, old: Path | None = None) -> None:
        """Use `directory`; where it does not exist and `old` does, that one becomes it when first written to."""
        self.directory = directory
        self._old = old
        self._kept: set[str] = set()
        """Kept by us, and so not to be written again with their results."""

    def keys(self) -> frozenset[str] | None:
        """Return the deployments that are marked as done; None where there is no folder, which so says nothing.

        Raises StateError where there is one that cannot be read: what it says must not be taken for nothing.
        """
        old = self._old if self._old and not os.path.isdir(self.directory) else None  # noqa: PTH112  # never raises
        for directory in (self.directory, old):
            try:
                names = os.listdir(directory) if directory else []
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise StateError(f"cannot read {directory}, which says what was done: {error.strerror}") from error
            if directory:
                found = [each for each in names if each.endswith(".json")]
                return frozenset([each[:-5] for each in found if not each.endswith(".notify.json")])
        return None

    def prepare(self) -> None:
        """Make the folder, 0700, or take over the old one, whole or not at all. Raises OSError."""
        if self._old is None or not self._old.is_dir() or self.directory.is_dir():
            # Durable: without it after a power cut, what is then marked anew alone would seem not to have been removed.
            files.make_directory(self.directory, durable=True)
            return
        files.make_directory(self.directory.parent, durable=True)
        try:
            self._old.rename(self.directory)
        except OSError:  # it is on another file system, or does not want to be moved
            new = self.directory.with_name(f".{self.directory.name}.new")
            files.remove(new)
            import shutil  # noqa: PLC0415  # slow to load, for what is done once on a machine

            shutil.copytree(self._old, new)
            files.sync_directory(new)
            new.rename(self.directory)
            files.sync_directory(self.directory.parent)
            files.remove(self._old)
        else:
            files.sync_directory(self.directory.parent)
        kill_points.reached("deployed.taken_over")

    def keep(self, key: str, document: Mapping[str, object], values: Mapping[str, object] | None = None) -> None:
        """Keep a deployment as it was run, and its result once there is one. Raises OSError."""
        if key not in self._kept:
            if not os.path.isdir(self.directory):  # noqa: PTH112  # once for each deployment
                self.prepare()
            files.replace(f"{self.directory}/{key}.json", json.dumps(document).encode())
            self._kept.add(key)
            kill_points.reached("deployed.deployment")
        if values is not None:
            files.replace(f"{self.directory}/{key}.notify.json", json.dumps(values).encode())
            kill_points.reached("deployed.result")

    def keeps(self, key: str) -> bool:
        """Whether a deployment was kept by us, as it is: only its result can be new."""
        return key in self._kept

    def document(self, key: str) -> dict[str, object]:
        """Return a deployment as it was kept; nothing where it was not, or cannot be read."""
        return kept(self.directory / f"{key}.json")

    def mask(self, key: str) -> None:
        """Remove from what is kept of a deployment all that may be secret; the files stay. Raises OSError."""
        path, result = self.directory / f"{key}.json", self.directory / f"{key}.notify.json"
        if path.is_file():
            files.replace(path, json.dumps(redaction.masked(kept(path)), indent=2).encode())
        if result.is_file():
            values = {
                name: value if name in STANDARD_OUTPUTS else redaction.MASK for name, value in kept(result).items()
            }
            files.replace(result, json.dumps(values, indent=2).encode())

    def forget(self, key: str) -> None:
        """Remove what is kept of a deployment."""
        self._kept.discard(key)
        for name in (f"{key}.json", f"{key}.notify.json"):
            (self.directory / name).unlink(missing_ok=True)

    def sync(self) -> None:
        """Have the names of all files survive a power cut. Raises OSError."""
        files.sync_directory(self.directory)


def kept(path: Path) -> dict[str, object]:
    """Return what a file in the folder keeps; nothing where it does not."""
    try:
        value = strict_json.loads(files.read(path).decode())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}

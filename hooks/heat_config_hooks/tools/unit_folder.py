"""A folder of unit files on disk: what it holds, and which units are still to be restarted because of it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path

from heat_config_hooks import files, protocol
from heat_config_hooks.written import owner


def make(path: Path) -> None:
    """Make a folder that everybody may read, as systemd's own folders are."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def content(path: Path) -> bytes | None:
    """Return the content of a file; None for anything else."""
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None


def remove_drop_ins(path: Path) -> None:
    """Remove the folder of a drop-in that was removed, unless other drop-ins are in it."""
    if path.parent.suffix == ".d":
        with contextlib.suppress(OSError):
            path.parent.rmdir()


class _Units:
    """Names of units that a deployment keeps in a file."""

    _suffix = ""

    def __init__(self, request: protocol.Request, place: protocol.Workplace) -> None:
        self._path = (
            place.working / f"{protocol.file_key(owner(request))}.{self._suffix}"
        )
        self.names: frozenset[str] = frozenset()
        with contextlib.suppress(OSError, ValueError):
            self.names = frozenset(json.loads(self._path.read_bytes()))

    def keep(self, names: Collection[str]) -> None:
        """Record these units, and no others, on disk."""
        if names:
            files.make_directory(self._path.parent)
            files.replace(self._path, json.dumps(sorted(names)).encode(), durable=True)
        else:
            self._path.unlink(missing_ok=True)


class Pending(_Units):
    """Units that have changed and are not restarted yet: the next run restarts them, should this one be cut short."""

    _suffix = "due"


class AtRest(_Units):
    """Units that were not up at the end of a run that succeeded: they have ended, or a condition is not met."""

    _suffix = "rest"


def masks(paths: Iterable[Path]) -> list[str]:
    """Return the paths that are links to /dev/null, with which an administrator masks units."""
    return [str(path) for path in paths if path.is_symlink() and _is_null(path)]


def _is_null(path: Path) -> bool:
    return str(path.readlink()) == os.devnull

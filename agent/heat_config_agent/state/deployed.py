"""The folder `deployed/`: heat-agents' record of what was run, which other programs read too.

`ID.json` is a deployment as it was run, and `ID.notify.json` is its result as it was signalled. An `ID.json` from
heat-agents means that the deployment is done; if a person removes an `ID.json`, the deployment runs again. The agent
writes both files for other programs. It relies on the journal itself.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from heat_config_agent.masking import MASK, redaction
from heat_config_agent.model.deployment import STANDARD_OUTPUTS
from heat_config_agent.model.errors import StateError
from heat_config_hooks import files, strict_json


class Deployed:
    """The folder, which need not exist yet."""

    def __init__(self, directory: Path, *, old: Path | None = None) -> None:
        """Use `directory`. If only `old` exists, it is moved there at the first write."""
        self.directory = directory
        self._old = old
        self._kept: set[str] = set()
        """The deployments that this process has written: only their results are written later."""

    def keys(self, among: Collection[str] | None = None) -> frozenset[str] | None:
        """Return the keys of the deployments in the folder; None if there is no folder.

        With `of`, only these are looked for, because a long folder takes long to list. Raises StateError if the folder
        cannot be read: to treat it as empty would run deployments again.
        """
        old = self._old if self._old and not os.path.isdir(self.directory) else None  # noqa: PTH112  # never raises
        for directory in (self.directory, old):
            try:
                names = (
                    (
                        os.listdir(directory)
                        if among is None
                        else _found(directory, among)
                    )
                    if directory
                    else []
                )
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise StateError(
                    f"cannot read {directory}, the record of what was run: {error.strerror}"
                ) from error
            if directory:
                return frozenset(
                    [
                        name[:-5]
                        for name in names
                        if name[-5:] == ".json" and name[-12:] != ".notify.json"
                    ]
                )
        return None

    def prepare(self) -> None:
        """Make the folder with mode 0700, or move the old one there, as a whole or not at all. Raises OSError."""
        if self._old is None or not self._old.is_dir() or self.directory.is_dir():
            # Durable: if a power cut removed the folder, its files would seem to have been removed by a person.
            files.make_directory(self.directory, durable=True)
            return
        files.make_directory(self.directory.parent, durable=True)
        try:
            self._old.rename(self.directory)
        except OSError:  # it is on another file system, for example
            new = self.directory.with_name(f".{self.directory.name}.new")
            files.remove(new)
            import shutil  # noqa: PLC0415  # slow to load, and needed once on a machine

            shutil.copytree(self._old, new)
            files.sync_directory(new)
            new.rename(self.directory)
            files.sync_directory(self.directory.parent)
            files.remove(self._old)
        else:
            files.sync_directory(self.directory.parent)

    def keep(
        self,
        key: str,
        document: Mapping[str, object],
        values: Mapping[str, object] | None = None,
    ) -> None:
        """Write a deployment as it was run, and its result if there is one. Raises OSError."""
        if key not in self._kept:
            if not os.path.isdir(self.directory):  # noqa: PTH112  # once for each deployment
                self.prepare()
            files.replace(f"{self.directory}/{key}.json", json.dumps(document).encode())
            self._kept.add(key)
        if values is not None:
            files.replace(
                f"{self.directory}/{key}.notify.json", json.dumps(values).encode()
            )

    def keeps(self, key: str) -> bool:
        """Return whether this process has written the deployment: only its result can be new."""
        return key in self._kept

    def document(self, key: str) -> dict[str, object]:
        """Return a deployment as it was written; an empty one if it was not, or cannot be read."""
        return kept(self.directory / f"{key}.json")

    def mask(self, key: str) -> bool:
        """Mask everything that may be secret in the files of a deployment; return whether that changed them.

        An empty file, as people make them, stays as it is. Raises OSError.
        """
        path, result = (
            self.directory / f"{key}.json",
            self.directory / f"{key}.notify.json",
        )
        values = kept(result)
        masked = {
            name: value if name in STANDARD_OUTPUTS else MASK
            for name, value in values.items()
        }
        changed = _rewrite(path, redaction.masked(kept(path)))
        return _rewrite(result, masked) or changed

    def forget(self, key: str) -> None:
        """Remove the files of a deployment. Raises OSError."""
        self._kept.discard(key)
        for name in (f"{key}.json", f"{key}.notify.json"):
            (self.directory / name).unlink(missing_ok=True)

    def sync(self) -> None:
        """Make the names of all files survive a power cut. Raises OSError."""
        files.sync_directory(self.directory)


def _found(directory: Path, keys: Collection[str]) -> list[str]:
    """Return the names of the files of these deployments that are there. Raises OSError."""
    os.stat(directory)  # noqa: PTH116  # missing, it has another meaning than without the files
    return [name for key in keys if _is_there(directory, name := f"{key}.json")]


def _is_there(directory: Path, name: str) -> bool:
    if "/" in name or "\0" in name:
        return False
    try:
        os.lstat(f"{directory}/{name}")
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return False
        raise
    return True


def _rewrite(path: Path, value: Mapping[str, object]) -> bool:
    """Write an object to a file that has other content; return whether it was written. Raises OSError."""
    content = json.dumps(value, indent=2).encode()
    if not _has_content(path) or files.read(path) == content:
        return False
    files.replace(path, content)
    return True


def kept(path: Path) -> dict[str, object]:
    """Return the object in a file of the folder; an empty one if it cannot be read."""
    try:
        value = strict_json.loads(files.read(path).decode())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def is_unfinished(deployed: Path, name: str) -> bool:
    """Return whether another agent has begun the deployment of the file `NAME.json`, and given no result."""
    return not os.path.lexists(f"{deployed}/{name}.notify.json") and _has_content(
        deployed / f"{name}.json"
    )


def begun_elsewhere(
    deployed: Path, own: Collection[str], given: Collection[str] | None = None
) -> list[str]:
    """Return the ids of deployments that another agent, such as heat-agents, has begun and given no result.

    heat-agents write `ID.json` before a run and `ID.notify.json` after it. `known` are the keys in the journal, and
    `given` the keys and ids that the metadata has; None if that is not known. An empty `ID.json` does not count: people
    make one so that a deployment does not run.
    """
    try:
        names = {*os.listdir(deployed)}
    except OSError:
        return []
    marks = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return sorted(
        mark
        for mark in marks
        if not mark.endswith(".notify")
        and f"{mark}.notify.json" not in names
        and mark not in own
        and (given is None or mark in given)
        and _has_content(deployed / f"{mark}.json")
    )


def report_of(keys: Sequence[str]) -> list[str]:
    """Return a sentence about deployments that another agent has begun; none if there are no such deployments."""
    names = ", ".join(keys[:5]) + (
        f" and {len(keys) - 5} more" if len(keys) > 5 else ""
    )
    return [f"another agent began {names} and recorded no result"] if keys else []


def _has_content(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:  # it has just been removed
        return False

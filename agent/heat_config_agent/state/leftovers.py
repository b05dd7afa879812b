"""Files that belong to no deployment of the journal: half-written files, unknown runs, and what was set aside.

They are removed. The files of heat-agents in `deployed/` stay, because they say what was run: they lose their secrets.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from heat_config_agent.model.log import Log
from heat_config_agent.state import journal, retention
from heat_config_agent.state.clock import Steady
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.deployment_removal import reason
from heat_config_agent.state.disk_usage import is_temporary, listed
from heat_config_hooks import files

_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_SET_ASIDE = r"of-.+|.+\.(damaged|corrupt)-\d+"
"""The names of files and folders that were set aside in the state directory and in `documents`."""


class Leftovers:
    """Removes files from one state directory that nothing refers to, in short steps."""

    def __init__(self, state: Path, deployed: Deployed, steady: Steady, log: Log) -> None:
        """Remove nothing yet. `steady` remembers when each file was first seen; `deployed` is heat-agents' folder."""
        self._state = state
        self._deployed = deployed
        self._steady = steady
        self._log = log

    def temporary(self) -> Iterator[None]:
        """Remove the files that killed writers have left half written."""
        with contextlib.suppress(OSError):
            (self._state / f"{journal.FILE}.new").unlink()
        for folder in (self._state, self._state / "documents", self._state / "asked", self._deployed.directory):
            for name in listed(folder):
                if is_temporary(name):
                    _remove_if_dead(folder / name)
                    yield

    def private(self) -> Iterator[None]:
        """Take away the permissions of other users on heat-agents' files, which have the inputs of deployments."""
        folder = self._deployed.directory
        if not os.path.isdir(folder) or os.path.islink(folder):  # noqa: PTH112, PTH114  # neither raises
            return
        changed = 0
        for path in (f"{folder}", *(f"{folder}/{name}" for name in listed(folder))):
            with contextlib.suppress(OSError):  # another user's, for example, or it has gone
                mode = os.lstat(path).st_mode
                if not stat.S_ISLNK(mode) and mode & _OTHERS:
                    os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)  # noqa: PTH101  # there are many
                    changed += 1
            yield
        if changed:
            self._log.note(f"{folder}: other users could read it; now it is private")

    def unknown(self, known: Collection[str], age: float) -> Iterator[None]:
        """Mask the files in `deployed/` of deployments that are not `known`, once they were there for `age` seconds."""
        keys = sorted((self._deployed.keys() or frozenset()) - frozenset(known))
        for key in self._aged(age, "deployed", keys):
            try:
                masked = self._deployed.mask(key)
            except OSError as error:
                self._log.warn(f"cannot mask the secrets in {self._deployed.directory}/{key}.json: {reason(error)}")
                continue
            if masked:
                self._log.note(f"{self._deployed.directory}/{key}.json was masked after {retention.days(age)}")
            yield

    def old(self, known: Collection[str], age: float) -> Iterator[None]:
        """Remove run folders that are not `known`, and what was set aside, once it was there for `age` seconds."""
        runs = self._state / "runs"
        yield from self._after(age, "runs", runs, [name for name in listed(runs) if name not in known])
        for kind, folder in (("aside", self._state), ("documents", self._state / "documents")):
            set_aside = [name for name in listed(folder) if re.fullmatch(_SET_ASIDE, name)]
            yield from self._after(age, kind, folder, set_aside)

    def _after(self, age: float, kind: str, folder: Path, names: list[str]) -> Iterator[None]:
        """Remove those of the names in a folder that were first seen `age` seconds ago or earlier."""
        for name in self._aged(age, kind, names):
            path = folder / name
            try:
                files.remove(path)
            except OSError as error:
                self._log.warn(f"cannot remove {path}, which is no longer needed: {reason(error)}")
                continue
            self._steady.first_seen.pop(f"{kind}/{name}", None)
            self._log.note(f"{path} was removed: it had been there for {retention.days(age)}")
            yield

    def _aged(self, age: float, kind: str, names: Iterable[str]) -> list[str]:
        """Return those of the names of a kind that were first seen `age` seconds ago or earlier."""
        now, first_seen = self._steady.now(), self._steady.first_seen
        present = {f"{kind}/{name}": name for name in names}
        for name in [name for name in first_seen if name.partition("/")[0] == kind and name not in present]:
            del first_seen[name]
        return [name for seen, name in present.items() if now - first_seen.setdefault(seen, now) >= age]


def _remove_if_dead(path: Path) -> None:
    """Remove a temporary file, unless `files.replace` is writing it, which locks it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                path.unlink()
        finally:
            os.close(descriptor)

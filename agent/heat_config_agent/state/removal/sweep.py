"""A sweep of a state directory: the removal of all that is due (`state.removal.retention`), in short steps.

Files that belong to no deployment of the journal are removed: half-written files, unknown runs, and what was set aside.
The files of heat-agents in `deployed/` stay, because they say what was run: they lose their secrets.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_agent.model.log import Log
from heat_config_agent.model.run_settings import Limits
from heat_config_agent.runs import run_folder, streams
from heat_config_agent.state import journal
from heat_config_agent.state.clock import Steady
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal, read
from heat_config_agent.state.removal import retention
from heat_config_agent.state.removal.deployment_removal import DeploymentRemoval, reason
from heat_config_agent.state.removal.disk_usage import (
    Traces,
    is_temporary,
    listed,
    weigh,
)
from heat_config_agent.state.removal.retention import Part, Removal, Weight
from heat_config_hooks import files

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.runs.artifacts.cache import Cache


_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_SET_ASIDE = r"of-.+|.+\.(damaged|corrupt)-\d+"
"""The names of files and folders that were set aside in the state directory and in `documents`."""


class Leftovers:
    """Removes files from one state directory that nothing refers to, in short steps."""

    def __init__(
        self, state: Path, deployed: Deployed, steady: Steady, log: Log
    ) -> None:
        """Remove nothing yet. `steady` remembers when each file was first seen; `deployed` is heat-agents' folder."""
        self._state = state
        self._deployed = deployed
        self._steady = steady
        self._log = log

    def temporary(self) -> Iterator[None]:
        """Remove the files that killed writers have left half written."""
        with contextlib.suppress(OSError):
            (self._state / f"{journal.FILE}.new").unlink()
        for folder in (
            self._state,
            self._state / "documents",
            self._state / "asked",
            self._deployed.directory,
        ):
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
            with contextlib.suppress(OSError):
                # another user's, for example, or it has gone
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
                self._log.warn(
                    f"cannot mask the secrets in {self._deployed.directory}/{key}.json: {reason(error)}"
                )
                continue
            if masked:
                self._log.note(
                    f"{self._deployed.directory}/{key}.json was masked after {retention.days(age)}"
                )
            yield

    def old(self, known: Collection[str], age: float) -> Iterator[None]:
        """Remove run folders that are not `known`, and files that were set aside, after `age` seconds."""
        runs = self._state / "runs"
        yield from self._after(
            age, "runs", runs, [name for name in listed(runs) if name not in known]
        )
        for kind, folder in (
            ("aside", self._state),
            ("documents", self._state / "documents"),
        ):
            set_aside = [
                name for name in listed(folder) if re.fullmatch(_SET_ASIDE, name)
            ]
            yield from self._after(age, kind, folder, set_aside)

    def _after(
        self, age: float, kind: str, folder: Path, names: list[str]
    ) -> Iterator[None]:
        """Remove the named files of a folder that were first seen `age` seconds ago or earlier."""
        for name in self._aged(age, kind, names):
            path = folder / name
            try:
                files.remove(path)
            except OSError as error:
                self._log.warn(
                    f"cannot remove {path}, which is no longer needed: {reason(error)}"
                )
                continue
            self._steady.first_seen.pop(f"{kind}/{name}", None)
            self._log.note(
                f"{path} was removed: it had been there for {retention.days(age)}"
            )
            yield

    def _aged(self, age: float, kind: str, names: Iterable[str]) -> list[str]:
        """Return the names of a kind that were first seen `age` seconds ago or earlier."""
        now, first_seen = self._steady.now(), self._steady.first_seen
        present = {f"{kind}/{name}": name for name in names}
        for name in [
            name
            for name in first_seen
            if name.partition("/")[0] == kind and name not in present
        ]:
            del first_seen[name]
        return [
            name
            for seen, name in present.items()
            if now - first_seen.setdefault(seen, now) >= age
        ]


def _remove_if_dead(path: Path) -> None:
    """Remove a temporary file, unless `files.replace` is writing it, which locks it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(
            path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                path.unlink()
        finally:
            os.close(descriptor)


class Sweep:
    """Sweeps one state directory. Each method yields after a short step."""

    def __init__(
        self, journal: Journal, deployed: Deployed, state: Path, log: Log
    ) -> None:
        """Remove nothing yet."""
        self._journal = journal
        self._deployed = deployed
        self._state = state
        self._removal = DeploymentRemoval(journal, deployed, state, log)
        self._leftovers = Leftovers(state, deployed, journal.steady, log)

    @property
    def removed(self) -> list[Removal]:
        """The removals so far."""
        return self._removal.removed

    def secrets(self, entries: Collection[Entry]) -> Iterator[None]:
        """Remove the secrets of these deployments. This does not read the disk."""
        removals = [
            Removal(part=Part.SECRETS, entry=entry, reason="") for entry in entries
        ]
        yield from self._removal.carry_out(removals, Traces())

    def everything(self, limits: Limits, *, full: bool) -> Iterator[None]:
        """Remove everything that is due; `full` is True if the disk is full."""
        steady = self._journal.steady
        yield from self._leftovers.temporary()
        yield from self._leftovers.private()
        self._let_go(limits)
        traces = Traces()
        weights: dict[str, Weight] = {}
        for entry in list(self._journal.entries.values()):
            self._shorten(entry, limits)
            weights[entry.key] = weigh(self._state, self._deployed, entry, traces)
            yield
        due = retention.due(
            self._journal.entries, weights, limits, steady.now(), full=full
        )
        if artifacts := _artifacts(self._state):
            kept = 0 if full else max(limits.size - _total(weights.values())[0], 0)
            artifacts.trim(kept, time.time() - limits.age)
            yield
        yield from self._removal.carry_out(due, traces)
        yield from self._leftovers.old(self._journal.entries, limits.age)
        yield from self._leftovers.unknown(self._journal.entries, limits.age)
        for removal in due:
            if removal.part in (Part.OUTPUT, Part.DEPLOYMENT):
                # more output may have come since it was weighed
                weights.pop(removal.entry.key, None)
        steady.bytes, steady.files = _total(weights.values())
        steady.pruned, steady.grown = steady.now(), 0
        with contextlib.suppress(OSError):
            # a full disk, for example: the next sweep comes sooner than necessary
            steady.save()

    def _shorten(self, entry: Entry, limits: Limits) -> None:
        """Shorten the output of a run. Processes that it has left may still print."""
        for name in run_folder.STREAMS:
            with contextlib.suppress(OSError):  # there was a warning while it ran
                streams.bound(f"{self._state}/runs/{entry.key}/{name}", limits.output)

    def _let_go(self, limits: Limits) -> None:
        """Record that deployments are gone if their source has not answered for as long as anything is kept."""
        steady, entries = self._journal.steady, self._journal.entries.values()
        sources = {entry.source for entry in entries if entry.left_at is None}
        steady.last_answers = {
            name: steady.last_answers.get(name, steady.now()) for name in sources
        }
        silent = {
            name
            for name, moment in steady.last_answers.items()
            if steady.now() - moment >= limits.age
        }
        gone = [
            entry.key
            for entry in entries
            if entry.source in silent and entry.left_at is None and entry.settled
        ]
        with contextlib.suppress(StateError):
            # a full disk, for example: the next sweep tries again
            self._journal.left(gone, ())


def planned(
    state: Path, deployed: Deployed, limits: Limits, *, full: bool
) -> tuple[list[Removal], int, int]:
    """Return the removals that are due now, and the bytes and files that are kept. Nothing is changed.

    `full` is True if the disk is full. Raises StateError.
    """
    entries = read(state)
    steady = Steady(state)
    steady.at_least(max((entry.settled_at for entry in entries.values()), default=0.0))
    traces = Traces()
    weights = {
        key: weigh(state, deployed, entry, traces) for key, entry in entries.items()
    }
    removals = retention.due(entries, weights, limits, steady.now(), full=full)
    size, number = _total(weights.values())
    artifacts = _artifacts(state)
    fetched, of_them = artifacts.total if artifacts else (0, 0)
    return removals, size + fetched, number + of_them


def _artifacts(state: Path) -> Cache | None:
    """Return the artifacts that are kept for later runs; None if there are none."""
    if not os.path.isdir(f"{state}/artifacts"):  # noqa: PTH112  # never raises
        return None
    from heat_config_agent.runs.artifacts.cache import Cache  # noqa: PLC0415  # few machines have any

    return Cache(state / "artifacts")


def _total(weights: Collection[Weight]) -> tuple[int, int]:
    """Return the sums of the bytes and of the files."""
    size = sum(weight.output + weight.other for weight in weights)
    return size, sum(weight.output_files + weight.other_files for weight in weights)

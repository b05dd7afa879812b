"""Pruning: when to look for files that are due to be removed (`state.retention`), in slices that hold nothing up.

The process may be killed at any moment: the next look repeats each step, or finds nothing left to do.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_agent.model.log import Log
from heat_config_agent.model.run_settings import Limits
from heat_config_agent.runs import run_folder, streams
from heat_config_agent.state import retention
from heat_config_agent.state.clock import Steady
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.deployment_removal import DeploymentRemoval, reason
from heat_config_agent.state.disk_usage import Traces, weigh
from heat_config_agent.state.journal import Journal, read
from heat_config_agent.state.leftovers import Leftovers
from heat_config_agent.state.retention import Part, Removal, Weight

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.runs.artifacts.cache import Cache

HOUR = 3600.0
"""Seconds between two looks at everything."""

SLICE = 0.05
"""Seconds of pruning at a time while other work may be waiting."""

LAST_SLICE = 5.0
"""Seconds of pruning when all other work is done."""

SCARCE = 64 * 1024
"""A disk with fewer free bytes counts as full."""

SCARCE_FILES = 16
"""A disk with room for fewer files counts as full."""

AGAIN = 600.0
"""Seconds between two looks at everything while the disk is full."""

_MUCH = 1024 * 1024
"""Bytes of new output after which the clock's file is written."""


class Pruning:
    """Decides when to prune one state directory, whose lock the caller holds, and does it in slices."""

    def __init__(self, journal: Journal, deployed: Deployed, state: Path, limits: Limits, log: Log) -> None:
        """Look at nothing yet."""
        self._journal = journal
        self._deployed = deployed
        self._log = log
        self._steps: Iterator[None] | None = None
        self._full_at: float | None = None
        self._shown: tuple[object, float] = None, 0.0
        """For which records and limits no secrets were due at the last look, and the time until which none are."""
        self._warnings: set[str] = set()
        self._state = state
        self._removal = DeploymentRemoval(journal, deployed, state, log, self._warn)
        self._leftovers = Leftovers(state, deployed, journal.steady, log, self._warn)
        self._requested = self._everything = False
        self.limits = limits

    @property
    def removed(self) -> list[Removal]:
        """The removals since the last look began."""
        return self._removal.removed

    @property
    def busy(self) -> bool:
        """True if a look has begun and is not complete."""
        return self._steps is not None

    @property
    def idle_for(self) -> float:
        """Seconds until something is due to be removed; negative if something is."""
        steady = self._journal.steady
        return min(self._next_hideable(), -math.inf if steady.pruned is None else steady.pruned + HOUR) - steady.now()

    def offered(self, sources: Collection[str]) -> None:
        """Note which sources have answered: it is not known which deployments the others have."""
        now = self._journal.steady.now()
        self._journal.steady.last_answers.update(dict.fromkeys(sources, now))

    def has_grown(self, size: int) -> None:
        """Note how many bytes of output runs have left."""
        self._journal.steady.grown += size

    def request(self, *, everything: bool = False) -> None:
        """Ask for a look, which `begin_requested` begins; with `everything`, a look at everything even if none is due.

        A request during a look is kept until that is complete.
        """
        self._requested = True
        self._everything = self._everything or everything

    def begin_requested(self) -> None:
        """Begin the look that was requested, if any was."""
        if self._requested and self._steps is None:
            everything, self._requested, self._everything = self._everything, False, False
            self.consider(now=everything)

    def consider(self, *, now: bool = False) -> None:
        """Begin a look, if one is due. With `now`, begin to look at everything in any case."""
        steady = self._journal.steady
        if self._steps is not None:
            return
        full = self._is_full()
        everything = (
            now
            or steady.pruned is None
            or steady.now() - steady.pruned >= HOUR
            or steady.grown > self.limits.size // 2
            or full
        )
        self._removal.removed = []
        if everything:
            self._steps = self._all(full=full)
        elif hideable := self._hideable():
            self._steps = self._removal.carry_out(hideable, Traces())
        elif steady.grown > _MUCH:
            self._save()

    def work(self, seconds: float) -> None:
        """Go on with the look for that many seconds."""
        deadline = time.monotonic() + seconds
        while self._steps is not None:
            try:
                next(self._steps)
            except StopIteration:
                self._steps = None
                return
            except (OSError, StateError, MemoryError) as error:
                why = reason(error) if isinstance(error, OSError) else str(error) or "there is no memory left"
                self._warn(f"cannot remove files that are due: {why}")
                self._steps = None
                return
            if time.monotonic() >= deadline:
                return

    def _is_full(self) -> bool:
        """Return whether the disk is full; True only once every `AGAIN` seconds, as another look would free little."""
        if not is_full(self._state):
            self._full_at = None
            return False
        now = time.monotonic()
        if self._full_at is not None and now - self._full_at < AGAIN:
            return False
        self._full_at = now
        return True

    def _hideable(self) -> list[Removal]:
        """Return the removals of secrets that are due. That needs no look at the disk."""
        now, known = self._journal.steady.now(), (self._journal.records, self.limits)
        if self._shown[0] == known and now < self._shown[1]:
            return []
        removals = [
            Removal(part=Part.SECRETS, entry=entry, reason="")
            for entry in self._journal.entries.values()
            if retention.secrets_due(entry, self.limits, now)
        ]
        if not removals:
            self._shown = known, self._next_hideable()
        return removals

    def _next_hideable(self) -> float:
        """Return when the next secrets are due to be removed, by the steady clock, if nothing else happens."""
        moments = [
            entry.settled_at + self.limits.secrets
            for entry in self._journal.entries.values()
            if retention.secrets_due(entry, self.limits, math.inf)
        ]
        return min(moments, default=math.inf)

    # One look at everything.

    def _all(self, *, full: bool) -> Iterator[None]:
        steady = self._journal.steady
        yield from self._leftovers.temporary()
        yield from self._leftovers.private()
        self._let_go()
        traces = Traces()
        weights: dict[str, Weight] = {}
        for entry in list(self._journal.entries.values()):
            self._shorten(entry)
            weights[entry.key] = weigh(self._state, self._deployed, entry, traces)
            yield
        due = retention.due(self._journal.entries, weights, self.limits, steady.now(), full=full)
        if artifacts := _artifacts(self._state):
            kept = 0 if full else max(self.limits.size - _total(weights.values())[0], 0)
            artifacts.trim(kept, time.time() - self.limits.age)
            yield
        yield from self._removal.carry_out(due, traces)
        yield from self._leftovers.old(self._journal.entries, self.limits.age)
        yield from self._leftovers.unknown(self._journal.entries, self.limits.age)
        for removal in due:
            if removal.part in (Part.OUTPUT, Part.DEPLOYMENT):
                weights.pop(removal.entry.key, None)  # more output may have come since it was weighed
        steady.bytes, steady.files = _total(weights.values())
        steady.pruned, steady.grown = steady.now(), 0
        self._save()

    def _shorten(self, entry: Entry) -> None:
        """Shorten the output of a run. Processes that it has left may go on printing."""
        for name in run_folder.STREAMS:
            with contextlib.suppress(OSError):  # there was a warning while it ran
                streams.bound(f"{self._state}/runs/{entry.key}/{name}", self.limits.output)

    def _let_go(self) -> None:
        """Record that deployments are gone if their source has not answered for as long as anything is kept."""
        steady, entries = self._journal.steady, self._journal.entries.values()
        sources = {entry.source for entry in entries if entry.left_at is None}
        steady.last_answers = {name: steady.last_answers.get(name, steady.now()) for name in sources}
        silent = {name for name, moment in steady.last_answers.items() if steady.now() - moment >= self.limits.age}
        gone = [entry.key for entry in entries if entry.source in silent and entry.left_at is None and entry.settled]
        with contextlib.suppress(StateError):  # a full disk, for example: the next look tries again
            self._journal.left(gone, ())

    def _save(self) -> None:
        with contextlib.suppress(OSError):  # a full disk, for example: the next look comes sooner than it has to
            self._journal.steady.save()

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.add(text)
            self._log.warn(text)


def is_full(state: Path) -> bool:
    """Return whether the disk with the state directory is full."""
    try:
        status = os.statvfs(state)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < SCARCE or (status.f_files > 0 and status.f_favail < SCARCE_FILES)


def planned(state: Path, deployed: Deployed, limits: Limits) -> tuple[list[Removal], int, int]:
    """Return what would be removed now, and how many bytes and files are kept. Nothing is changed.

    Raises StateError.
    """
    entries = read(state)
    steady = Steady(state)
    steady.at_least(max((entry.settled_at for entry in entries.values()), default=0.0))
    traces = Traces()
    weights = {key: weigh(state, deployed, entry, traces) for key, entry in entries.items()}
    removals = retention.due(entries, weights, limits, steady.now(), full=is_full(state))
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

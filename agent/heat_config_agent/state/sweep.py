"""A sweep of a state directory: the removal of all that is due (`state.retention`), in short steps."""

from __future__ import annotations

import contextlib
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
from heat_config_agent.state.deployment_removal import DeploymentRemoval
from heat_config_agent.state.disk_usage import Traces, weigh
from heat_config_agent.state.journal import Journal, read
from heat_config_agent.state.leftovers import Leftovers
from heat_config_agent.state.retention import Part, Removal, Weight

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.runs.artifacts.cache import Cache


class Sweep:
    """Sweeps one state directory. Each method yields after a short step."""

    def __init__(self, journal: Journal, deployed: Deployed, state: Path, log: Log) -> None:
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
        removals = [Removal(part=Part.SECRETS, entry=entry, reason="") for entry in entries]
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
        due = retention.due(self._journal.entries, weights, limits, steady.now(), full=full)
        if artifacts := _artifacts(self._state):
            kept = 0 if full else max(limits.size - _total(weights.values())[0], 0)
            artifacts.trim(kept, time.time() - limits.age)
            yield
        yield from self._removal.carry_out(due, traces)
        yield from self._leftovers.old(self._journal.entries, limits.age)
        yield from self._leftovers.unknown(self._journal.entries, limits.age)
        for removal in due:
            if removal.part in (Part.OUTPUT, Part.DEPLOYMENT):
                weights.pop(removal.entry.key, None)  # more output may have come since it was weighed
        steady.bytes, steady.files = _total(weights.values())
        steady.pruned, steady.grown = steady.now(), 0
        with contextlib.suppress(OSError):  # a full disk, for example: the next sweep comes sooner than necessary
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
        steady.last_answers = {name: steady.last_answers.get(name, steady.now()) for name in sources}
        silent = {name for name, moment in steady.last_answers.items() if steady.now() - moment >= limits.age}
        gone = [entry.key for entry in entries if entry.source in silent and entry.left_at is None and entry.settled]
        with contextlib.suppress(StateError):  # a full disk, for example: the next sweep tries again
            self._journal.left(gone, ())


def planned(state: Path, deployed: Deployed, limits: Limits, *, full: bool) -> tuple[list[Removal], int, int]:
    """Return what would be removed now, and how many bytes and files are kept. Nothing is changed.

    `full` is True if the disk is full. Raises StateError.
    """
    entries = read(state)
    steady = Steady(state)
    steady.at_least(max((entry.settled_at for entry in entries.values()), default=0.0))
    traces = Traces()
    weights = {key: weigh(state, deployed, entry, traces) for key, entry in entries.items()}
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

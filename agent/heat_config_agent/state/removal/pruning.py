"""Pruning: when to sweep the state directory (`state.removal.sweep`), in slices that delay no other work.

The process may be killed at any moment: the next sweep repeats each step, or finds nothing left to do.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_agent.model.log import Log, Once
from heat_config_agent.model.run_settings import Limits
from heat_config_agent.state import instance, lock
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import FILE, Journal

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.state.removal.retention import Removal
    from heat_config_agent.state.removal.sweep import Sweep

HOUR = 3600.0
"""Seconds between two sweeps of everything."""

SLICE = 0.05
"""Seconds of pruning at a time while other work may be waiting."""

LAST_SLICE = 5.0
"""Seconds of pruning when all other work is done."""

SCARCE = 64 * 1024
"""A disk with fewer free bytes counts as full."""

SCARCE_FILES = 16
"""A disk with room for fewer files counts as full."""

AGAIN = 600.0
"""Seconds between two sweeps of everything while the disk is full."""

_NEVER = float("inf")

_FIRST = frozenset({lock.FILE, instance.FILE, FILE})
"""The files that are in a state directory before the first deployment."""

_MUCH = 1024 * 1024
"""Bytes of new output after which the clock's file is written."""


class Pruning:
    """Decides when to prune one state directory, whose lock the caller holds, and does it in slices."""

    def __init__(
        self,
        journal: Journal,
        deployed: Deployed,
        state: Path,
        limits: Limits,
        log: Log,
    ) -> None:
        """Remove nothing yet. A warning that repeats is reported once."""
        self._journal = journal
        self._deployed = deployed
        self._log = Once(log)
        self._steps: Iterator[None] | None = None
        self._full_at: float | None = None
        self._shown: tuple[object, float] = None, 0.0
        """For which records and limits no secrets were due at the last sweep, and the time until which none are."""
        self._state = state
        self._sweep: Sweep | None = None
        self._requested = self._everything = False
        self._unsaved = False
        """True if the clock's file does not say yet that there was nothing to remove."""
        self.limits = limits
        if (
            journal.steady.pruned is None
            and not journal.entries
            and self._is_untouched()
        ):
            journal.steady.pruned, self._unsaved = journal.steady.now(), True

    @property
    def removed(self) -> list[Removal]:
        """The removals since the last sweep began."""
        return self._sweep.removed if self._sweep else []

    @property
    def busy(self) -> bool:
        """True if a sweep has begun and is not complete."""
        return self._steps is not None

    @property
    def idle_for(self) -> float:
        """Seconds until something is due to be removed; negative if something is."""
        steady = self._journal.steady
        return (
            min(
                self._next_hideable(),
                -_NEVER if steady.pruned is None else steady.pruned + HOUR,
            )
            - steady.now()
        )

    def offered(self, sources: Collection[str]) -> None:
        """Note which sources have answered: it is not known which deployments the others have."""
        now = self._journal.steady.now()
        self._journal.steady.last_answers.update(dict.fromkeys(sources, now))

    def has_grown(self, size: int) -> None:
        """Note how many bytes of output runs have left."""
        self._journal.steady.grown += size

    def request(self, *, everything: bool = False) -> None:
        """Request a sweep, which `begin_requested` begins; with `everything`, one of everything even if none is due.

        A request during a sweep is kept until that is complete.
        """
        self._requested = True
        self._everything = self._everything or everything

    def begin_requested(self) -> None:
        """Begin the sweep that was requested, if any was."""
        if self._requested and self._steps is None:
            everything, self._requested, self._everything = (
                self._everything,
                False,
                False,
            )
            self.consider(now=everything)

    def consider(self, *, now: bool = False) -> None:
        """Begin a sweep, if one is due. With `now`, begin to sweep everything in any case."""
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
        self._sweep = None
        if everything:
            self._steps = self._begin().everything(self.limits, full=full)
        elif hideable := self._hideable():
            self._steps = self._begin().secrets(hideable)
        elif steady.grown > _MUCH or self._unsaved:
            self._unsaved = False
            self._save()

    def _begin(self) -> Sweep:
        from heat_config_agent.state.removal.sweep import Sweep  # noqa: PLC0415  # there is one in an hour, if nothing falls due

        self._sweep = Sweep(self._journal, self._deployed, self._state, self._log)
        return self._sweep

    def work(self, seconds: float) -> None:
        """Continue the sweep for that many seconds."""
        deadline = time.monotonic() + seconds
        while self._steps is not None:
            try:
                next(self._steps)
            except StopIteration:
                self._steps = None
                return
            except (OSError, StateError, MemoryError) as error:
                from heat_config_agent.state.removal.deployment_removal import reason  # noqa: PLC0415  # a sweep has loaded it

                why = (
                    reason(error)
                    if isinstance(error, OSError)
                    else str(error) or "there is no memory left"
                )
                self._log.warn(f"cannot remove files that are due: {why}")
                self._steps = None
                return
            if time.monotonic() >= deadline:
                return

    def _is_full(self) -> bool:
        """Return whether the disk is full; True only once every `AGAIN` seconds, as another sweep would free little."""
        if not is_full(self._state):
            self._full_at = None
            return False
        now = time.monotonic()
        if self._full_at is not None and now - self._full_at < AGAIN:
            return False
        self._full_at = now
        return True

    def _is_untouched(self) -> bool:
        """Return whether no agent has worked on the state directory yet, and heat-agents have left no files."""
        try:
            return (
                _FIRST.issuperset(os.listdir(self._state))
                and self._deployed.keys() is None
            )
        except (OSError, StateError):
            return False

    def _hideable(self) -> list[Entry]:
        """Return the deployments whose secrets are due to be removed. This does not read the disk."""
        now, known = self._journal.steady.now(), (self._journal.records, self.limits)
        if self._shown[0] == known and now < self._shown[1]:
            return []
        entries = [
            entry
            for entry in self._journal.entries.values()
            if entry.are_secrets_due(self.limits.secrets, now)
        ]
        if not entries:
            self._shown = known, self._next_hideable()
        return entries

    def _next_hideable(self) -> float:
        """Return when the next secrets are due to be removed, by the steady clock, if nothing else happens."""
        moments = [
            entry.settled_at + self.limits.secrets
            for entry in self._journal.entries.values()
            if entry.are_secrets_due(self.limits.secrets, _NEVER)
        ]
        return min(moments, default=_NEVER)

    def _save(self) -> None:
        with contextlib.suppress(OSError):
            # a full disk, for example: the next sweep comes sooner than necessary
            self._journal.steady.save()


def is_full(state: Path) -> bool:
    """Return whether the disk with the state directory is full."""
    try:
        status = os.statvfs(state)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < SCARCE or (
        status.f_files > 0 and status.f_favail < SCARCE_FILES
    )

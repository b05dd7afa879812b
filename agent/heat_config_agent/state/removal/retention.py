"""Which files of deployments are due to be removed, and why. Pure: `prune --plan` shows it too.

Nothing is removed of a deployment whose result still has to be delivered. Of the others, first the secrets are removed.
Then, if they have left the metadata, everything but the fact that they ran; else the output of their tools.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from heat_config_agent.deployments import cleanup
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.model.run_settings import Limits
from heat_config_hooks.values import dataclass

TOMBSTONES = 10_000
"""The number of deployments that are known only to have run. If there are more, the oldest are forgotten."""

FULL = "the disk is full, and it has left the metadata"


class Part(str, enum.Enum):
    """The part of a deployment that is due for removal."""

    SECRETS = "secrets"
    """Inputs, config, the files that its tool was given, and secrets in its output."""
    OUTPUT = "output"
    """The output of its tool, and the files that the tool has written."""
    DEPLOYMENT = "deployment"
    """Everything but the fact that it ran."""
    ID = "id"
    """Everything: the deployment is forgotten."""


@dataclass(frozen=True, kw_only=True)
class Weight:
    """The disk space that a deployment takes."""

    output: int = 0
    """Bytes of the output of its tool, and of the files that the tool has written."""
    other: int = 0
    """Bytes of everything else, in the journal and in `deployed/`."""
    output_files: int = 0
    other_files: int = 0


@dataclass(frozen=True, kw_only=True)
class Removal:
    """One removal, and why it is due."""

    part: Part
    entry: Entry
    reason: str


class _Removals:
    """Removals that are due, and the disk space of all deployments after them."""

    def __init__(self, weights: Mapping[str, Weight]) -> None:
        self.by_key: dict[str, Removal] = {}
        self._weights = weights
        self.size = sum(weight.output + weight.other for weight in weights.values())
        self.files = sum(
            weight.output_files + weight.other_files for weight in weights.values()
        )

    def add(self, entry: Entry, part: Part, reason: str) -> None:
        """Add the removal of the output or of all of a deployment, unless there is no more to be removed by it."""
        before, weight = self.by_key.get(entry.key), self._weights[entry.key]
        if part is Part.OUTPUT and (before or not weight.output_files):
            return
        if before and before.part is Part.DEPLOYMENT:
            return
        if not before:
            self.size -= weight.output
            self.files -= weight.output_files
        if part is Part.DEPLOYMENT:
            self.size -= weight.other
            self.files -= weight.other_files
        self.by_key[entry.key] = Removal(part=part, entry=entry, reason=reason)

    def excess(self, limits: Limits) -> str:
        """Return why more has to be removed; empty if all deployments together are within the limits."""
        if self.size > limits.size:
            return f"all deployments together take more than {bytes_of(limits.size)}"
        if self.files > limits.files:
            return f"all deployments together have more than {limits.files} files"
        return ""


def due(
    entries: Mapping[str, Entry],
    weights: Mapping[str, Weight],
    limits: Limits,
    now: float,
    *,
    full: bool = False,
) -> list[Removal]:
    """Return the removals that are due, oldest first. `now` is by `state.clock`; `full` is True if the disk is full."""
    removals = _Removals({key: weights.get(key, Weight()) for key in entries})
    settled = [
        entry
        for entry in _by_age(entries.values())
        if entry.removed is not Removed.ALL and entry.over
    ]
    departed = [
        entry
        for entry in settled
        if entry.left_at is not None and not cleanup.is_pending(entry, entries)
    ]
    keys = {entry.key for entry in departed}
    present = [entry for entry in settled if entry.key not in keys]
    # 1. Deployments that are too old: all of those that have left, and the output of the others.
    for entry in settled:
        if now - _since(entry) >= limits.age:
            part = Part.DEPLOYMENT if entry.key in keys else Part.OUTPUT
            removals.add(entry, part, f"it is older than {days(limits.age)}")
    # 2. The oldest of those that have left, if there are too many.
    rest = [entry for entry in departed if entry.key not in removals.by_key]
    for entry in rest[: max(len(rest) - limits.count, 0)]:
        removals.add(
            entry, Part.DEPLOYMENT, f"{limits.count} newer ones have left the metadata"
        )
    # 3. On a full disk, the output of all that have left.
    for entry in departed if full else ():
        removals.add(entry, Part.OUTPUT, FULL)
    # 4. The oldest, as long as all together take too much: first those that have left, then the output of the others.
    for group, part in ((departed, Part.DEPLOYMENT), (present, Part.OUTPUT)):
        for entry in group:
            if reason := removals.excess(limits):
                removals.add(entry, part, reason)
    # 5. The secrets of deployments of which not everything is removed.
    secrets = [
        Removal(
            part=Part.SECRETS,
            entry=entry,
            reason=f"its result was delivered, or given up, {ago(now, entry)}",
        )
        for entry in settled
        if entry.are_secrets_due(limits.secrets, now)
        and (
            entry.key not in removals.by_key
            or removals.by_key[entry.key].part is Part.OUTPUT
        )
    ]
    # 6. Deployments that are known only to have run, if there are too many.
    return [*secrets, *removals.by_key.values(), *_forgotten(entries.values())]


def _forgotten(entries: Iterable[Entry]) -> list[Removal]:
    """Return the removals of entries that are to be forgotten, none of which may still be in the metadata."""
    stones = [
        entry
        for entry in _by_age(entries)
        if entry.removed is Removed.ALL and entry.left_at is not None
    ]
    reason = f"{TOMBSTONES} newer ones have left the metadata"
    return [
        Removal(part=Part.ID, entry=entry, reason=reason)
        for entry in stones[: max(len(stones) - TOMBSTONES, 0)]
    ]


def _since(entry: Entry) -> float:
    """Return when a deployment was last needed: when it settled or left the metadata."""
    return max(entry.settled_at, entry.left_at or 0.0)


def _by_age(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (_since(entry), entry.accepted))


def excess(size: int, files: int, limits: Limits) -> str:
    """Return a sentence that says how much is kept if that is more than the settings allow; else nothing."""
    if size <= limits.size and files <= limits.files:
        return ""
    return f"the files of deployments take {bytes_of(size)} in {files} files: more than keep_size or keep_files allows"


def ago(now: float, entry: Entry) -> str:
    """Return how long ago a deployment was settled, as text."""
    return f"{days(max(now - entry.settled_at, 0.0))} ago"


def days(seconds: float) -> str:
    """Return a duration as text, such as «3 days»."""
    for unit, length in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        number = seconds / length
        if number >= 1:
            text = f"{number:.1f}".removesuffix(".0")
            return f"{text} {unit}{'' if text == '1' else 's'}"
    return f"{seconds:.0f} seconds"


def bytes_of(number: float) -> str:
    """Return a size as text, such as «4 MiB»."""
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"

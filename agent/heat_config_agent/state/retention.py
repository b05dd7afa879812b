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


def due(
    entries: Mapping[str, Entry], weights: Mapping[str, Weight], limits: Limits, now: float, *, full: bool = False
) -> list[Removal]:
    """Return what is due for removal, oldest first. `now` is by `state.clock`; `full` is True if the disk is full."""
    removals: dict[str, Removal] = {}
    weight = {key: weights.get(key, Weight()) for key in entries}
    settled = [entry for entry in _by_age(entries.values()) if entry.removed is not Removed.ALL and entry.over]
    departed = [entry for entry in settled if entry.left_at is not None and not cleanup.is_pending(entry, entries)]
    size = sum(entry_weight.output + entry_weight.other for entry_weight in weight.values())
    number = sum(entry_weight.output_files + entry_weight.other_files for entry_weight in weight.values())

    def remove(entry: Entry, part: Part, reason: str) -> None:
        nonlocal size, number
        own = weight[entry.key]
        size -= own.output
        number -= own.output_files
        if part is Part.DEPLOYMENT:
            size -= own.other
            number -= own.other_files
        removals[entry.key] = Removal(part=part, entry=entry, reason=reason)

    departed_keys = {entry.key for entry in departed}
    for entry in settled:
        if now - _since(entry) >= limits.age and (entry.key in departed_keys or weight[entry.key].output_files):
            remove(
                entry,
                Part.DEPLOYMENT if entry.key in departed_keys else Part.OUTPUT,
                f"it is older than {days(limits.age)}",
            )
    rest = [entry for entry in departed if entry.key not in removals]
    for entry in rest[: max(len(rest) - limits.count, 0)]:
        remove(entry, Part.DEPLOYMENT, f"{limits.count} newer ones have left the metadata")
    if full:
        for entry in [entry for entry in departed if entry.key not in removals and weight[entry.key].output_files]:
            remove(entry, Part.OUTPUT, FULL)
    for entry in [*departed, *(entry for entry in settled if entry.key not in departed_keys)]:
        reason = (
            f"all deployments together take more than {bytes_of(limits.size)}"
            if size > limits.size
            else f"all deployments together have more than {limits.files} files"
            if number > limits.files
            else ""
        )
        whole = entry.key in departed_keys
        removal = removals.get(entry.key)
        if (
            reason
            and (not removal or (whole and removal.part is Part.OUTPUT))
            and (whole or weight[entry.key].output_files)
        ):
            if removal:  # its output has been counted
                weight[entry.key] = Weight(other=weight[entry.key].other, other_files=weight[entry.key].other_files)
            remove(entry, Part.DEPLOYMENT if whole else Part.OUTPUT, reason)
    secrets = [
        Removal(part=Part.SECRETS, entry=entry, reason=f"its result was delivered, or given up, {ago(now, entry)}")
        for entry in settled
        if entry.are_secrets_due(limits.secrets, now)
        and (entry.key not in removals or removals[entry.key].part is Part.OUTPUT)
    ]
    return [*secrets, *removals.values(), *_forgotten(entries.values())]


def _forgotten(entries: Iterable[Entry]) -> list[Removal]:
    """Return the removals of entries that are to be forgotten, none of which may still be in the metadata."""
    stones = [entry for entry in _by_age(entries) if entry.removed is Removed.ALL and entry.left_at is not None]
    reason = f"{TOMBSTONES} newer ones have left the metadata"
    return [Removal(part=Part.ID, entry=entry, reason=reason) for entry in stones[: max(len(stones) - TOMBSTONES, 0)]]


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

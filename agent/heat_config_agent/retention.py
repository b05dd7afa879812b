"""What is kept no longer, and why. Pure: it is what `prune --plan` shows, too.

Nothing goes of a deployment whose result is still to be delivered. Of the others, first the secrets go; then, of those
that have left the metadata, all but that they ran, and of those that are in it, what their tools have printed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from heat_config_agent import clean_up
from heat_config_agent.model import UNDELIVERED, Entry, Removed, State
from heat_config_hooks.values import dataclass

TOMBSTONES = 10_000
"""Deployments at most of which all is removed but that they ran; of more, the oldest are not known any more."""

FULL = "the disk is full, and it has left the metadata"


class What(str, enum.Enum):
    """What is to be removed of a deployment."""

    SECRETS = "secrets"
    """Inputs, config, what its tool was given of them, and secrets in what it has printed."""
    OUTPUT = "output"
    """What its tool has printed and written."""
    DEPLOYMENT = "deployment"
    """All but that it ran."""
    ID = "id"
    """All: it is not known any more."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long, and how much, is kept: the settings `keep_…`."""

    secrets: float
    """This and the next in seconds."""
    age: float
    count: int
    size: int
    """In bytes."""
    files: int
    output: int = 0
    """Bytes of each stream of a run; 0 for any."""


@dataclass(frozen=True, kw_only=True)
class Weight:
    """What is on disk of a deployment."""

    output: int = 0
    """Bytes of what its tool has printed and written."""
    other: int = 0
    """Bytes of all else, in the journal and in `deployed/`."""
    output_files: int = 0
    other_files: int = 0


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Something that is to be removed, and why."""

    what: What
    entry: Entry
    reason: str


def due(
    entries: Mapping[str, Entry], weights: Mapping[str, Weight], limits: Limits, now: float, *, full: bool = False
) -> list[Removal]:
    """Return what is to be removed, the oldest first. `now` is told by `steady`, `full` is whether the disk is."""
    found: dict[str, Removal] = {}
    weight = {key: weights.get(key, Weight()) for key in entries}
    kept = [each for each in _by_age(entries.values()) if each.removed is not Removed.ALL and is_over(each)]
    left = [each for each in kept if each.left_at is not None and not clean_up.is_pending(each, entries)]
    size = sum(each.output + each.other for each in weight.values())
    number = sum(each.output_files + each.other_files for each in weight.values())

    def remove(entry: Entry, what: What, reason: str) -> None:
        nonlocal size, number
        its = weight[entry.key]
        size -= its.output
        number -= its.output_files
        if what is What.DEPLOYMENT:
            size -= its.other
            number -= its.other_files
        found[entry.key] = Removal(what=what, entry=entry, reason=reason)

    gone = {each.key for each in left}
    for each in kept:
        if now - _since(each) >= limits.age and (each.key in gone or weight[each.key].output_files):
            remove(each, What.DEPLOYMENT if each.key in gone else What.OUTPUT, f"it is older than {days(limits.age)}")
    rest = [each for each in left if each.key not in found]
    for each in rest[: max(len(rest) - limits.count, 0)]:
        remove(each, What.DEPLOYMENT, f"{limits.count} newer ones have left the metadata")
    if full:
        for each in [each for each in left if each.key not in found and weight[each.key].output_files]:
            remove(each, What.OUTPUT, FULL)
    for each in [*left, *(each for each in kept if each.key not in gone)]:
        reason = (
            f"there is more than {bytes_of(limits.size)} of all"
            if size > limits.size
            else f"there are more than {limits.files} files of all"
            if number > limits.files
            else ""
        )
        whole = each.key in gone
        done = found.get(each.key)
        if reason and (not done or (whole and done.what is What.OUTPUT)) and (whole or weight[each.key].output_files):
            if done:  # its output has been counted
                weight[each.key] = Weight(other=weight[each.key].other, other_files=weight[each.key].other_files)
            remove(each, What.DEPLOYMENT if whole else What.OUTPUT, reason)
    secrets = [
        Removal(what=What.SECRETS, entry=each, reason=f"its result was delivered, or given up, {ago(now, each)}")
        for each in kept
        if secrets_due(each, limits, now) and (each.key not in found or found[each.key].what is What.OUTPUT)
    ]
    return [*secrets, *found.values(), *_forgotten(entries.values())]


def secrets_due(entry: Entry, limits: Limits, now: float) -> bool:
    """Whether the secrets of a deployment are kept no longer."""
    late = entry.removed is Removed.SECRETS and entry.values is not None and entry.state not in UNDELIVERED
    there = entry.removed is Removed.NOTHING or late  # a result stays until it has been delivered after all
    return there and is_over(entry) and now - entry.settled_at >= limits.secrets


def is_over(entry: Entry) -> bool:
    """Whether nothing more is going to happen about a deployment, as far as is known."""
    damaged = entry.state is State.DAMAGED and entry.left_at is not None
    return (entry.settled or damaged) and not entry.again


def _forgotten(entries: Iterable[Entry]) -> list[Removal]:
    """Return those that are not to be known any more: never of what may still be in the metadata."""
    stones = [each for each in _by_age(entries) if each.removed is Removed.ALL and each.left_at is not None]
    reason = f"{TOMBSTONES} newer ones have left the metadata"
    return [Removal(what=What.ID, entry=each, reason=reason) for each in stones[: max(len(stones) - TOMBSTONES, 0)]]


def _since(entry: Entry) -> float:
    """Return from when on a deployment has been of no use to anybody."""
    return max(entry.settled_at, entry.left_at or 0.0)


def _by_age(entries: Iterable[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda each: (_since(each), each.accepted))


def excess(size: int, files: int, limits: Limits) -> str:
    """Say how much is kept, where that is more than it should be: what may not go, say; else nothing."""
    if size <= limits.size and files <= limits.files:
        return ""
    return f"what is kept takes {bytes_of(size)} in {files} files, which is more than keep_size or keep_files says"


def ago(now: float, entry: Entry) -> str:
    """Say when a deployment was settled."""
    return f"{days(max(now - entry.settled_at, 0.0))} ago"


def days(seconds: float) -> str:
    """Return a long time as people read it."""
    for unit, length in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        number = seconds / length
        if number >= 1:
            text = f"{number:.1f}".removesuffix(".0")
            return f"{text} {unit}{'' if text == '1' else 's'}"
    return f"{seconds:.0f} seconds"


def bytes_of(number: float) -> str:
    """Return a size as people read it."""
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"

"""Rolling updates: the batches in which the members of a group are created, updated and removed, as in Heat.

While members are updated, a minimum of others stays in service. If the group has too few, it gets more members for that
time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition, ResourceDefinition

_PAUSE = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?")


def pause_seconds(text: str) -> int:
    """Return the seconds of a time like PT1H30M. Raises ValueError."""
    found = _PAUSE.fullmatch(text)
    if found is None:
        raise ValueError(
            "Only ISO 8601 duration format of the form PT#H#M#S is supported."
        )
    hours, minutes, seconds = (int(each or 0) for each in found.groups())
    return hours * 3600 + minutes * 60 + seconds


class Policy(NamedTuple):
    """The rules of a rolling update."""

    size: int
    """Members per batch."""
    pause: float = 0.0
    """Seconds between two batches."""
    in_service: int = 0
    """Members that are not updated at the same time."""


class Batch(NamedTuple):
    """A step of a rolling update, which begins after the step before."""

    made: tuple[str, ...]
    """The members that are created or updated."""
    removed: tuple[str, ...]
    """The members that are deleted."""
    pause: float
    """Seconds to wait before it."""


@dataclass(frozen=True)
class Rolling:
    """A rolling update of a stack."""

    batches: Sequence[Batch]
    extra: Mapping[str, ResourceDefinition] = field(default_factory=dict)
    """The members that exist only during the update, by name."""

    def widened(self, definition: Definition) -> Definition:
        """Return a definition with the members that exist only during the update."""
        return (
            replace(definition, resources={**definition.resources, **self.extra})
            if self.extra
            else definition
        )

    def left(self, names: Iterable[str]) -> Rolling:
        """Return the rest of the update after an interruption: extra members without a record are removed already."""
        known = set(names)
        return replace(
            self,
            extra={name: each for name, each in self.extra.items() if name in known},
        )


def sizes(
    target: int, now: int, policy: Policy, *, extra_stay: bool = False
) -> Iterator[tuple[int, int]]:
    """Yield, for each batch, the number of members after it, and how many of them get the new definition in it.

    `now` is the number of members before the update.
    """
    updated = 0
    while not updated >= now == target:
        new = min(policy.size, max(target - updated, 0))
        after = new + max(min(now, target - new), min(policy.in_service, target, now))
        yield after, new
        updated += new if extra_stay else new - max(after - max(now, target), 0)
        now = after


def plan(
    members: Sequence[str],
    current: Iterable[str],
    numbers: Iterable[tuple[int, int]],
    pause: float,
    *,
    in_order: Callable[[Sequence[str], int], Sequence[str]],
    names: Callable[[int], Iterable[str]],
) -> tuple[list[Batch], list[str]]:
    """Return the batches, and the members after them.

    `members` are the members before the update, and `current` those of them that have the new definition already.
    `in_order` returns the members in the order in which they are removed, and after those updated, for a number of
    members; `names` returns names for new members.
    """
    now, updated = list(members), set(current)
    batches: list[Batch] = []
    for after, new in numbers:
        ordered = in_order(now, after)
        kept = list(
            ordered[len(ordered) - after :] if len(ordered) > after else ordered
        )
        created = list(
            itertools.islice(
                (name for name in names(after) if name not in now), after - len(kept)
            )
        )
        outdated = [name for name in kept if name not in updated][
            : max(new - len(created), 0)
        ]
        made = (*outdated, *created)
        removed = tuple(name for name in now if name not in kept)
        batches.append(Batch(made, removed, pause if batches else 0.0))
        updated.update(made)
        now = [*(name for name in now if name in kept), *created]
    return batches, now


def to_json(batches: Sequence[Batch]) -> list[Json]:
    """Return batches as JSON."""
    return [[list(each.made), list(each.removed), each.pause] for each in batches]


def from_json(
    batches: Iterable[tuple[Iterable[str], Iterable[str], float]],
) -> list[Batch]:
    """Return batches from JSON."""
    return [
        Batch(tuple(made), tuple(removed), float(pause))
        for made, removed, pause in batches
    ]

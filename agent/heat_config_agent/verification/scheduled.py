"""The verification of a state directory on a schedule: a pass, and what follows from it.

The process next to the daemon does it, and never writes the journal: repairs are requests, as those of people.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.states import Shown
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state import asked, journal
from heat_config_agent.verification import chosen, machine, record, repairs
from heat_config_agent.verification.machine import Finding, Ground
from heat_config_agent.verification.record import Verified
from heat_config_agent.verification.repairs import Decision
from heat_config_hooks.values import dataclass, replace
from heat_config_hooks.verdict import Standing

_MOST_NEWS = 20
"""The most deployments of which one verification tells by name that they have drifted."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a verification on a schedule."""

    numbers: Mapping[str, int]
    """The number of deployments by their state: ok, drifted, unknown."""
    repaired: tuple[Decision, ...]
    """The deployments whose repairs have to be requested."""
    news: tuple[tuple[str, str], ...]
    """The key of each deployment that has drifted since the verification before, and a sentence about it."""


def verify(ground: Ground, *, interval: float, may_repair: bool) -> Outcome:
    """Verify every deployment that is in force, and decide which are repaired; the caller requests that.

    Raises StateError.
    """
    began, state = time.time(), ground.settings.state
    entries = chosen.in_force(journal.read(state).values())
    numbers: dict[str, int] = {}
    drifted = []
    # an interruption ends what goes on at once
    with contextlib.closing(machine.verify(entries, ground)) as findings:
        for finding in findings:
            numbers[finding.state.value] = numbers.get(finding.state.value, 0) + 1
            if finding.state is Shown.DRIFTED:
                drifted.append(finding)
    decisions = _repair(state, interval) if may_repair else []
    return Outcome(
        numbers=numbers,
        repaired=tuple(each for each in decisions if each.is_repaired),
        news=tuple(_news(drifted, decisions, began)),
    )


def _news(
    drifted: Sequence[Finding], decisions: Sequence[Decision], began: float
) -> Iterator[tuple[str, str]]:
    """Yield a sentence about each deployment that was not known to have drifted."""
    by_key = {each.entry.key: each for each in decisions}
    fresh = [each for each in drifted if each.since is not None and each.since >= began]
    for finding in fresh[:_MOST_NEWS]:
        decision = by_key.get(finding.entry.key)
        in_vain = decision.in_vain if decision else 0
        word = "has drifted again after its repair" if in_vain else "has drifted"
        sentence = f"; {decision.sentence}" if decision else ""
        reason = finding.reason.replace("\n", "; ")
        yield finding.entry.key, f"{finding.entry.title} {word}: {reason}{sentence}"
    if len(fresh) > _MOST_NEWS:
        yield "", f"{len(fresh) - _MOST_NEWS} more deployments have drifted"


def _repair(state: Path, interval: float) -> list[Decision]:
    """Put on record which deployments are repaired, and which are not, and why.

    If the caller is killed before it requests a repair, the next verification decides the same.
    """
    if asked.paused(state):
        return []
    now, entries, verified = time.time(), journal.read(state), record.read(state)
    tried = repairs.read(state)
    drifted = list(_drifted(verified, entries))
    if not drifted and not tried:
        return []
    decisions = repairs.decide(
        drifted, tried, policy_in_force(), interval=interval, now=now
    )
    newer = repairs.counted(decisions, tried, verified, entries, now)
    if newer != tried:
        repairs.write(state, newer)
    said = {
        each.entry.key: replace(
            each.verified, repair=each.sentence, in_vain=each.in_vain
        )
        for each in decisions
    }
    record.put(state, said, journal.read(state))
    return decisions


def _drifted(
    verified: Mapping[str, Verified], entries: Mapping[str, Entry]
) -> Iterator[tuple[Entry, Verified]]:
    """Yield the deployments that have drifted by their last verification, and have not run since."""
    for key, one in verified.items():
        entry = entries.get(key)
        if entry is None or not one.is_of(entry) or entry.again or not entry.settled:
            continue
        if one.verdict.standing is Standing.DRIFTED and entry.left_at is None:
            yield entry, one

"""The verification of a state directory on a schedule: a pass, and what follows from it.

The process next to the daemon does it, and never writes the journal: repairs are requests, as those of people.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_agent.state import asked, journal, requests
from heat_config_agent.verification import chosen, machine, record, repairs
from heat_config_agent.verification.machine import Ground
from heat_config_agent.verification.record import Verified
from heat_config_agent.verification.repairs import Decision
from heat_config_hooks.values import replace
from heat_config_hooks.verdict import Standing


def verify(ground: Ground, *, interval: float, may_repair: bool) -> list[Decision]:
    """Verify every deployment that is in force, and request repairs; return what is done about those that drifted.

    Raises StateError.
    """
    state = ground.settings.state
    entries = chosen.in_force(journal.read(state).values())
    for _ in machine.verify(entries, ground):
        pass
    return _repair(state, interval) if may_repair else []


def _repair(state: Path, interval: float) -> list[Decision]:
    """Request the repair of deployments that have drifted, unless something speaks against it."""
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
    for each in decisions:
        if each.is_repaired:
            requests.ask_repair(state, each.entry, each.verified.verdict.reason)
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

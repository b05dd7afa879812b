"""Which deployments are in force, so that the machine has to be as they say. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from heat_config_agent.model.deployment import CLEANUP, DELETE
from heat_config_agent.model.entry import Entry

_WITHOUT = frozenset({DELETE, CLEANUP})
"""The actions that leave nothing on the machine."""


def in_force(entries: Iterable[Entry]) -> list[Entry]:
    """Return the newest deployment of each resource that its document still has, oldest first.

    A deployment whose last action has removed it is not in force.
    """
    newest: dict[tuple[str, str], Entry] = {}
    for entry in sorted(entries, key=lambda entry: entry.accepted):
        if entry.left_at is None:
            # without a resource, each deployment is one of its own
            place = (entry.source, entry.owner if "/" in entry.owner else entry.key)
            newest.pop(place, None)
            newest[place] = entry
    return [entry for entry in newest.values() if entry.action not in _WITHOUT]

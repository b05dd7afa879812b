"""What an update would do to a stack, as far as it can be told without doing it: nothing is kept of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from heat_config_agent.stack import acting
from heat_config_agent.stack.definition import Definition, Unresolved
from heat_config_agent.stack.exception import HeatException, UpdateReplace
from heat_config_agent.stack.live import Stack
from heat_config_agent.stack.resource import Resource

ADDED, REMOVED, UPDATED, REPLACED, UNCHANGED = "added", "removed", "updated", "replaced", "unchanged"


@dataclass(frozen=True)
class Change:
    """What becomes of a resource."""

    name: str
    type: str
    what: str


def changes(stack: Stack, definition: Definition) -> Iterator[Change]:
    """Yield what becomes of each resource: those of the definition in its order, then those that go.

    What depends on one that changes may change with it; that shows only when it has. A change that a handler would
    refuse counts as an update.
    """
    other, there = stack.if_it_were(definition), stack.resources
    for name in definition.resources:
        wanted = other.as_defined(name)
        what = _of(there[name], wanted) if name in there and there[name].action != "INIT" else ADDED
        yield Change(name, wanted.type(), what)
    for name, resource in there.items():
        if name not in definition.resources:
            yield Change(name, resource.type(), REMOVED)


def _of(resource: Resource, wanted: Resource) -> str:
    try:
        frozen = wanted.frozen()
        changed = frozen != resource.record.definition or wanted.record.type != resource.record.type
        needed = acting.needs_update(resource, wanted, changed=changed)
        if needed is None:
            return REPLACED
        if changed:
            acting.difference(resource, wanted, frozen)
    except UpdateReplace:
        return REPLACED
    except (HeatException, Unresolved):
        return UPDATED
    return UPDATED if changed else UNCHANGED

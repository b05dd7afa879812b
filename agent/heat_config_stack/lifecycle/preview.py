"""The effects of an update, as far as they are known without doing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from heat_config_stack.definition import Definition, Unresolved
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records.exception import HeatException, UpdateReplace
from heat_config_stack.resource import actions
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import differ

ADDED, REMOVED, UPDATED, REPLACED, UNCHANGED = "added", "removed", "updated", "replaced", "unchanged"


@dataclass(frozen=True)
class Change:
    """The effect of an update on a resource."""

    name: str
    type: str
    effect: str


def changes(stack: Stack, definition: Definition) -> Iterator[Change]:
    """Yield the effect on each resource: those of the definition in its order, then those that are removed.

    A resource that depends on a changed one may change with it; that is only known afterwards. A change that a handler
    would refuse counts as an update.
    """
    other, there = stack.if_it_were(definition), stack.resources
    for name in definition.resources:
        new = other.as_defined(name)
        effect = _effect(there[name], new) if name in there and there[name].action != "INIT" else ADDED
        yield Change(name, new.type(), effect)
    for name, resource in there.items():
        if name not in definition.resources:
            yield Change(name, resource.type(), REMOVED)


def _effect(resource: Resource, new: Resource) -> str:
    try:
        frozen = new.frozen()
        changed = differ(resource.record.definition or {}, frozen) or new.record.type != resource.record.type
        needed = actions.needs_update(resource, new, changed=changed)
        if needed is None:
            return REPLACED
        if not needed:
            return UNCHANGED
        if changed:
            actions.difference(resource, new, frozen)
    except UpdateReplace:
        return REPLACED
    except (HeatException, Unresolved):
        return UPDATED
    return UPDATED if changed else UNCHANGED

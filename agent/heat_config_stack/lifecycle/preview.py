"""The effects of an update, as far as they are known without doing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition, Identity, Unresolved
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import placing
from heat_config_stack.records.exception import HeatException, UpdateReplace
from heat_config_stack.records.records import COMPLETE, INIT, UPDATE
from heat_config_stack.resource import actions
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.snippet import differ

ADDED, REMOVED, UPDATED, REPLACED, UNCHANGED = (
    "added",
    "removed",
    "updated",
    "replaced",
    "unchanged",
)
LEFT_OUT = "left out"
"""The effect on a resource that is for another server than this machine."""
TEMPORARY = "temporary"
"""The effect on a member that a group has only during a rolling update."""
AGAIN = "again"
"""The effect on a resource whose definition is unchanged, and whose last action has not succeeded."""


@runtime_checkable
class DefinesChild(Protocol):
    """A resource with a child stack."""

    def child_definition(self, identity: Identity) -> Definition:
        """Return the definition of the child, from the current properties."""


@runtime_checkable
class RollsMembers(Protocol):
    """A group whose members are updated in batches."""

    def temporary(self, former: Resource) -> list[str]:
        """Return the names of the members that an update of a group to this one has only while it goes on."""


@dataclass(frozen=True)
class Change:
    """The effect of an update on a resource."""

    name: str
    type: str
    effect: str
    action: str = UPDATE
    """The action by which an update brings the resource to its definition, see `Resource.action_of_update`."""
    former: Resource | None = None
    """The resource as it exists; None if it does not."""
    inner: tuple[Change, ...] = ()
    """The effects on the resources of a child stack that is updated."""
    after: Mapping[str, Json] | None = None
    """The definition to which an existing resource is brought, in its stored form; None if parts are known later."""


def changes(stack: Stack, definition: Definition) -> Iterator[Change]:
    """Yield the effect on each resource: first on the definition's in its order, then on removed ones.

    A resource that depends on a changed one may change with it; that is only known afterwards. A change that a handler
    would refuse counts as an update.
    """
    store = stack.world.store
    if stack.owner is None:
        store.planned_hosts = placing.hosts_in(definition.source)
    try:
        yield from _changes(stack, definition)
    finally:
        if stack.owner is None:
            store.planned_hosts = None


def _changes(stack: Stack, definition: Definition) -> Iterator[Change]:
    other, there = stack.if_it_were(definition), stack.resources
    for name in definition.resources:
        new = other.as_defined(name)
        if name in there and there[name].action != INIT:
            former = there[name]
            inner = _inner(former, new)
            effect = _effect(former, new)
            if effect == UNCHANGED and any(each.effect != UNCHANGED for each in inner):
                effect = UPDATED
            yield Change(
                name,
                new.type(),
                effect,
                former.action_of_update(),
                former,
                inner,
                _frozen(new),
            )
        else:
            yield Change(name, new.type(), ADDED)
    for name, resource in there.items():
        if name not in definition.resources:
            yield Change(name, resource.type(), REMOVED, former=resource)
    for record in stack.records():  # their removal has failed, or was interrupted
        if record.name not in definition.resources and record.name not in there:
            yield Change(
                record.name, record.type, REMOVED, former=stack.resource(record)
            )


def _inner(former: Resource, new: Resource) -> tuple[Change, ...]:
    """Return the effects on the child stack of a resource, as far as they are known."""
    child = former.child
    if (
        not isinstance(new, DefinesChild)
        or not isinstance(child, Stack)
        or child.defined is None
    ):
        return ()
    try:
        new.take_data(former)
        effects = changes(child, new.child_definition(child.defined.identity))
        return (*_temporary(former, new), *effects)
    except Exception:  # noqa: BLE001  # a value that is known later, or a mistake
        return ()


def _temporary(former: Resource, new: DefinesChild) -> Iterator[Change]:
    """Yield the members that a group has only during the update."""
    if isinstance(new, RollsMembers):
        yield from (Change(name, "", TEMPORARY) for name in new.temporary(former))


def _frozen(new: Resource) -> Mapping[str, Json] | None:
    try:
        return new.frozen()
    except (HeatException, Unresolved):
        return None


def _effect(resource: Resource, new: Resource) -> str:
    try:
        frozen = new.frozen()
        changed = (
            differ(resource.record.definition or {}, frozen)
            or new.record.type != resource.record.type
        )
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
    is_open = (
        resource.status != COMPLETE or resource.always_update() or resource.sleeps()
    )
    return (
        UPDATED
        if changed
        else AGAIN
        if is_open and resource.child is None
        else UNCHANGED
    )

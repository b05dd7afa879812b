"""A stack at work: its definition and its records together, and what its functions can look up in it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from heat_config_agent.errors import UsageError
from heat_config_agent.stack import definition as plain
from heat_config_agent.stack.definition import Definition, Environment, Found, Identity, Json, Unresolved
from heat_config_agent.stack.exception import EntityNotFound
from heat_config_agent.stack.records import (
    DELETE,
    INIT,
    DeploymentRecord,
    Record,
    ResourceRecord,
    StackRecord,
)
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.scheduler import Scheduler
from heat_config_agent.stack.snippet import thaw
from heat_config_agent.stack.store import Memory

if TYPE_CHECKING:
    from heat_config_agent.stack.types import Types


class Servers(Protocol):
    """What carries deployments out: this machine, in whose place a test may put another."""

    def deliver(self, deployment: DeploymentRecord) -> None:
        """Have a server do what its deployment says. What comes of it is told to `deployments.take`."""

    def withdraw(self, deployment: DeploymentRecord) -> None:
        """Have nothing of the deployment be in the server's metadata any more."""


@dataclass
class World:
    """What all stacks of a tree share."""

    store: Memory
    types: Types
    servers: Servers
    scheduler: Scheduler = field(default_factory=Scheduler)
    expect_signals: Callable[[str, str], str] = lambda _handle, _token: ""
    """What takes signals for a handle, by the id of its resource, with a token: returns where they are to be sent."""
    happened: Callable[[dict[str, Json]], None] = lambda _event: None
    """Who is told of each event: `{"time", "path", "action", "status", "reason"}`."""
    stacks: dict[str, Stack] = field(default_factory=dict)
    """Those that are at work, by id."""

    @property
    def root(self) -> str:
        """Return the id of the outermost stack."""
        return next(each.id for each in self.store.stacks.values() if not each.owner)


class Stack:
    """One stack of a tree: the root, or the child of a resource."""

    def __init__(
        self, world: World, record: StackRecord, definition: Definition | None, owner: Resource | None = None
    ) -> None:
        """Work on a stack; without a definition there is nothing to be done but to remove it."""
        self.world, self.record, self.owner = world, record, owner
        self.look: plain.Look = _Running(self)
        self.context = None
        self.validating = False
        self.batches: tuple[int, float] | None = None
        """How many resources are made or updated at once, and the seconds between; None for all that can be."""
        self.earlier: Definition | None = None
        """What a rollback goes back to."""
        self.traversal: Any = None
        world.stacks[record.id] = self
        self._definition: Definition | None = None
        self.resources: dict[str, Resource] = {}
        self.define(definition)

    def define(self, definition: Definition | None) -> None:
        """Be what a definition says, with the resources that are there."""
        self._definition = definition
        self.resources = {}
        if definition is not None:
            by_name: dict[str, list[ResourceRecord]] = {}
            for each in self.world.store.resources_of(self.id):
                by_name.setdefault(each.name, []).append(each)
            for name in definition.resources:
                if found := best(by_name.get(name, ()), self.record.revision, self.record.before):
                    self.resources[name] = self.resource(found)

    @property
    def definition(self) -> Definition:
        """Return what it is to be."""
        if self._definition is None:
            raise ValueError(f"nothing is known of what {self.name} is to be")
        return self._definition

    @property
    def defined(self) -> Definition | None:
        """Return what it is to be, where that is known."""
        return self._definition

    @property
    def environment(self) -> Environment:
        """Return where its types come from."""
        return self.definition.environment

    @property
    def id(self) -> str:
        """Return its id."""
        return self.record.id

    @property
    def name(self) -> str:
        """Return its name."""
        return self.record.name

    @property
    def identity(self) -> Identity:
        """Return which stack it is."""
        return self.definition.identity if self._definition else Identity(self.name, self.id)

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names of the resources in which it is, the root's first."""
        return (*self.owner.stack.path, self.owner.name) if self.owner else ()

    def keep(self, record: Record) -> None:
        """Keep a record; one of a resource that is only looked at has no id yet."""
        if record.id and not self.validating:
            self.world.store.put(record)

    def records(self) -> list[ResourceRecord]:
        """Return all resources that are left of it, also those that are no part of it any more."""
        return self.world.store.resources_of(self.id)

    def resource(self, record: ResourceRecord) -> Resource:
        """Return what works on a resource: as it was made, or, if it was not, as it is to be."""
        wanted = self._definition.resources.get(record.name) if self._definition else None
        if wanted is None or record.definition is not None:
            wanted = thaw(record.name, record.definition or _NOTHING)
        found = Found(record.type, record.type if record.template else "")
        try:
            of = self.world.types.class_of(found)
        except EntityNotFound as error:
            where = "/".join((*self.path, record.name))
            raise UsageError(
                f"nothing here knows {record.type}, the type of {where}", hint="is a plug-in gone?"
            ) from error
        made = of(wanted.name, wanted, self)
        made.attach(record)
        return made

    def as_defined(self, name: str) -> Resource:
        """Return what works on a resource as it is to be, with a record that is kept nowhere."""
        wanted = self.definition.resources[name]
        found = self.world.types.found(wanted, self.environment)
        made = self.world.types.class_of(found)(name, wanted, self)
        made.attach(ResourceRecord("", name, self.id, found.template or found.type, bool(found.template)))
        return made

    def placeholders(self) -> list[Resource]:
        """Return the resources that stand for something in a cloud, and behind which there is nothing here."""
        return [each for each in self.resources.values() if self.world.types.is_placeholder(each)]

    def if_it_were(self, definition: Definition) -> Stack:
        """Return the stack as if it were to be something else: to look at, not to work on."""
        other = copy.copy(self)
        other._definition = definition  # noqa: SLF001  # of its own class
        other.look, other.validating = _Running(other), True
        return other

    def happened(self, path: Sequence[str], action: str, status: str, reason: str = "") -> None:
        """Put on record what has become of a resource, or of the stack itself where the path is its own."""
        event = {
            "time": time.time(),
            "path": "/".join((*self.path, *path)),
            "action": action,
            "status": status,
            "reason": reason,
        }
        self.world.store.event(event)
        self.world.happened(event)

    def output(self, name: str) -> Json:
        """Return the value of an output. Raises `Unresolved`."""
        return plain.resolve(self.definition.outputs[name].value, self.look)


_NOTHING: dict[str, Json] = {
    "type": "OS::Heat::None",
    "properties": {},
    "metadata": {},
    "depends_on": [],
    "deletion_policy": "Delete",
    "update_policy": {},
    "external_id": None,
}


def best(records: Sequence[ResourceRecord], revision: int, before: int) -> ResourceRecord | None:
    """Return which of several resources of one name is the one that a revision means: its own, or the one before."""
    found = None
    for each in records:
        if each.revision == revision:
            found = each  # of several the newest: a failed one is replaced without a new revision
        elif (each.revision == before and (found is None or found.revision != revision)) or found is None:
            found = each
    return found


class _Running:
    """What can be looked up in a stack that is there."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def reference(self, resource: str) -> Json:
        return self._resource(resource).FnGetRefId()

    def attribute(self, resource: str, attribute: str, path: Sequence[Json]) -> Json:
        return self._ask(resource, lambda found: found.FnGetAtt(attribute, *path))

    def attributes(self, resource: str) -> Json:
        return self._ask(resource, lambda found: found.given_attributes())

    def facade(self, what: str) -> Json:
        owner = self._stack.owner
        if owner is None:
            raise Unresolved(f"resource_facade {what}: this stack is no resource of another one")
        if what == "metadata":
            return owner.metadata_get()
        return owner.t.deletion_policy() if what == "deletion_policy" else owner.t["UpdatePolicy"]

    def _resource(self, name: str) -> Resource:
        found = self._stack.resources.get(name)
        if found is None:
            if name not in self._stack.definition.resources:
                raise Unresolved(f'The specified reference "{name}" (in unknown) is incorrect.')
            found = self._stack.as_defined(name)
        return found

    def _ask(self, name: str, question: Callable[[Resource], Json]) -> Json:
        found = self._resource(name)
        if found.action in (INIT, DELETE):
            return None
        try:
            return question(found)
        except Unresolved:
            raise
        except Exception as error:  # whatever a plug-in raises says why there is no value
            raise Unresolved(str(error)) from error

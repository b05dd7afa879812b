"""A stack at work: its definition and records together, and the values that its functions look up."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from heat_config_agent.masking.redaction import OPEN, Concealer
from heat_config_agent.model.errors import AgentError, StateError, UsageError, blame
from heat_config_agent.model.positions import Json
from heat_config_hooks import processes
from heat_config_stack import definition as plain
from heat_config_stack.definition import (
    Definition,
    Environment,
    Identity,
    MappedType,
    Unresolved,
)
from heat_config_stack.definition.procedures import DEPLOY, UNDEPLOY
from heat_config_stack.records import placing
from heat_config_stack.records.exception import EntityNotFound
from heat_config_stack.records.records import (
    COMPLETE,
    CREATE,
    DELETE,
    INIT,
    ROLLBACK,
    UPDATE,
    DeploymentRecord,
    Record,
    ResourceRecord,
    StackRecord,
)
from heat_config_stack.records.store import Memory
from heat_config_stack.resource.config_service import ConfigService
from heat_config_stack.resource.resource import PLUGINS, Resource
from heat_config_stack.resource.scheduler import Scheduler
from heat_config_stack.resource.snippet import thaw

if TYPE_CHECKING:
    from heat_config_agent.verification.machine import Finding
    from heat_config_stack.resource.types import Types


class Servers(Protocol):
    """The servers that carry out deployments: this machine, or a replacement in tests."""

    def deliver(self, deployment: DeploymentRecord) -> None:
        """Carry out a deployment. The result goes to `deployments.take`."""

    def withdraw(self, deployment: DeploymentRecord) -> None:
        """Remove a deployment from the metadata of its server."""


@dataclass
class World:
    """The state that all stacks of a tree share."""

    store: Memory
    types: Types
    servers: Servers
    scheduler: Scheduler = field(default_factory=Scheduler)
    expect_signals: Callable[[str, str], str] = lambda _handle, _token: ""
    """Accepts signals for a handle, by the id of its resource and a token; returns the URL for them."""
    happened: Callable[[dict[str, Json]], None] = lambda _event: None
    """Receives each event: `{"time", "path", "action", "status", "reason"}`."""
    warn: Callable[[str], None] = lambda _text: None
    """Receives a sentence about a resource that people should know, although nothing failed."""
    left_unchanged: Callable[[str], None] = lambda _path: None
    """Receives the path of each resource that an update does not have to change, which is not an event."""
    meanwhile: Callable[[float], None] = time.sleep
    """Carries out everything else while a handler waits: for that many seconds, or until a child stack has changed."""
    stacks: dict[str, Stack] = field(default_factory=dict)
    """The stacks at work, by id."""
    catching_up_until: float = 0.0
    """The time (in seconds since boot) until which no time limit ends a wait: scripts may deliver late signals."""
    user_data: bool = False
    """True if the scripts in the user data of servers are carried out."""
    creating: bool = False
    """True if the stacks are validated because they are about to be created."""
    server: str = ""
    """The server that this machine is, by its id or the name of its resource; empty if it stands in for all."""
    forget: Callable[[str, str], None] | None = None
    """Receives the path and the failure of each resource that is forgotten because its deletion failed; None if such a
    resource is kept."""
    unusable: Callable[[str], None] | None = None
    """Receives the reason why the class of an existing resource cannot be used, and the resource is then what is on
    record of it; None if that is an error."""
    verified: Callable[[DeploymentRecord], Finding | None] | None = None
    """Returns what a verification finds about a deployment, None if nothing of it was carried out on this machine; None
    if nothing can be verified, as of a stack that is only looked at."""
    conceal: Concealer = OPEN
    """Hides the secret parameters of all stacks that were at work, in everything that is shown."""

    @property
    def root(self) -> str:
        """Return the id of the outermost stack."""
        return next(each.id for each in self.store.stacks.values() if not each.owner)

    def is_here(self, server: str) -> bool:
        """Return whether a deployment for a server, by its id, is for this machine."""
        if not self.server or server == self.server:
            return True
        return any(
            each.name == self.server and each.physical == server
            for each in self.store.resources_of(self.root)
        )

    @property
    def catching_up(self) -> bool:
        """True if a process has just continued the stack, so that late signals still count."""
        return processes.since_boot() < self.catching_up_until


class Stack:
    """One stack of a tree: the root, or the child of a resource."""

    def __init__(
        self,
        world: World,
        record: StackRecord,
        definition: Definition | None,
        owner: Resource | None = None,
    ) -> None:
        """Work on a stack; without a definition, it can only be deleted."""
        self.world, self.record, self.owner = world, record, owner
        self.look: plain.Look = _Running(self)
        self.context = None
        self.validating = False
        self.earlier: Definition | None = None
        """The definition that a rollback returns to."""
        self.traversal: Any = None
        self.in_turn = False
        """True if the resources are worked on one after the other, see `Definition.in_turn`."""
        self.files: Mapping[str, Json] = {}
        """The files next to those of operations, see `Definition.files`; kept while the stack is deleted."""
        world.stacks[record.id] = self
        self._definition: Definition | None = None
        self.resources: dict[str, Resource] = {}
        self.define(definition)

    def define(self, definition: Definition | None) -> None:
        """Use a definition, with the existing resources."""
        self._definition = definition
        self.resources = {}
        if definition is not None:
            self.world.conceal = self.world.conceal.also(definition.conceal)
            self.in_turn, self.files = definition.in_turn, definition.files
            by_name: dict[str, list[ResourceRecord]] = {}
            for each in self.world.store.resources_of(self.id):
                by_name.setdefault(each.name, []).append(each)
            for name in definition.resources:
                if found := best(
                    by_name.get(name, ()), self.record.revision, self.record.before
                ):
                    self.resources[name] = self.resource(found)

    @property
    def definition(self) -> Definition:
        """Return the definition."""
        if self._definition is None:
            raise ValueError(f"there is no definition of {self.name}")
        return self._definition

    @property
    def defined(self) -> Definition | None:
        """Return the definition; None if there is none."""
        return self._definition

    @property
    def environment(self) -> Environment:
        """Return the environment that maps the types."""
        return self.definition.environment

    @property
    def id(self) -> str:
        """Return the id."""
        return self.record.id

    @property
    def name(self) -> str:
        """Return the name."""
        return self.record.name

    @property
    def identity(self) -> Identity:
        """Return the name and ids of the stack."""
        return (
            self.definition.identity
            if self._definition
            else Identity(self.name, self.id, self.record.project)
        )

    @property
    def arn(self) -> str:
        """Return the name of the stack among all stacks."""
        return (
            f"arn:openstack:heat::{self.identity.project}:stacks/{self.name}/{self.id}"
        )

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names of the resources that contain the stack, the outermost first."""
        return (*self.owner.stack.path, self.owner.name) if self.owner else ()

    def keep(self, record: Record) -> None:
        """Keep a record, unless it belongs to a resource that is only looked at, which has no id."""
        if record.id and not self.validating:
            self.world.store.put(record)

    @property
    def conceal(self) -> Concealer:
        """Return a function that hides the secrets of the stack."""
        return self.world.conceal

    def drop(self, record: Record) -> None:
        """Delete a record."""
        self.world.store.drop(record)

    def forgets(self, name: str, failure: str) -> bool:
        """Return whether a resource is forgotten although its deletion failed, and report that it is."""
        if self.world.forget is not None:
            self.world.forget("/".join((*self.path, name)), failure)
        return self.world.forget is not None

    def settle(self) -> None:
        """Prepare all resources for a change of the stack."""
        for each in self.resources.values():
            each.settle()

    def flush(self) -> None:
        """Write all records to disk, before a handler acts on something outside that keeps no record of it.

        A handler must not act on a result that a power cut could take back.
        """
        self.world.store.flush(durable=self.world.store.owed)

    def records(self) -> list[ResourceRecord]:
        """Return the records of all remaining resources, including resources that the definition no longer has."""
        return self.world.store.resources_of(self.id)

    def resource(self, record: ResourceRecord) -> Resource:
        """Return the resource of a record: as it was created, or if it was not, as the definition says.

        Raises UsageError if its class cannot be used.
        """
        definition = (
            self._definition.resources.get(record.name) if self._definition else None
        )
        if definition is None or record.definition is not None:
            definition = thaw(record.name, record.definition or _NOTHING)
        type_ = MappedType(record.type, record.type if record.template else "")
        try:
            return self._made(self._class_of_record(type_, record), definition, record)
        except UsageError as error:
            if self.world.unusable is None:
                raise
            self.world.unusable(str(error))
            return self._made(self.world.types.unusable(), definition, record)

    def _class_of_record(
        self, type_: MappedType, record: ResourceRecord
    ) -> type[Resource]:
        """Return the class of an existing resource. Raises UsageError."""
        try:
            return self.world.types.class_of_record(type_)
        except EntityNotFound as error:
            place = "/".join((*self.path, record.name))
            raise UsageError(
                f"{place} has the type {record.type}, which does not exist",
                hint="is a plug-in missing?",
            ) from error

    def renewed(self, resource: Resource) -> Resource:
        """Return a new object for a resource of a plug-in, which may cache values: Heat has one for each action."""
        if (
            not type(resource).__module__.startswith(PLUGINS)
            or self.resources.get(resource.name) is not resource
        ):
            return resource
        self.resources[resource.name] = self.resource(resource.record)
        return self.resources[resource.name]

    def as_defined(self, name: str) -> Resource:
        """Return a resource as the definition says, with a record that is not kept."""
        wanted = self.definition.resources[name]
        type_ = self.world.types.mapped_type(wanted, self.environment)
        record = ResourceRecord(
            "", name, self.id, type_.template or type_.type, bool(type_.template)
        )
        return self._made(self.world.types.class_of(type_), wanted, record)

    def is_done_by_procedure(self, action: str) -> bool:
        """Return whether a procedure does the work of an operation: `deploy` creates them, `undeploy` deletes."""
        name = UNDEPLOY if action == DELETE else DEPLOY
        run = self.world.store.procedures.get(f"{self.id}/{name}")
        if action == DELETE:
            return (
                self.record.action == DELETE
                and run is not None
                and run.status == COMPLETE
            )
        if (
            self._definition is None
            or DEPLOY not in self._definition.procedures
            or action not in (CREATE, UPDATE)
        ):
            return False
        return self.record.action == CREATE or (
            run is not None and run.status != COMPLETE
        )

    def beside(
        self, definition: plain.ResourceDefinition, record: ResourceRecord
    ) -> Resource:
        """Return a resource that is none of the definition's, and for some time only: an operation of a procedure."""
        record.type = definition.type
        return self._made(
            self.world.types.class_of(MappedType(definition.type, of_service=True)),
            definition,
            record,
        )

    def _made(
        self,
        class_: type[Resource],
        definition: plain.ResourceDefinition,
        record: ResourceRecord,
    ) -> Resource:
        """Return a resource. Raises UsageError if its class cannot be used."""
        try:
            resource = class_(definition.name, definition, self)
        except AgentError:
            raise
        except BaseException as error:
            problem = f"the class of {record.type} cannot be used: {type(error).__name__}: {blame(error)}"
            raise UsageError(problem, hint="check the plug-in") from error
        resource.attach(record)
        return resource

    @property
    def is_gone(self) -> bool:
        """True if the creation of the stack was rolled back, so that only its record is left."""
        return (self.record.action, self.record.status) == (
            ROLLBACK,
            COMPLETE,
        ) and not self.records()

    def placeholders(self) -> list[Resource]:
        """Return the placeholders for cloud resources."""
        return [each for each in self.resources.values() if each.is_placeholder]

    def if_it_were(self, definition: Definition) -> Stack:
        """Return the stack with another definition, to look at, not to work on."""
        other = copy.copy(self)
        other._definition = definition  # noqa: SLF001  # the same class
        other.look, other.validating = _Running(other), True
        return other

    def happened(
        self,
        path: Sequence[str],
        action: str,
        status: str,
        reason: str = "",
        *,
        record: ResourceRecord | None = None,
    ) -> None:
        """Record and report an event of a resource, or of the stack itself if the path is empty.

        Secrets are removed from the reason here, because every report to people passes this point.
        `of` is the record of the resource: an event of one that another has replaced is marked `"replaced"`, and
        one of a placeholder for a cloud resource `"stands_in"`. `host` is the other host that it is about.
        """
        current = self.resources.get(record.name) if record is not None else None
        event = {
            "time": time.time(),
            "since_boot": processes.since_boot(),
            "path": "/".join((*self.path, *path)),
            "action": action,
            "status": status,
            "reason": self.world.conceal.text(reason),
            "physical": record.physical if record is not None else self.id,
            **(
                {"stands_in": True}
                if current is not None and current.is_placeholder
                else {}
            ),
            **(
                {"host": host}
                if record is not None
                and (host := placing.host_of_resource(self.world.store, record))
                else {}
            ),
            **(
                {"replaced": True}
                if current is not None and current.record is not record
                else {}
            ),
        }
        self.world.store.event(event)
        self.world.happened(event)

    @property
    def config_service(self) -> ConfigService:
        """Return the service that stores configs for the stack's resources."""
        return ConfigService(self.world.store, self.id)

    def abandoned(self) -> dict[str, Json]:
        """Return the state of the stack and its resources, with the keys of Heat's API."""
        record = self.record
        return {
            "name": record.name,
            "id": record.id,
            "action": record.action,
            "status": record.status,
            "resources": {
                name: resource.abandoned() for name, resource in self.resources.items()
            },
            "project_id": record.project,
            "stack_user_project_id": "",
            "tags": [],
        }

    def leave_unchanged(self, name: str) -> None:
        """Report that an update does not have to change a resource, or leaves it out again."""
        record = self.resources[name].record if name in self.resources else None
        if record is not None and record.is_left_out:
            self.happened(
                [name], record.action, record.status, record.reason, record=record
            )
        else:
            self.world.left_unchanged("/".join((*self.path, name)))

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


def section_of(owner: Resource, section: str) -> Json:
    """Return a section of the resource that contains a stack: its metadata or one of its policies."""
    if section == "metadata":
        return owner.metadata_get()
    return (
        owner.t.deletion_policy()
        if section == "deletion_policy"
        else owner.t["UpdatePolicy"]
    )


def best(
    records: Sequence[ResourceRecord], revision: int, former: int
) -> ResourceRecord | None:
    """Return the record, of several with one name, that belongs to a revision; else to the revision before."""
    choice = None
    for record in records:
        if record.revision == revision:
            choice = (
                record  # the newest: a failed one is replaced without a new revision
            )
        elif (
            record.revision == former
            and (choice is None or choice.revision != revision)
        ) or choice is None:
            choice = record
    return choice


class _Running:
    """A view of a stack that exists."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def reference(self, resource: str) -> Json:
        return self._resource(resource).FnGetRefId()

    def attribute(self, resource: str, attribute: str, path: Sequence[Json]) -> Json:
        return self._ask(
            resource, lambda found: found.FnGetAtt(attribute, *path), attribute
        )

    def attributes(self, resource: str) -> Json:
        return self._ask(resource, lambda found: found.given_attributes())

    def facade(self, section: str) -> Json:
        owner = self._stack.owner
        if owner is None:
            raise Unresolved(
                f"resource_facade {section}: this stack is not a resource of another stack"
            )
        return section_of(owner, section)

    def _resource(self, name: str) -> Resource:
        resource = self._stack.resources.get(name)
        if resource is None:
            if name not in self._stack.definition.resources:
                raise Unresolved(
                    f'The specified reference "{name}" (in unknown) is incorrect.'
                )
            resource = self._stack.as_defined(name)
        return resource

    def _ask(
        self, name: str, question: Callable[[Resource], Json], attribute: str = ""
    ) -> Json:
        found = self._resource(name)
        if found.action in (INIT, DELETE) and attribute not in found.always_known:
            return None
        try:
            return question(found)
        except (Unresolved, StateError):
            raise
        except BaseException as error:  # plug-ins may raise anything
            raise Unresolved(blame(error)) from error

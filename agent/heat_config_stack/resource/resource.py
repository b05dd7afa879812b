"""The base class of all resources, as Heat's plug-in guide describes it.

A class declares `properties_schema` and `attributes_schema`, and has a handler for each action that it takes part in:
`handle_create` … `handle_delete`, each with a `check_…_complete` if the action takes time. The module `actions` calls
the handlers and keeps their results. Our own resources are written in the same way.
`Host` is its stack, as far as the resource uses it, and a `ClientPlugin` stands for the client of a service.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model.positions import Json
from heat_config_stack import definition
from heat_config_stack.definition import (
    Definition,
    Environment,
    Later,
    ResourceDefinition,
    Tree,
    Unresolved,
)
from heat_config_stack.records import exception
from heat_config_stack.records.exception import UpdateReplace
from heat_config_stack.records.records import ResourceRecord, StackRecord
from heat_config_stack.resource import attributes
from heat_config_stack.resource.config_service import ConfigService
from heat_config_stack.resource.properties import (
    Properties,
    Schema,
    Wrong,
    as_far_as_known,
    schemata,
)
from heat_config_stack.resource.snippet import Snippet, freeze
from heat_config_stack.resource.support import SupportStatus
from heat_config_stack.resource.translation import TranslationRule


class Host(Protocol):
    """The stack of a resource, as far as the resource uses it."""

    look: definition.Look
    context: None

    @property
    def id(self) -> str:
        """Return the stack's id."""

    @property
    def name(self) -> str:
        """Return the stack's name."""

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names of the resources that contain the stack, the outermost first."""

    @property
    def definition(self) -> Definition:
        """Return the definition of the stack. Raises ValueError if it has none."""

    @property
    def defined(self) -> Definition | None:
        """Return the definition of the stack; None if it has none."""

    @property
    def environment(self) -> Environment:
        """Return the environment that maps the stack's types."""

    @property
    def record(self) -> StackRecord:
        """Return the record of the stack."""

    @property
    def conceal(self) -> Concealer:
        """Return a function that hides the secrets of the stack."""

    @property
    def config_service(self) -> ConfigService:
        """Return the service that stores configs for the stack's resources."""

    def keep(self, record: ResourceRecord) -> None:
        """Keep a record."""

    def drop(self, record: ResourceRecord) -> None:
        """Delete a record."""

    def forgets(self, name: str, failure: str) -> bool:
        """Return whether a resource is forgotten although its deletion failed, and report that it is."""

    def flush(self) -> None:
        """Write all records to disk."""

    def happened(
        self,
        path: Sequence[str],
        action: str,
        status: str,
        reason: str = "",
        *,
        record: ResourceRecord | None = None,
    ) -> None:
        """Record an event of a resource."""

    def leave_unchanged(self, name: str) -> None:
        """Report that an update does not have to change a resource."""


class ExceptionFilter:
    """Swallows the exceptions for which a function is true: as a context, or called with an exception."""

    def __init__(self, decides: Callable[..., bool]) -> None:
        """Take the function, which may be a method of a class."""
        self._decides = decides

    def __get__(self, of: Any, class_: type) -> ExceptionFilter:
        return self if of is None else ExceptionFilter(partial(self._decides, of))

    def __enter__(self) -> ExceptionFilter:  # noqa: PYI034  # typing has no Self before Python 3.11
        return self

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> bool:
        return error is not None and bool(self._decides(error))

    def __call__(self, error: BaseException) -> None:
        """Raise an exception again if the function is false for it."""
        if not self._decides(error):
            raise error


class ClientPlugin:
    """The meaning of a client's exceptions, by their names and status codes."""

    def __init__(self, name: str | None = None) -> None:
        """Take the name of the client."""
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise exception.ClientNotAvailable(client_name=self.__dict__.get("name"))

    def is_not_found(self, error: BaseException) -> bool:
        """Return whether an exception means that something does not exist."""
        return isinstance(
            error, exception.NotFound | exception.EntityNotFound
        ) or _means(error, 404, "NotFound")

    def is_conflict(self, error: BaseException) -> bool:
        """Return whether an exception means that there is a conflict."""
        return _means(error, 409, "Conflict")

    def is_over_limit(self, error: BaseException) -> bool:
        """Return whether an exception means that there are too many requests."""
        return _means(error, 413, "OverLimit")

    @ExceptionFilter
    def ignore_not_found(self, error: BaseException) -> bool:
        """Ignore that something does not exist."""
        return self.is_not_found(error)

    @ExceptionFilter
    def ignore_conflict_and_not_found(self, error: BaseException) -> bool:
        """Ignore that something does not exist, or that there is a conflict."""
        return self.is_conflict(error) or self.is_not_found(error)


def _means(error: BaseException, status: int, name: str) -> bool:
    codes = (
        getattr(error, key, None) for key in ("code", "http_status", "status_code")
    )
    return status in codes or any(
        name in class_.__name__ for class_ in type(error).__mro__
    )


class ClientUser:
    """The part of a resource that uses the client of a service. A plug-in overrides `client`."""

    stack: Host
    default_client_name: ClassVar[str | None] = None
    entity: ClassVar[str | None] = None

    @property
    def resource_id(self) -> str | None:
        """Return the physical id."""
        raise NotImplementedError

    def client(self, name: str | None = None, version: str | None = None) -> Any:
        """Raise ClientNotAvailable: there is no cloud."""
        raise exception.ClientNotAvailable(client_name=name or self.default_client_name)

    def rpc_client(self) -> ConfigService:
        """Return the part of Heat's RPC client that stores configs."""
        return self.stack.config_service

    def client_plugin(self, name: str | None = None) -> Any:
        """Return the plug-in for a client, which explains the client's exceptions."""
        return ClientPlugin(name or self.default_client_name)

    def _show_resource(self) -> Json:
        """Return the value of the attribute `show`: by default, what the client of a cloud service has."""
        if not self.entity or self.resource_id is None:
            return None
        found = getattr(self.client(), self.entity).get(self.resource_id)
        return found.to_dict() if hasattr(found, "to_dict") else found

    def handle_delete(self) -> Any:
        """Delete the physical resource if it belongs to a cloud service."""
        if self.entity and self.resource_id is not None:
            try:
                getattr(self.client(), self.entity).delete(self.resource_id)
            except Exception as error:  # noqa: BLE001  # that of any client
                self.client_plugin().ignore_not_found(error)
                return None
        return self.resource_id


__all__ = ["NoActionRequired", "PollDelay", "Resource", "UpdateReplace"]


PLUGINS = "heat_config_agent_plugins_"
"""The prefix of the names of the packages with plug-ins."""


class NoActionRequired(Exception):  # noqa: N818  # the name that plug-ins use
    """A signal needs no action."""

    def __init__(self, res_name: str = "", reason: str = "") -> None:
        """Take the name of the resource and the reason, if they are of interest."""
        super().__init__(
            f"The resource {res_name} could not perform scaling action: {reason}"
            if res_name
            else ""
        )


class PollDelay(Exception):  # noqa: N818
    """The next check should wait for some time."""

    def __init__(self, period: float = 1.0) -> None:
        """Take the seconds to wait."""
        super().__init__()
        self.period = period


class Resource(ClientUser):
    """A resource of a stack."""

    ACTIONS = (
        INIT,
        CREATE,
        DELETE,
        UPDATE,
        ROLLBACK,
        SUSPEND,
        RESUME,
        ADOPT,
        SNAPSHOT,
        CHECK,
    ) = (
        *("INIT", "CREATE", "DELETE", "UPDATE", "ROLLBACK"),
        *("SUSPEND", "RESUME", "ADOPT", "SNAPSHOT", "CHECK"),
    )
    STATUSES = (IN_PROGRESS, FAILED, COMPLETE) = ("IN_PROGRESS", "FAILED", "COMPLETE")

    properties_schema: ClassVar[Mapping[str, Schema]] = {}
    attributes_schema: ClassVar[Mapping[str, attributes.Schema]] = {}
    update_policy_schema: ClassVar[Mapping[str, Schema]] = {}
    support_status = SupportStatus()
    physical_resource_name_limit: ClassVar[int | None] = 255
    any_property: ClassVar[bool] = False
    """True if it accepts properties that are not in its schema."""
    any_attribute: ClassVar[bool] = False
    """True if it may have attributes that are not in its schema; they are checked only once it exists."""
    always_known: ClassVar[frozenset[str]] = frozenset()
    """The attributes that have values also before it is created and after it is deleted."""
    again_after_interruption: ClassVar[bool] = False
    """True if an interrupted handler may be called again. Otherwise the resource counts as failed."""
    never_updated: ClassVar[bool] = False
    """True if no update changes the resource, even if its definition changes."""
    no_signal_actions: ClassVar[tuple[str, ...]] = (SUSPEND, DELETE)
    """The last actions after which a resource takes no signal."""
    deletes_with_snapshot: ClassVar[bool] = False
    """True if it may have the deletion policy Snapshot."""
    may_run: ClassVar[bool] = False
    """True if its actions may run something on a machine, where a replacement has the same place."""
    is_verified: ClassVar[bool] = False
    """True if a check verifies the machine, where Heat checks nothing."""
    is_placeholder: ClassVar[bool] = False
    """True if it stands for a resource of a cloud: nothing is created for it."""

    def __init__(self, name: str, definition: ResourceDefinition, stack: Host) -> None:
        """Work on one resource of a stack; `attach` adds its record."""
        self.name, self.stack = name, stack
        self.record = ResourceRecord(id="", name=name, stack=stack.id)
        self.define(definition)

    def attach(self, record: ResourceRecord) -> None:
        """Continue with the record of the resource."""
        self.record = record

    def define(self, definition: ResourceDefinition) -> None:
        """Use a definition from now on."""
        self.definition = definition
        self.t = Snippet(definition, self.resolve)
        self.reparse()

    def reparse(self) -> None:
        """Read the properties and attributes from the definition again."""
        schema = self.schema_of_properties()
        self.properties = Properties(schema, self.definition.properties, self.resolve)
        self.properties.rules = tuple(self.translation_rules(self.properties) or ())
        self.attributes = attributes.Attributes(
            self.schema_of_attributes(), self._value_of
        )

    def schema_of_properties(self) -> Mapping[str, Schema]:
        """Return the schema of the properties; a class whose schema depends on the resource overrides this."""
        return schemata(self.properties_schema)

    def schema_of_attributes(self) -> Mapping[str, attributes.Schema]:
        """Return the schema of the attributes; a class whose schema depends on the resource overrides this."""
        return attributes.schemata(self.attributes_schema)

    def resolve(self, tree: Tree) -> Json:
        """Return the value of a tree, resolved now. Raises `Unresolved`."""
        return definition.resolve(tree, self.stack.look)

    def frozen(self) -> dict[str, Json]:
        """Return the definition as JSON, with its functions resolved."""
        return freeze(self.definition, self.resolve)

    # Identity.

    @property
    def action(self) -> str:
        """Return the last action."""
        return self.record.action

    @property
    def status(self) -> str:
        """Return the status of the last action."""
        return self.record.status

    @property
    def status_reason(self) -> str:
        """Return the reason for that status."""
        return self.record.reason

    @property
    def state(self) -> tuple[str, str]:
        """Return action and status."""
        return self.record.state

    @property
    def uuid(self) -> str:
        """Return the id of the resource itself, which differs from its physical id."""
        return self.record.id

    @property
    def context(self) -> object:
        """Return the context of the request: always None, because there is only one user."""
        return self.stack.context

    @property
    def resource_id(self) -> str | None:
        """Return the physical id."""
        return self.record.physical

    def resource_id_set(self, inst: str | None) -> None:
        """Record the physical id, so that it is found again after an interruption."""
        self.record.physical = inst
        self.stack.keep(self.record)
        if not self.again_after_interruption:
            self.stack.flush()

    def type(self) -> str:
        """Return the type as written in the template."""
        return self.definition.type

    def has_interface(self, resource_type: str) -> bool:
        """Return whether the resource has a type."""
        return resource_type in (self.definition.type, self.record.type)

    def physical_resource_name(self) -> str:
        """Return a unique name for the physical resource."""
        short = (
            base64.b32encode(bytes.fromhex(self.record.id.replace("-", "")))
            .decode()
            .lower()[:12]
            if self.record.id
            else ""
        )
        name = "-".join(filter(None, (self.stack.name, self.name, short)))
        limit = self.physical_resource_name_limit
        return (
            name
            if not limit or len(name) <= limit
            else f"{name[:2]}-{name[3 - limit :]}"
        )

    def physical_resource_name_or_FnGetRefId(self) -> str:
        """Return the physical name, or the reference id."""
        return self.physical_resource_name()

    # Stored values.

    def data(self) -> dict[str, Json]:
        """Return the data that the class has stored."""
        return dict(self.record.data)

    def data_set(self, key: str, value: Json, redact: bool = False) -> None:
        """Store a value under a key."""
        self.record.data[key] = value
        self.stack.keep(self.record)

    def data_delete(self, key: str) -> bool:
        """Delete a stored value, and return whether there was one."""
        there = self.record.data.pop(key, None) is not None
        self.stack.keep(self.record)
        return there

    def take_data(self, former: Resource) -> None:
        """Take the data that an update of `former` would begin with. This resource is not kept: a plan looks at it."""
        self.record.data = former.data()

    def metadata_get(self, refresh: bool = False) -> dict[str, Json]:
        """Return the current metadata."""
        return dict(self.record.metadata)

    def metadata_set(
        self, metadata: Mapping[str, Json], merge_metadata: object = None
    ) -> None:
        """Replace the metadata."""
        self.record.metadata = dict(metadata)
        self.stack.keep(self.record)

    # Reference and attributes.

    def get_reference_id(self) -> Json:
        """Return the value of get_resource."""
        return self.name if self.resource_id is None else self.resource_id

    def FnGetRefId(self) -> Json:
        """Return the value of get_resource."""
        return self.get_reference_id()

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an attribute, or the part of it at a path."""
        if key not in self.attributes:
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        return attributes.select_from_attribute(self.attributes[key], path)

    def FnGetAtt(self, key: str, *path: Json) -> Json:
        """Return an attribute, or the part of it at a path."""
        return self.get_attribute(key, *path)

    def _value_of(self, name: str) -> Json:
        return (
            self._show_resource()
            if name == attributes.SHOW
            else self._resolve_attribute(name)
        )

    def _resolve_attribute(self, name: str) -> Json:
        """Return the value of an attribute."""
        return None

    def given_attributes(self) -> dict[str, Json]:
        """Return all attributes except `show`."""
        return {name: self.FnGetAtt(name) for name in self.attributes}

    # Clients.

    @classmethod
    def is_service_available(cls, context: object) -> tuple[bool, str | None]:
        """Return whether the service that the type needs is available, and if not, why."""
        return True, None

    def translation_rules(
        self, properties: Properties
    ) -> Iterable[TranslationRule] | None:
        """Return the rules that translate property values."""
        return ()

    # Checking.

    def mistakes(self) -> list[Wrong]:
        """Return all mistakes in the properties and the update policy, with paths relative to the resource."""
        mistakes = [
            mistake.under("properties")
            for mistake in wrong_properties(self, self.known())
        ]
        # Of Heat's types that are nothing, the policy is not checked.
        return mistakes if self.any_property else [*mistakes, *_wrong_policy(self)]

    def known(self) -> Properties:
        """Return the properties, with `Unknown` in place of values that are not known yet."""
        return self.properties_of(lambda tree: as_far_as_known(tree, self.stack.look))

    def properties_of(self, resolve: Callable[[Tree], Tree]) -> Properties:
        """Return the properties, resolved by a function."""
        wanted = self.definition
        known = Properties(
            self.properties.schema, wanted.properties, resolve, omitted=wanted.omitted
        )
        known.rules = tuple(self.translation_rules(known) or ())
        return known

    def has_attribute(self, name: str) -> bool:
        """Return whether the resource has such an attribute, as far as is known before it exists."""
        return self.any_attribute or name in self.attributes

    def validate(self) -> None:
        """Check more than the schemas do. Raises `StackValidationFailed`."""

    # Default handlers.

    def handle_adopt(self, resource_data: Mapping[str, Json] | None = None) -> Any:
        """Take over the physical id, the stored values and the metadata of a resource that exists already.

        Raises `Error` if it has no physical id.
        """
        state = resource_data or {}
        if not state.get("resource_id"):
            raise exception.Error("Resource ID was not provided.")
        self.resource_id_set(str(state["resource_id"]))
        stored = state.get("resource_data")
        for key, value in stored.items() if isinstance(stored, Mapping) else ():
            self.data_set(key, value)
        metadata = state.get("metadata")
        self.metadata_set(metadata if isinstance(metadata, Mapping) else {})

    def abandoned(self) -> dict[str, Json]:
        """Return the state of the resource with the keys of Heat's API, for a snapshot or for another program."""
        return {
            "name": self.name,
            "resource_id": self.resource_id,
            "type": self.type(),
            "action": self.action,
            "status": self.status,
            "metadata": self.metadata_get(),
            "resource_data": self.data(),
        }

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> Any:
        """Ask for a replacement if a property changes."""
        if prop_diff:
            raise UpdateReplace(self.name)

    def needs_replace(self, after_props: Properties) -> bool:
        """Return whether the new properties require a replacement."""
        return False

    def needs_replace_with_prop_diff(
        self,
        changed_properties_set: set[str],
        after_props: Properties,
        before_props: Properties,
    ) -> bool:
        """Return whether the changed properties require a replacement."""
        return False

    def needs_replace_with_tmpl_diff(self, tmpl_diff: Mapping[str, Json]) -> bool:
        """Return whether the changes outside the properties require a replacement."""
        return False

    def needs_replace_failed(self) -> bool:
        """Return whether an update replaces the resource after it has failed."""
        return True

    def has_run(self) -> bool:
        """Return whether its actions may have changed this machine, so that its replacement comes after its DELETE."""
        return False

    def leaving(self, definition: Definition) -> list[tuple[tuple[str, ...], Resource]]:
        """Return the resources of the child stack that an update of the stack to a definition surely removes.

        Only those that have run something on this machine, with their paths in the child stack.
        """
        return []

    def sleeps(self) -> bool:
        """Return whether something on this machine is suspended, also if its RESUME has failed."""
        return False

    def left_out(self) -> str:
        """Return why the last action was not carried out, although it counts as complete; empty if it was."""
        return ""

    def unchecked(self) -> str:
        """Return why a check of the resource finds nothing out, in Heat's words; empty if it does."""
        if hasattr(self, "handle_check"):
            return ""
        return f"CHECK not supported for {self.type()}"

    def unreached(self) -> str:
        """Return why its host has not been asked, so that a check of its stack fails; empty if it was, or is here."""
        return ""

    def is_out_of_effect(self) -> bool:
        """Return whether the last check of a resource that is verified has failed, so that it can be repeated."""
        return False

    def action_of_update(self) -> str:
        """Return the action by which an update brings the resource to its definition, UPDATE or CREATE."""
        return self.UPDATE

    def always_update(self) -> bool:
        """Return whether every update applies to the resource, even if its definition is unchanged."""
        return False

    def settle(self) -> None:
        """Prepare for a change of the stack, while all its resources are as they were."""

    def prepare_for_replace(self) -> None:
        """Make room for the replacement."""

    def restore_prev_rsrc(self, convergence: bool = False) -> None:
        """Undo `prepare_for_replace`."""

    def signal(self, details: Json = None) -> None:
        """Take a signal. Raises `NotSupported` if the type takes none, or none after its last action."""
        if self.action in self.no_signal_actions:
            raise exception.NotSupported(
                feature=f"Signal resource during {self.action}"
            )
        handle = getattr(self, "handle_signal", None)
        if handle is None:
            raise exception.NotSupported(
                feature=f"to signal a resource of type {self.type()}"
            )
        handle(details)

    @property
    def child(self) -> Host | None:
        """Return the child stack; None if there is none."""
        return None

    def awaits(self) -> Hashable | None:
        """Return the key that is woken when a check may have a new result; None if checks have to poll."""
        return None


def wrong_properties(resource: Resource, properties: Properties) -> list[Wrong]:
    """Return the mistakes in properties of a resource; none of a type that accepts any."""
    return [] if resource.any_property else properties.mistakes()


def _wrong_policy(resource: Resource) -> list[Wrong]:
    """Return the mistakes in the update policy, with paths relative to the resource."""
    try:
        tree = as_far_as_known(resource.definition.update_policy, resource.stack.look)
    except Unresolved as error:
        return [Wrong(str(error), ("update_policy",), of_value=False)]
    if not isinstance(tree, Mapping):  # a function for all of it
        shape = isinstance(tree, Later) or tree is None
        return (
            []
            if shape
            else [
                Wrong("update_policy must be a map", ("update_policy",), of_value=False)
            ]
        )
    policy = Properties(schemata(resource.update_policy_schema), tree)
    return [
        Wrong(
            each.problem,
            ("update_policy", *each.path),
            of_value=False,
            key=each.key,
            names=each.names,
        )
        for each in policy.mistakes()
    ]

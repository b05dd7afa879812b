"""The base of all resources: what Heat's plug-in guide says that a class derives from.

A class declares `properties_schema` and `attributes_schema`, and has a handler for each step that means something to
it: `handle_create` … `handle_delete`, each with a `check_…_complete` where it takes time. What calls them, in which
order, and what is kept of it is `acting`'s business. Our own resources are written in no other way.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from heat_config_agent.stack import attributes, definition, exception
from heat_config_agent.stack.definition import Json, ResourceDefinition, Tree
from heat_config_agent.stack.exception import UpdateReplace
from heat_config_agent.stack.properties import Properties, Schema, Wrong, as_far_as_known
from heat_config_agent.stack.records import ResourceRecord
from heat_config_agent.stack.snippet import Snippet, freeze
from heat_config_agent.stack.support import SupportStatus

if TYPE_CHECKING:
    from heat_config_agent.stack.live import Stack

__all__ = ["NoActionRequired", "PollDelay", "Resource", "UpdateReplace"]


class NoActionRequired(Exception):  # noqa: N818  # plug-ins know it by this name
    """There is nothing to do about a signal."""


class PollDelay(Exception):  # noqa: N818
    """A check is not to be repeated before some time has passed."""

    def __init__(self, period: float = 1.0) -> None:
        """Take the seconds."""
        super().__init__()
        self.period = period


class Resource:
    """Something that a stack has."""

    ACTIONS = (INIT, CREATE, DELETE, UPDATE, ROLLBACK, SUSPEND, RESUME, ADOPT, SNAPSHOT, CHECK) = (
        *("INIT", "CREATE", "DELETE", "UPDATE", "ROLLBACK"),
        *("SUSPEND", "RESUME", "ADOPT", "SNAPSHOT", "CHECK"),
    )
    STATUSES = (IN_PROGRESS, FAILED, COMPLETE) = ("IN_PROGRESS", "FAILED", "COMPLETE")

    properties_schema: ClassVar[Mapping[str, Schema]] = {}
    attributes_schema: ClassVar[Mapping[str, attributes.Schema]] = {}
    update_policy_schema: ClassVar[Mapping[str, Schema]] = {}
    support_status = SupportStatus()
    default_client_name: ClassVar[str | None] = None
    entity: ClassVar[str | None] = None
    physical_resource_name_limit: ClassVar[int | None] = 255
    any_property: ClassVar[bool] = False
    """Whether it takes properties that are not in its schema."""
    any_attribute: ClassVar[bool] = False
    """Whether it has attributes that are not in its schema, of which nothing is known before it is there."""
    again_after_interruption: ClassVar[bool] = False
    """Whether a handler that was interrupted may be called again. Else the resource counts as failed."""
    deletes_with_snapshot: ClassVar[bool] = False
    """Whether it may have the deletion policy Snapshot."""

    def __init__(self, name: str, definition: ResourceDefinition, stack: Stack) -> None:
        """Make what works on one resource of a stack; `attach` says what is known of it."""
        self.name, self.stack = name, stack
        self.record = ResourceRecord(id="", name=name, stack=stack.id)
        self.define(definition)

    def attach(self, record: ResourceRecord) -> None:
        """Go on with what is kept of the resource."""
        self.record = record

    def define(self, definition: ResourceDefinition) -> None:
        """Be made of a definition from here on."""
        self.definition = definition
        self.t = Snippet(definition, self.resolve)
        self.reparse()

    def reparse(self) -> None:
        """Have the properties and attributes be those of the definition."""
        schema = self.schema_of_properties()
        self.properties = Properties(schema, self.definition.properties, self.resolve)
        self.attributes = attributes.Attributes(self.schema_of_attributes(), self._value_of)

    def schema_of_properties(self) -> Mapping[str, Schema]:
        """Return its properties; a class whose schema depends on the resource has its own."""
        return self.properties_schema

    def schema_of_attributes(self) -> Mapping[str, attributes.Schema]:
        """Return its attributes; a class whose schema depends on the resource has its own."""
        return self.attributes_schema

    def resolve(self, tree: Tree) -> Json:
        """Return the value of a tree as far as it is known now. Raises `Unresolved`."""
        return definition.resolve(tree, self.stack.look)

    def frozen(self) -> dict[str, Json]:
        """Return its definition, resolved."""
        return freeze(self.definition, self.resolve)

    # What it is.

    @property
    def action(self) -> str:
        """Return what was done with it last."""
        return self.record.action

    @property
    def status(self) -> str:
        """Return how that ended."""
        return self.record.status

    @property
    def status_reason(self) -> str:
        """Return why it ended so."""
        return self.record.reason

    @property
    def state(self) -> tuple[str, str]:
        """Return action and status."""
        return self.record.state

    @property
    def uuid(self) -> str:
        """Return what names the resource itself, and not what it stands for."""
        return self.record.id

    @property
    def context(self) -> object:
        """Return who asks, of whom there is only one here."""
        return self.stack.context

    @property
    def resource_id(self) -> str | None:
        """Return the id of what it stands for."""
        return self.record.physical

    def resource_id_set(self, inst: str | None) -> None:
        """Keep the id of what it stands for: from here on it is found again, whatever happens."""
        self.record.physical = inst
        self.stack.keep(self.record)
        if not self.again_after_interruption:
            self.stack.world.store.flush()

    def type(self) -> str:
        """Return its type, as it is written in the template."""
        return self.definition.type

    def has_interface(self, resource_type: str) -> bool:
        """Whether it is of a type."""
        return resource_type in (self.definition.type, self.record.type)

    def physical_resource_name(self) -> str:
        """Return a name for what it stands for that nothing else has."""
        short = base64.b32encode(UUID(self.record.id).bytes).decode().lower()[:12] if self.record.id else ""
        name = "-".join(filter(None, (self.stack.name, self.name, short)))
        limit = self.physical_resource_name_limit
        return name if not limit or len(name) <= limit else f"{name[:2]}-{name[3 - limit :]}"

    def physical_resource_name_or_FnGetRefId(self) -> str:
        """Return the name that it gave to what it stands for, or the id of that."""
        return self.physical_resource_name()

    # What it keeps.

    def data(self) -> dict[str, Json]:
        """Return what the class keeps."""
        return dict(self.record.data)

    def data_set(self, key: str, value: Json, redact: bool = False) -> None:
        """Keep something."""
        self.record.data[key] = value
        self.stack.keep(self.record)

    def data_delete(self, key: str) -> bool:
        """Keep something no more, and return whether it was there."""
        there = self.record.data.pop(key, None) is not None
        self.stack.keep(self.record)
        return there

    def metadata_get(self, refresh: bool = False) -> dict[str, Json]:
        """Return its metadata as it is now."""
        return dict(self.record.metadata)

    def metadata_set(self, metadata: Mapping[str, Json], merge_metadata: object = None) -> None:
        """Replace its metadata."""
        self.record.metadata = dict(metadata)
        self.stack.keep(self.record)

    # What others see of it.

    def get_reference_id(self) -> Json:
        """Return what get_resource gives."""
        return self.name if self.resource_id is None else self.resource_id

    def FnGetRefId(self) -> Json:
        """Return what get_resource gives."""
        return self.get_reference_id()

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an attribute, or what is found in it."""
        if key not in self.attributes:
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        return attributes.select_from_attribute(self.attributes[key], path)

    def FnGetAtt(self, key: str, *path: Json) -> Json:
        """Return an attribute, or what is found in it."""
        return self.get_attribute(key, *path)

    def _value_of(self, name: str) -> Json:
        return self._show_resource() if name == attributes.SHOW else self._resolve_attribute(name)

    def _resolve_attribute(self, name: str) -> Json:
        """Return the value of an attribute."""
        return None

    def _show_resource(self) -> Json:
        """Return all that is known of what it stands for."""
        return None

    def given_attributes(self) -> dict[str, Json]:
        """Return all attributes but `show`."""
        return {name: self.FnGetAtt(name) for name in self.attributes}

    # What it needs of others.

    def client(self, name: str | None = None, version: str | None = None) -> Any:
        """Return a client of a cloud's service: there is none."""
        raise exception.ClientNotAvailable(client_name=name or self.default_client_name)

    client_plugin = client

    @classmethod
    def is_service_available(cls, context: object) -> tuple[bool, str | None]:
        """Return whether the service is there that it needs, and why not."""
        return True, None

    def translation_rules(self, properties: Properties) -> Iterable[object]:
        """Return how names in properties become ids: there is no service to ask."""
        return ()

    # Checking.

    def mistakes(self) -> list[Wrong]:
        """Return all that is wrong with its properties and its update policy, with paths counted from the resource."""
        given = [] if self.any_property else self.known().mistakes()
        found = [Wrong(each.problem, ("properties", *each.path)) for each in given]
        policy = Properties(self.update_policy_schema, self.definition.update_policy, self.resolve)
        return found + [Wrong(each.problem, ("update_policy", *each.path)) for each in policy.mistakes()]

    def known(self) -> Properties:
        """Return the properties, with `Unknown` in the place of what cannot be known yet."""
        return self.properties_of(lambda tree: as_far_as_known(tree, self.stack.look))

    def properties_of(self, resolve: Callable[[Tree], Tree]) -> Properties:
        """Return the properties, resolved in a way."""
        return Properties(self.properties.schema, self.definition.properties, resolve)

    def has_attribute(self, name: str) -> bool:
        """Whether there may be such an attribute, as far as is known before it is there."""
        return self.any_attribute or name in self.attributes

    def validate(self) -> None:
        """Check what the schemas do not say. Raises `StackValidationFailed`."""

    # The handlers that have a meaning for every resource.

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> Any:
        """Be made anew, if any property changes."""
        if prop_diff:
            raise UpdateReplace(self.name)

    def handle_delete(self) -> Any:
        """Remove what it stands for, where that is a thing of a cloud's service."""
        if self.entity and self.resource_id is not None:
            getattr(self.client(), self.entity).delete(self.resource_id)
        return self.resource_id

    def needs_replace(self, after_props: Properties) -> bool:
        """Whether it is to be made anew because of what the properties will be."""
        return False

    def needs_replace_with_prop_diff(
        self,
        changed_properties_set: set[str],
        after_props: Properties,
        before_props: Properties,
    ) -> bool:
        """Whether it is to be made anew because of which properties change."""
        return False

    def needs_replace_with_tmpl_diff(self, tmpl_diff: Mapping[str, Json]) -> bool:
        """Whether it is to be made anew because of what else changes."""
        return False

    def needs_replace_failed(self) -> bool:
        """Whether it is to be made anew after it has failed."""
        return True

    def always_update(self) -> bool:
        """Whether every update concerns it, even where its definition is the same."""
        return False

    def prepare_for_replace(self) -> None:
        """Make room for the one that comes in its place."""

    def restore_prev_rsrc(self, convergence: bool = False) -> None:
        """Be again what it was before the one that was to come in its place."""

    def signal(self, details: Json = None) -> None:
        """Take a signal."""
        handle = getattr(self, "handle_signal", None)
        if handle is None:
            raise exception.NotSupported(feature=f"to signal a resource of type {self.type()}")
        handle(details)

    @property
    def child(self) -> Stack | None:
        """Return the stack that it is; None where it is none, or not yet."""
        return None

    def awaits(self) -> Hashable | None:
        """Return what is going to happen before a check has anything new to say; None where nobody announces it."""
        return None

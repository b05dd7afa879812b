"""The base class of resources as plug-ins see it: ours, with the rest of the names of `heat.engine.resource`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from heat_config_stack.definition import ResourceDefinition, requires
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.plugins.facade.common import HeatIdentifier
from heat_config_stack.plugins.facade.template import Template, of_definition
from heat_config_stack.records import exception
from heat_config_stack.resource import resource
from heat_config_stack.resource.properties import Properties
from heat_config_stack.resource.resource import (
    NoActionRequired,
    PollDelay,
    UpdateReplace,
)
from heat_config_stack.resource.snippet import Snippet, policy, thaw

__all__ = ["NoActionRequired", "PollDelay", "Resource", "UpdateReplace"]

MINUTES = 60
"""The minutes that a stack may take, as Heat's settings have them."""


class Context:
    """The context of a request, as plug-ins see it: there is one user, and no cloud."""

    user_id = username = user = trust_id = region_name = auth_token = None
    is_admin, show_deleted, roles = False, False, ()

    def __init__(self, project: str) -> None:
        """Take the id of the project."""
        self.project_id = self.tenant_id = self.tenant = self.project_name = project

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise exception.ClientNotAvailable(client_name=f"context.{name}")


class StackEnvironment:
    """The types of a stack, under the names of `heat.engine.environment`."""

    def __init__(self, stack: Stack) -> None:
        """Take the stack."""
        self._stack = stack

    def get_class(
        self,
        resource_type: str,
        resource_name: str | None = None,
        files: object = None,  # noqa: ARG002
    ) -> Any:
        """Return the class of a type. Raises EntityNotFound."""
        types, wanted = (
            self._stack.world.types,
            ResourceDefinition(resource_name or "", resource_type),
        )
        return types.class_of(types.mapped_type(wanted, self._stack.environment))

    get_class_to_instantiate = get_class

    def user_env_as_dict(self) -> dict[str, Any]:
        """Return no sections: the stack's environment holds in its child stacks anyway."""
        return {}


class StackView:
    """A stack as plug-ins see it: ours, with the names of `heat.engine.stack`."""

    ACTIONS = (
        CREATE,
        DELETE,
        UPDATE,
        ROLLBACK,
        SUSPEND,
        RESUME,
        ADOPT,
        SNAPSHOT,
        CHECK,
        RESTORE,
    ) = (
        *("CREATE", "DELETE", "UPDATE", "ROLLBACK", "SUSPEND"),
        *("RESUME", "ADOPT", "SNAPSHOT", "CHECK", "RESTORE"),
    )
    STATUSES = (IN_PROGRESS, FAILED, COMPLETE) = ("IN_PROGRESS", "FAILED", "COMPLETE")
    convergence, strict_validate, disable_rollback = True, True, True
    timeout_mins, stack_user_project_id, user_creds_id = MINUTES, None, None

    def __init__(self, stack: Stack) -> None:
        """Take the stack."""
        self._stack = stack
        self.env = StackEnvironment(stack)
        self.context = Context(stack.record.project)
        self.t = Template({})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stack, name)

    def __eq__(self, other: object) -> bool:
        return self._stack is (other._stack if isinstance(other, StackView) else other)

    def __hash__(self) -> int:
        return hash(self._stack)

    # The resources, by name.

    def __getitem__(self, name: str) -> Any:
        return self._stack.resources[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stack.resources)

    def __len__(self) -> int:
        return len(self._stack.resources)

    def __contains__(self, name: object) -> bool:
        return name in self._stack.resources

    def __bool__(self) -> bool:
        return True

    def get(self, name: str, default: Any = None) -> Any:
        """Return a resource, or a default."""
        return self._stack.resources.get(name, default)

    def keys(self) -> Any:
        """Return the names of the resources."""
        return self._stack.resources.keys()

    def values(self) -> Any:
        """Return the resources."""
        return self._stack.resources.values()

    def items(self) -> Any:
        """Return the names and the resources."""
        return self._stack.resources.items()

    def iter_resources(
        self,
        nested_depth: int = 0,
        filters: object = None,  # noqa: ARG002
    ) -> Iterator[Any]:
        """Yield the resources, and those of their child stacks down to a depth."""
        for each in self._stack.resources.values():
            yield each
            if nested_depth and each.child is not None:
                yield from StackView(each.child).iter_resources(nested_depth - 1)  # type: ignore[arg-type]

    def resource_by_refid(self, refid: object) -> Any:
        """Return the resource with a reference id; None if there is none."""
        resources = self._stack.resources.values()
        return next(
            (each for each in resources if refid in (each.FnGetRefId(), each.name)),
            None,
        )

    def total_resources(self, stack_id: object = None) -> int:  # noqa: ARG002
        """Return the number of resources of the whole tree of stacks."""
        return len(self._stack.world.store.resources)

    # Identity and state.

    def identifier(self) -> HeatIdentifier:
        """Return the identity."""
        return HeatIdentifier(
            self._stack.identity.project, self._stack.name, self._stack.id
        )

    def root_stack_id(self) -> str:
        """Return the id of the outermost stack."""
        return self._stack.world.root

    @property
    def action(self) -> str:
        """Return the last action."""
        return self._stack.record.action

    @property
    def status(self) -> str:
        """Return the status of the last action."""
        return self._stack.record.status

    @property
    def status_reason(self) -> str:
        """Return the reason for the status."""
        return self._stack.record.reason

    @property
    def state(self) -> tuple[str, str]:
        """Return the action and the status."""
        return self.action, self.status

    @property
    def nested_depth(self) -> int:
        """Return the number of stacks that contain this one."""
        return len(self._stack.path)

    @property
    def parent_resource_name(self) -> str | None:
        """Return the name of the resource that has this stack."""
        return self._stack.owner.name if self._stack.owner else None

    @property
    def outputs(self) -> Mapping[str, Any]:
        """Return the definitions of the outputs."""
        return self._stack.definition.outputs if self._stack.defined else {}

    def timeout_secs(self) -> int:
        """Return the seconds that the stack may take."""
        return MINUTES * 60


def of_stack(stack: Any) -> Any:
    """Return a stack as plug-ins see it."""
    return stack if isinstance(stack, StackView) else StackView(stack)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)


class Resource(resource.Resource):
    """The base class of the resources of plug-ins."""

    requires_deferred_auth = False
    old_template_id: object = None
    abandon_in_progress = converge = False
    _policy: Any = None

    def __init__(
        self, name: str, json_snippet: ResourceDefinition | Snippet, stack: Any
    ) -> None:
        """Work on one resource of a stack."""
        definition = (
            json_snippet.definition
            if isinstance(json_snippet, Snippet)
            else json_snippet
        )
        super().__init__(name, definition, of_stack(stack))

    def define(self, definition: ResourceDefinition) -> None:
        """Use a definition from now on."""
        self._policy = None
        super().define(definition)

    @property
    def id(self) -> str:
        """Return the id of the resource itself."""
        return self.record.id

    @property
    def created_time(self) -> datetime:
        """Return the time of its creation."""
        return _time(self.record.created)

    @property
    def updated_time(self) -> datetime | None:
        """Return the time of its last change."""
        return _time(self.record.updated) if self.record.updated else None

    @property
    def update_policy(self) -> Properties:
        """Return the update policy."""
        if self._policy is None:
            self._policy = policy(
                self.update_policy_schema, self.definition.update_policy, self.resolve
            )
        found: Properties = self._policy
        return found

    @update_policy.setter
    def update_policy(self, found: Properties) -> None:
        self._policy = found

    def frozen_definition(self) -> Snippet:
        """Return the definition with its functions resolved."""
        return of_definition(thaw(self.name, self.record.definition or self.frozen()))

    def parsed_template(self, section: str | None = None, default: Any = None) -> Any:
        """Return a section of the definition with its functions resolved."""
        return self.t if section is None else self.t.get(section, default)

    def required_by(self) -> list[str]:
        """Return the names of the resources that depend on this one."""
        others = self.stack.definition.resources.items()
        return [name for name, each in others if self.name in each.requirements()]

    def referenced_attrs(
        self,
        stk_defn: object = None,  # noqa: ARG002
        in_resources: bool = True,
        in_outputs: bool = True,
    ) -> set[Any]:
        """Return the attributes that the template of the stack uses: each a name, or a name and a path."""
        defined = self.stack.defined
        if defined is None:
            return set()
        trees: list[Any] = []
        for each in defined.resources.values() if in_resources else ():
            trees += [dict(each.properties), each.metadata]
        trees += [each.value for each in defined.outputs.values()] if in_outputs else []
        needs = (
            need
            for tree in trees
            for need in requires(tree)
            if need.resource == self.name and need.attribute
        )
        return {
            (need.attribute, *need.keys) if need.keys else need.attribute
            for need in needs
        }

    def identifier(self) -> HeatIdentifier:
        """Return the identity."""
        stack: Any = self.stack
        return HeatIdentifier(
            stack.identity.project, stack.name, stack.id, f"resources/{self.name}"
        )

    def state_set(
        self, action: str, status: str, reason: str = "state changed"
    ) -> None:
        """Record a state."""
        self.record.action, self.record.status, self.record.reason = (
            action,
            status,
            reason,
        )
        self.stack.keep(self.record)

    def store(self, **_: Any) -> None:
        """Keep the record."""
        self.stack.keep(self.record)

    store_update = store

    def _add_event(self, action: str, status: str, reason: str) -> None:
        """Record an event."""
        self.stack.happened([self.name], action, status, reason, record=self.record)

    def clear_stored_attributes(self) -> None:
        """Do nothing: no attribute is stored."""

    def has_nested(self) -> bool:
        """Return whether there is a child stack."""
        return False

    def nested(self) -> Any:
        """Return the child stack; None if there is none."""
        return None

    def preview(self) -> Any:
        """Return the resource."""
        return self

    def has_attribute(self, name: str) -> bool:
        """Return whether the resource has an attribute; True if its class has a `get_attribute` of its own."""
        own = type(self).get_attribute is not resource.Resource.get_attribute
        return (
            own
            or type(self).FnGetAtt is not resource.Resource.FnGetAtt
            or super().has_attribute(name)
        )

    def rpc_client(self) -> Any:
        """Return the part of Heat's RPC client that there is."""
        return _Rpc(super().rpc_client())

    def _client(self, name: str) -> Any:
        return self.client(name)

    # The clients, as older plug-ins call them.

    def nova(self) -> Any:
        """Return the client of Nova."""
        return self._client("nova")

    def neutron(self) -> Any:
        """Return the client of Neutron."""
        return self._client("neutron")

    def keystone(self) -> Any:
        """Return the client of Keystone."""
        return self._client("keystone")

    def cinder(self) -> Any:
        """Return the client of Cinder."""
        return self._client("cinder")

    def swift(self) -> Any:
        """Return the client of Swift."""
        return self._client("swift")

    def glance(self) -> Any:
        """Return the client of Glance."""
        return self._client("glance")

    def heat(self) -> Any:
        """Return the client of Heat."""
        return self._client("heat")

    def is_using_neutron(self) -> bool:
        """Return True, as in Heat."""
        return True


class _Rpc:
    """The methods of Heat's RPC client; methods that need Heat's engine raise an error."""

    def __init__(self, configs: Any) -> None:
        self._configs = configs

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._configs, name, None)
        if found is None:
            raise exception.NotSupported(
                feature=f"rpc_client().{name} of Heat's engine, which this machine does not have,"
            )
        return found

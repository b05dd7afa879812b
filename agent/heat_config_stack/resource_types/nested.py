"""Resources with a child stack: nested templates, and the base class of groups and chains."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import (
    Definition,
    Identity,
    Interface,
    MappedType,
    Unresolved,
    limits,
    requires,
)
from heat_config_stack.lifecycle import traversal, validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception, records
from heat_config_stack.records.records import (
    COMPLETE,
    CREATE,
    DELETE,
    IN_PROGRESS,
    StackRecord,
)
from heat_config_stack.resource import attributes, properties
from heat_config_stack.resource.resource import PLUGINS, Resource
from heat_config_stack.resource.rolling import Rolling
from heat_config_stack.resource.snippet import Snippet

MEMBER = "resource."
"""The prefix of an attribute that belongs to a resource of the child: `resource.NAME.ATTRIBUTE`."""


class StackResource(Resource):
    """A resource with a child stack, which its class defines."""

    stack: Stack
    again_after_interruption: ClassVar[bool] = True
    may_run: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True

    def child_definition(self, identity: Identity) -> Definition:
        """Return the definition of the child, from the current properties."""
        raise NotImplementedError

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return the definition of the child as far as it is known; None if it is not known."""
        raise NotImplementedError

    def members_like_the_first(self) -> int:
        """Return the number of resources that each resource of `child_to_validate` represents."""
        return 1

    def child_mistakes_path(self) -> str:
        """Return the name of the child in the paths of mistakes."""
        return f"{self.name}<nested_stack>"

    def sleeps(self) -> bool:
        """Return whether something in the child stack is suspended."""
        child = self.child
        return child is not None and any(
            each.sleeps() for each in child.resources.values()
        )

    @property
    def child(self) -> Stack | None:
        """Return the child stack; None before it exists."""
        world = self.stack.world
        found = self.stack.world.stacks.get(self.resource_id or "")
        if found is not None and found.record.id in world.store.stacks:
            found.owner = self
            return found
        record = world.store.stacks.get(self.resource_id or "")
        if record is None:
            return None
        try:
            definition = self.child_definition(self._identity_of(record))
        except Exception:  # noqa: BLE001  # without a definition, it can only be deleted
            return Stack(world, record, None, self)
        return Stack(world, record, definition, self)

    def has_nested(self) -> bool:
        """Return whether there is a child stack."""
        return self.child is not None

    def awaits(self) -> Hashable | None:
        """Wait for the end of the child's traversal."""
        return traversal.key(self.child) if self.child else None

    def always_update(self) -> bool:
        """Return whether there is a child: its resources decide what an update changes."""
        return self.child is not None

    def needs_replace_failed(self) -> bool:
        """Return whether there is no child that could be repaired."""
        return self.child is None

    def has_run(self) -> bool:
        """Return whether a resource of the child has run something on this machine."""
        child = self.child
        if child is None or type(self).__module__.startswith(PLUGINS):
            return False
        return any(child.resource(each).has_run() for each in child.records())

    # The handlers.

    def handle_create(self) -> str:
        """Create the child."""
        if self.child is None:
            record = StackRecord(
                records.new_id(), self.physical_resource_name(), owner=self.record.id
            )
            definition = self._checked(record, CREATE)
            self.stack.world.store.put(record)
            self.resource_id_set(record.id)
            return self._converge(
                CREATE, Stack(self.stack.world, record, None, self), definition
            )
        return self._converge(CREATE, self.child)

    def handle_adopt(self, resource_data: Mapping[str, Json] | None = None) -> str:
        """Adopt the child with its resources; its stored values are there if the stack was abandoned here."""
        data = resource_data or {}
        if self.child is None:
            record = StackRecord(
                records.new_id(),
                self.physical_resource_name(),
                owner=self.record.id,
                adopted=data.get("resources"),
            )
            self.stack.world.store.put(record)
            self.resource_id_set(record.id)
            self.adopt_values(
                data.get("resource_data") or {}, list(data.get("resources") or {})
            )
            return self._converge(
                records.ADOPT, Stack(self.stack.world, record, None, self)
            )
        return self._converge(records.ADOPT, self.child)

    def adopt_values(self, values: Mapping[str, Json], members: Sequence[str]) -> None:
        """Take over stored values; without them, `members` are the names of the child's resources."""
        for key, value in values.items():
            self.data_set(key, value)

    def abandoned(self) -> dict[str, Json]:
        """Return the state of the child with its resources."""
        child = self.child
        return (
            {**child.abandoned(), "resource_data": self.data()}
            if child is not None
            else {}
        )

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Update the child."""
        child = self.child
        former = child.defined if child else None
        self.define(json_snippet.definition)
        if child is None:
            return self.handle_create()
        if former and (
            changed := former.immutable_changes(self.child_definition(former.identity))
        ):
            raise exception.ImmutableParameterModified(*changed)
        return self._converge(records.UPDATE, child)

    def handle_delete(self) -> str:
        """Delete the child."""
        child = self.child
        if child is None:
            return ""
        if not self._is_under_way(child, DELETE):
            traversal.converge(child, DELETE, None, self.record.attempt)
        return DELETE

    def handle_suspend(self) -> str:
        """Suspend the child."""
        return self._turn(records.SUSPEND)

    def handle_resume(self) -> str:
        """Resume the child."""
        return self._turn(records.RESUME)

    def handle_check(self) -> str:
        """Check the child."""
        if self.child is None:
            raise exception.Error("Resource not created")
        return self._turn(records.CHECK)

    def _checked(self, record: StackRecord, action: str) -> Definition:
        """Return the definition of the child if it is valid with the values that are known now. Raises `Invalid`."""
        return self.checked(
            record, self.child_definition(self._identity_of(record)), action
        )

    def checked(
        self, record: StackRecord, definition: Definition, action: str
    ) -> Definition:
        """Return a definition of the child if it is valid with the values that are known now. Raises `Invalid`."""
        others = sum(
            each.stack != record.id
            for each in self.stack.world.store.resources.values()
        )
        if others + len(definition.resources) > limits.MOST_RESOURCES:
            raise exception.Error(limits.too_many(others + len(definition.resources)))
        validation.check(
            definition, self.stack.world.types, self, creating=action == CREATE
        )
        return definition

    def _identity_of(self, record: StackRecord) -> Identity:
        return Identity(record.name, record.id, self.stack.identity.project)

    def _converge(
        self, action: str, child: Stack, checked: Definition | None = None
    ) -> str:
        """Begin to create or update the child, or continue."""
        if self._is_under_way(child, action):
            if child.traversal is None:
                definition = self.child_definition(self._identity_of(child.record))
                traversal.go_on(child, definition, self.rolling(definition))
        elif child.record.attempt != self.record.attempt:
            definition = checked or self._checked(child.record, action)
            traversal.converge(
                child, action, definition, self.record.attempt, self.rolling(definition)
            )
        return action

    def rolling(self, definition: Definition) -> Rolling | None:
        """Return the batches in which the child becomes like a definition; None if all is done at once."""
        return None

    def _turn(self, action: str) -> str:
        child = self.child
        if child is None:
            return ""
        if self._is_under_way(child, action):
            if child.traversal is None:
                traversal.go_on(child, None)
        elif child.record.attempt != self.record.attempt:
            traversal.turn(child, action, self.record.attempt)
        return action

    def _is_under_way(self, child: Stack, action: str) -> bool:
        """Return whether the child is already performing the same action, from this process or an earlier one."""
        record = child.record
        mine = (record.attempt, record.action, record.status) == (
            self.record.attempt,
            action,
            IN_PROGRESS,
        )
        if mine and child.traversal is None and action == DELETE:
            traversal.go_on(child, None)
        return mine

    def _is_complete(self, token: str) -> bool:
        child = self.child
        if not token or child is None:
            return True
        if child.record.status == IN_PROGRESS:
            return False
        if child.record.status == COMPLETE:
            return True
        failure = child.record.failure
        if failure is None:
            raise exception.Error(child.record.reason)
        raise exception.ResourceFailure(
            failure.kind, ["resources", self.name, *failure.path], failure.message
        )

    check_create_complete = _is_complete
    check_update_complete = _is_complete
    check_adopt_complete = _is_complete
    check_suspend_complete = _is_complete
    check_resume_complete = _is_complete
    check_check_complete = _is_complete

    def check_delete_complete(self, token: str) -> bool:
        """Return whether the child is deleted; if so, delete its record."""
        done = self._is_complete(token)
        child = self.child
        if done and child is not None:
            self.stack.world.store.drop(child.record)
            self.stack.world.stacks.pop(child.id, None)
        return done

    # Attributes.

    def member(self, name: str) -> Resource:
        """Return a resource of the child. Raises `NotFound`."""
        child = self.child
        if child is None or name not in child.resources:
            raise exception.NotFound(
                f"Member '{name}' not found in group resource '{self.name}'."
            )
        return child.resources[name]

    def of_member(self, key: str, path: tuple[Json, ...]) -> Json:
        """Return `resource.NAME` or `resource.NAME.ATTRIBUTE`: the reference of a member, or an attribute."""
        name, _, attribute = key.removeprefix(MEMBER).partition(".")
        found = self.member(name)
        if attribute:
            return found.FnGetAtt(attribute, *path)
        return found.FnGetAtt(str(path[0]), *path[1:]) if path else found.FnGetRefId()


class TemplateResource(StackResource):
    """A nested template: its parameters are the properties, its outputs the attributes."""

    def interface(self) -> Interface:
        """Return the parameters and outputs of the template."""
        return self.stack.environment.interface(self.mapped_type().template)

    def mapped_type(self) -> MappedType:
        """Return the mapping of the type, with the template's file."""
        return self.stack.world.types.mapped_type(
            self.definition, self.stack.environment
        )

    def schema_of_properties(self) -> Mapping[str, properties.Schema]:
        """Return the parameters of the template."""
        try:
            interface = self.interface()
        except Exception:  # noqa: BLE001  # without the template, it can only be deleted
            return {}
        final = interface.is_final
        return {
            name: properties.of_parameter(each, is_final=final)
            for name, each in interface.properties.items()
        }

    def schema_of_attributes(self) -> Mapping[str, attributes.Schema]:
        """Return the outputs of the template."""
        try:
            declared = self.interface().attributes
        except Exception:  # noqa: BLE001
            return {}
        return {name: attributes.Schema(about) for name, about in declared.items()}

    def child_definition(self, identity: Identity) -> Definition:
        """Return the definition of the template with the current properties."""
        return self.stack.environment.nested(
            self.name, self.mapped_type(), identity, self._given()
        )

    def child_to_validate(self, identity: Identity) -> Definition:
        """Return the definition while some properties are not known yet."""
        known = self.known()
        given = {name: known[name] for name in known.data if name in known.schema}
        given = {
            name: value
            for name, value in given.items()
            if value is not None and not any(requires(value))
        }
        return self.stack.environment.nested(
            self.name, self.mapped_type(), identity, given, known=False
        )

    def leaving(self, definition: Definition) -> list[tuple[tuple[str, ...], Resource]]:
        """Return the resources that the template no longer has, whatever the values of its parameters will be."""
        child = self.child
        if child is None or child.defined is None:
            return []
        try:
            after = validation.unmade(definition, self.stack.world.types).as_defined(
                self.name
            )
            template = (
                after.child_to_validate(child.identity)
                if isinstance(after, TemplateResource)
                else None
            )
        except Exception:  # noqa: BLE001  # a mistake, which the update reports
            template = None
        if template is None:
            return []
        gone: list[tuple[tuple[str, ...], Resource]] = []
        for record in child.records():
            inner = child.resource(record)
            if record.name in template.resources:
                gone += (
                    ((record.name, *path), each)
                    for path, each in inner.leaving(template)
                )
            elif record.name not in template.conditional and inner.has_run():
                gone.append(((record.name,), inner))
        return gone

    def _given(self) -> dict[str, Json]:
        named = [
            name for name in self.properties.data if name in self.properties.schema
        ]
        return {
            name: self.properties[name]
            for name in named
            if self.properties.get_user_value(name) is not None
        }

    def child_mistakes_path(self) -> str:
        """Return the name of the child in the paths of mistakes."""
        return f"{self.name}<{self.mapped_type().template}>"

    def get_reference_id(self) -> Json:
        """Return the output `OS::stack_id` of the template, or else the name of the child among all stacks."""
        child = self.child
        if child is None:
            return self.name
        if "OS::stack_id" in child.definition.outputs:
            return child.output("OS::stack_id")
        return child.arn

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an output of the template, or an attribute of one of its resources."""
        if key.startswith(MEMBER):
            return self.of_member(key, path)
        child = self.child
        if child is None:
            return None
        if key not in child.definition.outputs:
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        try:
            value = child.output(key)
        except Unresolved as error:
            raise exception.TemplateOutputError(
                resource=self.name, attribute=key, message=str(error)
            ) from error
        return attributes.select_from_attribute(value, path)

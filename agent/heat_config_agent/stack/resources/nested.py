"""Resources that are stacks themselves: nested templates, and what groups and chains are made of."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import ClassVar

from heat_config_agent.stack import attributes, exception, properties, records, traversal
from heat_config_agent.stack.definition import (
    Definition,
    Found,
    Identity,
    Interface,
    Json,
    Unresolved,
    requires,
)
from heat_config_agent.stack.live import Stack
from heat_config_agent.stack.records import COMPLETE, CREATE, DELETE, IN_PROGRESS, StackRecord
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.snippet import Snippet

MEMBER = "resource."
"""Begins an attribute that is one of a resource of the child: `resource.NAME.ATTRIBUTE`."""


class StackResource(Resource):
    """A resource with a child stack. Its class says what the child is to be."""

    again_after_interruption: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True

    def child_definition(self, identity: Identity) -> Definition:
        """Return what the child is to be, by the properties as they are now."""
        raise NotImplementedError

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return what the child is to be as far as that is known yet; None where nothing is."""
        raise NotImplementedError

    def child_mistakes_path(self) -> str:
        """Return how the child is named in the paths of mistakes."""
        return f"{self.name}<nested_stack>"

    @property
    def child(self) -> Stack | None:
        """Return the child stack, once it is there."""
        world = self.stack.world
        found = self.stack.world.stacks.get(self.resource_id or "")
        if found is not None and found.record.id in world.store.stacks:
            found.owner = self
            return found
        record = world.store.stacks.get(self.resource_id or "")
        if record is None:
            return None
        try:
            definition = self.child_definition(Identity(record.name, record.id, self.stack.identity.project))
        except Exception:  # noqa: BLE001  # what it was to be is not said any more: it can only be removed
            return Stack(world, record, None, self)
        return Stack(world, record, definition, self)

    nested = child

    def has_nested(self) -> bool:
        """Whether there is a child stack."""
        return self.child is not None

    def awaits(self) -> Hashable | None:
        """Wait for the child to come to the end of its way."""
        return traversal.key(self.child) if self.child else None

    def always_update(self) -> bool:
        """Whether there is a child: its resources are to decide what an update means to them."""
        return self.child is not None

    def needs_replace_failed(self) -> bool:
        """Whether there is no child that could be mended."""
        return self.child is None

    # The handlers.

    def handle_create(self) -> str:
        """Make the child."""
        if self.child is None:
            record = StackRecord(records.new_id(), self.physical_resource_name(), owner=self.record.id)
            self.stack.world.store.put(record)
            self.resource_id_set(record.id)
            return self._converge(CREATE, Stack(self.stack.world, record, None, self))
        return self._converge(CREATE, self.child)

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> str:
        """Have the child be what the properties say now."""
        self.define(json_snippet.definition)
        if self.child is None:
            return self.handle_create()
        return self._converge(records.UPDATE, self.child)

    def handle_delete(self) -> str:
        """Remove the child."""
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

    def _converge(self, action: str, child: Stack) -> str:
        definition = self.child_definition(Identity(child.name, child.id, self.stack.identity.project))
        if self._is_under_way(child, action):
            if child.traversal is None:
                traversal.go_on(child, definition)
        elif child.record.attempt != self.record.attempt:
            traversal.converge(child, action, definition, self.record.attempt)
        return action

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
        """Whether an earlier process has begun the very same, and perhaps this one goes on with it."""
        record = child.record
        mine = (record.attempt, record.action, record.status) == (self.record.attempt, action, IN_PROGRESS)
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
        raise exception.ResourceFailure(failure.kind, ["resources", self.name, *failure.path], failure.message)

    check_create_complete = _is_complete
    check_update_complete = _is_complete
    check_suspend_complete = _is_complete
    check_resume_complete = _is_complete
    check_check_complete = _is_complete

    def check_delete_complete(self, token: str) -> bool:
        """Whether the child is gone; nothing is kept of it then."""
        done = self._is_complete(token)
        child = self.child
        if done and child is not None:
            self.stack.world.store.drop(child.record)
            self.stack.world.stacks.pop(child.id, None)
        return done

    # What others see of it.

    def member(self, name: str) -> Resource:
        """Return a resource of the child. Raises `NotFound`."""
        child = self.child
        if child is None or name not in child.resources:
            raise exception.NotFound(f"Member '{name}' not found in group resource '{self.name}'.")
        return child.resources[name]

    def of_member(self, key: str, path: tuple[Json, ...]) -> Json:
        """Return `resource.NAME` or `resource.NAME.ATTRIBUTE`: the member's reference, or an attribute of it."""
        name, _, attribute = key.removeprefix(MEMBER).partition(".")
        found = self.member(name)
        if attribute:
            return found.FnGetAtt(attribute, *path)
        return found.FnGetAtt(str(path[0]), *path[1:]) if path else found.FnGetRefId()


class TemplateResource(StackResource):
    """A nested template: its parameters are the properties, its outputs the attributes."""

    def interface(self) -> Interface:
        """Return what the template looks like from outside."""
        found = self.found()
        return self.stack.environment.interface(found.template)

    def found(self) -> Found:
        """Return which template it is."""
        return self.stack.world.types.found(self.definition, self.stack.environment)

    def schema_of_properties(self) -> Mapping[str, properties.Schema]:
        """Return the parameters of the template."""
        try:
            declared = self.interface().properties
        except Exception:  # noqa: BLE001  # the template is not there any more: it can only be removed
            return {}
        return {name: properties.of_parameter(each) for name, each in declared.items()}

    def schema_of_attributes(self) -> Mapping[str, attributes.Schema]:
        """Return the outputs of the template."""
        try:
            declared = self.interface().attributes
        except Exception:  # noqa: BLE001
            return {}
        return {name: attributes.Schema(about) for name, about in declared.items()}

    def child_definition(self, identity: Identity) -> Definition:
        """Return what the template says with these parameters."""
        return self.stack.environment.nested(self.name, self.found(), identity, self._given())

    def child_to_validate(self, identity: Identity) -> Definition:
        """Return the same while the values of some parameters are not known yet."""
        known = self.known()
        given = {name: known[name] for name in known.data if name in known.schema}
        given = {name: value for name, value in given.items() if value is not None and not any(requires(value))}
        return self.stack.environment.nested(self.name, self.found(), identity, given, known=False)

    def _given(self) -> dict[str, Json]:
        named = [name for name in self.properties.data if name in self.properties.schema]
        return {name: self.properties[name] for name in named if self.properties.get_user_value(name) is not None}

    def child_mistakes_path(self) -> str:
        """Return how the child is named in the paths of mistakes."""
        return f"{self.name}<{self.found().template}>"

    def get_reference_id(self) -> Json:
        """Return the output `OS::stack_id` of the template, or else the name of the child among all stacks."""
        child = self.child
        if child is None:
            return self.name
        if "OS::stack_id" in child.definition.outputs:
            return child.output("OS::stack_id")
        return f"arn:openstack:heat::{child.identity.project}:stacks/{child.name}/{child.id}"

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an output of the template, or something of one of its resources."""
        if key.startswith(MEMBER):
            return self.of_member(key, path)
        child = self.child
        if child is None or key not in child.definition.outputs:
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        try:
            value = child.output(key)
        except Unresolved as error:
            raise exception.TemplateOutputError(resource=self.name, attribute=key, message=str(error)) from error
        return attributes.select_from_attribute(value, path)

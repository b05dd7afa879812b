"""The base class of plug-ins that have a child stack, under the names of `heat.engine.resources.stack_resource`.

A plug-in makes the template of its child, in `child_template`, and the values of its parameters, in `child_params`. The
child is carried out like any other child stack here. The record of the child has its template, so that a process that
continues needs no plug-in to know it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition, Identity, Unresolved
from heat_config_stack.lifecycle import traversal, validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.plugins.facade import scheduler
from heat_config_stack.plugins.facade.common import HeatIdentifier, read_template
from heat_config_stack.plugins.facade.exceptions import ResourceFailure
from heat_config_stack.plugins.facade.resource import Resource, of_stack
from heat_config_stack.plugins.facade.template import Environment, Template
from heat_config_stack.records import exception, records
from heat_config_stack.records.records import (
    ADOPT,
    CREATE,
    DELETE,
    IN_PROGRESS,
    UPDATE,
    StackRecord,
)
from heat_config_stack.resource.snippet import Snippet
from heat_config_stack.resource_types import nested

PARAMETERS, MAPPINGS, TEMPLATE = "parameters", "mappings", "template"
"""The keys of the stored source of a child."""


class ChildPreview:
    """The child stack of a template, before it is created."""

    strict_validate = True

    def __init__(self, owner: StackResource, definition: Definition) -> None:
        """Take the resource that will have the child, and the definition of the child."""
        self._owner, self._definition = owner, definition
        self.name, self.resources = definition.identity.name, definition.resources

    def validate(self) -> None:
        """Raise StackValidationFailed for the first mistake."""
        types = self._owner.stack.world.types
        found = next(validation.mistakes(self._definition, types, self._owner), None)
        if found is not None:
            raise exception.StackValidationFailed(message=str(found))

    def preview_resources(self) -> list[Any]:
        """Return the definitions of the resources."""
        return list(self.resources.values())


class StackResource(Resource, nested.StackResource):
    """A resource with a child stack, which its class makes."""

    any_attribute: ClassVar[bool] = False
    requires_deferred_auth = True
    resource_info: object = None
    _outputs: object = None
    _nested: object = None

    # The child, as the class makes it.

    def child_template(self) -> Any:
        """Return the template of the child: a map, text, or a `Template`."""
        raise NotImplementedError(f"{type(self).__name__} has no child_template")

    def child_params(self) -> Any:
        """Return the values of its parameters, or the sections of an environment."""
        raise NotImplementedError(f"{type(self).__name__} has no child_params")

    @property
    def template_url(self) -> str:
        """Return the name of the child in messages."""
        return "nested_stack"

    def child_template_files(self, child_env: object) -> dict[str, str]:  # noqa: ARG002  # a plug-in's
        """Return no files: the child finds its parent's files."""
        return {}

    def _source(self, template: Any, params: Any) -> dict[str, Json]:
        """Return a template with its parameters as data."""
        environment = params if isinstance(params, Environment) else Environment(params)
        if isinstance(template, Template) and isinstance(template.env, Environment):
            environment.mappings = {**template.env.mappings, **environment.mappings}
        sections = (
            read_template(template)
            if isinstance(template, str)
            else getattr(template, "t", template)
        )
        text = Template(sections).text()
        values = {**environment.param_defaults, **environment.params}
        return {TEMPLATE: text, PARAMETERS: values, MAPPINGS: environment.mappings}

    def _defined(
        self, source: Mapping[str, Any], identity: Identity, *, are_final: bool
    ) -> Definition:
        parameters = source[PARAMETERS]
        if not are_final:
            parameters = {
                name: value for name, value in parameters.items() if value is not None
            }
        return self.stack.environment.of_text(
            self.name,
            source[TEMPLATE],
            identity,
            parameters,
            known=are_final,
            mappings=source[MAPPINGS],
        )

    def child_definition(self, identity: Identity) -> Definition:
        """Return the definition of the child, from the template that is in force."""
        record = self.stack.world.store.stacks[identity.id]
        if record.source is None:
            raise ValueError(f"the child stack of {self.name} has no template yet")
        return self._defined(record.source, identity, are_final=True)

    # Validation.

    def validate(self) -> None:
        """Check the child if the class has a method of its own for that."""
        super().validate()
        if type(self).validate_nested_stack is not StackResource.validate_nested_stack:
            self.validate_nested_stack()

    def validate_nested_stack(self) -> None:
        """Raise StackValidationFailed if the child is not valid."""
        self._parse_nested_stack(
            f"{self.stack.name}-{self.name}", self.child_template(), self.child_params()
        ).validate()

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return the definition of the child as far as it is known; None if the class checks it, or defines it late."""
        if type(self).validate_nested_stack is not StackResource.validate_nested_stack:
            return None
        try:
            source = self._source(self.child_template(), self.child_params())
        except NotImplementedError:
            return None
        return self._defined(source, identity, are_final=False)

    def _parse_nested_stack(
        self,
        stack_name: str,
        child_template: Any,
        child_params: Any,
        timeout_mins: object = None,  # noqa: ARG002
        adopt_data: object = None,  # noqa: ARG002
    ) -> ChildPreview:
        """Return the child of a template, before it is created. Raises StackValidationFailed."""
        source = self._source(child_template, child_params)
        identity = Identity(
            stack_name, self.record.id or stack_name, self.stack.identity.project
        )
        try:
            return ChildPreview(self, self._defined(source, identity, are_final=False))
        except Invalid as error:
            raise exception.StackValidationFailed(
                message=str(error.mistakes[0])
            ) from error

    def get_nested_parameters_stack(self) -> ChildPreview:
        """Return the child before it is created, for a look at its parameters."""
        return self._parse_nested_stack(
            f"{self.stack.name}-{self.name}", self.child_template(), self.child_params()
        )

    # The work.

    def create_with_template(
        self,
        child_template: Any,
        user_params: Any = None,
        timeout_mins: object = None,  # noqa: ARG002  # its deployments have timeouts
        adopt_data: Mapping[str, Json] | None = None,
    ) -> None:
        """Begin to create the child, or to adopt it."""
        source = self._source(child_template, user_params)
        adopted = None if adopt_data is None else adopt_data.get("resources")
        self._apply(CREATE if adopt_data is None else ADOPT, source, adopted)

    def update_with_template(
        self,
        child_template: Any,
        user_params: Any = None,
        timeout_mins: object = None,  # noqa: ARG002
    ) -> None:
        """Begin to update the child; create it if there is none."""
        self._apply(UPDATE, self._source(child_template, user_params))

    def _apply(
        self, action: str, source: dict[str, Json], adopted: Json = None
    ) -> None:
        """Begin to bring the child to a template. Do nothing if that was begun before an interruption."""
        world = self.stack.world
        scheduler.wait_with(world.meanwhile)
        digest = hashlib.sha256(
            json.dumps(source, sort_keys=True, default=str).encode()
        ).hexdigest()[:16]
        attempt = f"{self.record.attempt}/{digest}"
        child = self.child
        if child is not None and child.record.attempt == attempt:
            if child.record.status == IN_PROGRESS and child.traversal is None:
                traversal.go_on(
                    child, self.child_definition(self._identity_of(child.record))
                )
            return
        if child is None:
            record = StackRecord(
                records.new_id(),
                self.physical_resource_name(),
                owner=self.record.id,
                adopted=adopted,
            )
        else:
            record = child.record
        definition = self._defined(source, self._identity_of(record), are_final=True)
        self.checked(record, definition, action)
        record.source = json.loads(json.dumps(source, default=str))
        world.store.put(record)
        if child is None:
            self.resource_id_set(record.id)
            child = Stack(world, record, None, self)
        traversal.converge(child, action, definition, attempt)

    def delete_nested(self) -> str:
        """Begin to delete the child."""
        return nested.StackResource.handle_delete(self)

    # The handlers, as far as the class has none of its own.

    def handle_create(self) -> Any:
        """Create the child."""
        return self.create_with_template(self.child_template(), self.child_params())

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],  # noqa: ARG002  # its definition has them
        prop_diff: Mapping[str, Json],  # noqa: ARG002
    ) -> Any:
        """Update the child."""
        self.define(json_snippet.definition)
        return self.update_with_template(self.child_template(), self.child_params())

    def handle_adopt(self, resource_data: Mapping[str, Json] | None = None) -> Any:
        """Adopt the child with its resources."""
        data = resource_data or {}
        self.adopt_values(
            data.get("resource_data") or {}, list(data.get("resources") or {})
        )
        return self.create_with_template(
            self.child_template(), self.child_params(), adopt_data=data
        )

    def handle_delete(self) -> Any:
        """Delete the child."""
        return self.delete_nested()

    def _is_complete(self, token: Any = None) -> bool:  # noqa: ARG002  # a plug-in's cookie
        """Return whether the child is as the handler wants it. Raises ResourceFailure."""
        if self.child is None:
            raise exception.Error(
                f"the handler has created no child stack: {type(self).__name__} has to do that"
            )
        try:
            return super()._is_complete("begun")
        except exception.ResourceFailure as failure:
            raise ResourceFailure(failure, self, self.action) from None

    def _check_status_complete(self, expected_action: str, cookie: Any = None) -> bool:  # noqa: ARG002
        return self._is_complete()

    def check_create_complete(self, cookie: Any = None) -> bool:
        """Return whether the child is created."""
        return self._is_complete(cookie)

    def check_update_complete(self, cookie: Any = None) -> bool:
        """Return whether the child is updated."""
        return self._is_complete(cookie)

    def check_adopt_complete(self, cookie: Any = None) -> bool:
        """Return whether the child is adopted."""
        return self._is_complete(cookie)

    def check_suspend_complete(self, cookie: Any = None) -> bool:
        """Return whether the child is suspended."""
        return self.child is None or self._is_complete(cookie)

    def check_resume_complete(self, cookie: Any = None) -> bool:
        """Return whether the child is resumed."""
        return self.child is None or self._is_complete(cookie)

    def check_check_complete(self, cookie: Any = None) -> bool:
        """Return whether the child is checked."""
        return self.child is None or self._is_complete(cookie)

    def check_delete_complete(self, token: Any = None) -> bool:  # noqa: ARG002
        """Return whether the child is deleted; if so, delete its record."""
        if self.child is None:
            return True
        if self.child.record.action != DELETE:
            raise exception.Error(
                f"the handler has not deleted the child stack: {type(self).__name__} has to do that"
            )
        return super().check_delete_complete(DELETE)

    def awaits(self) -> Hashable | None:
        """Wait for the end of the child's traversal; while there is none, checks have to poll."""
        child = self.child
        return (
            super().awaits()
            if child is not None and child.record.status == IN_PROGRESS
            else None
        )

    # The child, as other parts of the class see it.

    def nested(self) -> Any:
        """Return the child stack; None if there is none."""
        child = self.child
        return None if child is None else of_stack(child)

    def has_nested(self) -> bool:
        """Return whether there is a child stack."""
        return self.child is not None

    def nested_identifier(self) -> HeatIdentifier | None:
        """Return the identity of the child; None if there is none."""
        child = self.child
        return (
            None
            if child is None
            else HeatIdentifier(child.identity.project, child.name, child.id)
        )

    def get_output(self, op: str) -> Json:
        """Return an output of the child; None if there is no child. Raises NotFound, TemplateOutputError."""
        child = self.child
        if child is None:
            return None
        if child.defined is None or op not in child.definition.outputs:
            raise exception.NotFound(f"Specified output key {op} not found.")
        try:
            return child.output(op)
        except Unresolved as error:
            raise exception.TemplateOutputError(
                resource=self.name, attribute=op, message=str(error)
            ) from error

    def _resolve_attribute(self, name: str) -> Json:
        try:
            return self.get_output(name)
        except exception.NotFound:
            raise exception.InvalidTemplateAttribute(
                resource=self.name, key=name
            ) from None

    def _show_resource(self) -> Json:
        return None

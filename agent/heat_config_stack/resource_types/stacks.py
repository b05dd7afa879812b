"""Stacks as resources: a template in a property, or a file that a property names, becomes a child stack here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import (
    Definition,
    Identity,
    Later,
    Unresolved,
    requires,
)
from heat_config_stack.records import exception
from heat_config_stack.resource import attributes
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.properties import Properties, Schema
from heat_config_stack.resource_types.nested import StackResource

OUTPUTS = "Outputs."


class _ChildStack(StackResource):
    """The base class of stacks as resources."""

    any_attribute: ClassVar[bool] = False
    TEMPLATE, PARAMETERS = "template", "parameters"
    IS_FILE: ClassVar[bool] = False
    """True if the value is the name of the template's file, false if it is the template itself."""

    def child_definition(self, identity: Identity) -> Definition:
        """Return the definition of the template with the current parameters."""
        return self._definition(identity, self.properties, are_final=True)

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return the definition as far as it is known; None if the template is not."""
        known = self.known()
        if isinstance(known[self.TEMPLATE], Later) or isinstance(
            known[self.PARAMETERS], Later
        ):
            return None
        return self._definition(identity, known, are_final=False)

    def _definition(
        self, identity: Identity, values: Properties, *, are_final: bool
    ) -> Definition:
        parameters = values[self.PARAMETERS] or {}
        if not are_final:
            settled = {
                name: value
                for name, value in parameters.items()
                if not any(requires(value))
            }
            are_final, parameters = (
                self.stack.world.creating and len(settled) == len(parameters),
                settled,
            )
        environment = self.stack.environment
        make = environment.of_file if self.IS_FILE else environment.of_text
        return make(
            self.name, values[self.TEMPLATE], identity, parameters, known=are_final
        )

    def _outputs(self) -> dict[str, Json]:
        """Return all outputs of the child; None for one without a value."""
        child = self.child
        outputs: dict[str, Json] = {}
        for name in (
            child.definition.outputs if child is not None and child.defined else ()
        ):
            try:
                outputs[name] = child.output(name) if child is not None else None
            except Unresolved:
                outputs[name] = None
        return outputs


_CONTEXT = {
    "region_name": Schema(
        Schema.STRING, "Region of the stack; there is none on this machine."
    ),
    "credential_secret_id": Schema(
        Schema.STRING,
        "Credentials for another cloud; there is none on this machine.",
        update_allowed=True,
    ),
    "ca_cert": Schema(
        Schema.STRING,
        "Certificate of another cloud; not used on this machine.",
        update_allowed=True,
    ),
    "insecure": Schema(
        Schema.BOOLEAN,
        "Whether certificates are accepted unseen; not used here.",
        default=False,
        update_allowed=True,
    ),
}


class HeatStack(_ChildStack):
    """A stack of a template that a property contains, created on this machine."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "context": Schema(
            Schema.MAP, "The cloud of the stack.", update_allowed=True, schema=_CONTEXT
        ),
        "template": Schema(
            Schema.STRING, "The template itself.", required=True, update_allowed=True
        ),
        "timeout": Schema(
            Schema.INTEGER,
            "Minutes to wait for the stack; its deployments have timeouts here.",
            update_allowed=True,
        ),
        "parameters": Schema(
            Schema.MAP, "Values of its parameters.", default={}, update_allowed=True
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "stack_name": Attribute("Name of the stack.", type=Attribute.STRING),
        "outputs": Attribute("All outputs of the stack.", type=Attribute.MAP),
    }

    def validate(self) -> None:
        """Refuse another region or cloud when the stack is created."""
        context = self.known()["context"]
        elsewhere = [
            name
            for name in ("region_name", "credential_secret_id")
            if isinstance(context, Mapping)
            and context.get(name)
            and not isinstance(context[name], Later)
        ]
        if elsewhere and self.stack.world.creating:
            raise exception.StackValidationFailed(
                path=["properties", "context", elsewhere[0]],
                message="a stack in another region or cloud cannot be created on this machine: remove its context",
            )

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an attribute of the stack."""
        child = self.child
        values: dict[str, Any] = {
            "stack_name": child.name if child else None,
            "outputs": self._outputs(),
            attributes.SHOW: child
            and {"id": child.id, "stack_name": child.name, "outputs": self._outputs()},
        }
        if key not in values:
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        return attributes.select_from_attribute(values[key], path)


class CfnStack(_ChildStack):
    """A stack of a template in a file, created on this machine; a URL of the network is not fetched."""

    TEMPLATE, PARAMETERS = "TemplateURL", "Parameters"
    IS_FILE: ClassVar[bool] = True
    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "TemplateURL": Schema(
            Schema.STRING,
            "The file of the template, named literally.",
            required=True,
            update_allowed=True,
        ),
        "TimeoutInMinutes": Schema(
            Schema.INTEGER,
            "Minutes to wait for the stack; its deployments have timeouts here.",
            update_allowed=True,
        ),
        "Parameters": Schema(
            Schema.MAP, "Values of its parameters.", update_allowed=True
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {}

    def validate(self) -> None:
        """Refuse a URL of the network when the stack is created."""
        name = self.known()["TemplateURL"]
        if isinstance(name, str) and _is_remote(name) and self.stack.world.creating:
            raise exception.StackValidationFailed(
                path=["properties", "TemplateURL"],
                message=f"{name} is not fetched: name a file of this machine",
            )

    def child_to_validate(self, identity: Identity) -> Definition | None:
        """Return the definition as far as it is known; None for a template that is not on this machine."""
        name = self.known()["TemplateURL"]
        return (
            None
            if isinstance(name, str) and _is_remote(name)
            else super().child_to_validate(identity)
        )

    def has_attribute(self, name: str) -> bool:
        """Return whether the attribute is an output, which the template may have."""
        return name.startswith(OUTPUTS) or name == attributes.SHOW

    def get_reference_id(self) -> Json:
        """Return the name of the stack among all stacks."""
        child = self.child
        return self.name if child is None else child.arn

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return an output of the stack: `Outputs.NAME`."""
        outputs = self._outputs()
        name = key.removeprefix(OUTPUTS)
        if key == attributes.SHOW:
            return None
        if not key.startswith(OUTPUTS) or name not in outputs:
            raise exception.InvalidTemplateAttribute(resource=self.name, key=key)
        return attributes.select_from_attribute(outputs[name], path)


def _is_remote(name: str) -> bool:
    return "://" in name and not name.startswith("file://")

"""Configs: what deployments are made of. A config never changes: another one takes its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import yaml

from heat_config_agent.stack import deployments, exception
from heat_config_agent.stack.attributes import Schema as Attribute
from heat_config_agent.stack.constraints import AllowedValues, Length
from heat_config_agent.stack.definition import Json
from heat_config_agent.stack.properties import Schema
from heat_config_agent.stack.resource import Resource

_TYPES = AllowedValues(["String", "Number", "CommaDelimitedList", "Json", "Boolean"])

_INPUT = Schema(
    Schema.MAP,
    schema={
        "name": Schema(Schema.STRING, "Name of the input.", required=True),
        "description": Schema(Schema.STRING, "Description of the input."),
        "type": Schema(Schema.STRING, "Type of the value.", default="String", constraints=[_TYPES]),
        "default": Schema(Schema.ANY, "Value where none is given."),
        "replace_on_change": Schema(
            Schema.BOOLEAN, "Whether another value means another deployment, and no update.", default=False
        ),
    },
)

_OUTPUT = Schema(
    Schema.MAP,
    schema={
        "name": Schema(Schema.STRING, "Name of the output.", required=True),
        "description": Schema(Schema.STRING, "Description of the output."),
        "type": Schema(Schema.STRING, "Type of the value.", default="String", constraints=[_TYPES]),
        "error_output": Schema(Schema.BOOLEAN, "Whether the deployment has failed if there is one.", default=False),
    },
)

_SHARED = {
    "options": Schema(Schema.MAP, "What is for the tool, and for no script."),
    "inputs": Schema(Schema.LIST, "What is given to the tool.", schema=_INPUT),
    "outputs": Schema(Schema.LIST, "What the tool is to give back.", schema=_OUTPUT),
}
_GROUP = Schema(Schema.STRING, "The tool.", default="Heat::Ungrouped")


class _Config(Resource):
    """What all configs have."""

    again_after_interruption: ClassVar[bool] = True
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "config": Attribute("The config, as it is given to the tool.", type=Attribute.STRING)
    }

    def content(self) -> dict[str, Any]:
        """Return group, config, inputs, outputs and options."""
        return {name: self.properties[name] for name in self.properties}

    def handle_create(self) -> None:
        """Make the config."""
        values = {"name": self.physical_resource_name(), **self.content()}
        config = deployments.new_config(values, self.stack.id)
        self.stack.world.store.put(config)
        self.resource_id_set(config.id)

    def handle_delete(self) -> None:
        """Remove the config; deployments have one of their own, derived of it."""
        found = self.stack.world.store.configs.get(self.resource_id or "")
        if found is not None:
            self.stack.world.store.drop(found)

    def _resolve_attribute(self, name: str) -> Json:
        found = self.stack.world.store.configs.get(self.resource_id or "")
        return (found.config or None) if name == "config" and found is not None else None


class SoftwareConfig(_Config):
    """A script or whatever else a tool understands, as text."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "group": _GROUP,
        "config": Schema(Schema.STRING, "The config itself."),
        **_SHARED,
    }

    def content(self) -> dict[str, Any]:
        """Return group, config, inputs, outputs and options."""
        return {**super().content(), "config": self.properties["config"] or ""}


class StructuredConfig(_Config):
    """A config that is a map, in which `get_input` stands where an input's value is to be."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "group": _GROUP,
        "config": Schema(Schema.MAP, "The config itself."),
        **_SHARED,
    }

    def content(self) -> dict[str, Any]:
        """Return group, config, inputs, outputs and options."""
        return {**super().content(), "config": self.properties["config"] or {}}


class SoftwareComponent(_Config):
    """A config for each lifecycle action, each with its tool."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "configs": Schema(
            Schema.LIST,
            "The configs, each for one or more actions.",
            schema=Schema(
                Schema.MAP,
                schema={
                    "actions": Schema(
                        Schema.LIST,
                        "The lifecycle actions that it is for.",
                        schema=Schema(Schema.STRING),
                        default=["CREATE", "UPDATE"],
                        constraints=[Length(min=1)],
                    ),
                    "config": Schema(Schema.STRING, "The config itself."),
                    "tool": Schema(Schema.STRING, "The tool.", required=True),
                },
            ),
            required=True,
            constraints=[Length(min=1)],
        ),
        **_SHARED,
    }

    def validate(self) -> None:
        """No action may be in two configs."""
        seen: set[str] = set()
        for each in self.properties["configs"]:
            if seen & set(each["actions"]):
                what = "Defining more than one configuration for the same action in SoftwareComponent"
                raise exception.StackValidationFailed(message=f'{what} "{self.name}" is not allowed.')
            seen |= set(each["actions"])

    def content(self) -> dict[str, Any]:
        """Return group, config, inputs, outputs and options."""
        shared = {name: self.properties[name] for name in _SHARED}
        return {"group": "component", "config": {"configs": self.properties["configs"]}, **shared}

    def _resolve_attribute(self, name: str) -> Json:
        """Heat has none for a component, though it declares one."""
        return None


class CloudConfig(_Config):
    """What cloud-init reads."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "cloud_config": Schema(Schema.MAP, "The map that is to be written as YAML.")
    }

    def content(self) -> dict[str, Any]:
        """Return the text."""
        text = yaml.safe_dump(self.properties["cloud_config"], default_flow_style=False)
        return {"config": f"#cloud-config\n{text}"}

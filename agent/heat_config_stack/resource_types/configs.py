"""Config resources, which deployments carry out. A config never changes: an update replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import yaml

from heat_config_agent.model.positions import Json
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import exception
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.config_service import INPUT, OUTPUT, new_config
from heat_config_stack.resource.constraints import Length
from heat_config_stack.resource.properties import Schema
from heat_config_stack.resource.resource import Resource

_SHARED = {
    "options": Schema(Schema.MAP, "Options of the tool."),
    "inputs": Schema(
        Schema.LIST, "Values for the tool.", schema=Schema(Schema.MAP, schema=INPUT)
    ),
    "outputs": Schema(
        Schema.LIST, "Values from the tool.", schema=Schema(Schema.MAP, schema=OUTPUT)
    ),
}
_GROUP = Schema(Schema.STRING, "The tool.", default="Heat::Ungrouped")

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""Heat writes YAML with libyaml, which breaks long lines at other places than the writer in Python."""


class Config(Resource):
    """The base class of all configs."""

    stack: Stack
    again_after_interruption: ClassVar[bool] = True
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "config": Attribute(
            "The config, as it is given to the tool.", type=Attribute.STRING
        )
    }

    def content(self) -> dict[str, Any]:
        """Return the group, config, inputs, outputs and options."""
        return {name: self.properties[name] for name in self.properties}

    def handle_create(self) -> None:
        """Store the config."""
        values = {"name": self.physical_resource_name(), **self.content()}
        config = new_config(values, self.stack.id)
        self.stack.world.store.put(config)
        self.resource_id_set(config.id)

    def handle_adopt(self, resource_data: Mapping[str, Json] | None = None) -> None:
        """Store the config under the id that it had."""
        super().handle_adopt(resource_data)
        config = new_config(
            {"name": self.physical_resource_name(), **self.content()}, self.stack.id
        )
        config.id = str(self.resource_id)
        self.stack.world.store.put(config)

    def handle_delete(self) -> None:
        """Delete the config; deployments have derived copies of their own."""
        found = self.stack.world.store.configs.get(self.resource_id or "")
        if found is not None:
            self.stack.world.store.drop(found)

    def _resolve_attribute(self, name: str) -> Json:
        found = self.stack.world.store.configs.get(self.resource_id or "")
        return found.config if name == "config" and found is not None else None


class SoftwareConfig(Config):
    """A config that is text, such as a script."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "group": _GROUP,
        "config": Schema(Schema.STRING, "The config itself."),
        **_SHARED,
    }


class StructuredConfig(Config):
    """A config that is a map; `get_input` in it stands for the value of an input."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "group": _GROUP,
        "config": Schema(Schema.MAP, "The config itself."),
        **_SHARED,
    }


class SoftwareComponent(Config):
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
                        "The lifecycle actions that run it.",
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
        """Refuse an action in two configs."""
        seen: set[str] = set()
        for config in self.properties["configs"]:
            if seen & set(config["actions"]):
                problem = "Defining more than one configuration for the same action in SoftwareComponent"
                raise exception.StackValidationFailed(
                    message=f'{problem} "{self.name}" is not allowed.'
                )
            seen |= set(config["actions"])

    def content(self) -> dict[str, Any]:
        """Return the group, config, inputs, outputs and options."""
        shared = {name: self.properties[name] for name in _SHARED}
        return {
            "group": "component",
            "config": {"configs": self.properties["configs"]},
            **shared,
        }

    def _resolve_attribute(self, name: str) -> Json:
        """Return None: Heat declares the attribute for components, but has no value for it."""
        return None


class CloudConfig(Config):
    """A config for cloud-init."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "cloud_config": Schema(Schema.MAP, "The map that becomes YAML.")
    }

    def content(self) -> dict[str, Any]:
        """Return the config as YAML text."""
        text = yaml.dump(
            self.properties["cloud_config"], Dumper=_DUMPER, default_flow_style=False
        )
        return {"config": f"#cloud-config\n{text}"}

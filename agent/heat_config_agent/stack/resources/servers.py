"""Servers, which are all this machine, and everything else that takes a cloud: nothing stands behind these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from heat_config_agent.stack import deployments, records
from heat_config_agent.stack.attributes import Schema as Attribute
from heat_config_agent.stack.attributes import select_from_attribute
from heat_config_agent.stack.constraints import AllowedValues, Length
from heat_config_agent.stack.definition import Json
from heat_config_agent.stack.properties import Properties, Schema, Wrong
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.snippet import Snippet

HERE = "127.0.0.1"
"""The address of every server."""


class _Placeholder(Resource):
    """Something that only a template says anything of."""

    again_after_interruption: ClassVar[bool] = True

    def handle_create(self) -> None:
        """Have an id."""
        self.resource_id_set(records.new_id())

    def handle_update(
        self,
        json_snippet: Snippet,
        tmpl_diff: Mapping[str, Json],
        prop_diff: Mapping[str, Json],
    ) -> None:
        """Be what the template says now."""


class DeployedServer(_Placeholder):
    """A server that is there already: this machine."""

    properties_schema: ClassVar[Mapping[str, Schema]] = {
        "name": Schema(Schema.STRING, "Its name.", update_allowed=True),
        "metadata": Schema(Schema.MAP, "Metadata that it is given.", update_allowed=True),
        "software_config_transport": Schema(
            Schema.STRING,
            "How it learns of its deployments. Here it does so in no such way.",
            default="POLL_SERVER_CFN",
            update_allowed=True,
            constraints=[AllowedValues(["POLL_SERVER_CFN", "POLL_SERVER_HEAT", "POLL_TEMP_URL", "ZAQAR_MESSAGE"])],
        ),
        "deployment_swift_data": Schema(
            Schema.MAP,
            "Where they are kept in Swift. Here they are not.",
            default={},
            update_allowed=True,
            schema={
                "container": Schema(Schema.STRING, constraints=[Length(min=1)]),
                "object": Schema(Schema.STRING, constraints=[Length(min=1)]),
            },
        ),
    }
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "name": Attribute("Its name.", type=Attribute.STRING),
        "os_collect_config": Attribute("Settings of the agent.", type=Attribute.MAP),
    }

    def metadata_get(self, refresh: bool = False) -> dict[str, Json]:
        """Return its metadata with the deployments."""
        metadata = super().metadata_get(refresh)
        return {**metadata, "deployments": deployments.entries(self.stack.world, self.resource_id or "")}

    def _resolve_attribute(self, name: str) -> Json:
        if name == "name":
            return self.properties["name"] or self.physical_resource_name()
        return {}


class Placeholder(_Placeholder):
    """A resource of a type that takes a cloud. It takes any property, and has the attributes that it is given."""

    any_property: ClassVar[bool] = True
    any_attribute: ClassVar[bool] = True

    def schema_of_properties(self) -> Mapping[str, Schema]:
        """Return a property for whatever the template says."""
        return {each: Schema(Schema.ANY, update_allowed=True) for each in self.definition.properties}

    def mistakes(self) -> list[Wrong]:
        """Return what cannot be resolved: whatever can be is taken."""
        given = Properties(self.schema_of_properties(), self.definition.properties, self.resolve)
        return [Wrong(each.problem, ("properties", *each.path)) for each in given.mistakes()]

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return what is given for it, by its path or its type; of a server its name and this machine's address."""
        given = self.stack.environment.attributes
        of = "/".join((*self.stack.path, self.name))
        for each in (given(of), given(self.type()), self._own()):
            if key in each:
                return select_from_attribute(each[key], path)
        return None

    def _own(self) -> dict[str, Json]:
        name = self.properties.get("name")
        made: dict[str, Json] = {"name": name or self.physical_resource_name()}
        if self.record.type.endswith("::Server"):
            made |= {"first_address": HERE, "accessIPv4": HERE, "instance_name": made["name"]}
        return made

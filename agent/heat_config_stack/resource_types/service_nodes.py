"""Nodes of a service: those that are this machine, and those that operations make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from heat_config_agent.model.positions import Json
from heat_config_stack.lifecycle import nodes
from heat_config_stack.resource.attributes import Schema as Attribute
from heat_config_stack.resource.attributes import select_from_attribute
from heat_config_stack.resource.properties import Schema
from heat_config_stack.resource_types.servers import NothingBehind


class ServiceNode(NothingBehind):
    """A node, which is there when all of its operations are done."""

    always_known: ClassVar[frozenset[str]] = frozenset({"state"})
    properties_schema: ClassVar[Mapping[str, Schema]] = {}
    attributes_schema: ClassVar[Mapping[str, Attribute]] = {
        "state": Attribute("The state of the node.", type=Attribute.STRING)
    }

    def _resolve_attribute(self, name: str) -> Any:
        if name == "state":
            return nodes.state(self.stack, self.name)
        return nodes.kept_outputs(self.record, name)

    def get_attribute(self, key: str, *path: Json) -> Json:
        """Return the state of the node, or the outputs of an operation that workflows have called."""
        return select_from_attribute(self._resolve_attribute(key), path)


class ServiceHost(ServiceNode):
    """A node that is this machine, or another one that carries out its own part of the service."""

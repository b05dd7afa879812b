"""A resource's definition as plug-ins see it, and as it is kept once its functions have been resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heat_config_agent.stack.definition import Json, ResourceDefinition, Tree
from heat_config_agent.stack.properties import Properties, Schema


def freeze(definition: ResourceDefinition, resolve: Callable[[Tree], Json]) -> dict[str, Json]:
    """Return a definition with its functions resolved, as JSON. Raises `Unresolved`."""
    return {
        "type": definition.type,
        "properties": resolve(dict(definition.properties)),
        "metadata": resolve(dict(definition.metadata)),
        "depends_on": sorted(definition.depends_on),
        "deletion_policy": definition.deletion_policy,
        "update_policy": resolve(dict(definition.update_policy)),
        "external_id": definition.external_id,
    }


def thaw(name: str, frozen: Mapping[str, Json]) -> ResourceDefinition:
    """Return the definition that was frozen."""
    return ResourceDefinition(
        name=name,
        type=frozen["type"],
        properties=frozen["properties"],
        metadata=frozen["metadata"],
        depends_on=tuple(frozen["depends_on"]),
        deletion_policy=frozen["deletion_policy"],
        update_policy=frozen["update_policy"],
        external_id=frozen["external_id"],
    )


class Snippet(Mapping[str, Any]):
    """What `handle_update` gets: the definition after the update, its functions resolved as they are looked at."""

    def __init__(self, definition: ResourceDefinition, resolve: Callable[[Tree], Json]) -> None:
        """Show a definition."""
        self.definition, self._resolve = definition, resolve
        self.name, self.resource_type = definition.name, definition.type
        self.description = definition.description
        self._sections: dict[str, Callable[[], Json]] = {
            "Type": lambda: definition.type,
            "Properties": lambda: resolve(dict(definition.properties)),
            "Metadata": self.metadata,
            "DependsOn": lambda: list(definition.depends_on),
            "DeletionPolicy": self.deletion_policy,
            "UpdatePolicy": lambda: resolve(dict(definition.update_policy)),
        }

    def __getitem__(self, key: str) -> Any:
        return self._sections[key]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)

    def properties(self, schema: Mapping[str, Schema], context: object = None) -> Properties:  # noqa: ARG002
        """Return its properties."""
        return Properties(schema, self.definition.properties, self._resolve)

    def update_policy(self, schema: Mapping[str, Schema], context: object = None) -> Properties:  # noqa: ARG002
        """Return its update policy."""
        return Properties(schema, self.definition.update_policy, self._resolve)

    def metadata(self) -> Json:
        """Return its metadata."""
        return self._resolve(dict(self.definition.metadata))

    def deletion_policy(self) -> str:
        """Return its deletion policy."""
        return self.definition.deletion_policy

    def external_id(self) -> str | None:
        """Return the id of a resource that is there already."""
        return self.definition.external_id

    def required_resource_names(self) -> frozenset[str]:
        """Return the names of the resources that it needs."""
        return self.definition.requirements()

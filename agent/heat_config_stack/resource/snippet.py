"""The definition of a resource in the form that plug-ins see, and in the form that is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, ResourceDefinition, Tree, Unresolved
from heat_config_stack.resource.properties import Properties, Schema, shown

Resolve: TypeAlias = Callable[[Tree], Json]

POLICIES = {name.lower(): name for name in ("Delete", "Retain", "Snapshot")}


def as_map(section: str, value: Json) -> dict[str, Json]:
    """Return the resolved value of a section that must be a map; empty for None. Raises `Unresolved`."""
    if value is None or isinstance(value, Mapping):
        return dict(value or {})
    raise Unresolved(f"{section} must be a map, and its function gives {shown(value)}")


def as_policy(value: Json) -> str:
    """Return the resolved value of a deletion policy; Delete for None. Raises `Unresolved`."""
    policy = (
        POLICIES.get(value.lower())
        if isinstance(value, str)
        else "Delete"
        if value is None
        else None
    )
    if policy is None:
        raise Unresolved(f'Invalid deletion policy "{value}"')
    return policy


def freeze(
    definition: ResourceDefinition, resolve: Callable[[Tree], Json]
) -> dict[str, Json]:
    """Return a definition as JSON, with its functions resolved. Raises `Unresolved`."""
    return {
        "type": definition.type,
        "properties": resolve(dict(definition.properties)),
        "metadata": as_map("metadata", resolve(definition.metadata)),
        "depends_on": list(definition.depends_on),
        "deletion_policy": as_policy(resolve(definition.deletion_policy)),
        "update_policy": as_map("update_policy", resolve(definition.update_policy)),
        "external_id": definition.external_id,
        "condition": definition.condition,
        "written": sorted(definition.written),
    }


def differ(before: Mapping[str, Json], after: Mapping[str, Json]) -> bool:
    """Return whether two definitions in their stored form are written differently, as Heat compares them.

    A definition that version 1.0.0 has stored has the names in depends_on sorted, and less than that.
    """
    if "written" in before:
        return before != after
    known = {
        key: value
        for key, value in after.items()
        if key not in ("condition", "written")
    }
    return before != {**known, "depends_on": sorted(known["depends_on"])}


def thaw(name: str, frozen: Mapping[str, Json]) -> ResourceDefinition:
    """Return the definition from its stored form."""
    return ResourceDefinition(
        name=name,
        type=frozen["type"],
        properties=frozen["properties"],
        metadata=frozen["metadata"],
        depends_on=tuple(frozen["depends_on"]),
        deletion_policy=frozen["deletion_policy"],
        update_policy=frozen["update_policy"],
        external_id=frozen["external_id"],
        condition=frozen.get("condition"),
        written=frozenset(frozen.get("written", ())),
    )


def policy(
    schema: Mapping[str, Schema], tree: Tree, resolve: Callable[[Tree], Json]
) -> Properties:
    """Return an update policy as properties. Raises `Unresolved` if a function gives no map."""
    data = as_map("update_policy", resolve(tree)) if isinstance(tree, Later) else tree
    return Properties(schema, data, resolve)


class Difference(dict[str, Json]):
    """The changed sections of a definition, with their new values: the argument `tmpl_diff` of handlers."""

    def properties_changed(self) -> bool:
        """Return whether the properties have changed."""
        return "Properties" in self

    def metadata_changed(self) -> bool:
        """Return whether the metadata has changed."""
        return "Metadata" in self

    def update_policy_changed(self) -> bool:
        """Return whether the update policy has changed."""
        return "UpdatePolicy" in self


_PARTS = {"resource_type": "type", "depends": "depends_on"}


def _metadata(definition: ResourceDefinition, resolve: Resolve) -> Json:
    return as_map("metadata", resolve(definition.metadata))


def _deletion_policy(definition: ResourceDefinition, resolve: Resolve) -> str:
    return as_policy(resolve(definition.deletion_policy))


_SECTIONS: Mapping[str, Callable[[ResourceDefinition, Resolve], Json]] = {
    "Type": lambda definition, _resolve: definition.type,
    "Properties": lambda definition, resolve: resolve(dict(definition.properties)),
    "Metadata": _metadata,
    "DependsOn": lambda definition, _resolve: list(definition.depends_on),
    "DeletionPolicy": _deletion_policy,
    "UpdatePolicy": lambda definition, resolve: as_map(
        "update_policy", resolve(definition.update_policy)
    ),
}
"""Name of a section → its value, from a definition and a function that resolves its values."""


class Snippet(Mapping[str, Any]):
    """The argument of `handle_update`: the new definition, with functions resolved on access."""

    DELETE, RETAIN, SNAPSHOT = DELETION_POLICIES = tuple(POLICIES.values())

    def __init__(
        self, definition: ResourceDefinition, resolve: Callable[[Tree], Json]
    ) -> None:
        """Take a definition, and a function that resolves its values."""
        self.definition, self._resolve = definition, resolve
        self.name, self.resource_type = definition.name, definition.type
        self.description = definition.description

    def __getitem__(self, key: str) -> Any:
        return _SECTIONS[key](self.definition, self._resolve)

    def __iter__(self) -> Iterator[str]:
        return iter(_SECTIONS)

    def __len__(self) -> int:
        return len(_SECTIONS)

    def properties(
        self,
        schema: Mapping[str, Schema],
        context: object = None,  # noqa: ARG002
    ) -> Properties:
        """Return the properties."""
        return Properties(schema, self.definition.properties, self._resolve)

    def update_policy(
        self,
        schema: Mapping[str, Schema],
        context: object = None,  # noqa: ARG002
    ) -> Properties:
        """Return the update policy."""
        return policy(schema, self.definition.update_policy, self._resolve)

    def metadata(self) -> Json:
        """Return the metadata."""
        return _metadata(self.definition, self._resolve)

    def deletion_policy(self) -> str:
        """Return the deletion policy."""
        return _deletion_policy(self.definition, self._resolve)

    def external_id(self) -> str | None:
        """Return the id of a resource that exists already."""
        return self.definition.external_id

    def freeze(self, **changes: Any) -> Snippet:
        """Return the definition with some parts replaced, under the names that plug-ins use."""
        changes = {_PARTS.get(key, key): value for key, value in changes.items()}
        return Snippet(replace(self.definition, **changes), self._resolve)

    def required_resource_names(self) -> frozenset[str]:
        """Return the names of the resources that it depends on."""
        return self.definition.requirements()

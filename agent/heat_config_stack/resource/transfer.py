"""The state of a resource as data, with the keys of Heat's API: it is part of a snapshot, and is adopted elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from heat_config_agent.model.positions import Json
from heat_config_stack.records import exception


class Transferable(Protocol):
    """A resource, as far as its state is taken over or handed on."""

    name: str

    @property
    def action(self) -> str:
        """Return the last action."""

    @property
    def status(self) -> str:
        """Return the status of the last action."""

    @property
    def resource_id(self) -> str | None:
        """Return the physical id."""

    def resource_id_set(self, inst: str | None) -> None:
        """Record the physical id."""

    def type(self) -> str:
        """Return the type as written in the template."""

    def data(self) -> dict[str, Json]:
        """Return the data that the class has stored."""

    def data_set(self, key: str, value: Json, redact: bool = False) -> None:
        """Store a value under a key."""

    def metadata_get(self, refresh: bool = False) -> dict[str, Json]:
        """Return the current metadata."""

    def metadata_set(self, metadata: Mapping[str, Json], merge_metadata: object = None) -> None:
        """Replace the metadata."""


def adopt(resource: Transferable, data: Mapping[str, Json]) -> None:
    """Take over a state. Raises Error if it has no physical id."""
    if not data.get("resource_id"):
        raise exception.Error("Resource ID was not provided.")
    resource.resource_id_set(str(data["resource_id"]))
    stored = data.get("resource_data")
    for key, value in stored.items() if isinstance(stored, Mapping) else ():
        resource.data_set(key, value)
    metadata = data.get("metadata")
    resource.metadata_set(metadata if isinstance(metadata, Mapping) else {})


def state(resource: Transferable) -> dict[str, Json]:
    """Return the state of a resource."""
    return {
        "name": resource.name,
        "resource_id": resource.resource_id,
        "type": resource.type(),
        "action": resource.action,
        "status": resource.status,
        "metadata": resource.metadata_get(),
        "resource_data": resource.data(),
    }

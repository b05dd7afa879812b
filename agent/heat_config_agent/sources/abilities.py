"""The abilities that only some sources have. They are in a module of their own because `typing` takes long to load."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from heat_config_agent.model.deployment import Document


@runtime_checkable
class Claiming(Protocol):
    """A source that gives each document only once."""

    def taken(self, document: Document) -> None:
        """Remove a collected document from the source, because it is on disk now. Raises SourceError.

        A newer document that was collected meanwhile stays.
        """
        ...


@runtime_checkable
class Listening(Protocol):
    """A source that is active between two polls."""

    def close(self) -> None:
        """End this activity."""
        ...

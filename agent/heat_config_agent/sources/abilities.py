"""What some sources can do beside answering. Apart from the rest, as `typing` takes long to load."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from heat_config_agent.model import Document


@runtime_checkable
class Claiming(Protocol):
    """A source that hands out what it has only once."""

    def taken(self, document: Document) -> None:
        """A document that was collected is safe on disk: the source may let go of it. Raises SourceError.

        A newer one that was collected meanwhile perhaps is not.
        """
        ...


@runtime_checkable
class Listening(Protocol):
    """A source that has something going on between two questions."""

    def close(self) -> None:
        """End it."""
        ...

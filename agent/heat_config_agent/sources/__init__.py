"""Where documents come from. Each source fetches one document; nothing else talks to where metadata lives.

A source is a class with the one method of `Source`; `cli` makes them from what the command is told.
"""

from __future__ import annotations

from typing import Protocol

from heat_config_agent.model import Document


class Source(Protocol):
    """A place that has deployment metadata."""

    name: str
    """Names the source across runs."""

    def collect(self) -> Document:
        """Fetch the document. Raises SourceError where it cannot be had, UsageError where it cannot be understood."""
        ...

"""The stack of a resource, as far as the resource uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from heat_config_agent.masking.redaction import Concealer
from heat_config_stack import definition
from heat_config_stack.definition import Definition, Environment
from heat_config_stack.records.records import ResourceRecord, StackRecord
from heat_config_stack.resource.config_service import ConfigService


class Host(Protocol):
    """The stack of a resource, as far as the resource uses it."""

    look: definition.Look
    context: None

    @property
    def id(self) -> str:
        """Return the stack's id."""

    @property
    def name(self) -> str:
        """Return the stack's name."""

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names of the resources that contain the stack, the outermost first."""

    @property
    def definition(self) -> Definition:
        """Return the definition of the stack. Raises ValueError if it has none."""

    @property
    def defined(self) -> Definition | None:
        """Return the definition of the stack; None if it has none."""

    @property
    def environment(self) -> Environment:
        """Return the environment that maps the stack's types."""

    @property
    def record(self) -> StackRecord:
        """Return the record of the stack."""

    @property
    def conceal(self) -> Concealer:
        """Return what hides the secrets of the stack."""

    @property
    def config_service(self) -> ConfigService:
        """Return the service that stores configs for the stack's resources."""

    def keep(self, record: ResourceRecord) -> None:
        """Keep a record."""

    def drop(self, record: ResourceRecord) -> None:
        """Delete a record."""

    def forgets(self, name: str, failure: str) -> bool:
        """Return whether a resource is forgotten although its deletion failed, and report that it is."""

    def flush(self) -> None:
        """Write all records to disk."""

    def happened(
        self, path: Sequence[str], action: str, status: str, reason: str = "", *, record: ResourceRecord | None = None
    ) -> None:
        """Record an event of a resource."""

    def leave_unchanged(self, name: str) -> None:
        """Report that an update does not have to change a resource."""

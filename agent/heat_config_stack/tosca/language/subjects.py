"""The subjects of functions: templates, or the types that stand for their templates (chapter 4)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from heat_config_stack.tosca.language.types import CapabilityDefinition, Type


class Subject(Protocol):
    """A template, or a type in the place of all templates that are of it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """`node`, `relationship`, `group` or `policy`."""

    @property
    def type(self) -> Type | None:
        """Its type; None where that is unknown."""

    def interface_operations(self, interface: str) -> Collection[str] | None:
        """Return the names of the operations of an interface; None where it has no such interface."""

    def artifact_names(self) -> Collection[str]:
        """Return the names of its artifacts."""

    def targets(self, requirement: str, /) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return the templates that fulfil a requirement, each with its capability, as far as known."""


@dataclass(frozen=True, slots=True)
class TypeSubject:
    """A type in the place of the templates that are of it."""

    type: Type | None
    kind: str

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.type.name if self.type else ""

    def interface_operations(self, interface: str) -> Collection[str] | None:
        """Return the names of the operations of an interface; None where it has no such interface."""
        found = self.type.interface(interface) if self.type else None
        return found.operations if found else None

    def artifact_names(self) -> Collection[str]:
        """Return the names of its artifacts."""
        return self.type.artifacts if self.type else ()

    def targets(self, _requirement: str, /) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return nothing: each template has its own."""
        return ()

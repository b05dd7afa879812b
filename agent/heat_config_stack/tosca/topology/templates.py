"""Templates with what their types say of them: their values, interfaces and operations (sections 3.7.3 to 3.7.6)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import Tree
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language.entities import operations
from heat_config_stack.tosca.language.functions import Subject
from heat_config_stack.tosca.language.types import (
    CapabilityDefinition,
    InterfaceDefinition,
    OperationDefinition,
    PropertyDefinition,
    RequirementDefinition,
    Type,
)


def variable(name: str) -> str:
    """Return the name of the variable for an input, with underscores for characters that a variable cannot have."""
    if name.isascii() and name.isidentifier():
        return name
    replaced = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{replaced}" if replaced[:1].isdigit() else replaced


def with_variables(inputs: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return inputs, and again by the names of their variables: `db-port` is also `db_port`."""
    renamed: dict[str, Tree] = {}
    for name, value in inputs.items():
        renamed.setdefault(variable(name), value)
    return {**renamed, **inputs}


class Interface:
    """An interface of a template, with what its type says of it."""

    def __init__(
        self,
        name: str,
        content: Mapping[str, Json],
        definition: InterfaceDefinition | None,
        names: Document,
        path: Path,
    ) -> None:
        self.name = name
        self.content = content
        self.definition = definition
        self.names = names
        self.path = path

    @cached_property
    def operations(self) -> Mapping[str, OperationDefinition]:
        """All its operations by name; those of the template override those of the type."""
        found = dict(self.definition.operations) if self.definition else {}
        for name, content, path in operations(self.content, self.path):
            found[name] = OperationDefinition(
                name, content, found.get(name), self.names, path
            )
        return found

    def input_definitions(self, operation: str) -> Mapping[str, PropertyDefinition]:
        """Return the definitions of the inputs of an operation: its own over those of the interface."""
        of_interface = self.definition.inputs if self.definition else {}
        defined = self.definition.operations.get(operation) if self.definition else None
        return {**of_interface, **defined.inputs} if defined else of_interface

    def inputs(self, operation: str) -> Mapping[str, Json]:
        """Return the values of the inputs of an operation (chapter 13): those of the template over the defaults."""
        defaults = {
            name: of.default
            for name, of in self.input_definitions(operation).items()
            if of.default is not None
        }
        assigned = self.content.get("inputs") or {}
        own = {name: content for name, content, _ in operations(self.content, ())}.get(
            operation
        ) or {}
        return {**defaults, **assigned, **(own.get("inputs") or {})}


class Template:
    """The common part of node and relationship templates, groups and policies."""

    kind = ""
    section = ""

    def __init__(
        self, name: str, content: Mapping[str, Json], document: Document, path: Path
    ) -> None:
        self.name = name
        self.content = content
        self.document = document
        self.path = path

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def type(self) -> Type | None:
        """Its type; None if missing or unknown."""
        name = self.content.get("type")
        return self.document.find(self.section, name) if name else None

    @property
    def is_known(self) -> bool:
        """True if everything that its type says is known."""
        return self.type is not None and not self.type.is_incomplete

    def property_value(self, name: str) -> Json:
        """Return the value of a property: the assigned one, or else the default; None if there is none."""
        value = (self.content.get("properties") or {}).get(name)
        if value is None and self.type is not None and name in self.type.properties:
            return self.type.properties[name].default
        return value

    def assigned(self, capability: str, section: str) -> Mapping[str, Json]:
        """Return the `properties` or `attributes` that the template assigns to a capability."""
        capabilities = self.content.get("capabilities") or {}
        content = capabilities.get(capability) or {}
        return content.get(section) or {}

    @cached_property
    def declared(self) -> Mapping[str, InterfaceDefinition]:
        """The interfaces that its type declares."""
        return self.type.interfaces if self.type else {}

    def declaration(self, name: str) -> InterfaceDefinition | None:
        """Return the declaration of an interface by its name, its type's name or a short form of that (section 3.7)."""
        found = self.declared.get(name)
        if found is None and self.type is not None:
            of_type = self.type.interface(name)
            found = self.declared.get(of_type.name) if of_type else None
        return found

    @cached_property
    def interfaces(self) -> Mapping[str, Interface]:
        """Its interfaces by the names in its type, and those that only the template has (section 3.7)."""
        assigned: Mapping[str, Json] = self.content.get("interfaces") or {}
        interfaces: dict[str, Interface] = {}
        for name, definition in self.declared.items():
            interfaces[name] = Interface(
                name, {}, definition, self.document, (*self.path, "interfaces", name)
            )
        for name, content in assigned.items():
            declared = self.declaration(name)
            path = (*self.path, "interfaces", name)
            if declared is None:
                own = self.document.find("interface_types", name)
                declared = (
                    InterfaceDefinition(name, {"type": name}, None, self.document, path)
                    if own
                    else None
                )
            if declared is not None:
                interfaces[declared.name] = Interface(
                    declared.name, content, declared, self.document, path
                )
        return interfaces

    def interface(self, name: str) -> Interface | None:
        """Return an interface by its name, its type's name or a short form of that."""
        interface = self.interfaces.get(name)
        if interface is None:
            type_ = self.document.find("interface_types", name)
            for candidate in self.interfaces.values() if type_ else ():
                of = candidate.definition.type if candidate.definition else None
                if of is not None and type_ is not None and of.key == type_.key:
                    return candidate
        return interface

    @property
    def implements_nothing(self) -> bool:
        """True if neither it nor its type can have an operation that is implemented: true of most relationships."""
        if (
            self.content.get("interfaces")
            or self.type is None
            or self.declared is not self.type.interfaces
        ):
            return False
        return self.type.implements_nothing

    @property
    def operations(self) -> Iterator[tuple[Interface, OperationDefinition]]:
        """All operations that are implemented, each with its interface."""
        if self.implements_nothing:
            return
        for interface in self.interfaces.values():
            for operation in interface.operations.values():
                if operation.implemented is not None:
                    yield interface, operation

    # What functions ask (`functions.Subject`).

    def interface_operations(self, interface: str) -> Collection[str] | None:
        """Return the names of the operations of an interface; None where it has no such interface."""
        found = self.interface(interface)
        return found.operations if found else None

    def artifact_names(self) -> Collection[str]:
        """Return the names of its artifacts."""
        return self.type.artifacts if self.type else ()

    def targets(
        self, _requirement: str, /
    ) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return the templates that fulfil a requirement."""
        return ()


class Relationship(Template):
    """A relationship template, or the relationship that a requirement describes (section 3.7.4)."""

    kind = "relationship"
    section = "relationship_types"

    def __init__(
        self,
        name: str,
        content: Mapping[str, Json],
        document: Document,
        path: Path,
        definition: RequirementDefinition | None = None,
    ) -> None:
        """Take the definition of the requirement that it is for; it may declare further interfaces."""
        super().__init__(name, content, document, path)
        self._definition = definition

    @cached_property
    def declared(self) -> Mapping[str, InterfaceDefinition]:
        """The interfaces of its type, under those that the definition of the requirement refines and adds."""
        definition = self._definition
        if definition is None or not definition.interfaces:
            return super().declared
        interfaces = dict(super().declared)
        for name, content in definition.interfaces.items():
            refined = self.type.interface(name) if self.type else None
            key = refined.name if refined else name
            interfaces[key] = InterfaceDefinition(
                key, content, refined, definition.names, definition.path
            )
        return interfaces

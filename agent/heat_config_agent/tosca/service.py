"""The model of a service: its templates with their types, what fulfils their requirements, and their operations.

A `Service` is made of a document that has been read (`documents.Document`). Making it reports nothing and fails for
nothing: what is wrong with a template is None or missing here, and reported by the modules that check it. So the model
of a service without mistakes is complete, and can be compiled to a `stack.definition`:

- `Service.nodes` are the node templates in their order, with `copy` carried out;
- `Node.requirements` has each assignment with its target, the capability that fulfils it and its relationship;
- `Node.operations` and `Relationship.operations` have each operation with its innermost implementation, the document
  that names the implementation (files are next to that), and its inputs with their defaults.

Values are as they are written: functions are not evaluated here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from heat_config_agent.language.positions import Json, Path
from heat_config_agent.tosca.definitions import (
    ArtifactDefinition,
    CapabilityDefinition,
    InterfaceDefinition,
    OperationDefinition,
    PropertyDefinition,
    RequirementDefinition,
    Type,
    definitions,
)
from heat_config_agent.tosca.documents import Document
from heat_config_agent.tosca.entities import operations
from heat_config_agent.tosca.functions import Subject
from heat_config_agent.tosca.grammar import EMPTY

_MERGED = ("properties", "attributes", "capabilities", "interfaces", "artifacts")

_RELATIONSHIPS = (
    ("tosca.capabilities.Container", "tosca.relationships.HostedOn"),
    ("tosca.capabilities.Endpoint", "tosca.relationships.ConnectsTo"),
    ("tosca.capabilities.Attachment", "tosca.relationships.AttachesTo"),
    ("tosca.capabilities.Node", "tosca.relationships.DependsOn"),
)
"""The relationship for each capability, where no relationship is named (R12)."""


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
        self.name, self.content, self.definition, self.names, self.path = name, content, definition, names, path

    @cached_property
    def operations(self) -> Mapping[str, OperationDefinition]:
        """All its operations by name; the template's own stand over those of the type."""
        found = dict(self.definition.operations) if self.definition else {}
        for name, content, path in operations(self.content, self.path):
            found[name] = OperationDefinition(name, content, found.get(name), self.names, path)
        return found

    def input_definitions(self, operation: str) -> Mapping[str, PropertyDefinition]:
        """Return the definitions of the inputs of an operation: its own over those of the interface."""
        of_interface = self.definition.inputs if self.definition else {}
        defined = self.definition.operations.get(operation) if self.definition else None
        return {**of_interface, **defined.inputs} if defined else of_interface

    def inputs(self, operation: str) -> Mapping[str, Json]:
        """Return the values of the inputs of an operation (O7): those of the template over the defaults."""
        defaults = {
            name: of.default for name, of in self.input_definitions(operation).items() if of.default is not None
        }
        assigned = self.content.get("inputs") or {}
        own = {name: content for name, content, _ in operations(self.content, ())}.get(operation) or {}
        return {**defaults, **assigned, **(own.get("inputs") or {})}


class Template:
    """The common part of node and relationship templates, groups and policies."""

    kind = ""
    section = ""

    def __init__(self, name: str, content: Mapping[str, Json], document: Document, path: Path) -> None:
        self.name, self.content, self.document, self.path = name, content, document, path

    def __repr__(self) -> str:
        return self.name

    @cached_property
    def type(self) -> Type | None:
        """Its type; None where that is missing or unknown."""
        name = self.content.get("type")
        return self.document.find(self.section, name) if name else None

    @property
    def is_known(self) -> bool:
        """True if everything that its type says is known."""
        return self.type is not None and not self.type.is_incomplete

    def property_value(self, name: str) -> Json:
        """Return the value of a property: the assigned one, or else the default; None where there is none."""
        value = (self.content.get("properties") or {}).get(name)
        if value is None and self.type is not None and name in self.type.properties:
            return self.type.properties[name].default
        return value

    @cached_property
    def interfaces(self) -> Mapping[str, Interface]:
        """Its interfaces by the names that its type has for them; with one that only the template has (S8)."""
        assigned: Mapping[str, Json] = self.content.get("interfaces") or {}
        found: dict[str, Interface] = {}
        of_type = self.type.interfaces if self.type else {}
        for name, definition in of_type.items():
            found[name] = Interface(name, {}, definition, self.document, (*self.path, "interfaces", name))
        for name, content in assigned.items():
            declared = self.type.interface(name) if self.type else None
            path = (*self.path, "interfaces", name)
            if declared is None:
                own = self.document.find("interface_types", name)
                declared = InterfaceDefinition(name, {"type": name}, None, self.document, path) if own else None
            if declared is not None:
                found[declared.name] = Interface(declared.name, content, declared, self.document, path)
        return found

    def interface(self, name: str) -> Interface | None:
        """Return an interface by its name, its type's name or a short form of that."""
        found = self.interfaces.get(name)
        if found is None:
            type_ = self.document.find("interface_types", name)
            for interface in self.interfaces.values() if type_ else ():
                of = interface.definition.type if interface.definition else None
                if of is not None and type_ is not None and of.key == type_.key:
                    return interface
        return found

    @property
    def operations(self) -> Iterator[tuple[Interface, OperationDefinition]]:
        """All operations that are implemented, each with its interface."""
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

    def targets(self, _requirement: str, /) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return the templates that fulfil a requirement."""
        return ()


class Relationship(Template):
    """A relationship template, or the relationship that a requirement describes (section 3.7.4)."""

    kind = "relationship"
    section = "relationship_types"


class Requirement:
    """A requirement of a node template, as it is assigned (section 3.7.2)."""

    def __init__(
        self, name: str, content: Mapping[str, Json], node: Node, definition: RequirementDefinition | None, path: Path
    ) -> None:
        self.name, self.content, self.node, self.definition, self.path = name, content, node, definition, path
        self.target: Node | None = None
        """The node that fulfils it; None where it is not known before the service is applied."""
        self.node_type: Type | None = None
        """The node type that is asked for, where no node is named."""
        self.relationship: Relationship | None = None
        """The relationship template, or what the assignment itself says of the relationship."""
        self.named_type: Type | None = None
        """The relationship type that the assignment names."""

    @cached_property
    def capability_type(self) -> Type | None:
        """The capability type that the target needs: the assignment's, else the definition's."""
        name = self.content.get("capability")
        if name is not None and (self.target is None or name not in _capabilities(self.target)):
            return self.node.document.find("capability_types", name)
        return self.definition.capability if self.definition else None

    @cached_property
    def capability(self) -> CapabilityDefinition | None:
        """The capability of the target by which it is fulfilled; None where that is not known."""
        if self.target is None:
            return None
        name = self.content.get("capability")
        offered = _capabilities(self.target)
        if name is not None and name in offered:
            return offered[name]
        wanted = self.capability_type
        if wanted is None:
            return None
        fitting = [of for of in offered.values() if of.type is not None and of.type.is_a(wanted)]
        exact = [of for of in fitting if of.name == self.name]
        return (exact or fitting or [None])[0]  # type: ignore[list-item]

    @property
    def relationship_type(self) -> Type | None:
        """The type of the relationship (R12): the assignment's, the definition's, or that of the capability."""
        if self.relationship is not None and self.relationship.type is not None:
            return self.relationship.type
        if self.named_type is not None:
            return self.named_type
        if self.definition is not None and self.definition.relationship is not None:
            return self.definition.relationship
        wanted = self.capability_type
        for capability, relationship in _RELATIONSHIPS if wanted is not None else ():
            if wanted is not None and capability in wanted.keys:
                return self.node.document.find("relationship_types", relationship)
        return None


def _capabilities(node: Node) -> Mapping[str, CapabilityDefinition]:
    return node.type.capabilities if node.type else {}


class Node(Template):
    """A node template (section 3.7.3)."""

    kind = "node"
    section = "node_types"

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """Its requirements as they are assigned, in their order."""
        found = []
        defined = self.type.requirements if self.type else {}
        for index, entry in enumerate(self.content.get("requirements") or ()):
            if entry is not None:
                name, content = entry
                path = (*self.path, "requirements", index, name)
                found.append(Requirement(name, content or {}, self, defined.get(name), path))
        return tuple(found)

    @property
    def directives(self) -> tuple[str, ...]:
        """Its directives, such as `selectable` or `substitutable`."""
        return tuple(name for name in self.content.get("directives") or () if name)

    @cached_property
    def artifacts(self) -> Mapping[str, ArtifactDefinition]:
        """Its artifacts and those of its type, by name."""
        found = dict(self.type.artifacts) if self.type else {}
        for name, content in (self.content.get("artifacts") or {}).items():
            path = (*self.path, "artifacts", name)
            found[name] = ArtifactDefinition(name, content, found.get(name), self.document, path)
        return found

    def artifact_names(self) -> Collection[str]:
        """Return the names of its artifacts."""
        return self.artifacts

    def targets(self, requirement: str, /) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return the nodes that fulfil a requirement, each with the capability by which it does."""
        return [
            (assigned.target, assigned.capability)
            for assigned in self.requirements
            if assigned.name == requirement and assigned.target is not None
        ]

    def capability_property(self, capability: str, name: str) -> Json:
        """Return the value of a property of a capability: the assigned one, or else the default; None for none."""
        assigned = (self.content.get("capabilities") or {}).get(capability) or {}
        value = (assigned.get("properties") or {}).get(name)
        if value is None:
            definition = _capabilities(self).get(capability)
            if definition is not None and name in definition.properties:
                return definition.properties[name].default
        return value

    @property
    def host(self) -> Node | None:
        """The node that it is hosted on; None where nothing hosts it."""
        for requirement in self.requirements:
            type_ = requirement.relationship_type
            if type_ is not None and "tosca.relationships.HostedOn" in type_.keys and requirement.target is not None:
                return requirement.target
        return None


class Group(Template):
    """A group of nodes (section 3.7.5)."""

    kind = "group"
    section = "group_types"

    @property
    def members(self) -> tuple[str, ...]:
        """The names of its members."""
        return tuple(name for name in self.content.get("members") or () if name)


class Policy(Template):
    """A policy (section 3.7.6)."""

    kind = "policy"
    section = "policy_types"


class Service:
    """The topology template of a document (section 3.8)."""

    def __init__(self, document: Document) -> None:
        """Make the model of a document. Nothing is reported."""
        self.document = document
        self.content: Mapping[str, Any] = document.content.get("topology_template") or {}
        self.path: Path = ("topology_template",)
        self.nodes: dict[str, Node] = self._copied("node_templates", Node)
        self.relationships: dict[str, Relationship] = self._copied("relationship_templates", Relationship)
        groups = self.content.get("groups") or {}
        self.groups = {
            name: Group(name, of, document, (*self.path, "groups", name))
            for name, of in groups.items()
            if of is not EMPTY
        }
        self.policies = tuple(self._policies())
        self.inputs = self._parameters("inputs")
        self.outputs = self._parameters("outputs")
        self.workflows: Mapping[str, Json] = self.content.get("workflows") or {}
        self.templates: dict[str, Subject] = {**self.relationships, **self.nodes}
        for node in self.nodes.values():
            for requirement in node.requirements:
                self._connect(requirement)

    def _parameters(self, section: str) -> Mapping[str, PropertyDefinition]:
        return definitions(self.content.get(section) or {}, {}, self.document, (*self.path, section))

    def _copied(self, section: str, class_: type[Any]) -> dict[str, Any]:
        """Return templates by name; those that are copies have what they copy (S5)."""
        contents: Mapping[str, Json] = self.content.get(section) or {}
        found = {}
        for name, content in contents.items():
            if content is EMPTY:  # it counts as not there (Y5)
                continue
            original = contents.get(content.get("copy") or "")
            if original is not None and original.get("copy") is None:
                merged = {**original, **content}
                for key in _MERGED:
                    if key in original and key in content:
                        merged[key] = {**original[key], **content[key]}
                content = merged  # noqa: PLW2901  # the copy has it from here on
            found[name] = class_(name, content, self.document, (*self.path, section, name))
        return found

    def _policies(self) -> Iterator[Policy]:
        section = self.content.get("policies") or ()
        if isinstance(section, dict):
            entries = [((name,), name, content) for name, content in section.items()]
        else:
            entries = [((index, entry[0]), *entry) for index, entry in enumerate(section) if entry is not None]
        for step, name, content in entries:
            yield Policy(name, content or {}, self.document, (*self.path, "policies", *step))

    def _connect(self, requirement: Requirement) -> None:
        """Find what a requirement names."""
        content, document = requirement.content, self.document
        name = content.get("node")
        if name is not None:
            requirement.target = self.nodes.get(name)
            if requirement.target is None:
                requirement.node_type = document.find("node_types", name)
        elif requirement.definition is not None:
            requirement.node_type = requirement.definition.node
        relationship = content.get("relationship")
        if relationship is not None and relationship.get("type") is not None:
            template = self.relationships.get(relationship["type"])
            if template is None:
                requirement.named_type = document.find("relationship_types", relationship["type"])
            if len(relationship) > 1 or template is None:
                own = Relationship(requirement.name, relationship, document, (*requirement.path, "relationship"))
                own.__dict__["type"] = template.type if template else requirement.named_type
                requirement.relationship = own
            else:
                requirement.relationship = template

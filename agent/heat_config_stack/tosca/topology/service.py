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

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language.functions import Subject
from heat_config_stack.tosca.language.grammar import EMPTY
from heat_config_stack.tosca.language.types import (
    ArtifactDefinition,
    CapabilityDefinition,
    PropertyDefinition,
    RequirementDefinition,
    Type,
    definitions,
)
from heat_config_stack.tosca.topology.templates import Relationship, Template

_MERGED = ("properties", "attributes", "capabilities", "interfaces", "artifacts")

_RELATIONSHIPS = (
    ("tosca.capabilities.Container", "tosca.relationships.HostedOn"),
    ("tosca.capabilities.Endpoint", "tosca.relationships.ConnectsTo"),
    ("tosca.capabilities.Attachment", "tosca.relationships.AttachesTo"),
    ("tosca.capabilities.Node", "tosca.relationships.DependsOn"),
)
"""The relationship for each capability, where no relationship is named (section 3.7.2)."""


class Requirement:
    """A requirement of a node template, as it is assigned (section 3.7.2)."""

    def __init__(
        self,
        name: str,
        content: Mapping[str, Json],
        node: Node,
        definition: RequirementDefinition | None,
        path: Path,
    ) -> None:
        self.name = name
        self.content = content
        self.node = node
        self.definition = definition
        self.path = path
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
        if name is not None and (
            self.target is None or name not in _capabilities(self.target)
        ):
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
        fitting = [
            of
            for of in offered.values()
            if of.type is not None and of.type.is_a(wanted)
        ]
        exact = [of for of in fitting if of.name == self.name]
        return (exact or fitting or [None])[0]  # type: ignore[list-item]

    @property
    def relationship_type(self) -> Type | None:
        """The type of the relationship (3.7.2): the assignment's, the definition's, or that of the capability."""
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
        requirements = []
        defined = self.type.requirements if self.type else {}
        for index, entry in enumerate(self.content.get("requirements") or ()):
            if entry is not None:
                name, content = entry
                path = (*self.path, "requirements", index, name)
                requirements.append(
                    Requirement(name, content or {}, self, defined.get(name), path)
                )
        return tuple(requirements)

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
            found[name] = ArtifactDefinition(
                name, content, found.get(name), self.document, path
            )
        return found

    def artifact_names(self) -> Collection[str]:
        """Return the names of its artifacts."""
        return self.artifacts

    def targets(
        self, requirement: str, /
    ) -> Iterable[tuple[Subject, CapabilityDefinition | None]]:
        """Return the nodes that fulfil a requirement, each with the capability by which it does."""
        return [
            (assigned.target, assigned.capability)
            for assigned in self.requirements
            if assigned.name == requirement and assigned.target is not None
        ]

    def capability_property(self, capability: str, name: str) -> Json:
        """Return the value of a property of a capability: as assigned, else its default, else None."""
        value = self.assigned(capability, "properties").get(name)
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
            if (
                type_ is not None
                and "tosca.relationships.HostedOn" in type_.keys
                and requirement.target is not None
            ):
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
        self.content: Mapping[str, Any] = (
            document.content.get("topology_template") or {}
        )
        self.path: Path = ("topology_template",)
        self.nodes: dict[str, Node] = self._copied("node_templates", Node)
        self.relationships: dict[str, Relationship] = self._copied(
            "relationship_templates", Relationship
        )
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

    @cached_property
    def mapped_requirements(self) -> frozenset[tuple[str, str]]:
        """The requirements that the node in whose place it stands fulfils: a node and a name each (section 3.7.10)."""
        content = self.content.get("substitution_mappings") or {}
        mapping: Mapping[str, Json] = content.get("requirements") or {}
        entries = [mapped_to(entry) for entry in mapping.values()]
        pairs = (
            entry for entry in entries if isinstance(entry, list) and len(entry) == 2
        )
        return frozenset((str(node), str(name)) for node, name in pairs)

    def _parameters(self, section: str) -> Mapping[str, PropertyDefinition]:
        return definitions(
            self.content.get(section) or {}, {}, self.document, (*self.path, section)
        )

    def _copied(self, section: str, class_: type[Any]) -> dict[str, Any]:
        """Return templates by name; those that are copies have what they copy (section 3.7)."""
        contents: Mapping[str, Json] = self.content.get(section) or {}
        entities = {}
        for name, content in contents.items():
            if content is EMPTY:  # it counts as not there
                continue
            original = contents.get(content.get("copy") or "")
            if original is not None and original.get("copy") is None:
                content = _merged(original, content)  # noqa: PLW2901  # the copy has it from here on
            entities[name] = class_(
                name, content, self.document, (*self.path, section, name)
            )
        return entities

    def _policies(self) -> Iterator[Policy]:
        section = self.content.get("policies") or ()
        if isinstance(section, dict):
            entries = [((name,), name, content) for name, content in section.items()]
        else:
            entries = [
                ((index, entry[0]), *entry)
                for index, entry in enumerate(section)
                if entry is not None
            ]
        for step, name, content in entries:
            yield Policy(
                name, content or {}, self.document, (*self.path, "policies", *step)
            )

    def _connect(self, requirement: Requirement) -> None:
        """Find what a requirement names."""
        content = requirement.content
        document = self.document
        name = content.get("node")
        if name is not None:
            requirement.target = self.nodes.get(name)
            if requirement.target is None:
                requirement.node_type = document.find("node_types", name)
        elif requirement.definition is not None:
            requirement.node_type = requirement.definition.node
        requirement.relationship = self._described(requirement)

    def _described(self, requirement: Requirement) -> Relationship | None:
        """Return the relationship that an assignment and its definition describe; None where they say nothing."""
        content: Mapping[str, Json] = requirement.content.get("relationship") or {}
        definition = requirement.definition
        is_refined = definition is not None and bool(definition.interfaces)
        if not content and not is_refined:
            return None
        name = content.get("type")
        template = self.relationships.get(name) if name is not None else None
        if template is None:
            requirement.named_type = (
                self.document.find("relationship_types", name)
                if name is not None
                else None
            )
        elif len(content) == 1 and not is_refined:
            return template
        merged = _merged(template.content, content) if template else content
        described = Relationship(
            requirement.name,
            merged,
            self.document,
            (*requirement.path, "relationship"),
            definition,
        )
        if template is not None:
            described.type = template.type
        else:
            described.type = (
                requirement.named_type
                if name is not None
                else requirement.relationship_type
            )
        return described


def mapped_to(entry: Json) -> Json:
    """Return the value that an entry of a substitution mapping leads to; it may stand under `mapping`."""
    return entry.get("mapping") if isinstance(entry, dict) else entry


def _merged(
    original: Mapping[str, Json], content: Mapping[str, Json]
) -> Mapping[str, Json]:
    """Return the content of a template over that of another one; values are merged by name (section 3.7)."""
    merged = {**original, **content}
    for key in _MERGED:
        if key in original and key in content:
            merged[key] = {**original[key], **content[key]}
    return merged

"""Definitions in types: of properties, capabilities, requirements and artifacts (sections 3.5 and 3.6)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language.constraints import Clause, clauses
from heat_config_stack.tosca.language.primitives import UNBOUNDED
from heat_config_stack.tosca.language.report import Report


class Names(Protocol):
    """The names that a document knows."""

    file: str
    report: Report

    def find(self, section: str, name: str) -> Type | None:
        """Return the type of that name; None if there is none."""


class Type(Protocol):
    """A type with what it inherits. Maps of members have those of the parents, over which its own stand."""

    section: str
    """Its section in the document: `node_types`."""
    name: str
    content: Mapping[str, Json]
    """The content of its document about it (`grammar.held`)."""
    names: Names
    path: Path
    key: object
    """Its identity; normative types of all versions have their name."""

    @property
    def parent(self) -> Type | None:
        """The type that it is derived of, as it is written; it may lead back to this one."""

    @property
    def lineage(self) -> tuple[Type, ...]:
        """The type itself, its parent, and so on."""

    @property
    def is_incomplete(self) -> bool:
        """True if it is unknown what it inherits: a parent is not there, or the parents form a circle."""

    @property
    def keys(self) -> frozenset[object]:
        """The keys of the types that it may stand for."""

    def is_a(self, other: Type) -> bool:
        """Return whether it is the other type, or derived of it."""

    def may_be(self, other: Type) -> bool:
        """Return whether it is the other type or derived of it, as far as its parents are known."""

    @property
    def properties(self) -> Mapping[str, PropertyDefinition]:
        """Definitions of properties."""

    @property
    def attributes(self) -> Mapping[str, PropertyDefinition]:
        """Definitions of attributes, without those that properties are as well."""

    @property
    def capabilities(self) -> Mapping[str, CapabilityDefinition]:
        """Definitions of capabilities."""

    @property
    def requirements(self) -> Mapping[str, RequirementDefinition]:
        """Definitions of requirements."""

    @property
    def artifacts(self) -> Mapping[str, ArtifactDefinition]:
        """Artifacts."""

    @property
    def interfaces(self) -> Mapping[str, Any]:
        """Definitions of interfaces (`interface_definitions`, which knows this module)."""

    def interface(self, name: str) -> Any:
        """Return the interface of a name: its own, its type's, or a short form of that (section 5.8)."""

    @property
    def inputs(self) -> Mapping[str, PropertyDefinition]:
        """Of an interface type: definitions of the inputs of all its operations."""

    @property
    def operations(self) -> Mapping[str, Any]:
        """Of an interface type: its operations."""

    @property
    def primitive(self) -> str:
        """Of a data type: the primitive type that it is derived of, or nothing."""

    @property
    def schema(self) -> Schema:
        """The values of a data type."""

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Of a data type: its constraints and those of its parents."""


class Schema:
    """The schema for the values of a property, an input or an entry."""

    __slots__ = ("_clauses", "_content", "_names", "_parent", "_parts", "type")

    def __init__(self, type_: Type | None, content: Mapping[str, Json], parent: Schema | None, names: Names) -> None:
        """Take the type (None where it is unknown: then anything fits), the definition, and the one that it refines."""
        self.type = type_
        self._content, self._parent, self._names = content, parent, names
        self._clauses: tuple[Clause, ...] | None = None
        self._parts: dict[str, Schema | None] = {}

    @property
    def primitive(self) -> str:
        """The primitive type of the values, or nothing."""
        return self.type.primitive if self.type else ""

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """All constraints: of the type, of what is refined, and its own."""
        if self._clauses is None:
            inherited = self._parent.clauses if self._parent else self.type.clauses if self.type else ()
            own = self._content.get("constraints")
            is_complex = self.type is not None and not self.primitive
            self._clauses = (*inherited, *clauses(own, self.primitive, is_complex=is_complex)) if own else inherited
        return self._clauses

    @property
    def entry(self) -> Schema | None:
        """The schema of the entries of a list or a map; None if they may be anything."""
        return self._part("entry_schema")

    @property
    def key(self) -> Schema | None:
        """The schema of the keys of a map (1.3); None if they may be anything."""
        return self._part("key_schema")

    def _part(self, key: str) -> Schema | None:
        if key not in self._parts:
            self._parts[key] = None  # for types that are derived of one another in a circle
            content = self._content.get(key)
            if content is None:
                inherited = self._parent
                if inherited is None and self.type is not None and self.type.content.get(key) is not None:
                    content = self.type.content[key]
                    self._parts[key] = schema(content, self.type.names)
                elif inherited is None and self.type is not None and len(self.type.lineage) > 1:
                    self._parts[key] = self.type.lineage[1].schema._part(key)  # noqa: SLF001  # of its own class
                else:
                    self._parts[key] = inherited._part(key) if inherited else None  # noqa: SLF001
            else:
                self._parts[key] = schema(content, self._names)
        return self._parts[key]


def schema(content: Json, names: Names) -> Schema:
    """Return the schema of entries or keys (section 3.5.10): a type's name, or a map."""
    if isinstance(content, str):
        content = {"type": content}
    name = content.get("type")
    return Schema(names.find("data_types", name) if name else None, content, None, names)


class Definition:
    """The part that all definitions share."""

    def __init__(self, name: str, content: Mapping[str, Json], parent: Any, names: Names, path: Path) -> None:
        """Take the name, what the document says, and the definition of that name that it refines."""
        self.name, self.content, self.parent, self.names, self.path = name, content, parent, names, path


class PropertyDefinition(Definition):
    """The definition of a property, an attribute or a parameter, with what it inherits."""

    parent: PropertyDefinition | None

    def get(self, key: str, default: Json = None) -> Json:
        """Return what stands under a keyname, here or in the definition that is refined."""
        value = self.content.get(key)
        if value is None:
            return self.parent.get(key, default) if self.parent else default
        return value

    @cached_property
    def schema(self) -> Schema:
        """The schema of its values."""
        inherited = self.parent.schema if self.parent else None
        name = self.content.get("type")
        if name is None:
            return Schema(inherited.type if inherited else None, self.content, inherited, self.names)
        return Schema(self.names.find("data_types", name), self.content, inherited, self.names)

    @property
    def required(self) -> bool:
        """True if a value has to be there; a default is one."""
        return bool(self.get("required", True))

    @property
    def fixed(self) -> Json:
        """The `value` that is final for a property (1.3), and assigned to a parameter; None if there is none."""
        return self.get("value")

    @property
    def default(self) -> Json:
        """The value if none is assigned: the fixed one, or else the default; None without either."""
        fixed = self.fixed
        return self.get("default") if fixed is None else fixed

    @property
    def status(self) -> str:
        """`supported`, `unsupported`, `experimental` or `deprecated`."""
        return str(self.get("status", "supported"))


def definitions(
    own: Mapping[str, Json], inherited: Mapping[str, PropertyDefinition], names: Names, path: Path
) -> dict[str, PropertyDefinition]:
    """Return the definitions of properties with those that are inherited."""
    found = dict(inherited)
    for name, content in own.items():
        found[name] = PropertyDefinition(name, content, found.get(name), names, (*path, name))
    return found


class CapabilityDefinition(Definition):
    """A capability of a node type (section 3.6.2)."""

    parent: CapabilityDefinition | None

    @cached_property
    def type(self) -> Type | None:
        """Its type; None where that is unknown."""
        name = self.content.get("type")
        if name is None:
            return self.parent.type if self.parent else None
        return self.names.find("capability_types", name)

    @cached_property
    def properties(self) -> Mapping[str, PropertyDefinition]:
        """The properties of its type, which the definition refines and adds to."""
        return self._refined("properties")

    @cached_property
    def attributes(self) -> Mapping[str, PropertyDefinition]:
        """The attributes of its type, which the definition refines and adds to."""
        return self._refined("attributes")

    def _refined(self, member: str) -> Mapping[str, PropertyDefinition]:
        refined: Mapping[str, PropertyDefinition] = getattr(self.type, member) if self.type else {}
        lineage: list[CapabilityDefinition] = [self]
        while lineage[-1].parent is not None:
            lineage.append(lineage[-1].parent)
        for definition in reversed(lineage):  # those of parents refine the type as well
            own = definition.content.get(member)
            if own:
                refined = definitions(own, refined, definition.names, (*definition.path, member))
        return refined

    @property
    def valid_source_types(self) -> tuple[Type, ...]:
        """The node types that may use it; none where all may."""
        definition: CapabilityDefinition | None = self
        while definition is not None:
            named = definition.content.get("valid_source_types")
            if named is not None:
                return _found(named, definition.names, "node_types")
            definition = definition.parent
        if self.type is not None:
            for type_ in self.type.lineage:
                if type_.content.get("valid_source_types"):
                    return _found(type_.content["valid_source_types"], type_.names, "node_types")
        return ()


def _found(named: list[Json], names: Names, section: str) -> tuple[Type, ...]:
    types = (names.find(section, name) for name in named if name)
    return tuple(type_ for type_ in types if type_ is not None)


class RequirementDefinition:
    """A requirement of a node type (section 3.6.3).

    A definition that names a capability stands in the place of the inherited one; another is merged with it.
    """

    def __init__(
        self, name: str, content: Mapping[str, Json], parent: RequirementDefinition | None, names: Names, path: Path
    ) -> None:
        self.name, self.content, self.names, self.path = name, content, names, path
        self.parent = None if content.get("capability") is not None else parent

    def _sought(self, key: str, section: str) -> Type | None:
        name = self.content.get(key)
        if name is None:
            return self.parent._sought(key, section) if self.parent else None  # noqa: SLF001  # of its own class
        if isinstance(name, dict):
            name = name.get("type")
        return self.names.find(section, name) if name else None

    @cached_property
    def capability(self) -> Type | None:
        """The capability type that the target needs to have."""
        return self._sought("capability", "capability_types")

    @cached_property
    def node(self) -> Type | None:
        """The node type that the target needs to be of; None where it may be any."""
        return self._sought("node", "node_types")

    @cached_property
    def relationship(self) -> Type | None:
        """The type of the relationship; None where the capability decides it."""
        return self._sought("relationship", "relationship_types")

    @property
    def interfaces(self) -> Mapping[str, Json]:
        """The definition's statements about the interfaces of the relationship."""
        relationship = self.content.get("relationship")
        if relationship is None:
            return self.parent.interfaces if self.parent else {}
        return relationship.get("interfaces") or {}

    @property
    def node_filter(self) -> Json:
        """A further condition on the target (1.3); None if there is none."""
        found = self.content.get("node_filter")
        return self.parent.node_filter if found is None and self.parent else found

    @property
    def occurrences(self) -> tuple[int, float]:
        """The least and the greatest number of targets."""
        ends = self.content.get("occurrences")
        if ends is None:
            return self.parent.occurrences if self.parent else (1, 1)
        return ends[0], float("inf") if ends[1] == UNBOUNDED else ends[1]


class ArtifactDefinition(Definition):
    """An artifact of a type or a template (section 3.5.7)."""

    parent: ArtifactDefinition | None

    def get(self, key: str) -> Json:
        """Return what stands under a keyname, here or in the definition that is refined."""
        value = self.content.get(key)
        return self.parent.get(key) if value is None and self.parent else value

    @cached_property
    def type(self) -> Type | None:
        """Its type; None where it is not named, or unknown."""
        name = self.content.get("type")
        if name is None:
            return self.parent.type if self.parent else None
        return self.names.find("artifact_types", name)

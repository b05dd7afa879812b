"""Types and what they define, with what they inherit (sections 3.4 to 3.6 of the specification)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language.constraints import Clause, clauses
from heat_config_stack.tosca.language.entities import operations
from heat_config_stack.tosca.language.primitives import READERS, UNBOUNDED
from heat_config_stack.tosca.language.report import Report

SECTIONS = {
    "artifact_types": "tosca.artifacts.",
    "data_types": "tosca.datatypes.",
    "capability_types": "tosca.capabilities.",
    "interface_types": "tosca.interfaces.",
    "relationship_types": "tosca.relationships.",
    "node_types": "tosca.nodes.",
    "group_types": "tosca.groups.",
    "policy_types": "tosca.policies.",
}
"""The sections of types, each with the prefix of the names of its normative types."""

MOST_PARENTS = 60
"""The maximum number of types that are derived of one another."""

NO_PARENT = "tosca.entity.Root"
"""The parent that the specification gives its own root types: it stands for none."""

_SAME = frozenset({"tosca.capabilities.Container", "tosca.capabilities.Compute"})
"""Capability types that satisfy each other: versions turn round which of them is derived of the other."""


class Namespace:
    """The names that a document or a profile knows."""

    file: str
    """The name that mistakes have."""
    report: Report

    def find(self, section: str, name: str) -> Type | None:
        """Return the type of that name; None if there is none."""
        raise NotImplementedError


class Type:
    """A type with the definitions that it inherits. Its own members override those of its parents."""

    def __init__(
        self,
        section: str,
        name: str,
        content: Mapping[str, Json],
        names: Namespace,
        *,
        is_normative: bool,
    ) -> None:
        """Take its definition; `is_normative` says that it has the full name of a normative type."""
        self.section = section
        self.name = name
        self.content = content
        self.names = names
        self.path: Path = (section, name)
        self.key: object = name if is_normative else self
        """Its identity: normative types of all versions and documents are the same by their name."""

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @cached_property
    def parent(self) -> Type | None:
        """The type that it is derived of, as it is written; it may lead back to this one."""
        name = self.content.get("derived_from")
        return (
            None
            if name is None or name == NO_PARENT
            else self.names.find(self.section, name)
        )

    @cached_property
    def lineage(self) -> tuple[Type, ...]:
        """The type itself, its parent, and so on."""
        chain: list[Type] = [self]
        following = self.parent
        while (
            following is not None
            and following not in chain
            and len(chain) < MOST_PARENTS
        ):
            chain.append(following)
            following = following.parent
        return tuple(chain)

    @cached_property
    def is_incomplete(self) -> bool:
        """True if its inheritance is incomplete: a parent is missing, or the parents form a circle."""
        last = self.lineage[-1]
        return last.content.get("derived_from") not in {None, NO_PARENT}

    @cached_property
    def keys(self) -> frozenset[object]:
        """The keys that distinguish the types that it may stand for."""
        keys = frozenset(type_.key for type_ in self.lineage)
        return keys | _SAME if keys & _SAME else keys

    def is_a(self, other: Type) -> bool:
        """Return whether it is the other type, or derived of it."""
        return other.key in self.keys

    def may_be(self, other: Type) -> bool:
        """Return whether it is the other type or derived of it, as far as its parents are known."""
        return other.key in self.keys or self.is_incomplete

    @cached_property
    def root(self) -> Type:
        """The last of its lineage."""
        return self.lineage[-1]

    @property
    def _complete_parent(self) -> Type | None:
        """The parent; none where parents form a circle, or are too many."""
        return (
            self.lineage[1]
            if len(self.lineage) > 1 and self.lineage[-1].parent is None
            else None
        )

    # Members. Each map has those of the parents, over which the type's own stand (section 3.4.2).

    def _inherited(self, member: str) -> dict[str, Any]:
        parent = self._complete_parent
        return dict(getattr(parent, member)) if parent else {}

    @cached_property
    def properties(self) -> Mapping[str, PropertyDefinition]:
        """Definitions of properties by name."""
        return self._defined("properties")

    @cached_property
    def attributes(self) -> Mapping[str, PropertyDefinition]:
        """Definitions of attributes by name, without attributes that are also properties."""
        return self._defined("attributes")

    def _defined(self, member: str) -> Mapping[str, PropertyDefinition]:
        own = self.content.get(member)
        parent = self._complete_parent
        if not own and parent is not None:
            inherited: Mapping[str, PropertyDefinition] = getattr(parent, member)
            return inherited
        return definitions(
            own or {}, self._inherited(member), self.names, (*self.path, member)
        )

    @cached_property
    def capabilities(self) -> Mapping[str, CapabilityDefinition]:
        """Definitions of capabilities by name."""
        found = self._inherited("capabilities")
        for name, content in (self.content.get("capabilities") or {}).items():
            path = (*self.path, "capabilities", name)
            found[name] = CapabilityDefinition(
                name, content, found.get(name), self.names, path
            )
        return found

    @cached_property
    def requirements(self) -> Mapping[str, RequirementDefinition]:
        """Definitions of requirements by name."""
        requirements = self._inherited("requirements")
        for index, entry in enumerate(self.content.get("requirements") or ()):
            if entry is not None:
                name, content = entry
                path = (*self.path, "requirements", index, name)
                requirements[name] = RequirementDefinition(
                    name, content or {}, requirements.get(name), self.names, path
                )
        return requirements

    @cached_property
    def artifacts(self) -> Mapping[str, ArtifactDefinition]:
        """Artifacts by name."""
        found = self._inherited("artifacts")
        for name, content in (self.content.get("artifacts") or {}).items():
            path = (*self.path, "artifacts", name)
            found[name] = ArtifactDefinition(
                name, content, found.get(name), self.names, path
            )
        return found

    @cached_property
    def interfaces(self) -> Mapping[str, InterfaceDefinition]:
        """Definitions of interfaces by name."""
        found = self._inherited("interfaces")
        for name, content in (self.content.get("interfaces") or {}).items():
            path = (*self.path, "interfaces", name)
            found[name] = InterfaceDefinition(
                name, content, found.get(name), self.names, path
            )
        return found

    @cached_property
    def needing(self) -> Mapping[str, CapabilityDefinition]:
        """The capabilities with properties that need a value."""
        return {
            name: capability
            for name, capability in self.capabilities.items()
            if capability.needs_values
        }

    @cached_property
    def implements_nothing(self) -> bool:
        """True if it implements no operation: true of most types of relationships."""
        operations = (
            of
            for interface in self.interfaces.values()
            for of in interface.operations.values()
        )
        return not any(of.implemented is not None for of in operations)

    def interface(self, name: str) -> InterfaceDefinition | None:
        """Return the interface of a name: its own, its type's, or a short form of that (section 5.8)."""
        found = self.interfaces.get(name)
        if found is not None:
            return found
        type_ = self.names.find("interface_types", name)
        if type_ is not None:
            for interface in self.interfaces.values():
                if interface.type is not None and interface.type.key == type_.key:
                    return interface
        return None

    # Interface types.

    @cached_property
    def inputs(self) -> Mapping[str, PropertyDefinition]:
        """For an interface type, the definitions of the inputs of all its operations."""
        return definitions(
            self.content.get("inputs") or {},
            self._inherited("inputs"),
            self.names,
            (*self.path, "inputs"),
        )

    @cached_property
    def operations(self) -> Mapping[str, OperationDefinition]:
        """The operations of an interface type, by name."""
        found = self._inherited("operations")
        for name, content, path in operations(self.content, self.path):
            found[name] = OperationDefinition(
                name, content, found.get(name), self.names, path
            )
        return found

    # Data types.

    @cached_property
    def primitive(self) -> str:
        """The primitive type that a data type is derived from, or nothing."""
        return (
            self.root.name
            if self.section == "data_types" and self.root.name in READERS
            else ""
        )

    @cached_property
    def schema(self) -> Schema:
        """The values of a data type."""
        return Schema(self, {}, None, self.names)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The constraints of a data type and those of its parents."""
        inherited = self._complete_parent.clauses if self._complete_parent else ()
        own = self.content.get("constraints")
        return (
            (*inherited, *clauses(own, self.primitive, is_complex=not self.primitive))
            if own
            else inherited
        )


class Schema:
    """The schema for the values of a property, an input or an entry."""

    __slots__ = ("_clauses", "_content", "_names", "_parent", "_parts", "type")

    def __init__(
        self,
        type_: Type | None,
        content: Mapping[str, Json],
        parent: Schema | None,
        names: Namespace,
    ) -> None:
        """Take the type (None if unknown: then any value fits), the definition, and the definition that it refines."""
        self.type = type_
        self._content = content
        self._parent = parent
        self._names = names
        self._clauses: tuple[Clause, ...] | None = None
        self._parts: dict[str, Schema | None] = {}

    @property
    def primitive(self) -> str:
        """The primitive type of the values, or nothing."""
        return self.type.primitive if self.type else ""

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """All constraints: of the type, of the refined definition, and its own."""
        if self._clauses is None:
            refined = self._parent or self.type
            inherited = refined.clauses if refined else ()
            own = self._content.get("constraints")
            is_complex = self.type is not None and not self.primitive
            self._clauses = (
                (*inherited, *clauses(own, self.primitive, is_complex=is_complex))
                if own
                else inherited
            )
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
            self._parts[key] = (
                None  # for types that are derived of one another in a circle
            )
            content = self._content.get(key)
            if content is None:
                inherited = self._parent
                if (
                    inherited is None
                    and self.type is not None
                    and self.type.content.get(key) is not None
                ):
                    content = self.type.content[key]
                    self._parts[key] = schema(content, self.type.names)
                elif (
                    inherited is None
                    and self.type is not None
                    and len(self.type.lineage) > 1
                ):
                    self._parts[key] = self.type.lineage[1].schema._part(key)  # noqa: SLF001  # of its own class
                else:
                    self._parts[key] = inherited._part(key) if inherited else None  # noqa: SLF001
            else:
                self._parts[key] = schema(content, self._names)
        return self._parts[key]


def schema(content: Json, names: Namespace) -> Schema:
    """Return the schema of entries or keys (section 3.5.10): a type's name, or a map."""
    if isinstance(content, str):
        content = {"type": content}
    name = content.get("type")
    return Schema(
        names.find("data_types", name) if name else None, content, None, names
    )


class Definition:
    """The part that all definitions share."""

    def __init__(
        self,
        name: str,
        content: Mapping[str, Json],
        parent: Any,
        names: Namespace,
        path: Path,
    ) -> None:
        """Take the name, the text of the document, and the definition of that name that it refines."""
        self.name = name
        self.content = content
        self.parent = parent
        self.names = names
        self.path = path


class PropertyDefinition(Definition):
    """The definition of a property, an attribute or a parameter, with what it inherits."""

    parent: PropertyDefinition | None

    def get(self, key: str, default: Json = None) -> Json:
        """Return the value of a keyname, from here or else from the refined definition."""
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
            return Schema(
                inherited.type if inherited else None,
                self.content,
                inherited,
                self.names,
            )
        return Schema(
            self.names.find("data_types", name), self.content, inherited, self.names
        )

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
    own: Mapping[str, Json],
    inherited: Mapping[str, PropertyDefinition],
    names: Namespace,
    path: Path,
) -> dict[str, PropertyDefinition]:
    """Return the definitions of properties, including inherited ones."""
    found = dict(inherited)
    for name, content in own.items():
        found[name] = PropertyDefinition(
            name, content, found.get(name), names, (*path, name)
        )
    return found


class CapabilityDefinition(Definition):
    """A capability of a node type (section 3.6.2)."""

    parent: CapabilityDefinition | None

    @cached_property
    def type(self) -> Type | None:
        """Its type; None if unknown."""
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
        refined: Mapping[str, PropertyDefinition] = (
            getattr(self.type, member) if self.type else {}
        )
        lineage: list[CapabilityDefinition] = [self]
        while lineage[-1].parent is not None:
            lineage.append(lineage[-1].parent)
        for definition in reversed(lineage):  # those of parents refine the type as well
            own = definition.content.get(member)
            if own:
                refined = definitions(
                    own, refined, definition.names, (*definition.path, member)
                )
        return refined

    @property
    def needs_values(self) -> bool:
        """True if one of its properties needs a value."""
        return any(
            of.required and of.default is None for of in self.properties.values()
        )

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
                    return _found(
                        type_.content["valid_source_types"], type_.names, "node_types"
                    )
        return ()


def _found(named: list[Json], names: Namespace, section: str) -> tuple[Type, ...]:
    types = (names.find(section, name) for name in named if name)
    return tuple(type_ for type_ in types if type_ is not None)


class RequirementDefinition:
    """A requirement of a node type (section 3.6.3).

    A definition that names a capability stands in the place of the inherited one; another is merged with it.
    """

    def __init__(
        self,
        name: str,
        content: Mapping[str, Json],
        parent: RequirementDefinition | None,
        names: Namespace,
        path: Path,
    ) -> None:
        self.name = name
        self.content = content
        self.names = names
        self.path = path
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
        """Return the value of a keyname, from here or else from the refined definition."""
        value = self.content.get(key)
        return self.parent.get(key) if value is None and self.parent else value

    @cached_property
    def type(self) -> Type | None:
        """Its type; None if it is not named or unknown."""
        name = self.content.get("type")
        if name is None:
            return self.parent.type if self.parent else None
        return self.names.find("artifact_types", name)


class OperationDefinition(Definition):
    """An operation of an interface, with what it inherits (section 3.5.15)."""

    parent: OperationDefinition | None

    @cached_property
    def inputs(self) -> Mapping[str, PropertyDefinition]:
        """Definitions of its inputs."""
        inherited = self.parent.inputs if self.parent else {}
        return definitions(
            self.content.get("inputs") or {},
            inherited,
            self.names,
            (*self.path, "inputs"),
        )

    @property
    def implemented(self) -> OperationDefinition | None:
        """The innermost definition with an implementation; None if nothing has to be run."""
        if self.content.get("implementation"):
            return self
        return self.parent.implemented if self.parent else None


class InterfaceDefinition(Definition):
    """An interface of a node, relationship or group type (section 3.5.16)."""

    parent: InterfaceDefinition | None

    @cached_property
    def type(self) -> Type | None:
        """Its type: as named, as inherited, or the type of the same name."""
        name = self.content.get("type")
        if name is None and self.parent:
            return self.parent.type
        return self.names.find("interface_types", self.name if name is None else name)

    @cached_property
    def _bases(
        self,
    ) -> tuple[Type | InterfaceDefinition | None, Sequence[InterfaceDefinition]]:
        """The types and definitions that it refines, with those of its ancestors."""
        if self.parent is not None and (
            self.content.get("type") is None or self.type is self.parent.type
        ):
            return self.parent, (self,)
        lineage = [self]
        while lineage[0].parent is not None:
            lineage.insert(0, lineage[0].parent)
        return self.type, lineage

    @cached_property
    def inputs(self) -> Mapping[str, PropertyDefinition]:
        """Definitions of the inputs of all its operations."""
        base, layers = self._bases
        found: Mapping[str, PropertyDefinition] = base.inputs if base else {}
        for of in layers:
            found = definitions(
                of.content.get("inputs") or {}, found, of.names, (*of.path, "inputs")
            )
        return found

    @cached_property
    def operations(self) -> Mapping[str, OperationDefinition]:
        """Its operations by name."""
        base, layers = self._bases
        found = dict(base.operations) if base else {}
        for of in layers:
            for name, content, path in operations(of.content, of.path):
                found[name] = OperationDefinition(
                    name, content, found.get(name), of.names, path
                )
        return found


def check_operations(content: Mapping[str, Json], path: Path, report: Report) -> None:
    """Report operations that an interface has twice: by their names, and under `operations` (1.3)."""
    for name in (content.get("operations") or {}).keys() & content.keys():
        where = (*path, "operations", name)
        report.wrong(
            f"the operation {name} is there twice",
            where,
            "remove one of them",
            code="duplicate",
        )

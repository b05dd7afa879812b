"""Types with what they inherit (sections 3.4 and 3.6 of the specification)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language.constraints import Clause, clauses
from heat_config_stack.tosca.language.definitions import (
    ArtifactDefinition,
    CapabilityDefinition,
    Names,
    PropertyDefinition,
    RequirementDefinition,
    Schema,
    Type,
    definitions,
)
from heat_config_stack.tosca.language.entities import operations
from heat_config_stack.tosca.language.interface_definitions import InterfaceDefinition, OperationDefinition
from heat_config_stack.tosca.language.primitives import READERS

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
"""The sections of types, each with what the names of its normative types begin with."""

MOST_PARENTS = 60
"""Types that are derived of one another at most."""

NO_PARENT = "tosca.entity.Root"
"""The parent that the specification gives its own root types: it stands for none."""

_SAME = frozenset({"tosca.capabilities.Container", "tosca.capabilities.Compute"})
"""Capability types that satisfy each other: versions turn round which of them is derived of the other."""


class DefinedType:
    """A type as its document defines it (`definitions.Type`)."""

    def __init__(
        self, section: str, name: str, content: Mapping[str, Json], names: Names, *, is_normative: bool
    ) -> None:
        """Take its definition; `is_normative` says that it has the full name of a normative type."""
        self.section, self.name, self.content, self.names = section, name, content, names
        self.path: Path = (section, name)
        self.key: object = name if is_normative else self
        """Its identity: normative types of all versions and documents are the same by their name."""

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @cached_property
    def parent(self) -> Type | None:
        """The type that it is derived of, as it is written; it may lead back to this one."""
        name = self.content.get("derived_from")
        return None if name is None or name == NO_PARENT else self.names.find(self.section, name)

    @cached_property
    def lineage(self) -> tuple[Type, ...]:
        """The type itself, its parent, and so on."""
        chain: list[Type] = [self]
        following = self.parent
        while following is not None and following not in chain and len(chain) < MOST_PARENTS:
            chain.append(following)
            following = following.parent
        return tuple(chain)

    @cached_property
    def is_incomplete(self) -> bool:
        """True if it is unknown what it inherits: a parent is not there, or the parents form a circle."""
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
        return self.lineage[1] if len(self.lineage) > 1 and self.lineage[-1].parent is None else None

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
        """Definitions of attributes by name, without those that properties are as well."""
        return self._defined("attributes")

    def _defined(self, member: str) -> Mapping[str, PropertyDefinition]:
        own = self.content.get(member)
        parent = self._complete_parent
        if not own and parent is not None:
            inherited: Mapping[str, PropertyDefinition] = getattr(parent, member)
            return inherited
        return definitions(own or {}, self._inherited(member), self.names, (*self.path, member))

    @cached_property
    def capabilities(self) -> Mapping[str, CapabilityDefinition]:
        """Definitions of capabilities by name."""
        found = self._inherited("capabilities")
        for name, content in (self.content.get("capabilities") or {}).items():
            path = (*self.path, "capabilities", name)
            found[name] = CapabilityDefinition(name, content, found.get(name), self.names, path)
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
            found[name] = ArtifactDefinition(name, content, found.get(name), self.names, path)
        return found

    @cached_property
    def interfaces(self) -> Mapping[str, InterfaceDefinition]:
        """Definitions of interfaces by name."""
        found = self._inherited("interfaces")
        for name, content in (self.content.get("interfaces") or {}).items():
            path = (*self.path, "interfaces", name)
            found[name] = InterfaceDefinition(name, content, found.get(name), self.names, path)
        return found

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
            self.content.get("inputs") or {}, self._inherited("inputs"), self.names, (*self.path, "inputs")
        )

    @cached_property
    def operations(self) -> Mapping[str, OperationDefinition]:
        """Of an interface type: its operations by name."""
        found = self._inherited("operations")
        for name, content, path in operations(self.content, self.path):
            found[name] = OperationDefinition(name, content, found.get(name), self.names, path)
        return found

    # Data types.

    @cached_property
    def primitive(self) -> str:
        """Of a data type: the primitive type that it is derived of, or nothing."""
        return self.root.name if self.section == "data_types" and self.root.name in READERS else ""

    @cached_property
    def schema(self) -> Schema:
        """The values of a data type."""
        return Schema(self, {}, None, self.names)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """Of a data type: its constraints and those of its parents."""
        inherited = self._complete_parent.clauses if self._complete_parent else ()
        own = self.content.get("constraints")
        return (*inherited, *clauses(own, self.primitive, is_complex=not self.primitive)) if own else inherited

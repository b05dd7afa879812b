"""Definitions of interfaces and their operations, with what they inherit (sections 3.5.15 and 3.5.16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language.definitions import Definition, PropertyDefinition, Type, definitions
from heat_config_stack.tosca.language.entities import operations
from heat_config_stack.tosca.language.report import Report


class OperationDefinition(Definition):
    """An operation of an interface, with what it inherits (section 3.5.15)."""

    parent: OperationDefinition | None

    @cached_property
    def inputs(self) -> Mapping[str, PropertyDefinition]:
        """Definitions of its inputs."""
        inherited = self.parent.inputs if self.parent else {}
        return definitions(self.content.get("inputs") or {}, inherited, self.names, (*self.path, "inputs"))

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
        """Its type: the one that is named, the inherited one, or the one that has its very name."""
        name = self.content.get("type")
        if name is None and self.parent:
            return self.parent.type
        return self.names.find("interface_types", self.name if name is None else name)

    @cached_property
    def _bases(self) -> tuple[Type | InterfaceDefinition | None, Sequence[InterfaceDefinition]]:
        """The type or definition that it refines, and the definitions over that, with those of its ancestors."""
        if self.parent is not None and (self.content.get("type") is None or self.type is self.parent.type):
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
            found = definitions(of.content.get("inputs") or {}, found, of.names, (*of.path, "inputs"))
        return found

    @cached_property
    def operations(self) -> Mapping[str, OperationDefinition]:
        """Its operations by name."""
        base, layers = self._bases
        found = dict(base.operations) if base else {}
        for of in layers:
            for name, content, path in operations(of.content, of.path):
                found[name] = OperationDefinition(name, content, found.get(name), of.names, path)
        return found


def check_operations(content: Mapping[str, Json], path: Path, report: Report) -> None:
    """Report operations that an interface has twice: by their names, and under `operations` (1.3)."""
    for name in (content.get("operations") or {}).keys() & content.keys():
        where = (*path, "operations", name)
        report.wrong(f"the operation {name} is there twice", where, "remove one of them", code="duplicate")

"""Filters that a node has to meet (sections 3.5.4 and 3.5.5 of the specification)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.files.documents import Document
from heat_config_stack.tosca.language import functions
from heat_config_stack.tosca.language.budget import Budget
from heat_config_stack.tosca.language.constraints import check_clause, is_function
from heat_config_stack.tosca.language.functions import Scope
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.types import PropertyDefinition, Schema, Type
from heat_config_stack.tosca.topology.service import Node

_IGNORES_CASE = frozenset({"architecture", "type", "distribution"})
"""Properties of the capability OperatingSystem that are compared in lower case (section 5.5.9)."""
_OPERATING_SYSTEM = "tosca.capabilities.OperatingSystem"


def check_filter(
    content: Mapping[str, Any],
    type_: Type | None,
    path: Path,
    document: Document,
    scope: Scope | None = None,
) -> None:
    """Report what is wrong with a node filter; `type_` is the node type that it is for, where that is known."""
    defined = type_.properties if type_ else {}
    _check_properties(
        content.get("properties"), defined, (*path, "properties"), document, scope
    )
    for index, entry in enumerate(content.get("capabilities") or ()):
        if entry is None:
            continue
        name, of = entry
        definition = type_.capabilities.get(name) if type_ else None
        capability = (
            definition.type if definition else document.find("capability_types", name)
        )
        owner = definition or capability
        properties = owner.properties if owner else {}
        where = (*path, "capabilities", index, name, "properties")
        _check_properties(
            (of or {}).get("properties"), properties, where, document, scope
        )


def _check_properties(
    content: Any,
    defined: Mapping[str, PropertyDefinition],
    path: Path,
    document: Document,
    scope: Scope | None,
) -> None:
    for index, entry in enumerate(content or ()):
        if entry is None:
            continue
        name, clauses = entry
        schema = defined[name].schema if name in defined else None
        where = (*path, index, name)
        if clauses is None:
            document.report.warn(
                f"nothing stands under {name}",
                where,
                "leave it out, or add a constraint",
                code="empty",
            )
            continue
        if clauses == []:
            document.report.wrong(
                f"the filter of {name} has no constraint",
                where,
                "add one",
                code="constraint-bad",
            )
        check_clauses(clauses, schema, where, document)
        if scope is not None:
            functions.check(clauses, where, scope)


def check_clauses(
    content: Json, schema: Schema | None, path: Path, document: Document
) -> None:
    """Report mistakes in a constraint, or a list of constraints, on values of a type (None if unknown)."""
    type_ = schema.type if schema else None
    is_complex = type_ is not None and not type_.primitive
    primitive = type_.primitive if type_ and type_.primitive else None
    for item, where in _each(content, path):
        if not is_function(item):
            check_clause(item, primitive, where, document.report, is_complex=is_complex)


def assertions(conditions: Any, path: Path) -> Iterator[tuple[str, Json, Path]]:
    """Yield the attributes that conditions assert, each with its constraints and their path (section 3.5.21)."""
    for index, condition in enumerate(conditions or ()):
        if condition is None:
            continue
        here = (*path, index)
        for key in ("and", "or", "not"):
            yield from assertions(condition.get(key), (*here, key))
        for position, entry in enumerate(condition.get("assert") or ()):
            if entry is not None:
                name, clauses = entry
                yield name, clauses, (*here, "assert", position, name)


def _each(content: Json, path: Path) -> Iterator[tuple[Json, Path]]:
    if isinstance(content, list):
        yield from ((item, (*path, index)) for index, item in enumerate(content))
    else:
        yield content, path


class Holder(Protocol):
    """The holder of a node's values."""

    def property_value(self, name: str) -> Json:
        """Return the value of a property; None if there is none."""

    def capability_property(self, capability: str, name: str) -> Json:
        """Return the value of a property of a capability; None if there is none."""


def meets(
    node: Node,
    content: Mapping[str, Any],
    document: Document,
    values: Holder | None = None,
) -> bool:
    """Return whether a node meets a filter, as far as its values are known; one without value meets anything (3.7.2).

    `values` has the values of the node where they have been evaluated.
    """
    type_ = node.type
    holder = values or node
    budget = document.report.budget
    if type_ is None:
        return False
    for name, clauses in _entries(content.get("properties")):
        definition = type_.properties.get(name)
        if definition is not None and not _holds(
            holder.property_value(name), clauses, definition.schema, budget
        ):
            return False
    for name, content_ in _entries(content.get("capabilities")):
        capability = type_.capabilities.get(name)
        if capability is None:
            wanted = document.find("capability_types", name)
            offered = type_.capabilities.values()
            fitting = [
                other
                for other in offered
                if wanted and other.type and other.type.is_a(wanted)
            ]
            if not fitting:
                return False
            capability = fitting[0]
        lower = (
            capability.type is not None and _OPERATING_SYSTEM in capability.type.keys
        )
        for property_, clauses in _entries((content_ or {}).get("properties")):
            definition = capability.properties.get(property_)
            if definition is None:
                continue
            value = holder.capability_property(capability.name, property_)
            folded = lower and property_ in _IGNORES_CASE
            if not _holds(value, clauses, definition.schema, budget, folded=folded):
                return False
    return True


def _entries(content: Any) -> Sequence[tuple[str, Any]]:
    return [entry for entry in content or () if entry is not None]


def _holds(
    value: Json, clauses: Json, schema: Schema, budget: Budget, *, folded: bool = False
) -> bool:
    if value is None or clauses is None or schema.type is None or is_function(value):
        return True
    for item, _ in _each(clauses, ()):
        if is_function(item):
            continue
        if folded:
            item, value = _lower(item), _lower(value)  # noqa: PLW2901
        is_complex = not schema.primitive
        clause = check_clause(
            item, schema.primitive or None, (), Report(None), is_complex=is_complex
        )
        try:
            if (
                clause is not None
                and not is_function(clause.argument)
                and not clause.is_met(value, budget)
            ):
                return False
        except (ValueError, TypeError):
            return False
    return True


def _lower(value: Json) -> Json:
    if isinstance(value, str):
        return value.lower()
    if isinstance(value, list):
        return [_lower(item) for item in value]
    if isinstance(value, dict):
        return {key: _lower(item) for key, item in value.items()}
    return value

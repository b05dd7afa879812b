"""Conditions of workflows, as values that a running stack can tell (3.5.20 and 3.5.21 of the specification)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, Look, Need, Tree, Unresolved, resolve
from heat_config_stack.tosca.evaluation.evaluation import NOTHING, Context, Evaluator
from heat_config_stack.tosca.language.budget import Budget
from heat_config_stack.tosca.language.constraints import Clause, check_clause
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.types import PropertyDefinition
from heat_config_stack.tosca.topology.topology import Part

_READ = frozenset({"integer", "float", "boolean"})
"""Primitive types whose values scripts can only export as text."""


@dataclass(frozen=True, slots=True)
class Assertion(Later):
    """True if a value meets constraints, which an unknown value never does (section 7.3)."""

    value: Tree
    clauses: tuple[Clause, ...]
    primitive: str
    budget: Budget = field(compare=False)

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, look: Look) -> Json:
        try:
            value = resolve(self.value, look)
        except Unresolved:
            return False
        if isinstance(value, str) and self.primitive in _READ:
            try:
                value = json.loads(value)
            except ValueError:
                return False
        if value is None:
            return False
        try:
            return all(clause.is_met(value, self.budget) for clause in self.clauses)
        except (ValueError, TypeError):
            return False


@dataclass(frozen=True, slots=True)
class Combined(Later):
    """True if all, any or none of some conditions hold."""

    operator: str
    conditions: tuple[Later, ...]

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, look: Look) -> Json:
        held = (condition.resolve(look) is True for condition in self.conditions)
        if self.operator == "or":
            return any(held)
        return not any(held) if self.operator == "not" else all(held)


def all_of(conditions: Any, part: Part, evaluator: Evaluator) -> Combined:
    """Return whether all conditions of a list hold for a node."""
    return Combined("and", tuple(_conditions(conditions, part, evaluator)))


def _conditions(content: Any, part: Part, evaluator: Evaluator) -> Iterator[Later]:
    for condition in content or ():
        for operator in ("and", "or", "not"):
            if condition and condition.get(operator) is not None:
                yield Combined(
                    operator, tuple(_conditions(condition[operator], part, evaluator))
                )
        for entry in (condition or {}).get("assert") or ():
            if entry is not None:
                name, clauses = entry
                yield _assertion(name, clauses, part, evaluator)


def _assertion(name: str, clauses: Json, part: Part, evaluator: Evaluator) -> Assertion:
    definition = _definition(name, part)
    type_ = definition.schema.type if definition else None
    primitive = type_.primitive if type_ else ""
    value = evaluator.attribute(part, name)
    items = clauses if isinstance(clauses, list) else [clauses]
    evaluated = [evaluator.value(item, Context(part, part.layer)) for item in items]
    is_complex = type_ is not None and not primitive
    found = [
        check_clause(item, primitive or None, (), Report(None), is_complex=is_complex)
        for item in evaluated
    ]
    kept = tuple(clause for clause in found if clause)
    return Assertion(
        None if value is NOTHING else value,
        kept,
        primitive,
        part.layer.service.document.report.budget,
    )


def _definition(name: str, part: Part) -> PropertyDefinition | None:
    type_ = part.type
    members: Mapping[str, PropertyDefinition] = (
        {**type_.properties, **type_.attributes} if type_ else {}
    )
    return members.get(name)

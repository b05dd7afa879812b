"""Constraints on values (section 3.5.3 of the specification)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import limits
from heat_config_stack.definition.patterns import compiled
from heat_config_stack.tosca.language.budget import (
    PATTERN_SECONDS,
    SLOW_PATTERN,
    Budget,
)
from heat_config_stack.tosca.language.primitives import READERS, UNBOUNDED, UNITS
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.text import written

_ORDERED = frozenset({"integer", "float", "timestamp", "string", "version", *UNITS})
_MEASURED = frozenset({"string", "list", "map"})
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "greater_than": gt,
    "greater_or_equal": ge,
    "less_than": lt,
    "less_or_equal": le,
}
_LENGTHS: dict[str, Callable[[int, int], bool]] = {
    "length": lambda length, limit: length == limit,
    "min_length": ge,
    "max_length": le,
}

OPERATORS = (
    "equal",
    *_COMPARISONS,
    "in_range",
    "valid_values",
    *_LENGTHS,
    "pattern",
    "schema",
)


@dataclass(frozen=True, slots=True)
class Clause:
    """One constraint."""

    operator: str
    argument: Json
    primitive: str
    """The primitive type of the constrained values; None for complex types."""

    def is_met(self, value: Json, budget: Budget) -> bool:
        """Return whether a value meets it. Raises `ValueError` for a value of another type, or one that takes long."""
        operator = self.operator
        argument = self.argument
        if operator == "schema":
            return True
        if operator in _LENGTHS:
            return _LENGTHS[operator](len(value), argument)
        if operator == "pattern":
            return _matches(argument, value, budget)
        read = _reader(self.primitive)
        if operator == "equal":
            return bool(read(value) == read(argument))
        if operator == "valid_values":
            wanted = read(value)
            return any(wanted == read(item) for item in argument)
        if operator == "in_range":
            lower, upper = (
                None if end == UNBOUNDED else _end(end, self.primitive)
                for end in argument
            )
            ends = read(value) if self.primitive == "range" else (read(value),) * 2
            return (lower is None or lower <= ends[0]) and (
                upper is None or ends[1] <= upper
            )
        return _COMPARISONS[operator](read(value), read(argument))

    def __str__(self) -> str:
        argument = self.argument
        shown = (
            written(argument)
            if not isinstance(argument, dict | list)
            else json.dumps(argument, ensure_ascii=False)
        )
        return f"{self.operator} {shown if len(shown) <= 80 else shown[:79] + '…'}"


def _end(end: Json, primitive: str) -> Any:
    return _reader("integer" if primitive == "range" else primitive)(end)


def _reader(primitive: str) -> Callable[[Json], Any]:
    if primitive in {"list", "map", "null", ""}:
        return _comparable
    return READERS[primitive]


def _comparable(value: Json) -> str:
    """Return a value of a complex type as something that can be compared: JSON with sorted keys."""
    return json.dumps(value, sort_keys=True)


class SlowPattern(ValueError):  # noqa: N818  # the name says it
    """A pattern takes too long to be held against a value, alone or together with others of the file."""


def _matches(pattern: str, value: str, budget: Budget) -> bool:
    """Return whether a pattern matches all of a text. Raises `SlowPattern` if that takes too long.

    What counts is the time of the processor: on a busy machine, a match may be held up for long. So a match that ran
    out of time without having used it gets that time once more.
    """
    for _ in range(2):
        if budget.pattern_seconds <= 0:
            break
        start = time.process_time()
        try:
            return limits.within(
                budget.pattern_seconds,
                lambda: compiled(pattern).fullmatch(value) is not None,
            )
        except limits.TooMuch:
            pass
        finally:
            used = time.process_time() - start
            if used > SLOW_PATTERN:
                budget.pattern_seconds -= used
    budget.pattern_seconds = 0
    raise SlowPattern(f"its patterns take over {PATTERN_SECONDS:g} s")


def clauses(
    content: Sequence[Json], primitive: str, *, is_complex: bool
) -> tuple[Clause, ...]:
    """Return the constraints of a list that are right; the others are reported by `check`."""
    clauses = []
    for item in content:
        operator, argument, problem = _parsed(item)
        if problem or _unfit(operator, argument, primitive, is_complex=is_complex):
            continue
        if operator != "in_range" or not _is_upside_down(argument, primitive):
            clauses.append(Clause(operator, argument, primitive))
    return tuple(clauses)


def _parsed(item: Json) -> tuple[str, Json, Any]:
    """Return operator and argument of a constraint, and the mistake in its form: a problem and a hint."""
    if item is None or isinstance(item, list):
        return (
            "",
            None,
            (
                "a constraint must be a map of one operator, or a value",
                "write `OPERATOR: VALUE`",
            ),
        )
    if not isinstance(item, dict):
        return "equal", item, _FINE
    if len(item) != 1:
        return (
            "",
            None,
            ("a constraint has one operator", "write each as an entry of its own"),
        )
    ((operator, argument),) = item.items()
    if operator not in OPERATORS:
        return operator, argument, (f"there is no constraint {operator}", "")
    return operator, argument, _malformed(operator, argument)


def asserted(condition: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return a condition with `assert`, where it is an attribute with its constraints alone, as 1.3 has it (3.5.20)."""
    if len(condition) != 1:
        return condition
    ((_, items),) = condition.items()
    items = items if isinstance(items, list) else [items]
    is_direct = bool(items) and all(
        isinstance(item, dict) and len(item) == 1 for item in items
    )
    if is_direct and all(operator in OPERATORS for item in items for operator in item):
        return {"assert": [condition]}
    return condition


_FINE: Any = ()


def _malformed(operator: str, argument: Json) -> Any:
    """Return the mistake in the form of an argument, for any type: a problem and a hint; or nothing."""
    if is_function(argument):
        return _FINE
    if operator == "in_range" and (
        not isinstance(argument, list) or len(argument) != 2
    ):
        return (
            "in_range needs a list of two values",
            f"write `in_range: [ 1, {UNBOUNDED} ]`, say",
        )
    if operator == "valid_values" and not isinstance(argument, list):
        return "valid_values needs a list", "write `valid_values: [ … ]`"
    if operator in _LENGTHS and (
        isinstance(argument, bool) or not isinstance(argument, int) or argument < 0
    ):
        return f"{operator} needs a whole number from 0", ""
    if operator == "pattern":
        if not isinstance(argument, str):
            return "pattern needs a regular expression", "quote it"
        if not _is_expression(argument):
            return "the pattern is not a regular expression", ""
    if operator in _COMPARISONS and (isinstance(argument, list) or argument is None):
        return f"{operator} needs one value", ""
    if operator == "schema" and not isinstance(argument, str):
        return "schema needs text", ""
    return _FINE


@lru_cache(maxsize=256)
def _is_expression(text: str) -> bool:
    try:
        compiled(text)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _unfit(operator: str, argument: Json, primitive: str, *, is_complex: bool) -> str:
    """Return the problem of a constraint with a type that does not allow it; nothing where it does."""
    if is_function(argument):
        return ""
    if operator in _COMPARISONS or operator == "in_range":
        allowed = primitive in _ORDERED or (
            operator == "in_range" and primitive == "range"
        )
        if not allowed and not is_complex and primitive != "map":
            return f"{operator} is not for values of the type {primitive}"
    elif (operator in _LENGTHS and primitive not in _MEASURED) or (
        operator in {"pattern", "schema"} and primitive != "string"
    ):
        return f"{operator} is not for values of {f'the type {primitive}' if primitive else 'a complex type'}"
    if operator in _LENGTHS or operator in {"pattern", "schema"}:
        return ""
    return _argument_problem(operator, argument, primitive)


def _argument_problem(operator: str, argument: Json, primitive: str) -> str:
    items = argument if operator in {"in_range", "valid_values"} else [argument]
    if operator == "in_range":
        items = [end for end in items if end != UNBOUNDED]
        primitive = "integer" if primitive == "range" else primitive
    if not primitive:
        return ""
    read = READERS[primitive]
    for item in items:
        if is_function(item):
            continue
        try:
            read(item)
        except ValueError as error:
            return f"a value of {operator} {error}"
    return ""


def is_function(value: Json) -> bool:
    """Return whether a value can only be known once functions are evaluated."""
    return (
        isinstance(value, dict) and len(value) == 1 and next(iter(value)) in FUNCTIONS
    )


FUNCTIONS = frozenset(
    """get_input get_property get_attribute get_operation_output get_nodes_of_type get_artifact concat join
    token""".split()  # noqa: SIM905
)
"""The functions (chapter 4 of the specification)."""


def check(
    content: Sequence[Json],
    primitive: str | None,
    path: Path,
    report: Report,
    *,
    is_complex: bool = False,
) -> None:
    """Report what is wrong with a list of constraints. Without a primitive type, their form alone is checked."""
    for index, item in enumerate(content):
        check_clause(item, primitive, (*path, index), report, is_complex=is_complex)


def check_clause(
    item: Json,
    primitive: str | None,
    path: Path,
    report: Report,
    *,
    is_complex: bool = False,
) -> Clause | None:
    """Return a constraint, or report what is wrong with it."""
    operator, argument, problem = _parsed(item)
    here = (*path, operator) if isinstance(item, dict) and len(item) == 1 else path
    if problem:
        hint = (
            report.nearest(operator, OPERATORS)
            if operator and operator not in OPERATORS
            else problem[1]
        )
        report.wrong(problem[0], here, hint, code="constraint-bad")
        return None
    is_known = primitive is not None or is_complex
    unfit = (
        _unfit(operator, argument, primitive or "", is_complex=is_complex)
        if is_known
        else ""
    )
    if unfit:
        report.wrong(unfit, here, code="constraint-unfit")
        return None
    if operator == "in_range" and _is_upside_down(
        argument, (primitive or "") if is_known else None
    ):
        report.wrong(
            "the range ends before it begins",
            here,
            "write the lower end first",
            code="constraint-bad",
        )
        return None
    if (operator in _COMPARISONS or operator == "in_range") and (
        primitive == "map" or is_complex
    ):
        report.warn(
            f"{operator} says little of maps: they are compared as text",
            here,
            code="constraint-uncomparable",
        )
    return Clause(operator, argument, primitive or "")


def _is_upside_down(argument: Sequence[Json], primitive: str | None) -> bool:
    """Return whether a range ends before it begins, as far as that can be told (None: for an unknown type)."""
    if UNBOUNDED in argument or any(map(is_function, argument)):
        return False
    if primitive is None:
        numbers = all(
            isinstance(end, int | float) and not isinstance(end, bool)
            for end in argument
        )
        if not numbers and not all(isinstance(end, dict) for end in argument):
            return False
        primitive = "float" if numbers else ""
    try:
        lower, upper = (_end(end, primitive or "") for end in argument)
    except ValueError:  # it is reported as unfit
        return False
    return bool(upper < lower)

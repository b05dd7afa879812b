"""Values held against their types and constraints (sections 3.2, 3.5.3, 3.6.6 and 3.8.2)."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language.constraints import (
    Clause,
    SlowPattern,
    is_function,
)
from heat_config_stack.tosca.language.primitives import (
    READERS,
    json_problem,
    xml_problem,
)
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.text import json_value
from heat_config_stack.tosca.language.types import PropertyDefinition, Schema, Type

_TEXT_FORMATS = {
    "tosca.datatypes.json": json_problem,
    "tosca.datatypes.xml": xml_problem,
}
_PORTS = "tosca.datatypes.network.PortSpec"


def check(value: Json, schema: Schema, path: Path, report: Report) -> None:
    """Report mistakes in a value. Results of functions are not known yet, so they are skipped."""
    type_ = schema.type
    if type_ is None or is_call(value):
        return
    primitive = type_.primitive
    if not primitive:
        _check_complex(value, type_, path, report)
    else:
        try:
            READERS[primitive](value)
        except ValueError as error:
            report.wrong(f"{_named(path)} {error}", path, code="value")
            return
        if primitive in {"list", "map"}:
            if not _check_entries(value, schema, path, report):
                return
        elif len(type_.lineage) > 1:
            _check_format(value, type_, path, report)
    for clause in schema.clauses:
        if is_function(clause.argument):
            continue
        try:
            met = clause.is_met(value, report.budget)
        except SlowPattern as slow:
            _tell_slow(slow, clause, path, report)
            continue
        except (ValueError, TypeError):
            continue
        if not met:
            report.wrong(
                f"{_named(path)} does not meet the constraint {clause}",
                path,
                code="constraint",
            )


def _tell_slow(slow: SlowPattern, clause: Clause, path: Path, report: Report) -> None:
    """Report that a pattern takes too long to be matched, once for a file."""
    if not report.budget.is_slow_told:
        report.budget.is_slow_told = True
        problem = (
            f"{_named(path)} cannot be held against the constraint {clause}: {slow}"
        )
        report.wrong(
            problem, path, "avoid repetitions inside of repetitions", code="constraint"
        )


def is_call(value: Json) -> bool:
    """Return whether a value is the call of a function.

    `{token: X}` is one only where X is a list: the data type Credential has a property of that name.
    """
    if value.__class__ is not dict or not is_function(value):
        return False
    return "token" not in value or isinstance(value["token"], list)


def _named(path: Path) -> str:
    name = str(path[-1]) if path else "the value"
    if isinstance(path[-1], int):
        return f"entry {path[-1]} of {next((step for step in reversed(path) if isinstance(step, str)), '')}"
    return name


def _check_format(value: Json, type_: Type, path: Path, report: Report) -> None:
    for ancestor in type_.lineage:
        problem = (
            _TEXT_FORMATS[ancestor.name](value)
            if ancestor.name in _TEXT_FORMATS
            else ""
        )
        if problem:
            report.wrong(f"{_named(path)} {problem}", path, code="value")


def _check_entries(value: Json, schema: Schema, path: Path, report: Report) -> bool:
    """Report what is wrong with the entries of a list or a map; return whether the rest can be checked."""
    entry = schema.entry
    key = schema.key
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in items:
        if entry is not None:
            check(item, entry, (*path, name), report)
        if key is not None and isinstance(value, dict):
            check(name, key, (*path, name), report)
    return True


def _check_complex(value: Json, type_: Type, path: Path, report: Report) -> None:
    """Report what is wrong with a value of a type that has properties (section 3.6.6)."""
    if not isinstance(value, dict):
        try:
            READERS["map"](value)
        except ValueError as error:
            report.wrong(
                f"{_named(path)} {error} of the properties of {type_.name}",
                path,
                code="value",
            )
        return
    if type_.is_incomplete:
        return
    if not type_.properties:  # it says nothing of its values
        return
    check_properties(
        value, type_.properties, f"the type {type_.name}", (path, path), report
    )
    if any(ancestor.key == _PORTS for ancestor in type_.lineage):
        _check_ports(value, path, report)


def check_properties(
    values: Mapping[str, Json],
    defined: Mapping[str, PropertyDefinition],
    owner: str,
    paths: tuple[Path, Path],
    report: Report,
) -> None:
    """Report what is wrong with the values of properties, and which are missing.

    The first path is that of the values, the second that of the owner, where missing ones are reported.
    """
    path, lacking = paths
    for name, value in values.items():
        definition = defined.get(name)
        if definition is None:
            hint = report.nearest(name, defined)
            report.wrong(
                f"{owner} has no property {name}",
                (*path, name),
                hint,
                code="undeclared",
            )
            continue
        if definition.status in {"deprecated", "unsupported"}:
            report.warn(
                f"the property {name} is {definition.status}",
                (*path, name),
                code="status",
            )
        check(value, definition.schema, (*path, name), report)
        if definition.fixed is not None and value not in (None, definition.fixed):
            report.wrong(
                f"the type of {owner} fixes the value of {name}",
                (*path, name),
                "leave it out",
                code="refine",
            )
    for name, definition in defined.items():
        if name not in values and definition.required and definition.default is None:
            report.wrong(
                f"{owner} needs a value for the property {name}",
                lacking,
                f"add {name}",
                code="required",
            )


def _check_ports(value: Mapping[str, Json], path: Path, report: Report) -> None:
    """Report what is wrong with a PortSpec (section 5.3.8)."""
    if not any(
        name in value for name in ("target", "target_range", "source", "source_range")
    ):
        problem = (
            "a PortSpec needs a target, a target_range, a source or a source_range"
        )
        report.wrong(problem, path, code="value")
    for name in ("target", "source"):
        try:
            port = READERS["integer"](value.get(name))
            lower, upper = READERS["range"](value.get(f"{name}_range"))
        except ValueError:
            continue
        if not lower <= port <= upper:
            report.wrong(
                f"the {name} is not within the {name}_range",
                (*path, name),
                code="value",
            )


# Values of inputs that someone gives (section 3.8.2).

_JSON = frozenset({"integer", "float", "boolean", "null", "list", "map", "range", ""})
"""Primitive types whose values are written as JSON on a command line, like values of complex types."""


def parsed(definition: PropertyDefinition, text: str) -> Json:
    """Return the value that a text on a command line stands for: JSON, where the type of the input wants no text."""
    type_ = definition.schema.type
    if type_ is None or type_.primitive not in _JSON:
        return text
    try:
        return json_value(text)
    except (ValueError, RecursionError):
        return text


def check_inputs(
    defined: Mapping[str, PropertyDefinition],
    texts: Mapping[str, str],
    path: Path,
    report: Report,
) -> dict[str, Json]:
    """Return the values of inputs given as text; report invalid inputs, and required ones that have no value yet.

    `path` is that of the section that defines them.
    """
    chosen: dict[str, Json] = {}
    for name, text in texts.items():
        definition = defined.get(name)
        if definition is None:
            report.wrong(
                f"there is no input {name}",
                path,
                report.nearest(name, defined),
                code="input-unknown",
            )
            continue
        chosen[name] = parsed(definition, text)
        check(chosen[name], definition.schema, (*path, name), report)
    for name, definition in defined.items():
        has_value = (
            definition.default is not None or definition.get("value") is not None
        )
        if definition.required and not has_value and name not in chosen:
            hint = f"give it: --input {name}=VALUE"
            report.leave_open(
                f"the input {name} has no value", (*path, name), hint, code="open-input"
            )
    return chosen

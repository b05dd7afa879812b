"""Values of inputs that someone gives, held against their definitions (section 3.8.2)."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language import values
from heat_config_stack.tosca.language.report import Report, nearest
from heat_config_stack.tosca.language.text import json_value
from heat_config_stack.tosca.language.types import PropertyDefinition

_JSON = frozenset({"integer", "float", "boolean", "null", "list", "map", "range", ""})
"""Primitive types whose values are written as JSON on a command line; those of complex types are, too."""


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
    defined: Mapping[str, PropertyDefinition], texts: Mapping[str, str], path: Path, report: Report
) -> dict[str, Json]:
    """Return the values of inputs given as text; report invalid inputs, and required ones that have no value yet.

    `path` is that of the section that defines them.
    """
    values_of: dict[str, Json] = {}
    for name, text in texts.items():
        definition = defined.get(name)
        if definition is None:
            report.wrong(f"there is no input {name}", path, nearest(name, defined), code="input-unknown")
            continue
        values_of[name] = parsed(definition, text)
        values.check(values_of[name], definition.schema, (*path, name), report)
    for name, definition in defined.items():
        has_value = definition.default is not None or definition.get("value") is not None
        if definition.required and not has_value and name not in values_of:
            hint = f"give it: --input {name}=VALUE"
            report.leave_open(f"the input {name} has no value", (*path, name), hint, code="open-input")
    return values_of

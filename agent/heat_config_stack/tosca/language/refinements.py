"""Checks of definitions that refine the property of a parent (section 3.6.10.6 of version 1.3)."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.language import values
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.types import PropertyDefinition

_NARROWING = ("constraints", "type", "entry_schema", "key_schema")
"""Keynames through which an inherited value may no longer fit."""

_OPTIONAL_SINCE = "1.3"


def check_refinement(content: Mapping[str, Json], definition: PropertyDefinition, path: Path, report: Report) -> None:
    """Report a refinement that changes a fixed value, excludes an inherited one, or makes a property optional."""
    parent, name = definition.parent, definition.name
    if parent is None:
        return
    hint = f"leave out the %s: the value of {name} is final"
    for key in ("value", "default"):
        if parent.fixed is not None and content.get(key) not in (None, parent.fixed):
            problem = f"{name} has a fixed value already, in {parent.names.file}"
            report.wrong(problem, (*path, key), hint % key, code="refine")
    narrowing = next((key for key in _NARROWING if content.get(key) is not None), "")
    type_, old = definition.schema.type, parent.schema.type
    is_refinement = type_ is not None and old is not None and type_.may_be(old)
    is_inherited = content.get("value") is None and content.get("default") is None and definition.default is not None
    if narrowing and is_refinement and is_inherited:
        inner = Report(None)
        values.check(definition.default, definition.schema, (name,), inner)
        for mistake in inner.mistakes:
            problem = f"the value that {name} inherits does not fit: {mistake.problem}"
            report.wrong(problem, (*path, narrowing), "give it a default that fits", code=mistake.code)
            break
    if content.get("required") is False and parent.required and report.version >= _OPTIONAL_SINCE:
        problem = f"{name} is required in the parent type, and optional here"
        report.warn(problem, (*path, "required"), "a derived type may only make it required", code="loosened")

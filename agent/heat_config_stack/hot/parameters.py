"""The declarations of a template's parameters, and their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.words import among, meant
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_hooks import strict_json
from heat_config_stack.definition import (
    Constraint,
    Identity,
    Parameter,
    Schema,
    Tree,
    constraints,
    limits,
)
from heat_config_stack.hot.expressions import UNKNOWN
from heat_config_stack.hot.source import heat_text
from heat_config_stack.hot.versions import Version

TYPES = {
    "string": "string",
    "number": "number",
    "comma_delimited_list": "list",
    "json": "map",
    "boolean": "boolean",
}
"""Type of a parameter → its name in constraints."""

PSEUDO = ("OS::stack_id", "OS::stack_name", "OS::project_id", "OS::region")

_STAGE = "parameters"


# Declarations.


def schemas(
    section: Mapping[str, Json], version: Version, report: Diagnostics
) -> dict[str, Schema]:
    """Return the schemas of the parameters whose declarations have no mistakes."""
    sound: dict[str, Schema] = {}
    for name, declared in section.items():
        before = len(report.mistakes)
        schema = _schema(name, declared, version, report)
        if schema and len(report.mistakes) == before:
            sound[name] = schema
    return sound


def _schema(
    name: str, declared: Json, version: Version, report: Diagnostics
) -> Schema | None:
    path: Path = ("parameters", name)
    if not isinstance(declared, dict):
        report.wrong(
            f"Invalid parameter ({name}), expected a mapping",
            path,
            "it needs a type at least",
            kind=_STAGE,
        )
        return None
    for key in declared:
        if key not in version.parameter_keys:
            hint = meant(key, version.parameter_keys)
            report.wrong(
                f"Invalid key '{key}' for parameter ({name})",
                (*path, key),
                hint,
                kind=_STAGE,
            )
    if "type" not in declared:
        report.wrong(
            f"Missing parameter type for parameter: {name}",
            path,
            f"one of {', '.join(TYPES)}",
            kind=_STAGE,
        )
    elif str(declared["type"]) not in TYPES:
        hint = among(declared["type"], TYPES, "one of")
        report.wrong(
            f"Invalid type ({declared['type']})", (*path, "type"), hint, kind=_STAGE
        )
    tags = declared.get("tags")
    if "tags" in declared and not isinstance(tags, list):
        report.wrong(
            f"Tags property should be a list for parameter: {name}",
            (*path, "tags"),
            kind=_STAGE,
        )
    for key in ("hidden", "immutable"):
        if (
            not isinstance(declared.get(key, False), bool)
            and declared.get(key) is not None
        ):
            report.warn(
                f"{key} should be true or false: Heat takes it for {bool(declared[key])}",
                (*path, key),
            )
    return Schema(
        name,
        str(declared.get("type")),
        label=_text(declared.get("label")),
        description=_text(declared.get("description")),
        default=declared.get("default"),
        hidden=bool(declared.get("hidden")),
        immutable=bool(declared.get("immutable")),
        constraints=tuple(
            _constraints(declared.get("constraints"), name, version, report)
        ),
        tags=tuple(map(str, tags)) if isinstance(tags, list) else (),
    )


def _text(value: Json) -> str:
    return "" if value is None else str(value)


def _constraints(
    section: Json, name: str, version: Version, report: Diagnostics
) -> list[Constraint]:
    path: Path = ("parameters", name, "constraints")
    if section is None:
        return []
    if not isinstance(section, list):
        problem = f"Invalid parameter constraints for parameter {name}, expected a list"
        report.wrong(problem, path, "begin each constraint with a dash", kind=_STAGE)
        return []
    found = (
        _constraint(each, (*path, index), version, report)
        for index, each in enumerate(section)
    )
    return [each for each in found if each]


def _constraint(
    entry: Json, path: Path, version: Version, report: Diagnostics
) -> Constraint | None:
    if not isinstance(entry, dict):
        report.wrong(
            "Invalid parameter constraints, expected a mapping", path, kind=_STAGE
        )
        return None
    for key in entry:
        if key not in constraints.APPLIES and key != "description":
            hint = meant(key, constraints.APPLIES)
            report.wrong(
                f"Invalid key '{key}' for parameter constraints",
                (*path, key),
                hint,
                kind=_STAGE,
            )
            return None
    kinds = [kind for kind in version.constraints if kind in entry]
    if not kinds:
        hint = (
            "modulo exists from 2017-02-24 on"
            if "modulo" in entry
            else f"one of {', '.join(version.constraints)}"
        )
        report.wrong("No constraint expressed", path, hint, kind=_STAGE)
        return None
    kind, *others = kinds
    for other in others:
        report.warn(
            f"{other} is not checked: of the constraints in one entry only {kind} counts",
            (*path, other),
            "give it a dash of its own",
        )
    problem = constraints.declared(kind, entry[kind])
    if problem:
        report.wrong(problem, (*path, kind), kind=_STAGE)
        return None
    return Constraint(kind, entry[kind], _text(entry.get("description")))


# Values.


def with_defaults(
    declared: Mapping[str, Schema], defaults: Mapping[str, Json]
) -> dict[str, Schema]:
    """Return the declarations with the parameter_defaults of an environment; a null in them changes nothing."""
    return {
        name: schema
        if defaults.get(name) is None
        else replace(schema, default=defaults[name])
        for name, schema in declared.items()
    }


def as_properties(
    declared: Mapping[str, Schema], defaults: Mapping[str, Json]
) -> dict[str, Schema]:
    """Return the declarations of a nested template, whose default a null in parameter_defaults takes away."""
    return {
        name: replace(schema, default=defaults[name]) if name in defaults else schema
        for name, schema in declared.items()
    }


class Default(Enum):
    """The treatment of a default value that breaks a constraint of its own parameter."""

    CHECKED = "it is a mistake"
    REPLACED = "it is a mistake, unless an environment replaces it: of a nested template, Heat checks no other"
    WARNED = "it is a warning: an environment may still replace it"


def values(
    declared: Mapping[str, Schema],
    assigned: Mapping[str, Json],
    defaults: Mapping[str, Json],
    report: Diagnostics,
    places: Mapping[str, Place],
    *,
    known: bool,
    checked: bool = True,
    default: Default = Default.CHECKED,
) -> dict[str, Parameter]:
    """Return the parameters with their values; a missing one is `UNKNOWN`, and a mistake if `known`.

    `places` has the positions of values in environments. If not `checked`, a wrong value is `UNKNOWN` too, and no
    mistake.
    """
    values_report = report if checked else Diagnostics(heat_text("", "", _STAGE))
    doubtful = set()
    for name, schema in declared.items():
        is_replaced = default is not Default.CHECKED and defaults.get(name) is not None
        declared_schema = replace(schema, default=None) if is_replaced else schema
        if not _is_well_declared(name, declared_schema, report, default):
            doubtful.add(name)
    for name in assigned:
        if name not in declared:
            hint = "Heat sets it itself" if name in PSEUDO else meant(name, declared)
            problem = f"The Parameter ({name}) was not defined in template."
            report.wrong(problem, (), hint, at=places.get(name))
    parameters = {}
    for name, schema in with_defaults(declared, defaults).items():
        is_given = assigned.get(name) is not None
        has_value = is_given or name not in doubtful
        value = (
            _value(
                schema, assigned.get(name), values_report, places.get(name), known=known
            )
            if has_value
            else UNKNOWN
        )
        parameters[name] = Parameter(schema, value, is_given)
    return parameters


def _is_well_declared(
    name: str, schema: Schema, report: Diagnostics, default: Default
) -> bool:
    """Return whether a declaration has no mistakes, its default included. Mistakes go to the report."""
    path: Path = ("parameters", name)
    before = len(report.mistakes)
    type_ = TYPES[schema.type]
    for index, constraint in enumerate(schema.constraints):
        if type_ not in constraints.APPLIES[constraint.kind]:
            problem = f"Parameter '{name}' is invalid: {constraint.kind} constraint invalid for {schema.type}"
            kinds = ", ".join(
                sorted(constraints.APPLIES[constraint.kind] & set(TYPES.values()))
            )
            report.wrong(
                problem,
                (*path, "constraints", index, constraint.kind),
                f"it is for {kinds}",
            )
        elif schema.default is not None and constraint.kind != "custom_constraint":
            problem = constraints.violated(
                constraint.kind, constraint.value, _as_written(schema), type_
            )
            if problem:
                shown = "******" if schema.secret else schema.default
                problem = constraint.description or _masked(schema, problem)
                _report_default(
                    schema, f"Invalid default {shown} ({problem})", report, default
                )
    if schema.type == "comma_delimited_list" and not isinstance(
        schema.default, str | list | None
    ):
        _report_default(
            schema, "Default must be a comma-delimited list string", report, default
        )
    return len(report.mistakes) == before


def _report_default(
    schema: Schema, problem: str, report: Diagnostics, default: Default
) -> None:
    """Report a default that its own parameter cannot have."""
    path, said = (
        ("parameters", schema.name, "default"),
        f"Parameter '{schema.name}' is invalid: {problem}",
    )
    if default is Default.WARNED:
        report.warn(said, path, f"unless parameter_defaults give {schema.name} a value")
    else:
        report.wrong(said, path)


def _as_written(schema: Schema) -> Json:
    """Return a default in the form in which Heat checks its constraints; the length of JSON text is in characters."""
    default = schema.default
    if schema.type != "comma_delimited_list":
        return default
    return (
        [str(each) for each in default]
        if isinstance(default, list)
        else str(default).split(",")
    )


def _value(
    schema: Schema,
    assigned: Json,
    report: Diagnostics,
    place: Place | None,
    *,
    known: bool,
) -> Tree:
    path: Path = ("parameters", schema.name)
    value = schema.default if assigned is None else assigned
    if value is None:
        if known:
            hint = f"give it with --parameter {schema.name}=VALUE, or in an environment"
            report.wrong(f"The Parameter ({schema.name}) was not provided.", path, hint)
        return UNKNOWN
    try:
        typed = converted(value, schema.type)
    except ValueError as error:
        report.wrong(
            f"Parameter '{schema.name}' is invalid: {_masked(schema, str(error))}",
            path,
            at=place,
        )
        return UNKNOWN
    if schema.type == "string" and isinstance(value, list | dict):
        shown = "******" if schema.secret else repr(typed)
        report.warn(
            f"a {type(value).__name__} is given for {schema.name}, which is text: it becomes {shown}",
            path,
        )
    for constraint in schema.constraints:
        if TYPES[schema.type] not in constraints.APPLIES[constraint.kind]:
            continue
        # a number in place of text has no length
        held = value if schema.type == "string" else typed
        problem = constraints.violated(
            constraint.kind, constraint.value, held, TYPES[schema.type]
        )
        if problem:
            reason = constraint.description or _masked(schema, problem)
            report.wrong(
                f"Parameter '{schema.name}' is invalid: {reason}", path, at=place
            )
            return UNKNOWN
    return typed


def _masked(schema: Schema, problem: str) -> str:
    """Return a problem; without the value if the parameter is secret."""
    if schema.hidden:
        return "it breaks a constraint, and is hidden"
    return (
        "it breaks a constraint, and its name says that it is a secret"
        if schema.secret
        else problem
    )


def converted(value: Json, type_: str) -> Json:
    """Return a value converted to the type of a parameter. Raises ValueError."""
    return _CONVERTERS[type_](value)


def _list(value: Json) -> Json:
    if isinstance(value, list):
        return [str(each) for each in value]
    if not isinstance(value, str):
        raise ValueError(f"Value must be a comma-delimited list string, not {value!r}")  # noqa: TRY004
    try:
        return limits.split(value, ",") if value else []
    except limits.TooMuch as error:
        raise ValueError(f"it has {error}") from None


def _json(value: Json) -> Json:
    if not isinstance(value, str) or not value:
        return value
    try:
        strict_json.check_number(value)
        parsed = json.loads(value)
        limits.fits(parsed)
    except (ValueError, limits.TooMuch) as error:
        raise ValueError(f"Value must be valid JSON: {error}") from None
    except RecursionError:
        raise ValueError("Value must be valid JSON: it is nested too deeply") from None
    return parsed


_CONVERTERS: dict[str, Callable[[Any], Json]] = {
    "string": str,
    "number": constraints.number,
    "comma_delimited_list": _list,
    "json": _json,
    "boolean": constraints.boolean,
}


def visible(parameters: Mapping[str, Parameter], identity: Identity) -> dict[str, Tree]:
    """Return the values that get_param can return, by name; pseudo parameters included."""
    pseudo = {
        "OS::stack_id": identity.id,
        "OS::project_id": identity.project,
        "OS::stack_name": identity.name,
    }
    return pseudo | {name: each.value for name, each in parameters.items()}

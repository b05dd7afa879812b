"""`heat-config-agent template`: Look at HOT templates. Nothing is made of them, and nobody is asked."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from heat_config_agent.cli import chosen, given, terminal
from heat_config_agent.errors import ExitCode
from heat_config_agent.hot.checking import Checked, check
from heat_config_agent.hot.report import ordered
from heat_config_agent.hot.values import Unknown
from heat_config_agent.stack import validation
from heat_config_agent.stack.definition import Definition, Mistake, Parameter, dotted
from heat_config_agent.stack.types import Types

_VALIDATE = """\
Look at a template, its environments and nested templates, and say all that is wrong, each with its place and path; or
else show its parameters, as Heat's own validation does. A warning is about what Heat takes, and nobody means. What is
given to types in nested templates is looked at once all parameters have values.
"""

_EXIT_CODES = """\
exit codes:
  0  there is no mistake
  1  there are mistakes; or with --strict, warnings
  2  bad usage, or a file that cannot be read
"""

_TYPES = {
    "string": "String",
    "number": "Number",
    "comma_delimited_list": "CommaDelimitedList",
    "json": "Json",
    "boolean": "Boolean",
}
_LIMITS = {
    "length": {"min": "MinLength", "max": "MaxLength"},
    "range": {"min": "MinValue", "max": "MaxValue"},
    "modulo": {"step": "Step", "offset": "Offset"},
}
_OTHERS = {
    "allowed_values": "AllowedValues",
    "allowed_pattern": "AllowedPattern",
    "custom_constraint": "CustomConstraint",
}
_HIDDEN = "******"


def add(commands: chosen.Commands) -> None:
    """Declare the command, and those that it has."""
    parser = commands.add_parser(
        "template",
        help="look at HOT templates",
        description=(__doc__ or "").partition(": ")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    validate = inner.add_parser(
        "validate",
        help="say all that is wrong with a template",
        description=_VALIDATE,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    validate.add_argument("file", metavar="FILE", nargs="?", help="the template")
    given.add(validate)
    validate.add_argument("--strict", action="store_true", help="take warnings for mistakes")
    validate.add_argument("--json", action="store_true", help="print one JSON object")
    validate.set_defaults(run=run)
    from heat_config_agent.cli import capabilities  # noqa: PLC0415  # it shows mistakes as is done here

    capabilities.add(inner)


def run(said: argparse.Namespace) -> int:
    """Validate a template."""
    found = _with_types(check(given.template(said), said.environment, given.parameters(said)))
    failed = bool(found.mistakes) or (said.strict and bool(found.warnings))
    if said.json:
        terminal.say(json.dumps(_values(found)))
    else:
        _show(found)
    return ExitCode.FAILED if failed else ExitCode.OK


def _with_types(found: Checked) -> Checked:
    """Return it with what only a stack can say: which types there are, and what their properties and attributes are.

    While a parameter has no value, nobody knows what child stacks are given: of those nothing is said then.
    """
    if found.definition is None or found.mistakes:
        return found
    mistakes = list(validation.mistakes(found.definition, Types()))
    if any(isinstance(each.value, Unknown) for each in found.definition.parameters.values()):
        mistakes = [each for each in mistakes if not any("<" in str(part) for part in each.path)]
    return replace(found, mistakes=ordered(mistakes))


def _show(found: Checked) -> None:
    for what, style, mistakes in (("error", "bad", found.mistakes), ("warning", "warn", found.warnings)):
        for each in mistakes:
            terminal.say(mistake_line(each, what, style), error=True)
    name = terminal.line(found.source.template.name)
    counts = [terminal.count(len(found.mistakes), "mistake"), terminal.count(len(found.warnings), "warning")]
    if found.mistakes or found.definition is None:
        terminal.say(f"{name}: {', '.join(counts)}", error=True)
        return
    made = found.definition
    parts = [terminal.count(len(made.resources), "resource"), terminal.count(len(made.outputs), "output")]
    terminal.say(f"{name} is valid: {', '.join(parts)}{f', {counts[1]}' if found.warnings else ''}")
    if made.parameters:
        rows = [("PARAMETER", "TYPE", "DEFAULT", "WHAT"), *map(_row, made.parameters.values())]
        header, *lines = terminal.table(rows)
        terminal.say(f"\n{terminal.styled(header, 'quiet')}")
        for line in lines:
            terminal.say(line)


def mistake_line(mistake: Mistake, what: str, style: str) -> str:
    """Return a mistake as compilers write theirs, so that editors find the place."""
    place = f"{terminal.line(str(mistake.place))}: " if mistake.place else ""
    path = f"{terminal.line(dotted(mistake.path))}: " if mistake.path else ""
    hint = f" ({terminal.line(mistake.hint)})" if mistake.hint else ""
    return f"{place}{terminal.styled(what, style)}: {path}{terminal.line(mistake.problem)}{hint}"


def _row(parameter: Parameter) -> tuple[str, str, str, str]:
    schema = parameter.schema
    default = "-" if schema.default is None else _HIDDEN if schema.hidden else _written(schema.default)
    return schema.name, schema.type, terminal.shortened(default, 40), schema.description or schema.label


def _written(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _values(found: Checked) -> dict[str, Any]:
    """Return what has been found as JSON; where there is no mistake, with what Heat's own validation gives."""
    values: dict[str, Any] = {
        "valid": not found.mistakes,
        "mistakes": _mistakes(found.mistakes),
        "warnings": _mistakes(found.warnings),
    }
    if found.definition is not None and not found.mistakes:
        values |= _as_heat(found.definition)
    return values


def _mistakes(mistakes: Sequence[Mistake]) -> list[dict[str, Any]]:
    return [
        {
            "problem": each.problem,
            "hint": each.hint or None,
            "path": dotted(each.path),
            "file": each.place.file if each.place else None,
            "line": each.place.line if each.place else None,
            "column": each.place.column if each.place else None,
            "stage": each.kind,
        }
        for each in mistakes
    ]


def _as_heat(made: Definition) -> dict[str, Any]:
    values: dict[str, Any] = {
        "Description": made.description,
        "Parameters": {name: _parameter(each) for name, each in made.parameters.items()},
    }
    if made.groups:
        values["ParameterGroups"] = [
            {"label": each.label, "description": each.description, "parameters": list(each.parameters)}
            for each in made.groups
        ]
    return values


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = parameter.schema
    found: dict[str, Any] = {
        "Type": _TYPES[schema.type],
        "Description": schema.description,
        "NoEcho": "true" if schema.hidden else "false",
        "Label": schema.label or schema.name,
    }
    if schema.default is not None:
        found["Default"] = _HIDDEN if schema.hidden else schema.default
    if parameter.given:
        found["Value"] = _HIDDEN if schema.hidden else parameter.value
    if schema.tags:
        found["Tags"] = list(schema.tags)
    for each in schema.constraints:
        found |= _constraint(each.kind, each.value)
    said = " ".join(each.description for each in schema.constraints if each.description)
    return found | ({"ConstraintDescription": said} if said else {})


def _constraint(kind: str, value: Any) -> Mapping[str, Any]:
    if kind in _OTHERS:
        return {_OTHERS[kind]: value}
    return {name: value[key] for key, name in _LIMITS[kind].items() if value.get(key) is not None}

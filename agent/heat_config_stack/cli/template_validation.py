"""Checking a HOT template for `heat-config-agent template validate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.mistakes import mistake_line, mistake_values
from heat_config_agent.diagnostics.mistakes import OF_VALUE, ordered
from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.runs.tools import Tools
from heat_config_stack.cli import template_options
from heat_config_stack.cli.stack import sessions, templates
from heat_config_stack.definition import Definition, Parameter
from heat_config_stack.hot import template
from heat_config_stack.hot.expressions import Unknown
from heat_config_stack.hot.loader import Checked, check
from heat_config_stack.lifecycle import advice
from heat_config_stack.resource.types import Types

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
LEFT = "the creation of the stack will fail"
"""The hint of a mistake that is only a warning while parameters have no value."""


def validated(
    options: argparse.Namespace, *names: str
) -> tuple[int, dict[str, Any] | None]:
    """Validate a HOT template: return the exit code, and the values to print as JSON if these are asked for."""
    options.file = names[0] if names else None
    path, parameters = (
        template_options.template(options),
        template_options.parameters(options),
    )
    settings = state_options.of(options)
    types = sessions.types(settings.words("plugin_dirs"))
    validation = _with_types(
        check(path, options.environment, parameters),
        types,
        tuple(Tools(settings.hooks, terminal.warn).installed()),
    )
    strict = options.strict and any(
        each.code != template.CAPABILITIES for each in validation.warnings
    )
    failed = bool(validation.mistakes) or strict
    if not options.json:
        _show(validation)
        if strict and not validation.mistakes:
            terminal.say("with --strict, warnings are mistakes", error=True)
    return ExitCode.FAILED if failed else ExitCode.OK, _values(
        validation
    ) if options.json else None


def _with_types(checked: Checked, types: Types, tools: Sequence[str]) -> Checked:
    """Return the template with mistakes and warnings about resource types, properties and attributes added.

    As long as a parameter has no value, the properties of nested stacks are not known, and are not checked. Then a
    wrong value is a warning, because Heat leaves it to the creation of the stack.
    """
    if checked.definition is None:
        return checked
    mistakes, left = (
        templates.all_mistakes(checked.definition, types, checked.mistakes),
        list[Mistake](),
    )
    if any(
        isinstance(each.value, Unknown)
        for each in checked.definition.parameters.values()
    ):
        known = set(checked.mistakes)
        mistakes = [
            each
            for each in mistakes
            if each in known or not any("<" in str(part) for part in each.path)
        ]
        left = [
            replace(each, hint=each.hint or LEFT)
            for each in mistakes
            if each.code == OF_VALUE
        ]
        mistakes = [each for each in mistakes if each.code != OF_VALUE]
    warnings = (
        checked.warnings
        if mistakes
        else [*checked.warnings, *advice.warnings(checked.definition, types, tools)]
    )
    return replace(
        checked,
        mistakes=mistakes,
        warnings=ordered(advice.once(template.capabilities_once([*warnings, *left]))),
    )


def _show(checked: Checked) -> None:
    for severity, style, mistakes in (
        ("error", "bad", checked.mistakes),
        ("warning", "warn", checked.warnings),
    ):
        for each in mistakes:
            terminal.say(
                mistake_line(each.concealed(checked.conceal.text), severity, style),
                error=True,
            )
    name = terminal.line(checked.source.template.name)
    counts = [
        terminal.count(len(checked.mistakes), "mistake"),
        terminal.count(len(checked.warnings), "warning"),
    ]
    if checked.mistakes or checked.definition is None:
        terminal.say(f"{name}: {', '.join(counts)}", error=True)
        return
    definition = checked.definition
    parts = [
        terminal.count(len(definition.resources), "resource"),
        terminal.count(len(definition.outputs), "output"),
    ]
    terminal.say(
        f"{name} is valid: {', '.join(parts)}{f', {counts[1]}' if checked.warnings else ''}"
    )
    if definition.parameters:
        _show_parameters(definition)


def _show_parameters(definition: Definition) -> None:
    """Print the parameters: each group under its label and in its order, and then the others."""
    grouped = [
        name
        for group in definition.groups
        for name in group.parameters
        if name in definition.parameters
    ]
    others = [name for name in definition.parameters if name not in grouped]
    names = [*grouped, *others]
    rows = [
        ("PARAMETER", "TYPE", "DEFAULT", "DESCRIPTION"),
        *(_row(definition.parameters[name]) for name in names),
    ]
    header, *lines = terminal.table(rows)
    indented = "  " if definition.groups else ""
    terminal.say(f"\n{indented}{terminal.styled(header, 'quiet')}")
    remaining = iter(lines)
    for group in definition.groups:
        title = (
            ": ".join(filter(None, (group.label, group.description))) or "parameters"
        )
        terminal.say(terminal.styled(terminal.line(title), "quiet"))
        for name in group.parameters:
            if name in definition.parameters:
                terminal.say(f"  {next(remaining)}")
    if definition.groups and others:
        terminal.say(terminal.styled("other parameters", "quiet"))
    for line in remaining:
        terminal.say(f"{indented}{line}")


def _row(parameter: Parameter) -> tuple[str, str, str, str]:
    schema = parameter.schema
    default = (
        "-"
        if schema.default is None
        else _HIDDEN
        if schema.secret
        else _written(schema.default)
    )
    return (
        schema.name,
        schema.type,
        terminal.shortened(default, 40),
        schema.description or schema.label,
    )


def _written(value: Any) -> str:
    return (
        value
        if isinstance(value, str) and value
        else json.dumps(value, ensure_ascii=False)
    )


def _values(checked: Checked) -> dict[str, Any]:
    """Return the outcome as JSON, as that of a service; if there is no mistake, with the keys of Heat's own too."""
    values: dict[str, Any] = {
        "file": checked.source.template.name,
        "valid": not checked.mistakes,
        "mistakes": _mistakes(checked.mistakes, checked.conceal),
        "warnings": _mistakes(checked.warnings, checked.conceal),
        "open": [],  # only a service can have points that a machine decides
    }
    if checked.definition is not None and not checked.mistakes:
        values |= _as_heat(checked.definition)
    return values


def _mistakes(mistakes: Sequence[Mistake], conceal: Concealer) -> list[dict[str, Any]]:
    return [
        mistake_values(mistake.concealed(conceal.text)) | {"stage": mistake.kind}
        for mistake in mistakes
    ]


def _as_heat(definition: Definition) -> dict[str, Any]:
    values: dict[str, Any] = {
        "Description": definition.description,
        "Parameters": {
            name: _parameter(parameter)
            for name, parameter in definition.parameters.items()
        },
    }
    if definition.groups:
        values["ParameterGroups"] = [
            {
                "label": group.label,
                "description": group.description,
                "parameters": list(group.parameters),
            }
            for group in definition.groups
        ]
    return values


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = parameter.schema
    values: dict[str, Any] = {
        "Type": _TYPES[schema.type],
        "Description": schema.description,
        "NoEcho": "true" if schema.hidden else "false",
        "Label": schema.label or schema.name,
    }
    if schema.default is not None:
        values["Default"] = _HIDDEN if schema.secret else schema.default
    if parameter.given:
        values["Value"] = _HIDDEN if schema.secret else parameter.value
    if schema.tags:
        values["Tags"] = list(schema.tags)
    for each in schema.constraints:
        values |= _constraint(each.kind, each.value)
    description = " ".join(
        each.description for each in schema.constraints if each.description
    )
    return values | ({"ConstraintDescription": description} if description else {})


def _constraint(kind: str, value: Any) -> Mapping[str, Any]:
    if kind in _OTHERS:
        return {_OTHERS[kind]: value}
    return {
        name: value[key]
        for key, name in _LIMITS[kind].items()
        if value.get(key) is not None
    }

"""`stack resource type list` and `show`: every resource type that templates may have, those of plug-ins included."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    NotFoundError,
    UsageError,
    blame,
)
from heat_config_hooks.words import CERTAIN
from heat_config_stack.cli.stack import sessions
from heat_config_stack.resource import type_schemas
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.support import HIDDEN, SUPPORT_STATUSES, is_valid_status
from heat_config_stack.resource.types import Types

FILTERS = ("name", "version", "support_status")
"""The keys of --filter, which are those of `openstack orchestration resource type list`."""

_HANDLING = {
    type_schemas.CARRIED_OUT: "carried out on this machine",
    type_schemas.PLACEHOLDER: "checked; a placeholder stands for it",
    type_schemas.NOTHING: "accepted with any property; Heat itself creates nothing for it",
    type_schemas.PLUGIN: "carried out by a plug-in",
}


def list_(options: argparse.Namespace) -> int:
    """List the resource types."""
    wanted = _filters(options.filter)
    types = sessions.types(state_options.of(options).words("plugin_dirs"))
    rows = [row for row in _rows(types, long=options.long) if _fits(row, wanted)]
    if options.json:
        envelope.result({"resource_types": rows})
        return ExitCode.OK
    header: tuple[str, ...] = ("NAME", "SUPPORT", "VERSION", "HERE")
    keys: tuple[str, ...] = ("resource_type", "support_status", "version", "handling")
    header += ("DETAILS",) if options.long else ()
    keys += ("description",) if options.long else ()
    cells = [tuple(_cell(row[key]) for key in keys) for row in rows]
    for line in terminal.table(cells, header=header, empty="no resource types"):
        terminal.say(line)
    return ExitCode.OK


def _cell(value: str | None) -> str:
    return (value or "").partition("\n")[0] or "-"


def _rows(types: Types, *, long: bool) -> Iterator[dict[str, str | None]]:
    for name in type_schemas.names(types):
        if (class_ := types.known(name)) is None:
            continue
        status = type_schemas.status(name, class_)
        yield {
            "resource_type": name,
            "support_status": status.status,
            "version": status.version,
            "handling": type_schemas.handling(class_),
            "description": type_schemas.description(class_) if long else None,
        }


def _filters(texts: Sequence[str]) -> dict[str, str]:
    """Return the filters by key. Raises UsageError."""
    filters: dict[str, str] = {}
    for text in texts:
        for part in text.split(";"):
            key, sign, value = part.partition("=")
            if not sign or key not in FILTERS:
                raise UsageError(
                    f"--filter takes KEY=VALUE with one of the keys {', '.join(FILTERS)}, not {part!r}"
                )
            filters[key] = value
    if "support_status" in filters:
        filters["support_status"] = filters["support_status"].upper()
        if not is_valid_status(filters["support_status"]):
            raise UsageError(
                f"a support status is one of {', '.join(SUPPORT_STATUSES)}"
            )
    if "name" in filters:
        try:
            re.compile(filters["name"])
        except re.error as error:
            raise UsageError(
                f"the name of --filter is not a regular expression: {error}"
            ) from None
    return filters


def _fits(row: Mapping[str, str | None], filters: Mapping[str, str]) -> bool:
    """Return whether a type passes the filters. A hidden type passes only if hidden types are asked for."""
    status = filters.get("support_status")
    if row["support_status"] != status and (
        status is not None or row["support_status"] == HIDDEN
    ):
        return False
    if "version" in filters and row["version"] != filters["version"]:
        return False
    return (
        "name" not in filters
        or re.match(filters["name"], row["resource_type"] or "") is not None
    )


def show(options: argparse.Namespace) -> int:
    """Show the properties and attributes of a resource type."""
    types = sessions.types(state_options.of(options).words("plugin_dirs"))
    name = options.type
    class_ = types.known(name)
    if class_ is None:
        close = meant(name, type_schemas.names(types), CERTAIN)
        raise NotFoundError(
            f"there is no resource type {name!r}",
            hint=close or "`heat-config-agent stack resource type list` shows them",
            subject=("resource_type", name),
        )
    handling = type_schemas.handling(class_)
    try:
        values = type_schemas.declaration(
            name, class_, placeholder=class_.is_placeholder
        )
    except TypeError as error:
        raise AgentError(
            f"the class of {name} cannot be used: {blame(error)}",
            hint="check the plug-in",
        ) from None
    if options.template_type:
        _show_template(
            type_schemas.generated_template(values, options.template_type),
            options.template_type,
            as_json=options.json,
        )
        return ExitCode.OK
    about = type_schemas.description(class_) if _is_about(handling) else ""
    if options.json:
        described = {**values, "description": about or None, "handling": handling}
        envelope.result(json.loads(json.dumps(described, default=repr)))
        return ExitCode.OK
    _show(values, about, handling, class_)
    return ExitCode.OK


def _show_template(template: Mapping[str, Any], kind: str, *, as_json: bool) -> None:
    """Print a template as YAML, or as JSON."""
    import yaml  # noqa: PLC0415  # 15 ms, which only this option needs

    if as_json:
        plain = json.loads(json.dumps(template, default=repr))
        envelope.begin("template", is_on=True)
        envelope.result(
            {
                "stack_name": None,
                "language": kind,
                "file": None,
                "text": None,
                "template": plain,
            }
        )
        return
    # without references to parts that are repeated
    plain = json.loads(json.dumps(template, default=repr))
    terminal.say(
        yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120).rstrip(
            "\n"
        )
    )


def _is_about(handling: str) -> bool:
    """Return whether the docstring of a class is about its type; all placeholders share one docstring."""
    return handling in (type_schemas.CARRIED_OUT, type_schemas.PLUGIN)


def _show(
    values: Mapping[str, Any], about: str, handling: str, class_: type[Resource]
) -> None:
    terminal.say(
        f"{terminal.padded('resource_type', 16)} {terminal.line(values['resource_type'])}"
    )
    terminal.say(
        f"{terminal.padded('support_status', 16)} {terminal.line(_status(values['support_status']))}"
    )
    terminal.say(f"{terminal.padded('handling', 16)} {_HANDLING[handling]}")
    for text in about.splitlines():
        terminal.say(f"  {terminal.line(text)}".rstrip())
    if class_.any_property:
        terminal.say("\nany property is accepted")
    properties = list(_properties(values["properties"], ""))
    rows = [("ATTRIBUTE", "TYPE", "DESCRIPTION")]
    rows += [
        (name, each.get("type") or "any", each.get("description") or "-")
        for name, each in values["attributes"].items()
    ]
    for part in (
        [("PROPERTY", "TYPE", "DEFAULT", "UPDATE", "DESCRIPTION"), *properties]
        if properties
        else [],
        rows,
    ):
        lines = terminal.table(part)
        for number, text in enumerate(lines):
            terminal.say(f"\n{terminal.styled(text, 'quiet')}" if not number else text)


def _status(status: Mapping[str, Any] | None) -> str:
    """Return a support status with the version since which it holds, and with the status before."""
    parts = []
    while status is not None:
        since = f" since {status['version']}" if status["version"] else ""
        message = f" ({status['message']})" if status["message"] else ""
        parts.append(f"{status['status']}{since}{message}")
        status = status["previous_status"]
    return ", before that ".join(parts)


def _properties(
    schemas: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str, str, str, str]]:
    for name, schema in schemas.items():
        property_path = f"{path}{name}"
        default = (
            "required"
            if schema["required"]
            else json.dumps(schema["default"])
            if "default" in schema
            else "-"
        )
        update = (
            "refused"
            if schema["immutable"]
            else "in place"
            if schema["update_allowed"]
            else "replaces"
        )
        limits = [_limit(limit) for limit in schema.get("constraints", ())]
        about = "; ".join(
            filter(None, [(schema.get("description") or "").removesuffix("."), *limits])
        )
        yield (
            property_path,
            schema["type"],
            terminal.shortened(default, 40),
            update if not path else "-",
            about or "-",
        )
        yield from _properties(schema.get("schema", {}), f"{property_path}.")


def _limit(constraint: Mapping[str, Any]) -> str:
    kind, limit = next(
        (key, value) for key, value in constraint.items() if key != "description"
    )
    if isinstance(limit, Mapping):
        return f"{kind} " + ", ".join(f"{key} {each}" for key, each in limit.items())
    if isinstance(limit, list):
        return f"one of {', '.join(map(str, limit))}"
    return f"{kind.replace('_', ' ')} {limit}"

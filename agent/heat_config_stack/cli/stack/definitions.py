"""`stack template show` and `stack environment show`: the definition that a stack has, as it was given."""

from __future__ import annotations

import argparse
from typing import Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.diagnostics.kinds import TOSCA
from heat_config_agent.model.errors import ExitCode, NotFoundError
from heat_config_agent.model.positions import Json
from heat_config_stack.cli.stack import sessions, values
from heat_config_stack.lifecycle.live import Stack

_HOT = "hot"


def template(options: argparse.Namespace) -> int:
    """Print the template of a stack."""
    root = sessions.look(state_options.of(options), options.name)
    source = _source(root)
    is_service = source.get("language") == TOSCA
    if is_service:
        file, text = str(source["entry"]), str(source["files"][source["entry"]])
    else:
        file, text = str(source["template"]["name"]), str(source["template"]["text"])
    text = root.conceal.text(text)
    if options.json:
        envelope.result(
            {
                "stack_name": root.name,
                "language": TOSCA if is_service else _HOT,
                "file": file,
                "text": text,
                "template": _parsed(root, text),
            }
        )
        return ExitCode.OK
    terminal.say(terminal.plain(text.rstrip("\n")))
    return ExitCode.OK


def _source(root: Stack) -> dict[str, Any]:
    """Return the source of a stack, also of one whose creation failed. Raises NotFoundError."""
    record = root.record
    source = record.source or record.source_before
    if not isinstance(source, dict):
        raise NotFoundError(
            f"the stack {root.name} has no template", subject=("template", root.name)
        )
    return source


def _parsed(root: Stack, text: str) -> Json:
    from heat_config_hooks import strict_yaml  # noqa: PLC0415  # only with --json

    try:
        value: Json = strict_yaml.loads(text)
    except (ValueError, RecursionError):
        return None
    return values.listed(root.conceal, value) if isinstance(value, dict) else None


def environment(options: argparse.Namespace) -> int:
    """Print the parameters and the environment of a stack."""
    root = sessions.look(state_options.of(options), options.name)
    source = _source(root)
    if source.get("language") == TOSCA:
        given: dict[str, Json] = {
            "parameters": source.get("inputs") or {},
            "attributes": source.get("attributes") or {},
        }
    else:
        from heat_config_stack.hot import reader  # noqa: PLC0415  # TOSCA needs none of it

        exported = reader.exported(source)["environment"]
        given = dict(exported) if isinstance(exported, dict) else {}
        direct = source.get("parameters")
        own = given.get("parameters")
        given["parameters"] = {
            **(direct if isinstance(direct, dict) else {}),
            **(own if isinstance(own, dict) else {}),
        }
    shown = given if options.reveal else _masked(root, given)
    if options.json:
        envelope.result(
            {
                "stack_name": root.name,
                "environment": shown,
                "effective": values.shown_parameters(root),
            }
        )
        return ExitCode.OK
    import yaml  # noqa: PLC0415  # 15 ms, which only this command needs

    content = {name: value for name, value in shown.items() if value}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    terminal.say(terminal.plain(text.rstrip("\n")) if content else "{}")
    return ExitCode.OK


def _masked(root: Stack, given: dict[str, Json]) -> dict[str, Json]:
    """Return an environment with the values masked that are secret by their declarations or by their names."""
    from heat_config_stack.cli.stack import archives  # noqa: PLC0415  # slow to load

    declared = root.defined.parameters if root.defined else {}
    hidden = {name for name, each in declared.items() if each.schema.secret}
    masked: dict[str, Json] = archives.masked(root, given)
    for section in ("parameters", "parameter_defaults"):
        pairs = masked.get(section)
        if isinstance(pairs, dict):
            masked[section] = {
                name: values.HIDDEN if name in hidden else value
                for name, value in pairs.items()
            }
    return masked

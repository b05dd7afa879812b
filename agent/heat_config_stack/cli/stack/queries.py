"""The commands that show stacks. Nothing is changed, and work on a stack is not disturbed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.diagnostics.words import among, meant
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError
from heat_config_stack.cli.stack import values
from heat_config_stack.records import listing

if TYPE_CHECKING:
    from heat_config_stack.lifecycle.live import Stack


def stacks(options: argparse.Namespace) -> int:
    """List all stacks."""
    settings = state_options.of(options)
    kept = [
        stack
        for name in listing.names(settings.state)
        if (stack := listing.kept(settings.state, name))
    ]
    for stack in kept:
        if stack.trouble:
            terminal.warn(stack.trouble)
    values_shown = [
        values.brief(stack.record) if stack.record else values.damaged(stack.name)
        for stack in kept
        if not stack.blank
    ]
    if not values_shown and not options.json:
        terminal.say(f"no stacks in {settings.state}")
        return ExitCode.OK
    broken = [
        values.interrupted(settings, stack.record) if stack.record else ""
        for stack in kept
        if not stack.blank
    ]
    for row, why in zip(values_shown, broken, strict=True):
        row["interrupted"] = bool(why)
    header = ("NAME", "STATUS", "CREATED", "ID")
    code = _rows(
        options,
        values_shown,
        header,
        ("stack_name", "stack_status", "creation_time", "id"),
    )
    again = [values.repeated(settings, stack) for stack in kept]
    for why in [*broken, *again] if not options.json else ():
        if why:
            terminal.say(terminal.styled(why, "warn"))
    return code


def stack(options: argparse.Namespace) -> int:
    """Show a stack."""
    root = _root(options)
    details = values.stack(root)
    if why := values.interrupted(state_options.of(options), root.record):
        details["stack_status_reason"] = why
    if options.json:
        terminal.say(json.dumps(details))
        return ExitCode.OK
    for key, value in details.items():
        if isinstance(value, str) and value:
            text = terminal.wrapped(terminal.line(value), 21, terminal.room(), begin=21)
            terminal.say(f"{terminal.padded(key, 20)} {text}")
    if details["parameters"]:
        terminal.say("parameters")
    for name, value in details["parameters"].items():
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        )
        terminal.say(f"  {terminal.line(name)} = {terminal.line(text)}")
    if details["outputs"]:
        terminal.say("outputs")
    for line in values.output_lines(root):
        terminal.say(line)
    return ExitCode.OK


def outputs(options: argparse.Namespace) -> int:
    """List the outputs of a stack."""
    root = _root(options)
    shown = (
        [values.output(root, name) for name in root.definition.outputs]
        if root.defined
        else []
    )
    if options.json:
        terminal.say(json.dumps(shown))
        return ExitCode.OK
    for line in terminal.table(
        [(each["output_key"], each["description"] or "-") for each in shown]
    ):
        terminal.say(line)
    return ExitCode.OK


def output(options: argparse.Namespace) -> int:
    """Print an output's value, and nothing else."""
    root = _root(options)
    names = list(root.definition.outputs) if root.defined else []
    if options.all or not options.output:
        answer: Any = [
            values.output(root, name, reveal=options.reveal) for name in names
        ]
        if options.json:
            terminal.say(json.dumps(answer))
        else:
            for row in answer:
                terminal.say(
                    f"{terminal.line(row['output_key'])} = {terminal.line(values.written(row))}"
                )
        return ExitCode.OK
    if options.output not in names:
        raise UsageError(
            f"{root.name} has no output {options.output!r}",
            hint=among(options.output, names),
        )
    answer = values.output(root, options.output, reveal=options.reveal, exact=True)
    if options.json:
        terminal.say(json.dumps(answer))
    elif "output_error" in answer:
        raise AgentError(
            f"the output {options.output} has no value: {answer['output_error']}"
        )
    else:
        terminal.say(terminal.plain(values.written(answer)))
    return ExitCode.OK


def resources(options: argparse.Namespace) -> int:
    """List the resources of a stack."""
    shown = [
        values.resource(path, each)
        for path, each in values.every(_root(options), options.nested_depth)
    ]
    header = ("RESOURCE", "STATUS", "TYPE", "ID")
    return _rows(
        options,
        shown,
        header,
        ("resource_name", "resource_status", "resource_type", "physical_resource_id"),
    )


def resource(options: argparse.Namespace) -> int:
    """Show a resource."""
    root = _root(options)
    all_ = dict(values.every(root, options.resource.count("/")))
    if options.resource not in all_:
        raise UsageError(
            f"{root.name} has no resource {options.resource!r}",
            hint=among(options.resource, all_),
        )
    details = values.resource_in_full(root, options.resource, all_[options.resource])
    if options.json:
        terminal.say(json.dumps(details))
        return ExitCode.OK
    for key, value in details.items():
        if value and not isinstance(value, dict):
            text = value if isinstance(value, str) else ", ".join(value)
            terminal.say(f"{terminal.padded(key, 23)} {terminal.line(text)}")
    for part in ("metadata", "attributes"):
        if details[part]:
            terminal.say(part)
        for name, value in details[part].items():
            text = (
                value
                if isinstance(value, str)
                else json.dumps(value, ensure_ascii=False)
            )
            terminal.say(f"  {terminal.line(name)} = {terminal.line(text.rstrip())}")
    return ExitCode.OK


def events(options: argparse.Namespace) -> int:
    """List the events, oldest first."""
    root = _root(options)
    _check_resource(root, options.resource)
    events_shown = [
        event
        for event in root.world.store.events
        if options.resource in (None, event["path"])
    ]
    conceal = root.world.conceal
    rows = [
        values.event(event, root.name, conceal)
        for event in (events_shown[-options.limit :] if options.limit else events_shown)
    ]
    if options.json:
        for event in rows:
            terminal.say(json.dumps(event))
        return ExitCode.OK
    keys = ("event_time", "resource_name", "resource_status", "resource_status_reason")
    return _rows(options, rows, ("TIME", "RESOURCE", "STATUS", "WHY"), keys)


def nodes(options: argparse.Namespace) -> int:
    """List the nodes of a service with their states."""
    return _rows(
        options,
        values.nodes(_root(options)),
        ("NODE", "TYPE", "STATE", "HOST"),
        ("node", "type", "state", "host"),
    )


def node(options: argparse.Namespace) -> int:
    """Show a node with its attributes and its operations."""
    root = _root(options)
    defined = root.defined.nodes if root.defined else {}
    if options.node not in defined:
        listed = f"`{state_options.of(options).command('stack', 'node', 'list', root.name)}` shows them all"
        hint = meant(options.node, defined) or listed
        raise UsageError(f"the stack {root.name} has no node {options.node}", hint=hint)
    details = values.node_in_full(root, options.node)
    if options.json:
        terminal.say(json.dumps(details))
        return ExitCode.OK
    for key in ("node", "type", "state", "host"):
        terminal.say(f"{terminal.padded(key, 20)} {terminal.line(details[key] or '-')}")
    for title in ("attributes", "operations"):
        if details[title]:
            terminal.say(title)
        for name, value in details[title].items():
            text = (
                value
                if isinstance(value, str)
                else json.dumps(value, ensure_ascii=False)
            )
            terminal.say(f"  {terminal.line(name)} = {terminal.line(text)}")
    return ExitCode.OK


def _check_resource(root: Stack, path: str | None) -> None:
    """Raise UsageError if a stack has no resource at a path, and has had none."""
    past = {event["path"] for event in root.world.store.events}
    if (
        path
        and path not in past
        and path not in (names := dict(values.every(root, path.count("/"))))
    ):
        raise UsageError(
            f"{root.name} has no resource {path!r}", hint=among(path, names)
        )


def _root(options: argparse.Namespace) -> Stack:
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # the list of stacks needs none of it

    return sessions.look(state_options.of(options), options.name)


def _rows(
    options: argparse.Namespace,
    objects: Iterable[Mapping[str, Any]],
    header: tuple[str, ...],
    keys: tuple[str, ...],
) -> int:
    if options.json:
        terminal.say(json.dumps(list(objects)))
        return ExitCode.OK
    first, *lines = terminal.table(
        [header, *(tuple(str(each[key] or "-") for key in keys) for each in objects)]
    )
    terminal.say(terminal.styled(first, "quiet"))
    for line in lines:
        terminal.say(line)
    return ExitCode.OK

"""What shows stacks. Nothing is changed, and nobody who works on one is disturbed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import Any

from heat_config_agent.cli import chosen, terminal
from heat_config_agent.cli.stack import opened, values
from heat_config_agent.cli.stack.secrets import concealer
from heat_config_agent.errors import AgentError, ExitCode
from heat_config_agent.stack import listing
from heat_config_agent.stack.live import Stack


def stacks(said: argparse.Namespace) -> int:
    """List all stacks."""
    given = chosen.of(said)
    found = [values.brief(listing.record(given.state, name)) for name in listing.names(given.state)]
    if not found and not said.json:
        terminal.say(f"no stacks in {given.state}")
        return ExitCode.OK
    header = ("NAME", "STATUS", "CREATED", "ID")
    return _rows(said, found, header, ("stack_name", "stack_status", "creation_time", "id"))


def stack(said: argparse.Namespace) -> int:
    """Show a stack."""
    root = _root(said)
    found = values.stack(root)
    if said.json:
        terminal.say(json.dumps(found))
        return ExitCode.OK
    for key, value in found.items():
        if isinstance(value, str) and value:
            terminal.say(f"{terminal.padded(key, 20)} {terminal.line(value)}")
    if found["parameters"]:
        terminal.say("parameters")
    for name, value in found["parameters"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        terminal.say(f"  {terminal.line(name)} = {terminal.line(text)}")
    if found["outputs"]:
        terminal.say("outputs")
    for line in values.output_lines(root):
        terminal.say(line)
    return ExitCode.OK


def outputs(said: argparse.Namespace) -> int:
    """List the outputs of a stack."""
    root = _root(said)
    found = [values.output(root, name) for name in root.definition.outputs] if root.defined else []
    if said.json:
        terminal.say(json.dumps(found))
        return ExitCode.OK
    for line in terminal.table([(each["output_key"], each["description"] or "-") for each in found]):
        terminal.say(line)
    return ExitCode.OK


def output(said: argparse.Namespace) -> int:
    """Print an output's value, and nothing else."""
    root = _root(said)
    names = list(root.definition.outputs) if root.defined else []
    if said.all or not said.output:
        found: Any = [values.output(root, name, reveal=said.reveal) for name in names]
        if said.json:
            terminal.say(json.dumps(found))
        else:
            for each in found:
                terminal.say(f"{terminal.line(each['output_key'])} = {terminal.line(values.written(each))}")
        return ExitCode.OK
    if said.output not in names:
        raise AgentError(f"{root.name} has no output {said.output!r}", hint=f"it has {', '.join(names) or 'none'}")
    found = values.output(root, said.output, reveal=said.reveal)
    if said.json:
        terminal.say(json.dumps(found))
    elif "output_error" in found:
        raise AgentError(f"the output {said.output} has no value: {found['output_error']}")
    else:
        terminal.say(terminal.plain(values.written(found)))
    return ExitCode.OK


def resources(said: argparse.Namespace) -> int:
    """List the resources of a stack."""
    found = [values.resource(path, each) for path, each in values.every(_root(said), said.nested_depth)]
    header = ("RESOURCE", "STATUS", "TYPE", "ID")
    return _rows(said, found, header, ("resource_name", "resource_status", "resource_type", "physical_resource_id"))


def resource(said: argparse.Namespace) -> int:
    """Show a resource."""
    root = _root(said)
    all_ = dict(values.every(root, said.resource.count("/")))
    if said.resource not in all_:
        raise AgentError(f"{root.name} has no resource {said.resource!r}", hint=f"it has {', '.join(all_) or 'none'}")
    found = values.resource_in_full(root, said.resource, all_[said.resource])
    if said.json:
        terminal.say(json.dumps(found))
        return ExitCode.OK
    for key, value in found.items():
        if value and not isinstance(value, dict):
            text = value if isinstance(value, str) else ", ".join(value)
            terminal.say(f"{terminal.padded(key, 23)} {terminal.line(text)}")
    if found["attributes"]:
        terminal.say("attributes")
    for name, value in found["attributes"].items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        terminal.say(f"  {terminal.line(name)} = {terminal.line(text.rstrip())}")
    return ExitCode.OK


def events(said: argparse.Namespace) -> int:
    """List what has happened, the oldest first."""
    root = _root(said)
    wanted = [each for each in root.world.store.events if said.resource in (None, each["path"])]
    conceal = concealer(root.defined)
    found = [values.event(each, root.name, conceal) for each in (wanted[-said.limit :] if said.limit else wanted)]
    if said.json:
        for each in found:
            terminal.say(json.dumps(each))
        return ExitCode.OK
    keys = ("event_time", "resource_name", "resource_status", "resource_status_reason")
    return _rows(said, found, ("TIME", "RESOURCE", "STATUS", "WHY"), keys)


def _root(said: argparse.Namespace) -> Stack:
    return opened.look(chosen.of(said), said.name)


def _rows(
    said: argparse.Namespace, found: Iterable[Mapping[str, Any]], header: tuple[str, ...], keys: tuple[str, ...]
) -> int:
    if said.json:
        terminal.say(json.dumps(list(found)))
        return ExitCode.OK
    first, *lines = terminal.table([header, *(tuple(str(each[key] or "-") for key in keys) for each in found)])
    terminal.say(terminal.styled(first, "quiet"))
    for line in lines:
        terminal.say(line)
    return ExitCode.OK

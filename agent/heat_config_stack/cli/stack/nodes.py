"""The nodes of a service: their types, states and machines."""

from __future__ import annotations

import argparse
import json
from typing import Any

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_stack.cli.stack import sessions
from heat_config_stack.cli.stack.secrets import HIDDEN, is_hidden, listed
from heat_config_stack.definition import Unresolved, resolve
from heat_config_stack.lifecycle import nodes
from heat_config_stack.lifecycle.live import Stack


def list_(options: argparse.Namespace) -> int:
    """List the nodes with their states."""
    rows = brief(sessions.look(state_options.of(options), options.name))
    if options.json:
        terminal.say(json.dumps(rows))
        return ExitCode.OK
    shown = [(row["node"], row["type"], row["state"], row["host"] or "-") for row in rows]
    first, *lines = terminal.table([("NODE", "TYPE", "STATE", "HOST"), *shown])
    terminal.say(terminal.styled(first, "quiet"))
    for line in lines:
        terminal.say(line)
    return ExitCode.OK


def show(options: argparse.Namespace) -> int:
    """Show a node with its attributes and its operations."""
    root = sessions.look(state_options.of(options), options.name)
    defined = root.defined.nodes if root.defined else {}
    if options.node not in defined:
        raise UsageError(
            f"the stack {root.name} has no node {options.node}",
            hint=meant(options.node, defined)
            or f"`{state_options.of(options).command('stack', 'node', 'list', root.name)}` shows them all",
        )
    details = in_full(root, options.node)
    if options.json:
        terminal.say(json.dumps(details))
        return ExitCode.OK
    for key in ("node", "type", "state", "host"):
        terminal.say(f"{terminal.padded(key, 20)} {terminal.line(details[key] or '-')}")
    for title in ("attributes", "operations"):
        if details[title]:
            terminal.say(title)
        for name, value in details[title].items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            terminal.say(f"  {terminal.line(name)} = {terminal.line(text)}")
    return ExitCode.OK


def in_full(root: Stack, name: str) -> dict[str, Any]:
    """Return a node with its attributes, and its operations with their states."""
    node = root.definition.nodes[name]
    attributes: dict[str, Any] = {}
    for key, tree in node.attributes().items():
        try:
            attributes[key] = resolve(tree, root.look)
        except Unresolved:
            attributes[key] = None
    shown = {key: HIDDEN if is_hidden(key) and value is not None else value for key, value in attributes.items()}
    records = {record.name: record for record in root.records()}
    states = {of: "_".join(records[of].state) if of in records else "INIT_COMPLETE" for of in node.operations}
    [row] = [row for row in brief(root) if row["node"] == name]
    return {**row, "attributes": listed(root.world.conceal, shown), "operations": states}


def brief(root: Stack) -> list[dict[str, Any]]:
    """Return the nodes of a stack in the order of the template."""
    states = nodes.states(root)
    defined = root.defined.nodes if root.defined else {}
    return [
        {"node": name, "type": node.type, "state": states[name], "host": node.host or None}
        for name, node in defined.items()
    ]

"""`stack snapshot`, `stack adopt` and `stack abandon`: the state of stacks as data, in the formats of Heat's API."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.diagnostics.kinds import TOSCA
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError
from heat_config_agent.model.positions import Json
from heat_config_hooks import files
from heat_config_stack.cli.stack import operations, sessions, templates, values
from heat_config_stack.cli.stack.live_view import view_of
from heat_config_stack.cli.stack.values import HIDDEN, is_hidden, listed
from heat_config_stack.definition.files import needed
from heat_config_stack.hot import reader
from heat_config_stack.hot.source import heat_text
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.session import find_snapshot
from heat_config_stack.records.records import COMPLETE, SnapshotRecord

_KEYS = ("id", "name", "status", "status_reason", "creation_time")


def create(options: argparse.Namespace) -> int:
    """Take a snapshot."""
    settings = state_options.of(options)
    sessions.look(settings, options.name, operations.reported_later)
    view = view_of(options.name, as_json=options.json)
    with sessions.work(
        settings, options.name, view, server=options.server or "", limit=options.timeout
    ) as session:
        view.expect(list(session.root.resources) if session.root else (), {})
        record = session.snapshot(options.snapshot_name or "")
    return _ended(record, as_json=options.json)


def _ended(record: SnapshotRecord, *, as_json: bool) -> int:
    code = ExitCode.OK if record.status == COMPLETE else ExitCode.FAILED
    shown = _brief(record)
    if as_json:
        terminal.say(json.dumps({**shown, "exit_code": int(code)}))
        return code
    for key, value in shown.items():
        if value:
            terminal.say(f"{terminal.padded(key, 14)} {terminal.line(str(value))}")
    return code


def _brief(record: SnapshotRecord) -> dict[str, Json]:
    return {
        "id": record.id,
        "name": record.name,
        "action": record.action,
        "status": record.status,
        "status_reason": record.reason,
        "creation_time": values.moment(record.created),
    }


def list_(options: argparse.Namespace) -> int:
    """List the snapshots of a stack."""
    root = sessions.look(state_options.of(options), options.name)
    shown = [_brief(snapshot) for snapshot in root.world.store.snapshots.values()]
    if options.json:
        terminal.say(json.dumps(shown))
        return ExitCode.OK
    header = ("ID", "NAME", "STATUS", "WHY", "CREATED")
    first, *lines = terminal.table(
        [
            header,
            *(tuple(str(snapshot[key] or "-") for key in _KEYS) for snapshot in shown),
        ]
    )
    terminal.say(terminal.styled(first, "quiet"))
    for line in lines:
        terminal.say(line)
    return ExitCode.OK


def show(options: argparse.Namespace) -> int:
    """Print a snapshot with the state of the stack, as JSON."""
    root = sessions.look(state_options.of(options), options.name)
    record = find_snapshot(root.world.store, options.snapshot)
    data = {**record.data, **_exported(record.source)}
    shown = data if options.reveal else _masked(root, data)
    terminal.say(
        json.dumps({**_brief(record), "data": shown}, indent=2, ensure_ascii=False)
    )
    return ExitCode.OK


def _exported(source: Json) -> dict[str, Json]:
    """Return the template with its environment and files as in Heat's API; nothing if it is not a HOT template."""
    return (
        {}
        if isinstance(source, dict) and source.get("language") == TOSCA
        else reader.exported(source)
    )


def _masked(root: Stack, value: Any) -> Any:
    """Return data with hidden values masked, and those that are secret by their names."""
    listing = listed(root.world.conceal, value)

    def by_name(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {
                key: HIDDEN
                if is_hidden(key) and isinstance(member, str | int | float)
                else by_name(member)
                for key, member in tree.items()
            }
        return [by_name(member) for member in tree] if isinstance(tree, list) else tree

    return by_name(listing)


def delete(options: argparse.Namespace) -> int:
    """Delete a snapshot."""
    settings = state_options.of(options)
    root = sessions.look(settings, options.name, operations.reported_later)
    record = find_snapshot(root.world.store, options.snapshot)
    if not options.yes:
        answer = terminal.ask(
            f"delete the snapshot {record.name or record.id} of {options.name}? [y/N] "
        )
        if answer is None:
            raise UsageError(
                "delete needs a confirmation, and there is no terminal",
                hint="give --yes",
            )
        if answer.strip().lower() not in ("y", "yes"):
            return ExitCode.FAILED
    view = view_of(options.name, as_json=options.json)
    with sessions.work(
        settings, options.name, view, server=options.server or "", limit=options.timeout
    ) as session:
        session.delete_snapshot(record.id)
    if options.json:
        terminal.say(
            json.dumps(
                {
                    "id": record.id,
                    "name": record.name,
                    "status": "DELETE_COMPLETE",
                    "exit_code": 0,
                }
            )
        )
    else:
        terminal.say(
            f"the snapshot {terminal.line(record.name or record.id)} is deleted"
        )
    return ExitCode.OK


@operations.with_mistakes
def restore(options: argparse.Namespace) -> int:
    """Restore a stack to a snapshot."""
    settings = state_options.of(options)
    root = sessions.look(settings, options.name, operations.reported_later)
    snapshot = find_snapshot(root.world.store, options.snapshot).id
    return operations.carry_out(
        settings, options, lambda session: session.restore(snapshot), None
    )


@operations.with_mistakes
def adopt(options: argparse.Namespace) -> int:
    """Adopt a stack."""
    settings = state_options.of(options)
    data = _read(options.adopt_file)
    resources = data.get("resources", {})
    if not isinstance(resources, dict):
        raise UsageError(f"the resources in {options.adopt_file} are not a map")
    definition = templates.adopted(
        options, data, sessions.types(settings.words("plugin_dirs"))
    )
    return operations.carry_out(
        settings,
        options,
        lambda session: session.adopt(definition, resources, rollback=options.rollback),
        definition,
    )


def _read(name: str) -> dict[str, Any]:
    """Return the content of a file of JSON or YAML. Raises UsageError, `Invalid`."""
    file = needed(name)
    try:
        data = json.loads(file.text)
    except (ValueError, RecursionError):
        data = heat_text(file.name, file.text, "environment_format").value
    if not isinstance(data, dict):
        raise UsageError(f"{name} is not a map: expected the output of `stack abandon`")
    return data


def abandon(options: argparse.Namespace) -> int:
    """Print the state of a stack, and forget the stack."""
    settings = state_options.of(options)
    root = sessions.look(settings, options.name, operations.reported_later)
    exported = _exported(root.record.source or root.record.source_before)
    if not exported:
        sessions.warned(
            f"{options.name} is not a stack of a HOT template: its state cannot be adopted"
        )
    view = view_of(options.name, as_json=True)
    with sessions.work(settings, options.name, view, without_types=True) as session:
        session.end_runs()
        text = (
            json.dumps(
                {**session.abandoned(), **exported}, indent=2, ensure_ascii=False
            )
            + "\n"
        )
        if options.output_file:
            _write(options.output_file, text)
        else:
            _print(text)
        session.abandon()
    return ExitCode.OK


def _write(name: str, text: str) -> None:
    """Write the state to a file, which only its owner can read; everything stays as it was if that fails."""
    try:
        files.replace(files.replaceable(name), text.encode(), durable=True)
    except OSError as error:
        raise AgentError(
            f"cannot write {name}: {error.strerror}", hint="nothing was abandoned"
        ) from error


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        problem = f"cannot print the state of the stack: {error.strerror}"
        raise AgentError(problem, hint="nothing was abandoned") from error

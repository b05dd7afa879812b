"""`stack snapshot`, `stack adopt` and `stack abandon`: the state of stacks as data, in the formats of Heat's API."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.diagnostics.kinds import TOSCA
from heat_config_agent.model import states
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError
from heat_config_agent.model.positions import Json
from heat_config_agent.model.wording import stamp
from heat_config_hooks import files
from heat_config_stack.cli.stack import (
    operations,
    queries,
    sessions,
    templates,
    values,
)
from heat_config_stack.cli.stack.live_view import View, view_of
from heat_config_stack.cli.stack.values import HIDDEN, is_hidden, listed
from heat_config_stack.definition.files import needed
from heat_config_stack.hot import reader
from heat_config_stack.hot.source import heat_text
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.session import find_snapshot
from heat_config_stack.records.records import COMPLETE, SnapshotRecord


@operations.with_mistakes
def create(options: argparse.Namespace) -> int:
    """Take a snapshot."""
    settings = state_options.of(options)
    sessions.look(settings, options.name, operations.reported_later)
    view = view_of(options.name, as_json=options.json)
    with operations.opened(settings, options, view) as session:
        view.expect(list(session.root.resources) if session.root else (), {})
        record = session.snapshot(options.snapshot_name or "")
    return _ended(record, as_json=options.json)


def _ended(record: SnapshotRecord, *, as_json: bool) -> int:
    code = ExitCode.OK if record.status == COMPLETE else ExitCode.FAILED
    shown = _brief(record)
    name = record.name or record.id
    message = f"the snapshot {name} has failed: {record.reason}"
    if as_json:
        failure = envelope.Failure("failed", message) if code else None
        envelope.result({**shown, "data": None}, code=code, error=failure)
        return code
    if code:
        terminal.complain(f"error: {terminal.line(message)}")
    facts = {"name": record.name, "state": shown["state"], "id": record.id}
    for key, value in facts.items():
        if value:
            text = terminal.line(str(value))
            text = terminal.stated(text) if key == "state" else text
            terminal.say(f"{terminal.padded(key, 12)} {text}")
    return code


def _brief(record: SnapshotRecord) -> dict[str, Json]:
    return {
        "id": record.id,
        "name": record.name,
        "action": record.action,
        "status": record.status,
        "status_reason": record.reason,
        "creation_time": values.moment(record.created),
        "state": str(states.of_stack(record.status)),
        "since": stamp(record.created),
    }


def list_(options: argparse.Namespace) -> int:
    """List the snapshots of a stack."""
    root = sessions.look(state_options.of(options), options.name)
    shown = [_brief(snapshot) for snapshot in root.world.store.snapshots.values()]
    if options.json:
        envelope.result({"snapshots": shown})
        return ExitCode.OK
    rows = [
        (
            str(each["name"] or "-"),
            str(each["state"]),
            str(each["action"]),
            queries.when(each["since"]),
            str(each["id"]),
            str(each["status_reason"] or ""),
        )
        for each in shown
    ]
    header = ("NAME", "STATE", "ACTION", "SINCE", "ID", "DETAILS")
    empty = f"no snapshots of {root.name}"
    for line in terminal.table(rows, header=header, empty=empty):
        terminal.say(line)
    return ExitCode.OK


def show(options: argparse.Namespace) -> int:
    """Print a snapshot with the state of the stack, as JSON."""
    root = sessions.look(state_options.of(options), options.name)
    record = find_snapshot(root.world.store, options.snapshot)
    data = {**record.data, **_exported(record.source)}
    shown = {**_brief(record), "data": data if options.reveal else masked(root, data)}
    if options.json:
        envelope.result(shown)
    else:
        terminal.say(json.dumps(shown, indent=2, ensure_ascii=False))
    return ExitCode.OK


def _exported(source: Json) -> dict[str, Json]:
    """Return the template with its environment and files as in Heat's API; nothing if it is not a HOT template."""
    return (
        {}
        if isinstance(source, dict) and source.get("language") == TOSCA
        else reader.exported(source)
    )


def masked(root: Stack, value: Any) -> Any:
    """Return data in which hidden values and values with secret names are masked."""
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


@operations.with_mistakes
def delete(options: argparse.Namespace) -> int:
    """Delete a snapshot."""
    settings = state_options.of(options)
    root = sessions.look(settings, options.name, operations.reported_later)
    record = find_snapshot(root.world.store, options.snapshot)
    terminal.confirmed(
        f"delete the snapshot {record.name or record.id} of {options.name}", options
    )
    view = view_of(options.name, as_json=options.json)
    with operations.opened(settings, options, view) as session:
        session.delete_snapshot(record.id)
    if options.json:
        gone = {"action": "DELETE", "status": COMPLETE, "data": None}
        envelope.result({**_brief(record), **gone, "state": "ok"})
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
    record = find_snapshot(root.world.store, options.snapshot)
    snapshot = record.id
    if options.plan:
        from heat_config_stack.cli.stack import plan  # noqa: PLC0415  # only for plans

        operations.check_hosts(options, root)
        definition = sessions.stored_definition(record.source, root.identity)
        return plan.show(settings, options, definition, root)
    terminal.confirmed(
        f"restore {options.name} to the snapshot {record.name or record.id}", options
    )
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
    types = sessions.types(settings.words("plugin_dirs"))
    definition = operations.on_hosts(
        options, None, types, lambda: templates.adopted(options, data, types)
    )
    if options.plan:
        from heat_config_stack.cli.stack import plan  # noqa: PLC0415  # only for plans

        return plan.show_adoption(options, definition, resources)
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
    terminal.confirmed(
        f"forget the stack {options.name}, and leave everything that was created",
        options,
    )
    with sessions.work(settings, options.name, View(), without_types=True) as session:
        session.end_runs()
        text = (
            json.dumps(
                {**session.abandoned(), **exported}, indent=2, ensure_ascii=False
            )
            + "\n"
        )
        if options.output_file:
            _write(options.output_file, text)
            terminal.note(f"the state of {options.name} is in {options.output_file}")
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

"""Workflows of a service: what there are, and carrying them out."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from typing import Any

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.masking import MASK
from heat_config_agent.masking.redaction import is_secret
from heat_config_agent.model import states
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.errors import ExitCode, NotFoundError, UsageError
from heat_config_agent.model.wording import stamp
from heat_config_agent.settings.effective import Settings
from heat_config_stack.cli.stack import operations, queries, sessions
from heat_config_stack.cli.stack.live_view import view_of
from heat_config_stack.definition.procedures import Procedure, ProcedureInput
from heat_config_stack.lifecycle import deployments, nodes, procedure
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records.records import FAILED, ProcedureRecord


def list_(options: argparse.Namespace) -> int:
    """List the workflows and the triggers of a stack."""
    stack = sessions.look(state_options.of(options), options.name)
    defined = stack.defined
    rows = [
        _values(stack, kind, name, of)
        for kind, known in (
            ("workflow", defined.procedures if defined else {}),
            ("trigger", defined.triggers if defined else {}),
        )
        for name, of in known.items()
    ]
    if options.json:
        envelope.result({"workflows": rows})
        return ExitCode.OK
    header = ("NAME", "STATE", "KIND", "SINCE", "INPUTS", "DETAILS")
    empty = f"no workflows of {stack.name}"
    for line in terminal.table(map(_row, rows), header=header, empty=empty):
        terminal.say(line)
    return ExitCode.OK


def _values(stack: Stack, kind: str, name: str, of: Procedure) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "description": of.description,
        "inputs": {key: _input(key, value) for key, value in of.inputs.items()},
        **_outcome(stack, procedure.last(stack, name)),
    }


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    inputs = ", ".join(row["inputs"]) or "-"
    details = row["message"] or " ".join(row["description"].split())
    since = queries.when(row["since"])
    state = row["state"] or "-"
    return (row["name"], state, row["kind"], since, inputs, details)


def _input(name: str, declared: ProcedureInput) -> dict[str, Any]:
    sensitive = str(declared.metadata.get("sensitive", "")).lower() == "true"
    secret = sensitive or is_secret(Input(name=name, value=None, hidden=False))
    default = MASK if secret and declared.default is not None else declared.default
    return {
        "type": declared.type,
        "description": declared.description,
        "default": default,
        "required": declared.required,
    }


def _outcome(stack: Stack, record: ProcedureRecord | None) -> dict[str, Any]:
    if record is None:
        return {"state": None, "status": None, "message": "", "since": None}
    return {
        "state": str(states.of_stack(record.status)),
        "status": record.status,
        "message": stack.conceal.text(record.reason),
        "since": stamp(record.updated or record.created),
    }


@operations.with_mistakes
def run(options: argparse.Namespace) -> int:
    """Carry out a workflow."""
    return carry_out(options, options.workflow)


@operations.with_mistakes
def trigger(options: argparse.Namespace) -> int:
    """Start the action of a trigger: nothing watches for its event here."""
    stack = sessions.look(state_options.of(options), options.name)
    known = stack.definition.triggers if stack.defined else {}
    if options.trigger not in known:
        hint = f"it has {', '.join(known)}" if known else ""
        raise NotFoundError(
            f"the stack {options.name} has no trigger {options.trigger}",
            hint=hint,
            subject=("trigger", f"{options.name}/{options.trigger}"),
        )
    return carry_out(options, options.trigger)


def _given(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise UsageError(f"--input takes NAME=VALUE, not {name!r}")
    return name, value


def carry_out(options: argparse.Namespace, name: str) -> int:
    """Carry out a workflow to its end, and print the outcome."""
    settings = state_options.of(options)
    sessions.look(settings, options.name)
    inputs = dict(_given(text) for text in options.input)
    view = view_of(options.name, as_json=options.json)
    began = time.monotonic()
    with operations.opened(settings, options, view) as session:
        record = session.carry_out(name, inputs)
        view.finish((), {})
        stack = session.root
        assert stack is not None  # noqa: S101  # it has carried something out
        reason, node_states = stack.conceal.text(record.reason), nodes.states(stack)
        ways = _logs(settings, stack, record) if record.status == FAILED else []
    code = ExitCode.FAILED if record.status == FAILED else ExitCode.OK
    took = terminal.duration(time.monotonic() - began)
    what = "trigger" if "trigger" in vars(options) else "workflow"
    message = f"stack {options.name}: {what} {name} failed after {took}: {reason}"
    if options.json:
        failure = envelope.Failure("failed", message) if code else None
        data = {
            "stack_name": options.name,
            "name": name,
            "kind": what,
            "state": str(states.of_stack(record.status)),
            "status": record.status,
            "message": reason,
            "nodes": node_states,
        }
        envelope.result(data, code=code, error=failure)
        return code
    if code:
        operations.say_failure(message, ways)
        return code
    state = terminal.stated(str(states.of_stack(record.status)))
    of = f"{terminal.line(options.name)}: {what} {terminal.line(name)}"
    terminal.say(f"stack {of}: {state} in {took}")
    return code


def _logs(
    settings: Settings, stack: Stack, record: ProcedureRecord
) -> list[tuple[str, str]]:
    """Return the commands that show the output of the operations that have failed in a run."""
    store = stack.world.store
    there = {each.id for each in store.resources_of(record.id)}
    return [
        (
            "all output",
            settings.command(
                "log", f"{stack.name}/{deployments.path_of(store, each.id)}"
            ),
        )
        for each in store.deployments.values()
        if each.status == FAILED and each.resource in there
    ]

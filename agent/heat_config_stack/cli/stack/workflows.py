"""Workflows of a service: what there are, and carrying them out."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.masking.redaction import is_secret
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.settings.effective import Settings
from heat_config_stack.cli.stack import operations, sessions
from heat_config_stack.cli.stack.live_view import view_of
from heat_config_stack.cli.stack.values import moment
from heat_config_stack.definition.procedures import ProcedureInput
from heat_config_stack.lifecycle import deployments, nodes, procedure
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records.records import COMPLETE, FAILED, ProcedureRecord

_HIDDEN = "******"


def list_(options: argparse.Namespace) -> int:
    """List the workflows of a stack."""
    stack = sessions.look(state_options.of(options), options.name)
    known = stack.definition.procedures if stack.defined else {}
    rows: list[dict[str, Any]] = []
    for name, of in known.items():
        inputs = {key: _input(key, value) for key, value in of.inputs.items()}
        rows.append(
            {
                "workflow": name,
                "description": of.description,
                "inputs": inputs,
                **_outcome(stack, procedure.last(stack, name)),
            }
        )
    if options.json:
        terminal.say(json.dumps(rows))
        return ExitCode.OK
    if not rows:
        terminal.say(f"{terminal.line(stack.name)} has no workflows")
        return ExitCode.OK
    header, *lines = terminal.table(
        [
            ("WORKFLOW", "LAST RUN", "INPUTS", "DESCRIPTION"),
            *(_row(row) for row in rows),
        ]
    )
    terminal.say(terminal.styled(header, "quiet"))
    for line in lines:
        terminal.say(line)
    return ExitCode.OK


def _row(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    inputs = ", ".join(row["inputs"]) or "-"
    return (
        row["workflow"],
        row["status"] or "-",
        inputs,
        " ".join(row["description"].split()),
    )


def _input(name: str, declared: ProcedureInput) -> dict[str, Any]:
    sensitive = str(declared.metadata.get("sensitive", "")).lower() == "true"
    secret = sensitive or is_secret(Input(name=name, value=None, hidden=False))
    default = _HIDDEN if secret and declared.default is not None else declared.default
    return {
        "type": declared.type,
        "description": declared.description,
        "default": default,
        "required": declared.required,
    }


def _outcome(stack: Stack, record: ProcedureRecord | None) -> dict[str, Any]:
    if record is None:
        return {"status": None, "reason": None, "time": None}
    return {
        "status": record.status,
        "reason": stack.conceal.text(record.reason) or None,
        "time": moment(record.updated or record.created),
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
        raise UsageError(
            f"the stack {options.name} has no trigger {options.trigger}", hint=hint
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
    with sessions.work(
        settings, options.name, view, server=options.server or "", limit=options.timeout
    ) as session:
        record = session.carry_out(name, inputs)
        view.finish(())
        stack = session.root
        assert stack is not None  # noqa: S101  # it has carried something out
        reason, states = stack.conceal.text(record.reason), nodes.states(stack)
        lines = _last_words(settings, stack, record) if record.status == FAILED else []
    code = ExitCode.FAILED if record.status == FAILED else ExitCode.OK
    if options.json:
        values = {
            "stack_name": options.name,
            "workflow": name,
            "status": record.status,
            "reason": reason or None,
        }
        terminal.say(json.dumps({**values, "nodes": states, "exit_code": int(code)}))
        return code
    state = terminal.styled(
        record.status, "good" if record.status == COMPLETE else "bad"
    )
    took = terminal.duration(time.monotonic() - began)
    what = "trigger" if "trigger" in vars(options) else "workflow"
    terminal.say(
        f"{terminal.line(options.name)}: {what} {terminal.line(name)} {state} in {took}"
    )
    if reason:
        terminal.say(terminal.line(reason))
    for line in lines:
        terminal.say(line)
    return code


def _last_words(settings: Settings, stack: Stack, record: ProcedureRecord) -> list[str]:
    """Return what the operations of a run that has failed have printed last, and the commands that show all of it."""
    store, lines = stack.world.store, list[str]()
    there = {each.id for each in store.resources_of(record.id)}
    for each in store.deployments.values():
        if each.status == FAILED and each.resource in there:
            title = f"{stack.name}/{deployments.path_of(store, each.id)}"
            stderr = stack.conceal.text(str(each.outputs.get("deploy_stderr") or ""))
            lines += operations.last_words(settings, title, stderr, title)
    return lines

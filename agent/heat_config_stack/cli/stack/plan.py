"""The dry run of a stack: the change of each resource, and what the policy would refuse of it."""

from __future__ import annotations

import json

from heat_config_agent.cli import terminal
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_stack.cli.stack import sessions
from heat_config_stack.definition import Definition
from heat_config_stack.lifecycle import preview, validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.preview import Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from heat_config_stack.cli.stack.refusals import StackRefusal  # few machines have a policy

_STYLES = {preview.ADDED: "good", preview.REMOVED: "bad", preview.REPLACED: "warn", preview.UPDATED: "warn"}


def show(settings: Settings, definition: Definition, stack: Stack | None, *, as_json: bool) -> int:
    """Print what a definition would change in a stack, which is None if it is new. Raises `Invalid`."""
    validation.check(definition, sessions.types(settings.words("plugin_dirs")))
    if stack is None:
        changes = [Change(name, each.type, preview.ADDED) for name, each in definition.resources.items()]
    else:
        changes = list(preview.changes(stack, definition))
    refused, mistake = _refusals(settings, definition, stack, changes)
    if as_json:
        terminal.say(json.dumps([_values(each, refused, mistake) for each in changes]))
        return ExitCode.OK
    lines = terminal.table([(each.effect, each.name, each.type) for each in changes])
    for each, line in zip(changes, lines, strict=True):
        terminal.say(terminal.styled(line, _STYLES.get(each.effect, "quiet")))
    for line in terminal.table([(each.name, each.action, each.sentence) for each in refused]):
        terminal.say(terminal.styled(line, "bad"))
    if mistake:
        terminal.say(terminal.styled(f"nothing new begins: {terminal.line(mistake)}", "bad"))
    terminal.say(f"{terminal.count(len(changes), 'resource')}; nothing was done")
    return ExitCode.OK


def _values(change: Change, refused: list[StackRefusal], mistake: str) -> dict[str, object]:
    own = [
        {"name": refusal.name, "action": refusal.action, "says": refusal.sentence}
        for refusal in refused
        if refusal.outer == change.name
    ]
    more = {"nothing_begins": mistake} if mistake else {"refused": own} if own else {}
    return {"name": change.name, "type": change.type, "change": change.effect, **more}


def _refusals(
    settings: Settings, definition: Definition, stack: Stack | None, changes: list[Change]
) -> tuple[list[StackRefusal], str]:
    """Return the refusals that changes would meet, and the mistake in the policy; empty text without one."""
    policy = policy_in_force()
    if policy is None or policy.mistake:
        return [], policy.mistake if policy else ""
    from heat_config_stack.cli.stack import refusals  # noqa: PLC0415  # few machines have a policy

    types = sessions.types(settings.words("plugin_dirs"))
    refused = list(refusals.of(definition, types, settings, policy))
    if stack is not None and stack.defined is not None:  # a resource is deleted by its present definition
        before = refusals.of(stack.defined, types, settings, policy)
        refused = [
            *(refusal for refusal in refused if refusal.action != "DELETE"),
            *(refusal for refusal in before if refusal.action == "DELETE"),
        ]
    return refusals.of_changes(changes, refused), ""

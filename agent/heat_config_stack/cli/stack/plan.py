"""The dry run of a stack: the change of each resource, and what the policy would refuse of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from heat_config_agent.cli import terminal
from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_stack.cli.stack import differences, forecast, sessions
from heat_config_stack.definition import Definition
from heat_config_stack.lifecycle import preview, validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.preview import Change
from heat_config_stack.records.records import CREATE, DELETE, RESUME
from heat_config_stack.resource_types.deployment import SoftwareDeployment
from heat_config_stack.resource_types.members import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from heat_config_stack.cli.stack.refusals import StackRefusal  # few machines have a policy

_STYLES = {
    preview.ADDED: "good",
    preview.REMOVED: "bad",
    preview.REPLACED: "warn",
    preview.UPDATED: "warn",
    preview.AGAIN: "warn",
}


def show(settings: Settings, definition: Definition, stack: Stack | None, *, as_json: bool, server: str = "") -> int:
    """Print what a definition would change in a stack, which is None if it is new. Raises `Invalid`."""
    types = sessions.types(settings.words("plugin_dirs"))
    validation.check(definition, types)
    if stack is not None:
        stack.world.server = server
    if stack is None:
        changes = [Change(name, each.type, preview.ADDED) for name, each in definition.resources.items()]
    else:
        changes = list(preview.changes(stack, definition))
    new = forecast.actions(definition, types)
    if server:
        changes = _for_server(changes, new, forecast.servers(definition, types), stack, server)
    ids = {
        str(each.former.record.physical): each.name
        for each in changes
        if each.effect == preview.REPLACED and each.former
    }
    changes = [
        replace(each, effect=preview.UPDATED)
        if each.effect == preview.UNCHANGED and differences.refers(each, ids)
        else each
        for each in changes
    ]
    conceal = differences.concealer(definition, stack)
    values = {each.name: _differences(each, ids, conceal) for each in changes}
    parameters = differences.of_parameters(definition, stack)
    runs = {each.name: list(dict.fromkeys(_runs(each, each.name, new))) for each in changes}
    refused, mistake = _refusals(settings, definition, stack, changes)
    if as_json:
        terminal.say(
            json.dumps([_values(each, runs[each.name], values[each.name], refused, mistake) for each in changes])
        )
        return ExitCode.OK
    lines = terminal.table([(each.effect, each.name, each.type, ", ".join(runs[each.name])) for each in changes])
    for each, line in zip(changes, lines, strict=True):
        terminal.say(terminal.styled(line, _STYLES.get(each.effect, "quiet")))
        for difference in values[each.name]:
            terminal.say(f"           {terminal.line(difference)}")
    if parameters:
        terminal.say("parameters")
    for difference in parameters:
        terminal.say(f"           {terminal.line(difference)}")
    for line in terminal.table([(each.name, each.action, each.sentence) for each in refused]):
        terminal.say(terminal.styled(line, "bad"))
    if mistake:
        terminal.say(terminal.styled(f"nothing new begins: {terminal.line(mistake)}", "bad"))
    terminal.say(f"{terminal.count(len(changes), 'resource')}; nothing was done")
    return ExitCode.OK


def _for_server(
    changes: list[Change],
    new: dict[str, tuple[str, ...]],
    servers: Mapping[str, str],
    stack: Stack | None,
    server: str,
) -> list[Change]:
    """Return changes in which the deployments for other servers than one are left out, and take these from `new`."""
    names = {server, *(each.name for each in stack.records() if each.physical == server)} if stack else {server}
    for path, of in servers.items():
        if of not in names and path in new:
            new[path] = ()
    return [
        replace(each, effect=preview.LEFT_OUT)
        if each.effect in (preview.ADDED, preview.UPDATED, preview.AGAIN, preview.UNCHANGED)
        and servers.get(each.name, server) not in names
        and (each.former is None or not each.former.has_run() or each.effect != preview.UNCHANGED)
        else each
        for each in changes
    ]


def _runs(change: Change, path: str, new: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the actions that a change runs on a machine, in their order; those of a child stack with their resource."""
    effect = change.effect
    if effect in (preview.REMOVED, preview.REPLACED) and change.former is not None:
        former = forecast.former_actions(change.former, path)
        yield from (DELETE for _, each in former if each.has_run() and each.runs(DELETE))
    if effect in (preview.ADDED, preview.REPLACED):
        yield from (CREATE for of, actions in new.items() if _is_at(of, path) and CREATE in actions)
    if effect in (preview.UPDATED, preview.AGAIN) and isinstance(change.former, SoftwareDeployment):
        actions = [RESUME] if change.former.sleeps() else []
        if effect == preview.UPDATED or not actions:
            actions.append(change.action)
        yield from (action for action in actions if action in new.get(path, actions))
    for each in change.inner if effect == preview.UPDATED else ():
        foreseen = _with_member(new, path, each.name) if isinstance(change.former, Group) else new
        yield from (_named(each.name, run) for run in _runs(each, f"{path}/{each.name}", foreseen))


def _with_member(new: Mapping[str, tuple[str, ...]], group: str, name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the foreseen actions with those of a member of a group: they are foreseen of its first member alone."""
    path, members = f"{group}/{name}", [each.removeprefix(f"{group}/") for each in new if each.startswith(f"{group}/")]
    if not members or any(_is_at(each, path) for each in new):
        return new
    first = f"{group}/{members[0].partition('/')[0]}"
    return {**new, **{f"{path}{each[len(first) :]}": new[each] for each in new if _is_at(each, first)}}


def _named(name: str, run: str) -> str:
    inner, _, action = run.rpartition(" ")
    return f"{name}/{inner} {action}" if inner else f"{name} {action}"


def _is_at(path: str, outer: str) -> bool:
    return path == outer or path.startswith(f"{outer}/")


def _differences(change: Change, replaced: Mapping[str, str], conceal: Concealer, outer: str = "") -> list[str]:
    """Return the values that change in a resource, and in the resources of its child stack."""
    shown = change.effect in (preview.UPDATED, preview.REPLACED, preview.UNCHANGED, preview.AGAIN)
    lines = differences.of_resource(change, replaced, conceal) if shown and not change.inner else []
    for each in change.inner:
        lines += _differences(each, replaced, conceal, f"{each.name}.")
    return [line if line.startswith(" ") else f"{outer}{line}" for line in lines]


def _values(
    change: Change, runs: list[str], changed: list[str], refused: list[StackRefusal], mistake: str
) -> dict[str, object]:
    own = [
        {"name": refusal.name, "action": refusal.action, "says": refusal.sentence}
        for refusal in refused
        if refusal.outer == change.name
    ]
    more = {"nothing_begins": mistake} if mistake else {"refused": own} if own else {}
    return {"name": change.name, "type": change.type, "change": change.effect, "runs": runs, "values": changed, **more}


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

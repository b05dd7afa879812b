"""The dry run of a stack: the change of each resource and value, and what the policy would refuse of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from heat_config_agent.cli import differences, envelope, terminal
from heat_config_agent.deployments.differences import Difference, within
from heat_config_agent.masking import MASK
from heat_config_agent.masking.redaction import Concealer, is_secret
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.model.positions import Json
from heat_config_agent.model.states import Shown
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.in_force import policy_in_force
from heat_config_hooks.values import replace as replace_value
from heat_config_hooks.verdict import Standing
from heat_config_stack.cli.stack import forecast, sessions
from heat_config_stack.definition import Definition
from heat_config_stack.lifecycle import preview, validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.preview import REPLACED, UPDATED, Change
from heat_config_stack.records import listing
from heat_config_stack.records.records import CREATE, DELETE, INIT, RESUME
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource_types.deployment import SoftwareDeployment
from heat_config_stack.resource_types.members import Group

TYPE_CHECKING = False

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict
    from heat_config_stack.cli.stack.forecast import StackRefusal
    from heat_config_stack.resource.types import Types


_VERBS = {
    preview.ADDED: "add",
    preview.REMOVED: "remove",
    preview.UPDATED: "update",
    preview.REPLACED: "replace",
    preview.AGAIN: "repeat",
    preview.LEFT_OUT: "skip",
    preview.TEMPORARY: "temporary",
}
"""Effect on a resource → the word in the column CHANGE; an unchanged one keeps its word."""

_REASONS = {
    preview.ADDED: "new",
    preview.REMOVED: "the template does not have it any more",
    preview.AGAIN: "its last action has not succeeded",
    preview.LEFT_OUT: "it is for another server",
}
"""Effect → why, where the values do not say it."""

_HEADER = ("CHANGE", "NAME", "TYPE", "WHY")

_QUIET = (preview.UNCHANGED, "skip")
"""The words of changes that need nothing to be done."""


@dataclass
class _Row:
    """A resource of a plan."""

    change: str
    name: str
    type: str
    runs: Sequence[str] = ()
    """The actions for which scripts run, each after the name of an inner resource."""
    values: Sequence[str] = ()
    """The values that change; a line that begins with a blank continues the line before."""
    reason: str = ""
    refused: Sequence[StackRefusal] = ()
    compared: Sequence[Difference] = ()
    """With --diff, the values that change, in full."""
    would: Sequence[tuple[str, str, Verdict]] = ()
    """With --diff, the dry runs of its deployments: deployment, tool and verdict."""

    @property
    def why(self) -> str:
        """The reason of the change, the actions that run, and the refusals of the policy, in one line."""
        parts = [each for each in self.values if not each.startswith(" ")]
        parts = parts or [self.reason]
        if self.runs:
            parts.append(f"runs {', '.join(self.runs)}")
        parts += [f"{each.name} {each.action} {each.sentence}" for each in self.refused]
        return "; ".join(filter(None, parts))

    def block(self) -> list[str]:
        """Return the lines about what differs, below its name; none if there are none."""
        lines = list(differences.lines(self.compared))
        for path, tool, answer in self.would:
            outer = f"{terminal.line(path)}: " if path != self.name else ""
            lines += [
                each if each.startswith(" ") else f"{outer}{each}"
                for each in differences.would_lines(answer, tool)
            ]
        return (
            ["", terminal.line(self.name), *(f"  {each}" for each in lines)]
            if lines
            else []
        )

    def compared_values(self) -> dict[str, object]:
        """Return what differs as JSON."""
        answer = _together([(path, each) for path, _, each in self.would])
        return {
            "with": None,
            "differences": differences.values(self.compared),
            "note": None,
            "would": differences.would_values(answer),
        }

    def as_json(self, *, compares: bool = False) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "compared": self.compared_values() if compares else None,
            "change": self.change,
            "name": self.name,
            "type": self.type or None,
            "why": self.why,
            "runs": list(self.runs),
            "values": list(self.values),
            "refused": [
                {"name": each.name, "action": each.action, "message": each.sentence}
                for each in self.refused
            ],
        }


def show(
    settings: Settings,
    options: Any,
    definition: Definition,
    stack: Stack | None,
    *,
    server: str = "",
) -> int:
    """Print the changes of a definition to a stack, which is None if it is new. Raises `Invalid`."""
    types = sessions.types(settings.words("plugin_dirs"))
    validation.check(definition, types)
    if stack is not None:
        stack.world.server = server
    if stack is None:
        changes = [
            Change(name, each.type, preview.ADDED)
            for name, each in definition.resources.items()
        ]
    else:
        changes = list(preview.changes(stack, definition))
    new = forecast.actions(definition, types)
    if server:
        changes = _for_server(
            changes, new, forecast.servers(definition, types), stack, server
        )
    ids = {
        str(each.former.record.physical): each.name
        for each in changes
        if each.effect == preview.REPLACED and each.former
    }
    changes = [
        replace(each, effect=preview.UPDATED)
        if each.effect == preview.UNCHANGED and refers_to_replaced(each, ids)
        else each
        for each in changes
    ]
    conceal = concealer(definition, stack)
    refused, mistake = _refusals(settings, definition, stack, changes)
    rows = [
        _Row(
            _VERBS.get(each.effect, each.effect),
            each.name,
            each.type,
            list(dict.fromkeys(_runs(each, each.name, new))),
            _differences(each, ids, conceal),
            _reason(each),
            [refusal for refusal in refused if refusal.outer == each.name],
        )
        for each in changes
    ]
    if getattr(options, "diff", False):
        answers = _foreseen(settings, definition, types, changes)
        rows = [
            replace(
                row,
                compared=list(_compared(each, conceal)),
                would=[answer[1:] for answer in answers if answer[0] == each.name],
            )
            for row, each in zip(rows, changes, strict=True)
        ]
    parameters = parameter_differences(definition, stack)
    name = definition.identity.name
    return _print(options, name, rows, parameters=parameters, mistake=mistake)


def _reason(change: preview.Change) -> str:
    """Return why a resource changes; empty where the values say it."""
    former = change.former
    if (
        change.effect == preview.AGAIN
        and former is not None
        and former.record.out_of_effect == Shown.DRIFTED
    ):
        return "it has drifted"
    return _REASONS.get(change.effect, "")


def show_turn(stack: Stack, options: Any) -> int:
    """Print the effect of suspending, resuming or checking a stack."""
    return _print(options, stack.name, list(_turned(stack, str(options.turn).upper())))


def show_deletion(settings: Settings, options: Any) -> int:
    """Print the effect of deleting stacks."""
    rows: list[_Row] = []
    for name in options.names:
        if listing.kept(settings.state, name) is not None:
            rows += _removed(sessions.look(settings, name), len(options.names) > 1)
    return _print(options, ", ".join(options.names), rows)


def show_adoption(
    options: Any, definition: Definition, resources: Mapping[str, Any]
) -> int:
    """Print the effect of adopting the resources of another stack."""
    rows = []
    for name, each in definition.resources.items():
        there = resources.get(name)
        identity = there.get("resource_id") if isinstance(there, Mapping) else None
        why = f"it exists as {identity}" if identity else "new"
        rows.append(_Row("adopt" if identity else "add", name, each.type, reason=why))
    return _print(options, definition.identity.name, rows)


def _removed(stack: Stack, is_one_of_several: bool) -> Iterator[_Row]:
    outer = f"{stack.name}/" if is_one_of_several else ""
    for row in _turned(stack, DELETE):
        yield replace(row, change="remove", name=f"{outer}{row.name}")


def _turned(stack: Stack, action: str) -> Iterator[_Row]:
    """Yield the resources of a stack with the runs that an action of the whole stack makes."""
    for record in stack.records():
        resource = stack.resource(record)
        former = forecast.former_actions(resource, record.name)
        runs = [
            action if path == record.name else f"{path} {action}"
            for path, each in former
            if each.has_run() and each.runs(action)
        ]
        is_there = record.action != INIT or bool(runs)
        yield _Row(
            action.lower() if is_there else preview.UNCHANGED,
            record.name,
            resource.type(),
            runs,
            reason="" if runs else "nothing is run for it",
        )


def _print(
    options: Any,
    name: str,
    rows: Sequence[_Row],
    *,
    parameters: Sequence[str] = (),
    mistake: str = "",
) -> int:
    """Print a plan; return 9 if there is work and --exit-code asks for that, else 0."""
    due = [row for row in rows if row.change not in _QUIET]
    code = (
        ExitCode.DRIFTED
        if due and getattr(options, "exit_code", False)
        else ExitCode.OK
    )
    compares = getattr(options, "diff", False)
    if options.json:
        envelope.begin("plan", is_on=True)
        failure = envelope.Failure("drifted", _summary(name, due)) if code else None
        data = {
            "stack": name,
            "changes": [row.as_json(compares=compares) for row in rows],
            "parameters": list(parameters),
            "due": len(due),
            "problem": mistake or None,
            "mistakes": [],
        }
        envelope.result(data, code=code, error=failure)
        return code
    is_shown = getattr(options, "all", False)
    shown = [row for row in rows if is_shown or row.change != preview.UNCHANGED]
    cells = [(row.change, row.name, row.type or "-", row.why) for row in shown]
    left = len(rows) - len(shown)
    if left:
        cells.append(
            (
                preview.UNCHANGED,
                f"{left} {'more ' if shown else ''}(--all shows them)",
                "",
                "",
            )
        )
    lines = terminal.table(cells, header=_HEADER, empty="no resources")
    for line in lines[:1]:
        terminal.say(line)
    for row, line in zip([*shown, None], lines[1:], strict=False):
        terminal.say(line)
        for value in row.values if row is not None and not compares else ():
            if value.startswith(" "):
                terminal.say(f"           {terminal.line(value)}")
    for number, difference in enumerate(parameters):
        word = "parameters" if number == 0 else ""
        terminal.say(f"{word:<11}{terminal.line(difference)}")
    blocks = [line for row in rows for line in row.block()]
    for line in blocks:
        terminal.say(line)
    if blocks:
        terminal.say("")
    if mistake:
        terminal.say(f"nothing new begins: {terminal.line(mistake)}")
    terminal.say(f"{terminal.line(_summary(name, due))}; nothing was done")
    return code


def _summary(name: str, due: Sequence[_Row]) -> str:
    """Return how many resources a plan changes, and how."""
    counts = Counter(row.change for row in due)
    said = ", ".join(f"{number} to {verb}" for verb, number in counts.items())
    return f"stack {name}: {said or 'nothing to do'}"


def _for_server(
    changes: list[Change],
    new: dict[str, tuple[str, ...]],
    servers: Mapping[str, str],
    stack: Stack | None,
    server: str,
) -> list[Change]:
    """Return changes in which the deployments for other servers than one are left out, and take these from `new`."""
    names = (
        {server, *(each.name for each in stack.records() if each.physical == server)}
        if stack
        else {server}
    )
    for path, of in servers.items():
        if of not in names and path in new:
            new[path] = ()
    return [
        replace(each, effect=preview.LEFT_OUT)
        if each.effect
        in (preview.ADDED, preview.UPDATED, preview.AGAIN, preview.UNCHANGED)
        and servers.get(each.name, server) not in names
        and (
            each.former is None
            or not each.former.has_run()
            or each.effect != preview.UNCHANGED
        )
        else each
        for each in changes
    ]


def _runs(
    change: Change, path: str, new: Mapping[str, tuple[str, ...]]
) -> Iterator[str]:
    """Yield the actions that a change runs on a machine, in order; actions of a child stack with their resource."""
    effect = change.effect
    if effect in (preview.REMOVED, preview.REPLACED) and change.former is not None:
        former = forecast.former_actions(change.former, path)
        yield from (
            DELETE for _, each in former if each.has_run() and each.runs(DELETE)
        )
    if effect in (preview.ADDED, preview.REPLACED, preview.TEMPORARY):
        yield from (
            CREATE
            for of, actions in new.items()
            if _is_at(of, path) and CREATE in actions
        )
    if effect in (preview.UPDATED, preview.AGAIN) and isinstance(
        change.former, SoftwareDeployment
    ):
        actions = [RESUME] if change.former.sleeps() else []
        if effect == preview.UPDATED or not actions:
            actions.append(change.action)
        yield from (action for action in actions if action in new.get(path, actions))
    for each in change.inner if effect == preview.UPDATED else ():
        foreseen = (
            _with_member(new, path, each.name)
            if isinstance(change.former, Group)
            else new
        )
        yield from (
            _named(each.name, run)
            for run in _runs(each, f"{path}/{each.name}", foreseen)
        )
    for each in change.inner:
        if (
            each.effect == preview.TEMPORARY
            and change.former is not None
            and _is_undone(change.former, path, new)
        ):
            yield _named(each.name, DELETE)


def _is_undone(group: Resource, path: str, new: Mapping[str, tuple[str, ...]]) -> bool:
    """Return whether the members of a group run something for DELETE, as foreseen or as they exist."""
    foreseen = any(
        _is_at(of, path) and DELETE in actions for of, actions in new.items()
    )
    return foreseen or any(
        each.runs(DELETE) for _, each in forecast.former_actions(group, path)
    )


def _with_member(
    new: Mapping[str, tuple[str, ...]], group: str, name: str
) -> Mapping[str, tuple[str, ...]]:
    """Return the foreseen actions with those of a group's member, which are foreseen for its first member only."""
    path, members = (
        f"{group}/{name}",
        [
            each.removeprefix(f"{group}/")
            for each in new
            if each.startswith(f"{group}/")
        ],
    )
    if not members or any(_is_at(each, path) for each in new):
        return new
    first = f"{group}/{members[0].partition('/')[0]}"
    return {
        **new,
        **{
            f"{path}{each[len(first) :]}": new[each]
            for each in new
            if _is_at(each, first)
        },
    }


def _named(name: str, run: str) -> str:
    inner, _, action = run.rpartition(" ")
    return f"{name}/{inner} {action}" if inner else f"{name} {action}"


def _is_at(path: str, outer: str) -> bool:
    return path == outer or path.startswith(f"{outer}/")


def _differences(
    change: Change, replaced: Mapping[str, str], conceal: Concealer, outer: str = ""
) -> list[str]:
    """Return the values that change in a resource, and in the resources of its child stack."""
    shown = change.effect in (
        preview.UPDATED,
        preview.REPLACED,
        preview.UNCHANGED,
        preview.AGAIN,
    )
    lines = (
        resource_differences(change, replaced, conceal)
        if shown and not change.inner
        else []
    )
    for each in change.inner:
        lines += _differences(each, replaced, conceal, f"{each.name}.")
    return [line if line.startswith(" ") else f"{outer}{line}" for line in lines]


def _refusals(
    settings: Settings,
    definition: Definition,
    stack: Stack | None,
    changes: list[Change],
) -> tuple[list[StackRefusal], str]:
    """Return the refusals that changes would meet, and the mistake in the policy; empty text without one."""
    policy = policy_in_force()
    if policy is None or policy.mistake:
        return [], policy.mistake if policy else ""

    types = sessions.types(settings.words("plugin_dirs"))
    refused = list(forecast.stack_refusals(definition, types, settings, policy))
    if stack is not None and stack.defined is not None:
        # a resource is deleted by its present definition
        before = forecast.stack_refusals(stack.defined, types, settings, policy)
        refused = [
            *(refusal for refusal in refused if refusal.action != "DELETE"),
            *(refusal for refusal in before if refusal.action == "DELETE"),
        ]
    return forecast.refusals_of_changes(changes, refused), ""


def _compared(
    change: Change, conceal: Concealer, outer: str = ""
) -> Iterator[Difference]:
    """Yield the values that change in a resource and in those of its child stack, in full."""
    for each in change.inner:
        yield from _compared(each, conceal, f"{outer}{each.name}.")
    if change.former is None or change.after is None or change.inner:
        return
    if change.effect not in (UPDATED, REPLACED, preview.AGAIN):
        return
    before, after = change.former.record.definition or {}, change.after
    found = list(within("", _without(before), _without(after), conceal))
    for section in _SECTIONS:
        found += within(section, before.get(section), after.get(section), conceal)
    for one in found:
        yield replace_value(one, path=f"{outer}{one.path}")


def _foreseen(
    settings: Settings,
    definition: Definition,
    types: Types,
    changes: Sequence[Change],
) -> list[tuple[str, str, str, Verdict]]:
    """Return the dry runs of the deployments that will run.

    Each with the name of its resource, its path, and its tool. A deployment is left out if its values are only known
    once another resource is there.
    """
    from heat_config_agent.cli.apply import compared  # noqa: PLC0415  # only with --diff

    actions = {
        each.name: CREATE if each.effect in _MADE else each.action
        for each in changes
        if each.effect in (*_MADE, UPDATED, preview.AGAIN)
    }
    verdicts = []
    for each in forecast.deployments(definition, types):
        if each.action != actions.get(each.outer):
            continue
        source = f"stack:{definition.identity.id}/{each.name}"
        for step in forecast.steps(source, each.entry, settings):
            answers = compared.foreseen([step], settings)
            for answer in answers.values():
                tool = step.job.tool.name if step.job else ""
                verdicts.append(
                    (each.outer, each.name, tool, _masked(answer, each.conceal))
                )
    return verdicts


def _together(answers: Sequence[tuple[str, Verdict]]) -> Verdict | None:
    """Return the common verdict of a resource's deployments, whose changes name them; None if there is no verdict."""
    if len(answers) < 2:
        return next((answer for _, answer in answers), None)
    order = [Standing.OK, Standing.UNKNOWN, Standing.DRIFTED]
    worst = max(
        (answer for _, answer in answers), key=lambda each: order.index(each.standing)
    )
    changes = tuple(
        replace_value(change, what=f"{path}: {change.what}")
        for path, answer in answers
        for change in answer.changes
    )
    left_out = sum(answer.left_out for _, answer in answers)
    return replace_value(worst, changes=changes, left_out=left_out)


def _masked(answer: Verdict, conceal: Concealer) -> Verdict:
    """Return a verdict without the secret parameters of a stack."""
    changes = tuple(
        replace_value(
            each,
            what=conceal.text(each.what),
            how=conceal.text(each.how),
            diff=conceal.text(each.diff),
        )
        for each in answer.changes
    )
    return replace_value(answer, reason=conceal.text(answer.reason), changes=changes)


_MADE = (preview.ADDED, REPLACED)
"""The effects by which a resource is made."""

_SECTIONS = (
    "type",
    "metadata",
    "depends_on",
    "deletion_policy",
    "update_policy",
    "external_id",
    "condition",
)
"""The parts of a stored definition that are compared besides its properties."""

_HANDED_ON = "surroundings"
"""The property of an operation whose values are handed on and are not a reason to run."""

_LONGEST = 60
"""Characters of a value that are shown."""

_LONGEST_LINE = 100
_MOST_LINES = 6
"""Changed lines of a text that are shown."""

_NONE = "(none)"


def concealer(definition: Definition, stack: Stack | None) -> Concealer:
    """Return a function that masks the secrets of a definition and of the stack that it changes."""
    return (
        definition.conceal.also(stack.world.conceal)
        if stack is not None
        else definition.conceal
    )


def resource_differences(
    change: Change, replaced: Mapping[str, str], conceal: Concealer
) -> list[str]:
    """Return the values of a resource that change. `replaced` has the physical ids that will be others, with names."""
    former = change.former
    if former is None:
        return []
    before, after = former.record.definition or {}, change.after
    if after is None:
        return (
            ["values that are known later"]
            if change.effect in (UPDATED, REPLACED)
            else []
        )
    lines = list(_changed("", _without(before), _without(after), conceal))
    for section in _SECTIONS:
        lines += _changed(section, before.get(section), after.get(section), conceal)
    lines += [
        f"{path}: {replaced[value]} is replaced"
        for path, value in _leaves("", _without(after))
        if value in replaced
    ]
    return lines


def refers_to_replaced(change: Change, replaced: Mapping[str, str]) -> bool:
    """Return whether an unchanged resource has the id of another that is replaced, so that it changes with it."""
    return change.after is not None and any(
        value in replaced for _, value in _leaves("", _without(change.after))
    )


def parameter_differences(definition: Definition, stack: Stack | None) -> list[str]:
    """Return the parameters whose values change, each with where the new value comes from."""
    former = (
        stack.defined.parameters
        if stack is not None and stack.defined is not None
        else None
    )
    if former is None:
        return []
    lines = []
    for name, new in definition.parameters.items():
        old = former.get(name)
        if old is not None and old.value == new.value:
            continue
        is_hidden = new.schema.secret or (old is not None and old.schema.secret)
        texts = (_text(old.value) if old is not None else _NONE, _text(new.value))
        shown = MASK if is_hidden else " → ".join(_apart(*texts))
        lines.append(
            f"{name}: {shown}"
            + ("" if new.given else _default(name, old is not None and old.given))
        )
    return lines + [
        f"{name}: is no longer there"
        for name in former
        if name not in definition.parameters
    ]


def fallen_back(definition: Definition, stack: Stack | None) -> list[str]:
    """Return the names of the parameters that were given for the stack, and now have another value, their default."""
    former = (
        stack.defined.parameters
        if stack is not None and stack.defined is not None
        else {}
    )
    return [
        name
        for name, new in definition.parameters.items()
        if not new.given
        and name in former
        and former[name].given
        and former[name].value != new.value
    ]


def _default(name: str, was_given: bool) -> str:
    return (
        f" (its default: --parameter {name}=… keeps another value)"
        if was_given
        else " (its default)"
    )


def _without(definition: Mapping[str, Any]) -> Mapping[str, Json]:
    properties = definition.get("properties") or {}
    return {name: value for name, value in properties.items() if name != _HANDED_ON}


def _changed(path: str, before: Json, after: Json, conceal: Concealer) -> Iterator[str]:
    """Yield a line for each value below a path that is not the same."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in {**before, **after}:
            yield from _changed(
                _joined(path, str(name)), before.get(name), after.get(name), conceal
            )
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
    ):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changed(f"{path}[{number}]", old, new, conceal)
    elif is_secret(Input(name=path.rpartition(".")[2], value=None)):
        yield f"{path}: {MASK}"
    elif (
        isinstance(before, str)
        and isinstance(after, str)
        and "\n" in before.strip() + after.strip()
    ):
        yield from _lines(path, before, after, conceal)
    else:
        old, new = (
            conceal.text(" ".join(_text(conceal(value)).split()))
            for value in (before, after)
        )
        yield f"{conceal.text(path)}: {' → '.join(_apart(old, new)) if old != new else MASK}"


def _lines(path: str, before: str, after: str, conceal: Concealer) -> Iterator[str]:
    """Yield the changed lines of a text."""
    import difflib  # noqa: PLC0415  # only for texts that have changed

    old, new = conceal.text(before).splitlines(), conceal.text(after).splitlines()
    changed = [line for line in difflib.ndiff(old, new) if line[0] in "+-"]
    yield f"{path}: {len(changed)} changed lines" if changed else f"{path}: {MASK}"
    for line in changed[:_MOST_LINES]:
        yield f"  {line[0]} {line[2:][:_LONGEST_LINE]}"
    if len(changed) > _MOST_LINES:
        yield f"  … and {len(changed) - _MOST_LINES} more"


def _leaves(path: str, value: Json) -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each text in a JSON value."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _leaves(_joined(path, str(name)), each)
    elif isinstance(value, Sequence):
        for number, each in enumerate(value):
            yield from _leaves(f"{path}[{number}]", each)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _text(value: Json) -> str:
    if value is None:
        return _NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _apart(old: str, new: str) -> tuple[str, str]:
    """Return two different texts, shortened so that the difference shows."""
    same = next(
        (
            number
            for number, pair in enumerate(zip(old, new, strict=False))
            if len({*pair}) > 1
        ),
        0,
    )
    skip = max(same - _LONGEST // 3, 0) if max(len(old), len(new)) > _LONGEST else 0
    begin = "…" if skip else ""
    return f"{begin}{_short(old[skip:])}", f"{begin}{_short(new[skip:])}"


def _short(value: Json) -> str:
    text = " ".join(_text(value).split()) or '""'
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"

"""What changes a stack: it is opened, shown while it is worked on, and what has become of it is said at the end."""

from __future__ import annotations

import argparse
import functools
import json
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from heat_config_agent.cli import chosen, terminal
from heat_config_agent.cli.stack import opened, values, wanted
from heat_config_agent.cli.stack.secrets import concealer
from heat_config_agent.cli.stack.shown import Tree, shown
from heat_config_agent.cli.template import mistake_line
from heat_config_agent.errors import ExitCode, UsageError
from heat_config_agent.settings import Settings
from heat_config_agent.stack import preview, validation
from heat_config_agent.stack.definition import Definition, Invalid, Mistake
from heat_config_agent.stack.live import Stack
from heat_config_agent.stack.preview import Change
from heat_config_agent.stack.records import COMPLETE, CREATE, FAILED, ROLLBACK
from heat_config_agent.stack.session import Session
from heat_config_agent.stack.store import Store

Command: TypeAlias = Callable[[argparse.Namespace], int]

_STYLES = {preview.ADDED: "good", preview.REMOVED: "bad", preview.REPLACED: "warn", preview.UPDATED: "warn"}


def with_mistakes(command: Command) -> Command:
    """Return the command, which says mistakes of a template one by one, each with its place."""

    @functools.wraps(command)
    def run(said: argparse.Namespace) -> int:
        try:
            return command(said)
        except Invalid as invalid:
            for each in invalid.mistakes:
                terminal.say(mistake_line(each, "error", "bad"), error=True)
            return ExitCode.USAGE

    return run


def _warned(warnings: Sequence[Mistake]) -> None:
    for each in warnings:
        terminal.say(mistake_line(each, "warning", "warn"), error=True)


@with_mistakes
def create(said: argparse.Namespace) -> int:
    """Make a stack, or go on with making it."""
    given = chosen.of(said)
    made = wanted.new(said, said.name)
    _warned(made.warnings)
    if said.dry_run:
        return show_plan(_created(given, made), as_json=said.json)
    return carry_out(given, said, lambda session: _making(session, made, said), made)


def _making(session: Session, made: Definition, said: argparse.Namespace) -> None:
    session.create(made, rollback=said.rollback)


@with_mistakes
def update(said: argparse.Namespace) -> int:
    """Have a stack be something else."""
    given = chosen.of(said)
    there = opened.look(given, said.name)
    made = wanted.changed(said, there)
    _warned(made.warnings)
    if said.dry_run:
        return show_plan(_changed(given, there, made), as_json=said.json)
    return carry_out(given, said, lambda session: session.update(made, rollback=said.rollback), made)


@with_mistakes
def preview_(said: argparse.Namespace) -> int:
    """Say what create would make, or update would change."""
    given = chosen.of(said)
    name = said.name or "preview"
    if said.name and opened.there(given, name):
        there = opened.look(given, name)
        made = wanted.changed(said, there)
        _warned(made.warnings)
        return show_plan(_changed(given, there, made), as_json=said.json)
    made = wanted.new(said, name)
    _warned(made.warnings)
    return show_plan(_created(given, made), as_json=said.json)


def apply(given: Settings, template: str, options: Any) -> int:
    """Make a stack of a template, named after its file, or have it be what the template says now."""
    stem = Path(template).name.partition(".")[0] if options.name is None else options.name
    said = argparse.Namespace(**vars(options))
    said.name, said.template, said.file = stem, template, None
    said.existing, said.clear_parameter, said.timeout = False, [], None
    return with_mistakes(lambda said: _applied(given, said))(said)


def _applied(given: Settings, said: argparse.Namespace) -> int:
    there = opened.look(given, said.name) if opened.there(given, said.name) else None
    there = None if there is None or _is_gone(there) else there
    made = wanted.changed(said, there) if there else wanted.new(said, said.name)
    _warned(made.warnings)
    if said.plan:
        return show_plan(_changed(given, there, made) if there else _created(given, made), as_json=said.json)

    def work(session: Session) -> None:
        root = session.root
        if root is None or _is_gone(root) or (_is_being_made(session, root) and root.record.source == made.source):
            session.create(made, rollback=said.rollback)
        else:
            session.update(made, rollback=said.rollback)

    return carry_out(given, said, work, made)


def _is_being_made(session: Session, root: Stack) -> bool:
    return session.interrupted and root.record.action == CREATE


def _is_gone(stack: Stack) -> bool:
    """Whether only the record of a stack is left, whose making was rolled back."""
    return stack.record.action == ROLLBACK and stack.record.status == COMPLETE and not stack.records()


def turn(said: argparse.Namespace) -> int:
    """Suspend, resume or check a stack."""
    given = chosen.of(said)
    opened.look(given, said.name)
    return carry_out(given, said, lambda session: getattr(session, said.turn)(), None)


def delete(said: argparse.Namespace) -> int:
    """Remove stacks."""
    given = chosen.of(said)
    for name in said.names:
        opened.look(given, name)
    if not said.yes:
        asked = terminal.ask(f"delete {', '.join(said.names)} and all that they have made? [y/N] ")
        if asked is None:
            raise UsageError("delete has to be confirmed", hint="give --yes where nobody can be asked")
        if asked.strip().lower() not in ("y", "yes"):
            return ExitCode.FAILED
    codes = []
    for name in said.names:
        said.name = name
        codes.append(carry_out(given, said, Session.delete, None))
    return max(codes)


def carry_out(
    given: Settings, said: argparse.Namespace, work: Callable[[Session], object], made: Definition | None
) -> int:
    """Work on a stack to its end, and say what has become of it."""
    seen = shown(said.name, as_json=said.json)
    begun = time.monotonic()
    with opened.work(given, said.name, seen, server=said.server or "", minutes=said.timeout) as session:
        there = session.root
        if made is not None:
            seen.conceal = concealer(made)
        elif there is not None and there.defined is not None:
            seen.conceal = concealer(there.defined)
        names = made.resources if made else there.resources if there else ()
        if isinstance(seen, Tree):
            seen.expect(list(names))
        work(session)
        seen.clear()
        if made is not None and session.root is not None and not said.json:
            _say_placeholders(session.root)
        if said.server and session.root is not None and (left := _for_others(session.root, said.server)):
            seen.warn(f"not carried out, as it is for other servers than {said.server}: {', '.join(left)}")
        return _ended(said.name, session.root, time.monotonic() - begun, as_json=said.json)


def _say_placeholders(root: Stack) -> None:
    here = [each.name for each in root.placeholders() if each.type().endswith("::Server")]
    other = [each for each in root.placeholders() if each.name not in here]
    if here:
        terminal.say(f"taken to be this machine: {', '.join(map(terminal.line, here))}")
    for each in other:
        terminal.say(f"{terminal.line(each.name)} takes a cloud: there is no {terminal.line(each.type())} here")


def _for_others(root: Stack, server: str) -> list[str]:
    """Return the deployments that are for other servers than the one that was named, by its id or its resource."""
    store = root.world.store
    ids = {server, *(each.physical for each in root.records() if each.name == server)}
    return sorted(
        {store.resources[each.resource].name for each in store.deployments.values() if each.server not in ids}
    )


def _ended(name: str, root: Stack | None, took: float, *, as_json: bool) -> int:
    if root is None:
        gone = {"stack_name": name, "stack_status": "DELETE_COMPLETE", "exit_code": 0}
        terminal.say(json.dumps(gone) if as_json else f"{name}: DELETE_COMPLETE in {terminal.duration(took)}")
        return ExitCode.OK
    good = root.record.status == COMPLETE and root.record.action != ROLLBACK
    code = ExitCode.OK if good else ExitCode.FAILED
    if as_json:
        terminal.say(json.dumps({**values.stack(root), "exit_code": int(code)}))
        return code
    state = terminal.styled(f"{root.record.action}_{root.record.status}", "good" if good else "bad")
    terminal.say(f"{name}: {state} in {terminal.duration(took)}")
    for line in values.output_lines(root) if good else _why(root):
        terminal.say(line)
    return code


def _why(root: Stack) -> list[str]:
    """Return why a stack has failed, and what shows more of it."""
    store = root.world.store
    reason = concealer(root.defined)(root.record.reason)
    found = [terminal.line(reason)] if reason else []
    failed = [each for each in store.deployments.values() if each.status == FAILED and each.config in store.configs]
    if isinstance(store, Store):
        place = ("--state-dir", str(store.folder))
        found += [f"`{shlex.join(('heat-config-agent', 'log', *place, each.config))}` shows more" for each in failed]
    return found


def _created(given: Settings, made: Definition) -> list[Change]:
    validation.check(made, opened.types(given.words("plugin_dirs")))
    return [Change(name, each.type, preview.ADDED) for name, each in made.resources.items()]


def _changed(given: Settings, there: Stack, made: Definition) -> list[Change]:
    validation.check(made, opened.types(given.words("plugin_dirs")))
    return list(preview.changes(there, made))


def show_plan(changes: list[Change], *, as_json: bool) -> int:
    """Say what would become of each resource."""
    if as_json:
        terminal.say(json.dumps([{"name": each.name, "type": each.type, "change": each.what} for each in changes]))
        return ExitCode.OK
    lines = terminal.table([(each.what, each.name, each.type) for each in changes])
    for each, line in zip(changes, lines, strict=True):
        terminal.say(terminal.styled(line, _STYLES.get(each.what, "quiet")))
    terminal.say(f"{terminal.count(len(changes), 'resource')}; nothing was done")
    return ExitCode.OK

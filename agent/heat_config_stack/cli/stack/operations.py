"""The commands that change a stack: they open it, show their progress, and print the outcome at the end."""

from __future__ import annotations

import argparse
import functools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

from heat_config_agent.cli import envelope, runner, state_options, terminal
from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.diagnostics.names import is_stack_name
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import AgentError, ExitCode, StateError, UsageError
from heat_config_agent.model.positions import Json
from heat_config_agent.model.states import Shown
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import asked, followed
from heat_config_hooks import strict_json
from heat_config_hooks.values import dataclass
from heat_config_stack.cli import template_options as named
from heat_config_stack.cli.stack import origin, sessions, values
from heat_config_stack.cli.stack.live_view import Earlier, View, view_of
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.lifecycle import advice
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.session import Session, refuse_suspended
from heat_config_stack.records import listing, placing
from heat_config_stack.records.records import (
    ADOPT,
    ASKED,
    CHECK,
    COMPLETE,
    CREATE,
    DELETE,
    FAILED,
    INIT,
    RESTORE,
    RESUME,
    ROLLBACK,
    SNAPSHOT,
    SUSPEND,
    UPDATE,
    new_id,
)
from heat_config_stack.resource.types import Types

Command: TypeAlias = Callable[[argparse.Namespace], int]


def with_mistakes(command: Command) -> Command:
    """Return the command so that it prints the mistakes of a template, each with its position."""

    @functools.wraps(command)
    def run(options: argparse.Namespace) -> int:
        try:
            return command(options)
        except Invalid as invalid:
            from heat_config_agent.cli.mistakes import mistake_line, mistake_values  # noqa: PLC0415  # only after mistakes

            for each in invalid.mistakes:
                terminal.say(mistake_line(each), error=True)
            if getattr(options, "json", False):
                number = terminal.count(len(invalid.mistakes), "mistake")
                failure = envelope.Failure(
                    "template",
                    f"the template has {number}: nothing was begun",
                    mistakes=[mistake_values(each) for each in invalid.mistakes],
                )
                envelope.result(None, code=ExitCode.USAGE, error=failure)
            return ExitCode.USAGE

    return run


def _types(settings: Settings) -> Types:
    return sessions.types(settings.words("plugin_dirs"))


def _warned(settings: Settings, definition: Definition) -> None:
    tools = tuple(Tools(settings.hooks, sessions.warned).installed())
    found = [
        *definition.warnings,
        *advice.warnings(definition, _types(settings), tools),
    ]
    if not found:
        return
    from heat_config_agent.cli.mistakes import mistake_line  # noqa: PLC0415  # few templates have warnings
    from heat_config_stack.hot.template import capabilities_once  # noqa: PLC0415

    for each in ordered(advice.once(capabilities_once(found))):
        terminal.say(
            mistake_line(each.concealed(definition.conceal.text), "warning", "warn"),
            error=True,
        )


@with_mistakes
def create(options: argparse.Namespace) -> int:
    """Create a stack, or continue its creation."""
    settings = state_options.of(options)
    definition = new_definition(options, options.name, _types(settings))
    _warned(settings, definition)
    if options.plan:
        return _planned(settings, options, definition, None)
    return carry_out(
        settings,
        options,
        lambda session: _making(session, definition, options),
        definition,
    )


def _making(
    session: Session, definition: Definition, options: argparse.Namespace
) -> None:
    session.create(definition, rollback=options.rollback)


@with_mistakes
def update(options: argparse.Namespace) -> int:
    """Update a stack."""
    settings = state_options.of(options)
    stack = sessions.look(
        settings, options.name, sessions.warned if options.plan else reported_later
    )
    definition = changed_definition(options, stack)
    _warned(settings, definition)
    if options.plan:
        return _planned(settings, options, definition, stack)
    return carry_out(
        settings,
        options,
        lambda session: session.update(definition, rollback=options.rollback),
        definition,
    )


@with_mistakes
def preview_(options: argparse.Namespace) -> int:
    """Show what create or update would do."""
    settings = state_options.of(options)
    name = options.name or "preview"
    if options.name and sessions.there(settings, name):
        stack = sessions.look(settings, name)
        definition = changed_definition(options, stack)
        _warned(settings, definition)
        return _planned(settings, options, definition, stack)
    definition = new_definition(options, name, _types(settings))
    _warned(settings, definition)
    return _planned(settings, options, definition, None)


def apply(
    settings: Settings, template: str, options: Any, content: bytes | None
) -> int:
    """Create the stack of a template, or update it; its name is the name of the file by default.

    `content` is the content of the file, if it has been read already.
    """
    opened = origin.opened(options, template)
    name, inside = (
        default_name(opened.path) if options.name is None else (options.name, False)
    )
    if options.name is None and not is_stack_name(name):
        raise UsageError(
            f"{template} gives the stack no name, as a name begins with a letter",
            hint="add --name NAME",
        )
    options = argparse.Namespace(**vars(options))
    options.parameter = [*options.parameter, *options.input]
    options.origin = origin.described(template, is_named_inside=inside)
    options.wants_name = options.name is not None
    options.name, options.template, options.file = name, template, None
    options.existing, options.clear_parameter, options.wait_for = False, [], None
    options.applied = template
    if options.json:
        envelope.begin("plan" if options.plan else "stack", is_on=True)
    options.content, options.opened = content, opened
    return with_mistakes(lambda options: _applied(settings, options))(options)


def _applied(settings: Settings, options: argparse.Namespace) -> int:
    if options.plan:
        stack = (
            sessions.look(settings, options.name)
            if sessions.there(settings, options.name)
            else None
        )
    else:
        stack = sessions.outline(settings, options.name)
    stack = None if stack is None or stack.is_gone else stack
    if stack is not None and not options.wants_name:
        origin.check(settings, options.name, options.origin)
    definition = (
        changed_definition(options, stack)
        if stack
        else new_definition(options, options.name, _types(settings))
    )
    _warned(settings, definition)
    if options.plan:
        return _planned(settings, options, definition, stack)

    def work(session: Session) -> None:
        root = session.root
        if (
            root is None
            or root.is_gone
            or (
                _is_being_made(session, root)
                and root.record.source == definition.source
            )
        ):
            session.create(definition, rollback=options.rollback)
        else:
            refuse_suspended(root)
            if root.record.source != definition.source:
                _warn_of_defaults(definition, root)
            session.update(definition, rollback=options.rollback)

    return carry_out(settings, options, work, definition)


def _warn_of_defaults(definition: Definition, root: Stack) -> None:
    """Name the parameters that fall back to their defaults, because they are not given again."""
    from heat_config_stack.cli.stack import plan  # noqa: PLC0415  # an unchanged template has none

    if fallen := plan.fallen_back(definition, root):
        text = f"{', '.join(fallen)} had another value in the stack, and has the default now"
        sessions.warned(
            f"{text}: it is not given (`--parameter`, or `stack update --existing`, keeps values)"
        )


def reported_later(_text: str) -> None:
    """Print nothing: opening the stack for work reports the damage, and sets the files aside."""


def _is_being_made(session: Session, root: Stack) -> bool:
    return session.interrupted and root.record.action == CREATE


@with_mistakes
def turn(options: argparse.Namespace) -> int:
    """Suspend, resume or check a stack."""
    settings = state_options.of(options)
    stack = sessions.look(
        settings, options.name, sessions.warned if options.plan else reported_later
    )
    if options.plan:
        from heat_config_stack.cli.stack import plan  # noqa: PLC0415  # only for plans

        check_hosts(options, stack)
        return plan.show_turn(stack, options)
    return carry_out(
        settings, options, lambda session: getattr(session, options.turn)(), None
    )


@with_mistakes
def signal(options: argparse.Namespace) -> int:
    """Signal a resource."""
    settings = state_options.of(options)
    sessions.look(settings, options.name, reported_later)
    try:
        details = None if options.data is None else strict_json.loads(options.data)
    except ValueError as error:
        raise UsageError(f"--data is not JSON: {error}") from error
    return carry_out(
        settings,
        options,
        lambda session: session.signal(options.resource, details),
        None,
    )


@with_mistakes
def delete(options: argparse.Namespace) -> int:
    """Delete stacks."""
    settings = state_options.of(options)
    for name in options.names:
        if listing.kept(settings.state, name) is None:
            # what a deletion that was killed has left
            sessions.forget(listing.folder(settings.state, name))
            raise sessions.missing(settings, name)
    if options.plan:
        from heat_config_stack.cli.stack import plan  # noqa: PLC0415  # only for plans

        for name in options.names:
            check_hosts(options, sessions.look(settings, name, reported_later))
        return plan.show_deletion(settings, options)
    again = [told for name in options.names if (told := _is_made_again(settings, name))]
    for each in again:
        terminal.note(each)
    terminal.confirmed(
        f"delete {', '.join(options.names)} and everything that was created", options
    )
    if options.json and len(options.names) > 1:
        envelope.begin("stacks", is_on=True)
    codes, ended = [], []
    for name in options.names:
        options.name = name
        work = functools.partial(Session.delete, force=options.force)
        outcome = _carried_out(
            settings, options, work, None, without_types=options.force
        )
        codes.append(outcome.code)
        ended.append(outcome)
    code = max(codes)
    if options.json and len(ended) > 1:
        failures = [each.failure for each in ended if each.failure is not None]
        stacks = [each.data for each in ended]
        error = failures[0] if failures else None
        envelope.result({"stacks": stacks}, code=code, error=error)
    elif options.json:
        envelope.result(ended[0].data, code=code, error=ended[0].failure)
    return code


def _is_made_again(settings: Settings, name: str) -> str:
    """Return that a stack follows a source, and when that makes it again; empty if it follows none."""
    source = followed.read(settings.state, name)
    if source is None or source.document or name not in settings.followed:
        return ""
    again = settings.command("source", "sync", name, "--again")
    return (
        f"{name} follows {source.source}, which makes it again at its next revision, or with `{again}`; "
        f"remove the section [follow {name}] to prevent that"
    )


@dataclass(frozen=True)
class _Outcome:
    """How the work on a stack has ended."""

    code: int
    data: dict[str, Json]
    failure: envelope.Failure | None


def opened(
    settings: Settings,
    options: argparse.Namespace,
    view: View,
    definition: Definition | None = None,
    *,
    without_types: bool = False,
) -> AbstractContextManager[Session]:
    """Open a stack for work as the options of a command say, see `sessions.work`."""
    return sessions.work(
        settings,
        options.name,
        view,
        server=options.server or "",
        limit=options.wait_for,
        without_types=without_types,
        user_data=getattr(options, "user_data", False),
        definition=definition,
        max_hosts=getattr(options, "max_hosts", None) or 0,
        reach=reaching(options, definition),
    )


def carry_out(
    settings: Settings,
    options: argparse.Namespace,
    work: Callable[[Session], object],
    definition: Definition | None,
) -> int:
    """Work on a stack to the end, and print the outcome.

    Raises AgentError if the agent is paused: nothing new begins.
    """
    outcome = _carried_out(settings, options, work, definition)
    if options.json:
        envelope.result(outcome.data, code=outcome.code, error=outcome.failure)
    return outcome.code


def _carried_out(
    settings: Settings,
    options: argparse.Namespace,
    work: Callable[[Session], object],
    definition: Definition | None,
    *,
    without_types: bool = False,
) -> _Outcome:
    """Work on a stack to the end, and return the outcome. `without_types` is that of `sessions.work`."""
    if pause := asked.paused(settings.state):
        ends = settings.command("resume")
        raise AgentError(
            f"nothing new begins: the agent is paused ({pause[0]})",
            hint=f"`{ends}` ends the pause",
        )
    runner.going_on.append(runner.RUNS_GO_ON)
    view = view_of(options.name, as_json=options.json)
    began = time.monotonic()
    with opened(
        settings, options, view, definition, without_types=without_types
    ) as session:
        stack = session.root
        _check_server(settings, options.server, definition, stack)
        names = definition.resources if definition else stack.resources if stack else ()
        view.expect(list(names), _earlier(settings, session))
        _work_on_file(settings, options, session, work, is_new=definition is not None)
        root = session.root
        view.finish(_as_defined(root) if root else (), _needs(root))
        if definition is not None and root is not None and not options.json:
            _say_placeholders(root)
        if definition is not None and root is not None:
            _warn_of_user_data(root, view)
        if options.server and root is not None and (left := _for_others(root)):
            view.warn(f"left to other servers than {options.server}: {', '.join(left)}")
        if root is None:
            return _gone(options, time.monotonic() - began)
        return _ended(settings, options, root, time.monotonic() - began)


def reaching(
    options: argparse.Namespace, definition: Definition | None = None
) -> Callable[[Stack], None] | None:
    """Return the `reach` of `sessions.work` for --hosts and the hosts of a new definition; None without hosts."""
    source = definition.source if definition is not None else None
    is_placed = isinstance(source, dict) and "hosts" in source
    if not is_placed and (definition is not None or not getattr(options, "hosts", "")):
        return None
    from heat_config_stack.cli.stack import placed  # noqa: PLC0415  # most stacks have no hosts

    return placed.reaching(options, definition)


def check_hosts(options: argparse.Namespace, stack: Stack) -> None:
    """Refuse a file of --hosts that does not fit a stack, for a plan. Raises `Invalid`, UsageError."""
    if not getattr(options, "hosts", ""):
        return
    from heat_config_stack.cli.stack import placed  # noqa: PLC0415  # as above
    from heat_config_stack.hosts import hosts_file  # noqa: PLC0415

    placed.agreed(stack, hosts_file.read(options.hosts))


def _needs(root: Stack | None) -> dict[str, list[str]]:
    """Return the names of the resources that each resource of a stack depends on."""
    if root is None or root.defined is None:
        return {}
    return {
        name: sorted(each.requirements())
        for name, each in root.defined.resources.items()
    }


def _work_on_file(
    settings: Settings,
    options: argparse.Namespace,
    session: Session,
    work: Callable[[Session], object],
    *,
    is_new: bool,
) -> None:
    """Work on a stack, and put the file of a new definition on record first: the work may be interrupted.

    A file that is refused is not that of the stack.
    """
    file = _origin(options) if is_new else {}
    if not file:
        work(session)
        return
    former = origin.kept(settings, options.name)
    attempt = session.root.record.attempt if session.root else ""
    origin.keep(settings, options.name, file)
    try:
        work(session)
    except UsageError:
        root = session.root
        if (root.record.attempt if root else "") == attempt:
            origin.put_back(settings, options.name, former)
        raise


def _earlier(settings: Settings, session: Session) -> dict[str, Earlier]:
    """Return the work of a command before its interruption, by the paths of the resources."""
    if not session.interrupted:
        return {}
    from heat_config_stack.cli.stack import timeline  # noqa: PLC0415  # only after an interruption

    return timeline.earlier(settings, session)


def _planned(
    settings: Settings,
    options: argparse.Namespace,
    definition: Definition,
    stack: Stack | None,
) -> int:
    """Print the effect of a definition on a stack, or on a new one."""
    from heat_config_stack.cli.stack import plan  # noqa: PLC0415  # only for plans

    if stack is not None:
        refuse_suspended(stack)
    server: str = getattr(options, "server", None) or ""
    _check_server(settings, server, definition, stack)
    return plan.show(settings, options, definition, stack, server=server)


def _origin(options: argparse.Namespace) -> dict[str, Any]:
    """Return the record about the file of a stack's new definition; empty if there is no new file."""
    if hasattr(options, "origin"):
        return dict(options.origin)
    template = getattr(options, "template", None) or getattr(options, "file", None)
    return (
        origin.described(template, is_named_inside=False)
        if isinstance(template, str)
        else {}
    )


def _check_server(
    settings: Settings,
    server: str | None,
    definition: Definition | None,
    stack: Stack | None,
) -> None:
    """Raise UsageError if the template has no deployment for a server and no such server."""
    definition = definition or (stack.defined if stack else None)
    if not server or definition is None:
        return
    from heat_config_stack.cli.stack import forecast  # noqa: PLC0415  # few commands name a server

    ids = {each.name: each.physical for each in stack.records()} if stack else {}
    types = _types(settings)
    deployed = set(forecast.servers(definition, types).values())
    names = {
        name
        for name, each in definition.resources.items()
        if each.type.endswith("Server")
    }
    names |= deployed - {of for of in ids.values() if of is not None}
    if (
        server in names
        or server in deployed
        or server in {ids.get(name) for name in names}
    ):
        return
    hint = meant(server, sorted(names)) or (
        f"it has {', '.join(sorted(names))}" if names else ""
    )
    raise UsageError(f"the template has no server {server!r}", hint=hint)


def _as_defined(root: Stack) -> list[str]:
    """Return the resources that exist as the definition of the stack has them."""
    records = {name: each.record for name, each in root.resources.items()}
    return [
        name
        for name, each in records.items()
        if each.action != INIT and each.revision == root.record.revision
    ]


def _say_placeholders(root: Stack) -> None:
    """Name the resources that need a cloud, and were not created: servers are this machine."""
    for resource in root.placeholders():
        if not resource.type().endswith("::Server"):
            terminal.note(
                f"{resource.name} needs a cloud: no {resource.type()} was created"
            )


def _warn_of_user_data(root: Stack, view: View) -> None:
    """Name the servers of a tree of stacks whose user data was not carried out, or not all of it."""
    left: list[str] = []
    for stack in root.world.stacks.values():
        for server in stack.placeholders():
            from heat_config_stack.resource_types.servers import CloudServer  # noqa: PLC0415  # it is loaded

            if not isinstance(server, CloudServer) or server.status != COMPLETE:
                continue
            name = "/".join((*stack.path, server.name))
            content = server.user_data()
            if server.changed_user_data:
                again = f"`heat-config-agent retry {root.name}/{name}` and another apply with --user-data"
                why = f"the user_data of {name} has changed since it was carried out, once for each server"
                view.warn(f"{why}: {again} carry it out again")
            if server.ran_user_data or not content.scripts:
                others = ", ".join(content.others)
                if others:
                    view.warn(
                        f"{others} in the user_data of {name} is not carried out: it is for cloud-init"
                    )
            else:
                left.append(name)
    if left:
        view.warn(
            f"the user_data of {', '.join(sorted(left))} is not carried out; --user-data carries out its scripts"
        )


def _for_others(root: Stack) -> list[str]:
    """Return the names of the resources that were left to other servers."""
    return sorted(
        {each.name for each in root.world.store.resources.values() if each.is_left_out}
    )


def _gone(options: argparse.Namespace, seconds: float) -> _Outcome:
    """Print that a stack was deleted, or that one was not kept."""
    if not options.json:
        state = terminal.stated(str(Shown.OK))
        took = terminal.duration(seconds)
        terminal.say(f"stack {options.name}: {state} (DELETE_COMPLETE) in {took}")
    return _Outcome(ExitCode.OK, values.deleted(options.name), None)


def _ended(
    settings: Settings, options: argparse.Namespace, root: Stack, seconds: float
) -> _Outcome:
    record = root.record
    data = values.stack(settings, root) if options.json else {}
    if (
        not options.json
        and isinstance(record.source, dict)
        and "hosts" in record.source
    ):
        from heat_config_stack.cli.stack import placed  # noqa: PLC0415  # as above

        for line in placed.lines(record.source):
            terminal.say(line)
    took = terminal.duration(seconds)
    code = ExitCode.FAILED
    if record.action == CHECK:
        rows = values.checked(root)
        if any(each["state"] == Shown.DRIFTED for each in rows):
            code = ExitCode.DRIFTED
        if not options.json:
            _say_checked(rows)
    if record.status == COMPLETE and record.action != ROLLBACK:
        if not options.json:
            state = terminal.stated(str(Shown.OK))
            pair = f"{record.action}_{record.status}"
            terminal.say(f"stack {options.name}: {state} ({pair}) in {took}")
            for line in values.output_lines(root):
                terminal.say(line)
        return _Outcome(ExitCode.OK, data, None)
    why = sessions.reason_of(root)
    if record.action == ROLLBACK and record.status == COMPLETE:
        why = why.removeprefix("rolled back after: ")
        message = f"stack {options.name}: rolled back after {took}: {why}"
    else:
        message = f"stack {options.name}: {record.action} failed after {took}: {why}"
    ways = _ways(settings, options, root)
    if not options.json:
        say_failure(message, ways)
    else:
        terminal.complain(f"error: {terminal.line(message)}")
    hint = f"`{ways[0][1]}`" if ways else ""
    word = "drifted" if code == ExitCode.DRIFTED else "failed"
    return _Outcome(code, data, envelope.Failure(word, message, hint))


def _say_checked(rows: Sequence[Mapping[str, Json]]) -> None:
    """Print the deployments that a check has not found in effect, and the number of those in effect."""
    for each in rows:
        if each["state"] != Shown.OK:
            terminal.say(
                terminal.line(
                    f"{each['resource_name']}: {each['state']}: {each['message']}"
                )
            )
    if rows:
        numbers = Counter(str(each["state"]) for each in rows)
        words = ", ".join(f"{number} {state}" for state, number in numbers.items())
        terminal.say(f"{terminal.count(len(rows), 'deployment')}: {words}")


def say_failure(message: str, ways: Sequence[tuple[str, str]]) -> None:
    """Print the failure with its reason, and the commands that show more, try again, or undo it."""
    terminal.complain(f"error: {terminal.line(message)}")
    room = max((len(label) for label, _ in ways), default=0)
    for label, command in ways:
        terminal.say(f"  {label:<{room}}  {terminal.line(command)}", error=True)


def _ways(
    settings: Settings, options: argparse.Namespace, root: Stack
) -> list[tuple[str, str]]:
    """Return the ways out of a failed action: commands that show its output, try again, or undo it."""
    from heat_config_stack.lifecycle import deployments  # noqa: PLC0415  # only after a failure

    store, undone = root.world.store, root.record.undone or {"runs": []}
    logs = [each["id"] for each in undone["runs"]]
    logs += [
        deployments.path_of(store, each.id) for each in deployments.failed_last(root)
    ]
    ways = [
        ("all output", settings.command("log", f"{root.name}/{each}")) for each in logs
    ]
    action, name = root.record.action, root.name
    again = settings.command("stack", "update", "--existing", name)
    force = ("give up", settings.command("stack", "delete", "--force", name))
    delete = settings.command("stack", "delete", name)
    if action == DELETE:
        return [*ways, ("try again", delete), force]
    if action == ROLLBACK and root.record.status == FAILED:
        return [*ways, ("try again", delete if root.defined is None else again), force]
    if action in (SUSPEND, RESUME):
        resume = settings.command("stack", "resume", name)
        back = [("resume", resume)] if action == SUSPEND else []
        return [*ways, *back, ("repair", again)]
    if action in (CREATE, UPDATE, ROLLBACK, ADOPT):
        file = getattr(options, "applied", None)
        plain = file is not None and not _has_values(options)
        apply = settings.command("apply", str(file)) if plain else again
        return [*ways, ("try again", apply), ("undo", delete)]
    word = f"snapshot {action.lower()}" if action in (SNAPSHOT, RESTORE) else "check"
    if action == CHECK:
        check = settings.command("stack", word, name)
        return [*ways, ("repair", again), ("check again", check)]
    return [*ways, ("try again", again)]


def _has_values(options: argparse.Namespace) -> bool:
    """Return whether a command line has more for a template than its file: then the file alone is another thing."""
    names = ("environment", "parameter", "parameter_file", "attribute", "inputs")
    more = (
        *names,
        "substitute",
        "server",
        "hosts",
        "wants_name",
        "rollback",
        "user_data",
    )
    return any(getattr(options, name, None) for name in more)


def new_definition(options: argparse.Namespace, name: str, types: Types) -> Definition:
    """Return the definition of a new stack. Raises `Invalid` with all mistakes, UsageError."""
    return on_hosts(
        options, None, types, lambda: _new(options, Identity(name, new_id()), types)
    )


def on_hosts(
    options: argparse.Namespace,
    former: Json,
    types: Types,
    define: Callable[[], Definition],
    stack: Stack | None = None,
) -> Definition:
    """Return a definition with the hosts of its servers. Raises `Invalid`, UsageError.

    `stack` is None if it does not exist yet.
    """
    if not getattr(options, "hosts", None) and not placing.hosts_in(former):
        options.hosts_read, options.on_hosts = None, {}
        return define()
    from heat_config_stack.cli.stack import placed  # noqa: PLC0415  # most stacks have no hosts

    placed.choose(options, former)
    return placed.checked(options, define(), types, stack)


def _new(options: argparse.Namespace, identity: Identity, types: Types) -> Definition:
    if language_of(named.template(options)) == TOSCA:
        from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

        return services.new(options, identity)
    from heat_config_stack.cli.stack import templates  # noqa: PLC0415  # TOSCA needs none of it

    return templates.new(options, identity, types)


def changed_definition(options: argparse.Namespace, stack: Stack) -> Definition:
    """Return the new definition of an existing stack; --existing keeps values that are not given. Raises as `new`.

    Without --hosts, the servers stay on their hosts.
    """
    # After the rollback of a create, only the definition that failed is left.
    former = stack.record.source or stack.record.source_before
    return on_hosts(
        options,
        former,
        stack.world.types,
        lambda: _changed(options, stack, former),
        stack,
    )


def _changed(options: argparse.Namespace, stack: Stack, former: Json) -> Definition:
    if not _is_service(options, former):
        from heat_config_stack.cli.stack import templates  # noqa: PLC0415  # TOSCA needs none of it

        definition = templates.changed(
            options, former, stack.identity, stack.world.types
        )
        _check_cleared(options, definition, stack)
        return definition
    from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

    if (
        options.existing
        and isinstance(former, dict)
        and former.get("language") == TOSCA
    ):
        definition = services.changed(options, former, stack.identity)
        _check_cleared(options, definition, stack)
        return definition
    return services.new(options, stack.identity)


def _check_cleared(
    options: argparse.Namespace, definition: Definition, stack: Stack
) -> None:
    """Raise UsageError if --clear-parameter names a parameter that the template does not have, nor had."""
    known = {
        **definition.parameters,
        **(stack.defined.parameters if stack.defined else {}),
    }
    for name in options.clear_parameter:
        if name not in known:
            from heat_config_agent.diagnostics.words import among  # noqa: PLC0415  # only after mistakes

            raise UsageError(
                f"--clear-parameter names no parameter {name!r}",
                hint=among(name, known),
            )


def default_name(template: str) -> tuple[str, bool]:
    """Return the name of the stack of a template: from the name of the file, or from inside an archive.

    The second value is true if it is from inside the archive.
    """
    if language_of(template) == TOSCA:
        from heat_config_stack.tosca.compilation.reader import (  # noqa: PLC0415  # HOT needs none of it
            default_name as of_service,
        )

        return of_service(template)
    return Path(template).name.partition(".")[0], False


def _is_service(options: argparse.Namespace, source: Json) -> bool:
    """Return whether the new definition is that of a service: by its file, else by the stored definition."""
    if options.template or getattr(options, "file", None):
        return language_of(named.template(options)) == TOSCA
    return (
        options.existing
        and isinstance(source, dict)
        and source.get("language") == TOSCA
    )


"""The reason of a resource whose deployment runs again."""


def request_run(settings: Settings, name: str, deployment: str, *, as_new: bool) -> str:
    """Have the next update of a stack carry out a deployment again, and return the command for that update.

    With `as_new`, the deployment counts as never made, and the records of its runs are removed. Raises AgentError.
    """
    with sessions.work(settings, name, view_of(name, as_json=False)) as session:
        root = session.root
        if root is not None and root.record.action == SUSPEND:
            raise UsageError(
                f"the stack {name} is suspended",
                hint=f"`{settings.command('stack', 'resume', name)}`",
            )
        if session.interrupted:
            raise UsageError(
                f"the last action of the stack {name} was interrupted",
                hint="run its command again to continue it",
            )
        _mark(session, deployment, as_new=as_new)
    if as_new:
        _forget_runs(settings, name, deployment)
    return f"`{settings.command('stack', 'update', '--existing', name)}` begins it, and so does another apply"


def _mark(session: Session, deployment: str, *, as_new: bool) -> None:
    """Record that the action of a deployment's resource must be repeated, and that its parents must be visited."""
    from heat_config_stack.resource_types.operations import repeat  # noqa: PLC0415  # few stacks have operations

    store = session.store
    delivered = store.deployments.get(deployment)
    record = store.resources.get(delivered.resource) if delivered is not None else None
    if delivered is None or record is None:  # a run that failed before a rollback
        raise UsageError(
            "that run is of a definition that the stack has left",
            hint="name the resource instead",
        )
    repeat(record, as_new=as_new)
    if as_new:
        delivered.outputs = {}
        store.put(delivered)
    while record is not None:
        if record.action != INIT:
            record.status, record.reason = FAILED, ASKED
            store.put(record)
        stack = store.stacks.get(record.stack)
        record = (
            store.resources.get(stack.owner)
            if stack is not None and stack.owner
            else None
        )
    store.flush(durable=True)


def _forget_runs(settings: Settings, name: str, deployment: str) -> None:
    """Remove the records, the output and the files of all runs of a deployment. Raises AgentError."""
    from heat_config_agent.state import journal, lock, requests  # noqa: PLC0415  # seldom asked for
    from heat_config_agent.state.deployed import Deployed  # noqa: PLC0415

    folder = listing.folder(settings.state, name)
    keys = [
        key
        for key, each in journal.read(folder).items()
        if each.source.endswith(f"/{deployment}")
    ]
    for key in keys:
        requests.ask(folder, key, requests.Wish.FORGET)
    with lock.held(folder):
        book = journal.Journal(folder)
        _, wrong = requests.carry_out(folder, book, Deployed(folder / "deployed"))
        book.sync()
        book.close()
    if wrong:
        raise StateError("; ".join(wrong))

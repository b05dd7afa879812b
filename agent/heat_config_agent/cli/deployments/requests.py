"""`heat-config-agent retry` and `forget`: requests about deployments.

They are carried out at once if no agent is running, or else by the agent. A stack or a source stands for its
deployments: `retry` takes those that have failed, and `forget` all of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.deployments import named
from heat_config_agent.cli.deployments.named import Named
from heat_config_agent.cli.machine import pause
from heat_config_agent.deployments import cleanup
from heat_config_agent.model.entry import UNDELIVERED, Entry, State
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    LockedError,
    NotFoundError,
    StateError,
)
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import (
    asked,
    deployed,
    followed,
    health,
    journal,
    lock,
    requests,
)
from heat_config_agent.state.requests import Wish

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import TypeAlias

    from heat_config_agent.cli.deployments.wait import View

    Row: TypeAlias = tuple[str, str, str, str, str]
    """A row of a plan: the change, the name, the action and the tool of a deployment, and the reason."""


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    add_retry(commands)
    add_forget(commands)


_WHY = {
    State.SIGNALLED: "it has been delivered",
    State.UNASKED: "its deployment names no address for a result",
}

_HINT = "if the stack still waits, its server has the result: see «Results» in docs/troubleshoot.md"


_RETRY = """: Run deployments again, or only send their results again.

A deployment of a followed document runs when the revision is carried out again, which this requests too. One of a stack
runs in the next action of the stack. The name of a stack or a source stands for its deployments that have failed.
"""

_EXIT_CODES = """\
exit codes:
  0  it is requested or done; with --wait, it is done, and nothing failed
  1  it cannot be done; or with --wait, a deployment failed
  2  bad usage or settings, or a name of several deployments
  7  the time of --wait-for is over, and it is not done yet
  8  there is no such thing; or with --wait, no agent is there to do it
  10  the state directory cannot be used
"""

_FORGET_CODES = """\
exit codes:
  0  it is requested or done
  1  a deployment is running; or the answer to the question was no
  2  bad usage or settings, or a name of several deployments
  8  there is no such thing
  10  the state directory cannot be used
"""


def add_retry(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "retry",
        "run deployments again, or send their results again",
        _RETRY,
        epilog=_EXIT_CODES,
    )
    state_options.add_ids(parser)
    parser.add_argument(
        "--signal",
        action="store_true",
        help="only send the result again, if it was not delivered",
    )
    parser.add_argument(
        "--wait", action="store_true", help="wait until they have run again"
    )
    state_options.add_wait_for(parser)
    state_options.add_plan(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=retry, kind="request")


def retry(options: argparse.Namespace) -> int:
    """Request the runs; each begins with the next metadata that has its deployment. An impossible one cancels all."""
    settings = state_options.of(options)
    request = Wish.SEND if options.signal else Wish.AGAIN
    begun = set() if options.signal else begun_elsewhere(settings, options.ids)
    names = [each for each in options.ids if each not in begun]
    chosen = [
        each
        for name in names
        for each in chosen_of(
            settings, name, options, "failed deployment", lambda entry: entry.has_failed
        )
    ]
    for each in chosen:
        _check_retry(settings, each, signal=options.signal)
    if options.plan:
        return _show_plan(options, chosen, begun, request)
    said = [*take_over(settings, begun), *wish(settings, chosen, request)]
    data = values(chosen, begun, _CHANGES[request], said)
    if not options.wait and options.wait_for is None:
        return answer(options, data, said)
    names = [
        (each.stack or each.title) if each.stack or each.follows else each.entry.key
        for each in chosen
    ]
    if not options.json:
        print_lines(said)
    return _wait(settings, options, [*dict.fromkeys(names), *sorted(begun)], data)


def chosen_of(
    settings: Settings,
    name: str,
    options: argparse.Namespace,
    noun: str = "deployment",
    is_meant: Callable[[Entry], bool] = lambda entry: True,  # noqa: ARG005  # all of them
) -> list[Named]:
    """Return the deployments that a name means; of a stack or a source, those that the request (`noun`) applies to."""
    thing = named.find_any(settings, name, options.config)
    if isinstance(thing, Named):
        return [thing]
    if thing.kind == "resource" and (
        others := stack_package.elsewhere(settings, thing.stack, thing.name)
    ):
        from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415  # few stacks have hosts

        return [elsewhere.thing(settings, each) for each in others]
    members = named.members(thing, options.config)
    if thing.kind == "resource" and not members:
        raise NotFoundError(
            f"nothing has run for {thing.title}", subject=("deployment", name)
        )
    some = [each for each in members if is_meant(each.entry)]
    if some:
        return some
    raise NotFoundError(
        f"the {thing.kind} {thing.title} does not have a {noun if members else 'deployment'}",
        hint=f"name one of its deployments: {titles_of(members)}" if members else "",
        subject=("deployment", name),
    )


def titles_of(chosen: Sequence[Named]) -> str:
    """Return the names of deployments, for a sentence."""
    return named.listed([each.title for each in chosen])


def _check_retry(settings: Settings, target: named.Named, *, signal: bool) -> None:
    """Raise AgentError if a deployment cannot be run again, or its result not be sent again."""
    entry = target.entry
    if entry.state is State.RUNNING:
        raise AgentError(
            f"{target.title} is running",
            hint=f"`{follow_command(settings, target)}` follows it",
        )
    if signal and target.stack:
        raise AgentError(
            f"cannot send the result of {target.title} again: the stack has it"
        )
    if (
        entry.left_at is not None
        and not signal
        and not target.stack
        and entry.action != cleanup.ACTION
    ):
        raise AgentError(
            f"cannot retry {target.title}: the deployment is no longer in the metadata",
            hint="let the stack update it, or apply a document that has it",
        )
    if signal and entry.state not in UNDELIVERED:
        raise AgentError(
            f"cannot send the result of {target.title} again: {_WHY.get(entry.state, 'there is none yet')}",
            hint=_HINT if entry.state is State.SIGNALLED else "",
        )


def follow_command(settings: Settings, target: Named) -> str:
    """Return the command that follows the output of a run."""
    is_inner = target.follows or target.stack
    return settings.command("log", "-f", target.title if is_inner else target.entry.id)


_FORGET = """: Remove everything that is kept of deployments.

If a deployment is still in the metadata or in the followed document, it counts as new and runs again. One of a stack
counts as never made: the next action of the stack runs it for CREATE. The name of a stack or a source stands for all of
its deployments.
"""


def add_forget(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "forget",
        "remove everything that is kept of deployments",
        _FORGET,
        epilog=_FORGET_CODES,
    )
    state_options.add_ids(parser)
    state_options.add_plan(parser)
    state_options.add_yes(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=forget, kind="request")


def forget(options: argparse.Namespace) -> int:
    """Request it. A deployment that cannot be forgotten holds back all."""
    settings = state_options.of(options)
    begun = begun_elsewhere(settings, options.ids)
    names = [each for each in options.ids if each not in begun]
    chosen = [each for name in names for each in chosen_of(settings, name, options)]
    for each in chosen:
        if each.entry.state is State.RUNNING:
            raise AgentError(
                f"{each.title} is running, and cannot be forgotten",
                hint=f"`{follow_command(settings, each)}` follows it; forget it when it has ended",
            )
    if options.plan:
        return _show_plan(options, chosen, begun, Wish.FORGET)
    titles = dict.fromkeys([*sorted(begun), *(each.title for each in chosen)])
    terminal.confirmed(
        f"remove everything that is kept of {', '.join(titles)}", options
    )
    said = [*take_over(settings, begun), *wish(settings, chosen, Wish.FORGET)]
    return answer(options, values(chosen, begun, _CHANGES[Wish.FORGET], said), said)


_CHANGES: dict[Wish, str] = {
    Wish.AGAIN: "run",
    Wish.REPAIR: "repair",
    Wish.SEND: "send",
    Wish.FORGET: "forget",
}
"""Request → the word for it in a plan and in JSON."""


def _show_plan(
    options: argparse.Namespace,
    chosen: Sequence[Named],
    begun: Iterable[str],
    request: Wish,
) -> int:
    """Print the requests that would be made."""
    change = _CHANGES[request]
    rows: list[Row] = [
        (change, each, "-", "-", "another agent has begun it") for each in sorted(begun)
    ]
    rows += [
        row(change, each, each.entry.reason if each.entry.failed else "asked for")
        for each in chosen
    ]
    return show_plan(options, rows)


def row(change: str, target: Named, why: str) -> Row:
    """Return a row of a plan."""
    entry = target.entry
    return (
        change,
        target.title,
        entry.action or "-",
        entry.tool or "-",
        why.replace("\n", "; "),
    )


def show_plan(options: argparse.Namespace, rows: Sequence[Row]) -> int:
    """Print the rows of a plan."""
    if options.json:
        envelope.begin("plan", is_on=True)
        changes = [
            {
                "change": row[0],
                "name": row[1],
                "type": None,
                "why": row[4],
                "action": row[2] if row[2] != "-" else None,
                "tool": row[3] if row[3] != "-" else None,
            }
            for row in rows
        ]
        envelope.result({"changes": changes, "replaced": [], "mistakes": []})
        return ExitCode.OK
    for line in terminal.table(rows, ("CHANGE", "NAME", "ACTION", "TOOL", "WHY")):
        terminal.say(line)
    terminal.say(f"\n{terminal.count(len(rows), 'deployment')}; nothing was done")
    return ExitCode.OK


def answer(
    options: argparse.Namespace, values: dict[str, object], said: Sequence[str]
) -> int:
    """Print the requests."""
    if options.json:
        envelope.result(values)
    else:
        print_lines(said)
    return ExitCode.OK


def print_lines(said: Sequence[str]) -> None:
    """Print a line for each request."""
    for text in said:
        terminal.say(terminal.line(text))


def values(
    chosen: Sequence[Named], begun: Iterable[str], request: str, said: Sequence[str]
) -> dict[str, object]:
    """Return the requests as JSON, by their words."""
    deployments = [
        {
            "name": each.title,
            "id": each.entry.id or None,
            "key": each.entry.key,
            "stack": each.stack or None,
            "follows": each.follows or None,
        }
        for each in chosen
    ]
    deployments += [
        {"name": each, "id": each, "key": each, "stack": None, "follows": None}
        for each in sorted(begun)
    ]
    return {
        "request": request,
        "deployments": deployments,
        "messages": list(said),
        "outcome": None,
    }


def _wait(
    settings: Settings,
    options: argparse.Namespace,
    names: Sequence[str],
    values: dict[str, object],
) -> int:
    """Wait until deployments have run again, and print how that ended."""
    from heat_config_agent.cli.deployments import wait  # noqa: PLC0415  # only with --wait

    holder = lock.holder(settings.state)
    if holder is None or holder[1] != lock.DAEMON:
        view = wait.View(
            code=ExitCode.NOT_THERE, line="no agent is running that could do it"
        )
    else:
        look = wait.of_things(settings, names, options.config)
        view = wait.until(look, settings, options.wait_for, quiet=options.quiet)
    return show_outcome(options, view, values)


def show_outcome(
    options: argparse.Namespace, view: View, values: Mapping[str, object]
) -> int:
    """Print how the wait for a request has ended, with the request as JSON; return the exit code."""
    failure = view.failure
    if failure is not None:
        terminal.complain(f"error: {terminal.line(view.line)}")
    elif not options.json:
        terminal.say(terminal.line(view.line))
    if options.json:
        answer = {**values, "outcome": view.outcome}
        envelope.result(answer, code=view.code, error=failure)
    return view.code


_WORDS = {
    Wish.AGAIN: ("retry", "runs"),
    Wish.REPAIR: ("repair", "repairs"),
    Wish.SEND: ("delivery", "sends"),
    Wish.FORGET: ("removal", "removes"),
}
"""Request → its noun, and the verb for its execution."""


def wish(
    settings: Settings,
    chosen: Sequence[Named],
    request: Wish,
    drifts: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Store a request about deployments for the agent, and carry it out here if no agent is running.

    `drifts` has the drift of each deployment to repair, by key.
    Returns sentences about what was done, and what is to come.
    """
    said: list[str] = []
    every = {(each.settings.state, each.entry.key): each for each in chosen}
    for group in named.by_journal(every.values()):
        if group[0].stack:
            said += _wish_of_stack(settings, group, request)
        else:
            said += _wish(settings, group, request, drifts)
    return said


def _wish(
    settings: Settings,
    group: Sequence[Named],
    request: Wish,
    drifts: Mapping[str, str],
) -> list[str]:
    """Store a request about deployments of one journal, that of the agent or of a followed document."""
    within, follows = group[0].settings, group[0].follows
    said: list[str] = []
    for each in group:
        if request is Wish.REPAIR:
            drift = drifts.get(each.entry.key, "")
            requests.ask_repair(within.state, each.entry, drift)
        else:
            requests.ask(within.state, each.entry.key, request)
    try:
        with lock.held(within.state):
            book = journal.Journal(within.state)
            for warning in book.warnings:
                terminal.warn(warning)
            done, wrong = requests.carry_out(
                within.state, book, deployed.Deployed(within.deployed)
            )
            said += [f"{follows}/{line}" if follows else line for line in done]
            book.sync()
            book.close()
            if wrong:
                raise StateError("; ".join(wrong))
    except LockedError as error:
        if follows:
            noun = _WORDS[request][0]
            said.append(f"{noun} requested: the document is being carried out")
        else:
            said += [_when(settings, each.entry, request, error) for each in group]
    if follows:
        followed.ask_again(settings.state, follows)
        said.append(_when_followed(settings, follows))
    return said


def _when(settings: Settings, entry: Entry, request: Wish, error: LockedError) -> str:
    """Return when the agent carries out a request."""
    process = pause.wake(settings.state)
    noun, verb = _WORDS[request]
    if request in (Wish.AGAIN, Wish.REPAIR) and asked.paused(settings.state):
        when = f"the agent is paused, and runs it after `{settings.command('resume')}`"
    elif request is Wish.AGAIN and is_applied_by_hand(settings, entry):
        when = f"it runs when its document ({entry.source}) is applied again: no source of the agent has it"
    elif process:
        when = f"the agent (process {process}) {verb} it now"
    else:
        when = f"{error.brief}, and does it in its next run"
    return f"{noun} requested: {when}"


def _when_followed(settings: Settings, name: str) -> str:
    """Have the agent carry out the revision of a source again, and return when it does."""
    process = pause.wake(settings.state)
    if asked.paused(settings.state):
        when = f"the agent is paused, and carries out {name} again after `{settings.command('resume')}`"
    elif process:
        when = f"the agent (process {process}) carries out {name} again now"
    else:
        when = f"`{settings.command('source', 'sync', name)}` carries out {name} again"
    return when


def _wish_of_stack(
    settings: Settings, group: Sequence[Named], request: Wish
) -> list[str]:
    """Have deployments of one stack run again with its next action."""
    stack = group[0].stack
    is_followed = followed.read(settings.state, stack) is not None
    when, said = "", []
    for each in group:
        when = stack_package.run_again(
            settings, stack, each.deployment, as_new=request is Wish.FORGET
        )
        done = (
            "is forgotten, and will run for CREATE"
            if request is Wish.FORGET
            else "will run again"
        )
        said.append(f"{each.title} {done}")
    if is_followed:
        followed.ask_again(settings.state, stack)
        when = _when_followed(settings, stack)
    return [*said, when]


def begun_elsewhere(settings: Settings, ids: Iterable[str]) -> set[str]:
    """Return the ids whose deployments another agent has begun, and which the journal does not have."""
    wanted = {each for each in ids if each}
    return (
        wanted
        & set(deployed.begun_elsewhere(settings.deployed, journal.read(settings.state)))
        if wanted
        else set()
    )


def take_over(settings: Settings, ids: Iterable[str]) -> list[str]:
    """Forget that another agent has begun deployments. If the metadata still has them, they are new and run.

    Returns sentences about it.
    """
    said = []
    for wanted in sorted(ids):
        try:
            deployed.Deployed(settings.deployed).forget(wanted)
        except OSError as error:
            raise StateError(
                f"cannot remove {error.filename}: {error.strerror}"
            ) from error
        when = "now" if pause.wake(settings.state) else "in the next run"
        said.append(
            f"{wanted}: the record of another agent is removed; if the metadata has it, it runs {when}"
        )
    return said


def is_applied_by_hand(settings: Settings, entry: Entry) -> bool:
    """Return whether a deployment came from a file that heat-config-apply was given, and that the agent never reads."""
    sources = health.read(settings.state).get("sources")
    named = (
        {each.get("name") for each in sources if isinstance(each, dict)}
        if isinstance(sources, list)
        else set()
    )
    holder = lock.holder(settings.state)
    is_daemon = holder is not None and holder[1] == lock.DAEMON
    return (
        is_daemon
        and entry.source.startswith(("file:", "stdin"))
        and entry.source not in named
    )

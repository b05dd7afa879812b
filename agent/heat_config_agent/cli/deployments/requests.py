"""`heat-config-agent retry` and `forget`: requests about deployments.

They are carried out at once if no agent is running, or else by the agent.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from heat_config_agent.cli import stack_package, state_options, terminal
from heat_config_agent.cli.deployments import named
from heat_config_agent.cli.deployments.named import Named
from heat_config_agent.cli.machine import pause
from heat_config_agent.deployments import cleanup
from heat_config_agent.model.entry import UNDELIVERED, Entry, State
from heat_config_agent.model.errors import AgentError, ExitCode, LockedError, StateError
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


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    _add_retry(commands)
    _add_forget(commands)


_WHY = {
    State.SIGNALLED: "it has been delivered",
    State.UNASKED: "its deployment names no address for a result",
}

_HINT = "if the stack still waits, its server has the result: see «Results» in docs/troubleshoot.md"


_RETRY = """: Run deployments again, or only send their results again.

A deployment of a followed document runs when the revision is carried out again, which this requests too. One of a stack
runs in the next action of the stack.
"""


def _add_retry(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands, "retry", "run deployments again, or send their results again", _RETRY
    )
    state_options.add_ids(parser)
    parser.add_argument(
        "--signal",
        action="store_true",
        help="only send the result again, if it was not delivered",
    )
    parser.set_defaults(run=retry)


def retry(options: argparse.Namespace) -> int:
    """Request it: the next run whose metadata has the deployment carries it out. One that cannot be holds back all."""
    settings = state_options.of(options)
    begun = set() if options.signal else begun_elsewhere(settings, options.ids)
    chosen = [
        named.find(settings, each, options.config)
        for each in options.ids
        if each not in begun
    ]
    for each in chosen:
        _check_retry(settings, each, signal=options.signal)
    take_over(settings, begun)
    wish(settings, chosen, Wish.SEND if options.signal else Wish.AGAIN)
    return ExitCode.OK


def _check_retry(settings: Settings, target: named.Named, *, signal: bool) -> None:
    """Raise AgentError if a deployment cannot be run again, or its result not be sent again."""
    entry = target.entry
    if entry.state is State.RUNNING:
        words = target.title if target.follows or target.stack else entry.id
        raise AgentError(
            f"{target.title} is running",
            hint=f"`{settings.command('log', '-f', words)}` follows it",
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


_FORGET = """: Remove everything that is kept of deployments.

If a deployment is still in the metadata or in the followed document, it counts as new and runs again. One of a stack
counts as never made: the next action of the stack runs it for CREATE.
"""


def _add_forget(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands, "forget", "remove everything that is kept of deployments", _FORGET
    )
    state_options.add_ids(parser)
    parser.set_defaults(run=forget)


def forget(options: argparse.Namespace) -> int:
    """Request it. A deployment that cannot be forgotten holds back all."""
    settings = state_options.of(options)
    begun = begun_elsewhere(settings, options.ids)
    chosen = [
        named.find(settings, each, options.config)
        for each in options.ids
        if each not in begun
    ]
    for each in chosen:
        if each.entry.state is State.RUNNING:
            words = each.title if each.follows or each.stack else each.entry.id
            raise AgentError(
                f"{each.title} is running, and cannot be forgotten",
                hint=f"`{settings.command('log', '-f', words)}` follows it; forget it when it has ended",
            )
    take_over(settings, begun)
    wish(settings, chosen, Wish.FORGET)
    return ExitCode.OK


_WORDS = {
    Wish.AGAIN: ("retry", "runs"),
    Wish.SEND: ("delivery", "sends"),
    Wish.FORGET: ("removal", "removes"),
}
"""Request → its noun, and the verb for what the agent does."""


def wish(settings: Settings, chosen: Sequence[Named], request: Wish) -> None:
    """Store a request about deployments for the agent, and carry it out here if no agent is running."""
    by_journal: dict[str, list[Named]] = {}
    for each in {
        (each.settings.state, each.entry.key): each for each in chosen
    }.values():
        by_journal.setdefault(str(each.settings.state), []).append(each)
    for group in by_journal.values():
        if group[0].stack:
            _wish_of_stack(settings, group, request)
        else:
            _wish(settings, group, request)


def _wish(settings: Settings, group: Sequence[Named], request: Wish) -> None:
    """Store a request about deployments of one journal, that of the agent or of a followed document."""
    within, follows = group[0].settings, group[0].follows
    for each in group:
        requests.ask(within.state, each.entry.key, request)
    try:
        with lock.held(within.state):
            book = journal.Journal(within.state)
            for warning in book.warnings:
                terminal.say(f"warning: {terminal.line(warning)}", error=True)
            done, wrong = requests.carry_out(
                within.state, book, deployed.Deployed(within.deployed)
            )
            for line in done:
                terminal.say(terminal.line(f"{follows}/{line}" if follows else line))
            book.sync()
            book.close()
            if wrong:
                raise StateError("; ".join(wrong))
    except LockedError as error:
        if follows:
            noun = _WORDS[request][0]
            terminal.say(
                terminal.line(f"{noun} requested: the document is being carried out")
            )
        else:
            for each in group:
                _say_when(settings, each.entry, request, error)
    if follows:
        followed.ask_again(settings.state, follows)
        _say_when_followed(settings, follows)


def _say_when(
    settings: Settings, entry: Entry, request: Wish, error: LockedError
) -> None:
    """Print when the agent carries out a request."""
    process = pause.wake(settings.state)
    noun, verb = _WORDS[request]
    if request is Wish.AGAIN and asked.paused(settings.state):
        when = f"the agent is paused, and runs it after `{settings.command('resume')}`"
    elif request is Wish.AGAIN and _applied_by_hand(settings, entry):
        when = f"it runs when its document ({entry.source}) is applied again: no source of the agent has it"
    elif process:
        when = f"the agent (process {process}) {verb} it now"
    else:
        when = f"{error.brief}, and does it in its next run"
    terminal.say(terminal.line(f"{noun} requested: {when}"))


def _say_when_followed(settings: Settings, name: str) -> None:
    """Have the agent carry out the revision of a source again, and print when it does."""
    process = pause.wake(settings.state)
    if asked.paused(settings.state):
        when = f"the agent is paused, and carries out {name} again after `{settings.command('resume')}`"
    elif process:
        when = f"the agent (process {process}) carries out {name} again now"
    else:
        when = f"`{settings.command('follow', name)}` carries out {name} again"
    terminal.say(terminal.line(when))


def _wish_of_stack(settings: Settings, group: Sequence[Named], request: Wish) -> None:
    """Have deployments of one stack run again with its next action."""
    stack = group[0].stack
    is_followed = followed.read(settings.state, stack) is not None
    when = ""
    for each in group:
        when = stack_package.run_again(
            settings, stack, each.deployment, as_new=request is Wish.FORGET
        )
        done = (
            "is forgotten, and will run for CREATE"
            if request is Wish.FORGET
            else "will run again"
        )
        terminal.say(terminal.line(f"{each.title} {done}"))
    if is_followed:
        followed.ask_again(settings.state, stack)
        _say_when_followed(settings, stack)
    else:
        terminal.say(terminal.line(when))


def begun_elsewhere(settings: Settings, ids: Iterable[str]) -> set[str]:
    """Return those of some ids whose deployments another agent has begun, and of which the journal has no record."""
    wanted = {each for each in ids if each}
    return (
        wanted
        & set(deployed.begun_elsewhere(settings.deployed, journal.read(settings.state)))
        if wanted
        else set()
    )


def take_over(settings: Settings, ids: Iterable[str]) -> None:
    """Forget that another agent has begun deployments. If the metadata still has them, they are new and run."""
    for wanted in sorted(ids):
        try:
            deployed.Deployed(settings.deployed).forget(wanted)
        except OSError as error:
            raise StateError(
                f"cannot remove {error.filename}: {error.strerror}"
            ) from error
        when = "now" if pause.wake(settings.state) else "in the next run"
        terminal.say(
            terminal.line(
                f"{wanted}: the record of another agent is removed; if the metadata has it, it runs {when}"
            )
        )


def _applied_by_hand(settings: Settings, entry: Entry) -> bool:
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

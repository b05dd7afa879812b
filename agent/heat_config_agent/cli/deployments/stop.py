"""`heat-config-agent stop`: ends the runs of deployments, and has those that wait never begin.

The process that works on the state directory of a deployment carries it out: the agent, the process that follows its
source, `heat-config-apply`, or the command that works on its stack. Where there is none, this command does it itself,
and the next one finds the result on record.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.deployments import named, status, wait
from heat_config_agent.cli.deployments import requests as about
from heat_config_agent.cli.deployments.named import Named
from heat_config_agent.cli.machine import pause
from heat_config_agent.cli.stack_package import Elsewhere
from heat_config_agent.engine.events import Event, Message, Report
from heat_config_agent.model.entry import OPEN, Entry
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    LockedError,
    NotFoundError,
)
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal, lock, requests
from heat_config_hooks.values import replace

_CHANGE = "stop"

_DESCRIPTION = """: End the runs of deployments with all their processes. Their results are failures that say who has
stopped them. A deployment that waits for its turn, for its next attempt or for a reboot never begins. None of them runs
again until someone asks for it with retry. The name of a stack or a source stands for its deployments that run or wait;
`stack cancel` ends the whole action of a stack.
"""

_EXIT_CODES = """\
exit codes:
  0  it is requested or done; with --wait, it is done
  1  a deployment does not run; or the answer to the question was no
  2  bad usage or settings, or a name of several deployments
  7  the time of --wait-for is over, and it is not done yet
  8  there is no such thing
  10  the state directory cannot be used
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "stop",
        "end the runs of deployments",
        _DESCRIPTION,
        epilog=_EXIT_CODES,
    )
    state_options.add_ids(parser)
    parser.add_argument(
        "--wait", action="store_true", help="wait until they have ended"
    )
    state_options.add_wait_for(parser)
    state_options.add_plan(parser)
    state_options.add_yes(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="request")


def run(options: argparse.Namespace) -> int:
    """Have the runs ended by the process that carries them out, or here. One that does not run cancels all."""
    settings = state_options.of(options)
    chosen, others = _chosen(settings, options)
    if options.plan:
        rows = [about.row(_CHANGE, each, _standing(each)) for each in chosen]
        rows += [(_CHANGE, each.title, "-", "-", f"on {each.place}") for each in others]
        return about.show_plan(options, rows)
    titles = [f"{each.title} ({_standing(each)})" for each in chosen]
    titles += [f"{each.title} (on {each.place})" for each in others]
    terminal.confirmed(f"stop {', '.join(titles)}", options)
    by = _person()
    for each in chosen:
        requests.ask_to_stop(each.settings.state, each.entry, by)
    said = [line for group in named.by_journal(chosen) for line in _carry_out(group)]
    failed: list[str] = []
    things = list(chosen)
    if others:
        from heat_config_agent.cli.deployments import elsewhere  # noqa: PLC0415  # few stacks have hosts

        done, failed = elsewhere.stopped(others, _words(options))
        said += done
        things += [elsewhere.thing(settings, each) for each in others]
    data = about.values(things, (), _CHANGE, said)
    if failed:
        return _not_reached(options, data, said, failed)
    if not chosen or (not options.wait and options.wait_for is None):
        return about.answer(options, data, said)
    if not options.json:
        about.print_lines(said)
    view = wait.until(
        lambda: _look(chosen), settings, options.wait_for, quiet=options.quiet
    )
    return about.show_outcome(options, view, data)


def _words(options: argparse.Namespace) -> list[str]:
    """Return the options as words, for hosts."""
    limit = options.wait_for
    return [
        *(["--wait"] if options.wait else []),
        *(["--wait-for", str(limit)] if limit is not None else []),
    ]


def _not_reached(
    options: argparse.Namespace,
    data: dict[str, object],
    said: Sequence[str],
    failed: Sequence[str],
) -> int:
    """Report the stopped deployments, and the hosts that have not stopped theirs."""
    if options.json:
        failure = envelope.Failure("failed", "; ".join(failed))
        envelope.result(data, code=ExitCode.FAILED, error=failure)
        return ExitCode.FAILED
    about.answer(options, data, said)
    for each in failed:
        terminal.complain(f"error: {terminal.line(each)}")
    return ExitCode.FAILED


def _chosen(
    settings: Settings, options: argparse.Namespace
) -> tuple[list[Named], list[Elsewhere]]:
    """Return the deployments to stop, each once, of this machine and of other hosts.

    Raises AgentError for one that neither runs nor waits.
    """
    chosen: dict[tuple[Path, str], Named] = {}
    others: dict[str, Elsewhere] = {}
    for name in options.ids:
        running = _running_there(settings, name)
        others |= {each.title: each for each in running}
        try:
            every = about.chosen_of(
                settings, name, options, "deployment that runs or waits", _is_stoppable
            )
        except NotFoundError:
            if running:
                continue
            raise
        for each in every:
            if each.entry.accepted:
                chosen[each.settings.state, each.entry.key] = each
                continue
            path = each.title.partition("/")[2]
            for one in stack_package.elsewhere(settings, each.stack, path):
                others[one.title] = one
    for each in chosen.values():
        if not _is_stoppable(each.entry) and not _is_asked_again(each):
            raise AgentError(
                f"{each.title} does not run: {status.word(each.entry, each.settings.state)}",
                hint=f"`{settings.command('status')}` shows what runs",
            )
    return list(chosen.values()), list(others.values())


def _running_there(settings: Settings, stack: str) -> list[Elsewhere]:
    """Return the deployments of a stack that run or wait on other hosts; none if the name is not that of a stack."""
    if stack not in stack_package.names(settings.state):
        return []
    return [each for each in stack_package.elsewhere(settings, stack) if each.is_open]


def _is_stoppable(entry: Entry) -> bool:
    return entry.state in OPEN or entry.again


def _is_asked_again(target: Named) -> bool:
    return requests.is_asked(target.settings.state, target.entry.key)


def _standing(target: Named) -> str:
    """Return what a deployment does, or what it waits for."""
    state, entry = target.settings.state, target.entry
    return f"{status.shown(entry, state)}: {status.details(entry, state)}"


def _person() -> str:
    """Return the name of the person who calls this command; empty if it is not known.

    The kernel knows who has logged in, also behind `sudo` and `su`.
    """
    import pwd  # noqa: PLC0415  # only here

    try:
        login = int(Path("/proc/self/loginuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        login = -1
    behind = os.environ.get("SUDO_UID", "")
    numbers = [login, int(behind) if behind.isdecimal() else -1, os.geteuid()]
    number = next(each for each in numbers if 0 <= each < 2**32 - 1)
    try:
        return pwd.getpwuid(number).pw_name
    except (KeyError, OverflowError):
        return f"the user with the number {number}"


def _carry_out(group: Sequence[Named]) -> list[str]:
    """Have requests about deployments of one journal carried out; return a sentence for each deployment."""
    within = group[0].settings
    try:
        with lock.held(within.state):
            return _here(group)
    except LockedError as error:
        process = pause.wake(within.state)
        who = f"the agent (process {process})" if process else error.brief
        when = f"{who} ends it now" if process else f"{who}, and ends it"
        return [f"stop of {each.title} requested: {when}" for each in group]


def _here(group: Sequence[Named]) -> list[str]:
    """Carry out requests with the lock held, wait until the runs have ended, and return a sentence for each."""
    from heat_config_agent.engine import stops  # noqa: PLC0415  # as a rule, an agent does it
    from heat_config_agent.engine.applier import LOOK  # noqa: PLC0415  # the same
    from heat_config_agent.engine.workplace import open_state  # noqa: PLC0415  # the same
    from heat_config_agent.signals.outbox import Outbox  # noqa: PLC0415  # the same

    within = group[0].settings
    folder = within.state / "deployed" if group[0].stack else None
    place = open_state(
        within,
        Outbox(within.ca_file),
        _Warnings(),
        run_settings=replace(within.run_settings, state=within.state),
        deployed=folder,
    )
    work = place.applier.work
    work.queue.hold = "runs are only stopped here"
    place.applier.heed_stops()
    while work.active:
        place.applier.turn(LOOK)
    for each in group:
        stops.settle(work, each.entry.key)
    place.applier.settle()
    entries = place.journal.entries
    said = [_outcome(each, entries.get(each.entry.key)) for each in group]
    place.journal.close()
    place.announcer.close()
    return said


class _Warnings(Report):
    """Prints warnings, and nothing else."""

    def event(self, event: Event) -> None:
        if isinstance(event, Message) and event.is_warning:
            terminal.warn(event.text)


def _outcome(target: Named, entry: Entry | None) -> str:
    """Return the outcome of a deployment."""
    state = target.settings.state
    if entry is None:
        return f"{target.title} is not there any more"
    details = status.details(entry, state).replace("\n", "; ")
    return f"{target.title}: {status.word(entry, state)}" + (
        f": {details}" if details else ""
    )


def _look(chosen: Sequence[Named]) -> wait.View:
    """Return how far the deployments are: it is done when none of them runs or waits."""
    left = [
        each for each in chosen if _is_left(each, journal.read(each.settings.state))
    ]
    for group in named.by_journal(left):
        if lock.holder(group[0].settings.state) is None:
            # it has ended before it could do it
            _carry_out(group)
    line = "; ".join(
        _outcome(each, journal.read(each.settings.state).get(each.entry.key))
        for each in left or chosen
    )
    return wait.View(code=ExitCode.TIMED_OUT if left else ExitCode.OK, line=line)


def _is_left(target: Named, entries: Mapping[str, Entry]) -> bool:
    """Return whether a deployment runs or waits as it did before the request, or the request is not carried out."""
    before = target.entry
    entry = entries.get(before.key)
    if entry is None or entry.accepted != before.accepted:
        return False
    return entry.state in OPEN or requests.is_stop_asked(
        target.settings.state, before.key
    )

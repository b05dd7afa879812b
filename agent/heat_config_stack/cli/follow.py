"""`heat-config-agent follow`: Keep stacks at the newest revisions of their sources, as sections [follow NAME] say."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

from heat_config_agent.cli import stack_package, state_options, terminal
from heat_config_agent.cli.machine import pause
from heat_config_agent.deployments.plan import clock
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import AgentError, ExitCode, LockedError, UsageError
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.notices.journal import reader_of as journal_of
from heat_config_agent.state import followed, lock, requests
from heat_config_agent.state.followed import Followed, short
from heat_config_stack.follow.follower import (
    Follower,
    StillRunningError,
    abandon,
    abandoned,
    failed_deployments,
)

_COMPARED = 200
"""Characters by which a note is known as a problem's: a record keeps no more than the beginning of a long problem."""

_EPILOG = """\
The daemon does this by itself. Without a daemon, this command polls each source once, and carries out its newest
revision if that is a new one. With --status it only shows the revisions.

exit codes:
  0  the newest revision of each source is in force
  1  a source did not answer, a revision is refused or has failed, or the machine is out of step with its revision
  2  bad usage or configuration
  4  the daemon follows the source
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "follow",
        "keep stacks at the newest revisions of their sources",
        __doc__,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="only the section [follow NAME]; default: all of them",
    )
    parser.add_argument(
        "--status",
        action="store_true",
        help="only show the revisions, and ask no source",
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="carry out the newest revision even if it was carried out, or has failed",
    )
    parser.add_argument(
        "--json", action="store_true", help="with --status: print one JSON list"
    )
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Poll sources once, or with `--attached` until standard input ends."""
    if options.json and not options.status:
        raise UsageError("--json requires --status")
    if options.again and (options.status or not options.names):
        raise UsageError(
            "--again needs the NAME of a source, and goes without --status"
        )
    settings = effective.make(
        os.environ, config=options.config, state=options.state_dir
    )
    unknown = sorted(
        set(options.names) - {*settings.followed, *followed.names(settings.state)}
    )
    if unknown:
        hint = (
            meant(unknown[0], settings.followed)
            or f"`{settings.command('config')}` shows all"
        )
        raise UsageError(f"there is no section [follow {unknown[0]}]", hint=hint)
    names = tuple(options.names) or settings.followed
    if options.status:
        return _show(settings, options.names, as_json=options.json)
    lock.guard(settings.state)
    if options.attached:
        return _attached(settings, names)
    if options.again and _daemon_goes_on(settings, names):
        return ExitCode.OK
    errors = {} if options.names else _abandon(settings)
    results = [_once(settings, name) for name in names]
    for error in errors.values():
        raise error
    return ExitCode.FAILED if any(record.problem for record in results) else ExitCode.OK


def _daemon_goes_on(settings: Settings, names: Sequence[str]) -> bool:
    """Request that revisions are carried out again; return whether a daemon does it."""
    for name in names:
        for failed in failed_deployments(settings.state, name):
            requests.ask(
                followed.document(settings.state, name), failed.key, requests.Wish.AGAIN
            )
        followed.ask_again(settings.state, name)
    process = pause.wake(settings.state)
    if process:
        terminal.say(
            terminal.line(
                f"the agent (process {process}) carries out {', '.join(names)} again now"
            )
        )
    return process is not None


@contextlib.contextmanager
def _held(
    settings: Settings, name: str, note: Callable[[str], None]
) -> Iterator[Follower]:
    """Return what follows a source; no other process follows it meanwhile. Raises LockedError and StateError."""
    with lock.held(followed.folder(settings.state, name)):
        yield Follower(settings, name, note)


def _once(settings: Settings, name: str) -> Followed:
    """Poll one source, and print where its stack is, or the problem: also one that an earlier poll has noted."""
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(f"follow {text}")
        _note(text, name)

    try:
        with _held(settings, name, note) as follower:
            record = follower.step()
    except LockedError as error:
        holder = lock.holder(followed.folder(settings.state, name))
        problem = f"another process{f' ({holder[0]})' if holder else ''} follows {name}"
        raise LockedError(
            problem,
            hint=f"`{settings.command('poke')}` has the daemon ask the source now",
        ) from error
    at = (
        f"is at revision {short(record.revision)}"
        if record.revision
        else "has no revision yet"
    )
    if not record.problem:
        terminal.say(terminal.line(f"{name}: {at}"))
    elif not any(record.problem.startswith(text[:_COMPARED]) for text in notes):
        terminal.say(terminal.line(record.problem), error=True)
    return record


def _note(text: str, stack: str = "") -> None:
    """Print a line about an event of a stack: for the system's journal with the stack as a field, or with the time."""
    line = terminal.line(f"follow {text}")
    before = (
        "<5>"
        if os.environ.get("JOURNAL_STREAM")
        else time.strftime("%Y-%m-%d %H:%M:%S ")
    )
    journal = journal_of(2, os.environ)
    if journal is None or not journal.send(5, line, {"STACK": stack} if stack else {}):
        terminal.say(f"{before}{line}", error=True)


def _abandon(settings: Settings, leave: Collection[str] = ()) -> dict[str, AgentError]:
    """Forget the sources that have no section, except some; return by their names why that was not possible."""
    errors: dict[str, AgentError] = {}
    for record in abandoned(settings):
        if record.name in leave:
            continue
        try:
            with lock.held(followed.folder(settings.state, record.name)):
                abandon(settings, record, functools.partial(_note, stack=record.name))
        except AgentError as error:
            errors[record.name] = error
    return errors


_CLEAR_SECONDS = 5.0
"""Seconds between two tries to forget a source without a section."""


def _attached(settings: Settings, names: Sequence[str]) -> int:
    """Follow the sources until standard input ends, as it does when the daemon ends, however that happens.

    A byte on standard input polls all sources now. Revisions that are being carried out continue.
    """
    ended, hurry = threading.Event(), {name: threading.Event() for name in names}
    threading.excepthook = lambda thread: terminal.defect(thread.exc_value)
    threads = [
        threading.Thread(
            target=_follow, args=(settings, name, hurry[name]), daemon=True
        )
        for name in names
    ]
    threads.append(threading.Thread(target=_clear, args=(settings,), daemon=True))
    for thread in threads:
        thread.start()
    while not ended.is_set():
        if not os.read(sys.stdin.fileno(), 4096):
            ended.set()
        for event in hurry.values():
            event.set()
    return ExitCode.OK


def _clear(settings: Settings) -> None:
    """Forget the sources that have no section, as soon as what is done for them has ended."""
    told: set[str] = set()
    leave: set[str] = set()
    while errors := _abandon(settings, leave):
        texts = {str(error) for error in errors.values()}
        for text in sorted(texts - told):
            _note(text)
        told = texts
        # to delete a stack again would run its scripts again and again
        leave |= {
            name
            for name, error in errors.items()
            if not isinstance(error, StillRunningError | LockedError)
        }
        time.sleep(_CLEAR_SECONDS)


def _follow(settings: Settings, name: str, hurry: threading.Event) -> None:
    """Follow one source without end. A stack with a failure is tried again."""
    problem: str | None = None
    while True:
        try:
            with _held(
                settings, name, functools.partial(_note, stack=name)
            ) as follower:
                follower.kept = functools.partial(_tell, name, "")
                while True:
                    follower.step()
                    if problem != "":
                        problem = ""
                        _tell(name, problem)
                    hurry.wait(follower.interval)
                    hurry.clear()
        except AgentError as error:
            if str(error) != problem:
                problem = str(error)
                _note(f"{name}: {problem}", name)
                _tell(name, problem)
            hurry.wait(10)
            hurry.clear()
        except Exception as error:  # noqa: BLE001  # a defect of one source's follower ends nothing
            problem = f"a defect of the agent: {type(error).__name__}"
            terminal.defect(error)
            _tell(name, problem)
            hurry.wait(10)
            hurry.clear()


def _tell(name: str, trouble: str) -> None:
    """Tell the daemon a trouble that cannot be in the record of a source, or that there is none."""
    with contextlib.suppress(OSError):  # the daemon has ended
        os.write(1, followed.tale(name, trouble))


def _show(settings: Settings, names: Sequence[str], *, as_json: bool) -> int:
    records = stack_package.followed_records(settings, names)
    if as_json:
        terminal.say(json.dumps([followed.values(record) for record in records]))
    else:
        for line in lines(records):
            terminal.say(line)
    return ExitCode.FAILED if any(record.problem for record in records) else ExitCode.OK


def lines(records: Sequence[Followed]) -> list[str]:
    """Return a table of the sources that are followed."""
    rows = [("NAME", "STATE", "REVISION", "SINCE", "SOURCE", "DETAILS")]
    rows += [
        (
            record.name,
            record.state,
            short(record.revision) or "-",
            clock(record.since) if record.since else "-",
            record.source or "-",
            record.problem.partition(": ")[2] or "-",
        )
        for record in records
    ]
    return terminal.table(rows)

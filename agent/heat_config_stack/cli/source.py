"""`heat-config-agent source`: Where the work of this machine comes from, and whether the machine is up to date with it.

The daemon asks its own sources (heat, cfn, local and others), and keeps stacks and documents at the newest revisions of
the sources in sections [follow NAME]. `source sync` does the latter once, also without a daemon.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.machine import pause
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.masking.names import url as without_secrets
from heat_config_agent.model import wording
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    LockedError,
    NotFoundError,
    UsageError,
)
from heat_config_agent.model.states import Shown
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.notices.journal import reader_of as journal_of
from heat_config_agent.state import asked, followed, health, lock, requests
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

_LIST_CODES = """\
exit codes:
  0  the sources are shown
  1  with --check: a source does not answer, or its newest revision is refused or has failed
  2  bad usage or settings
  8  there is no such source
  9  with --check: the machine has drifted from the revision of a source, and nothing else is wrong
"""

_SHOW_CODES = """\
exit codes:
  0  the source is shown
  2  bad usage or settings
  8  there is no such source
"""

_SYNC_EPILOG = """\
The daemon does this by itself. Without a daemon, this command asks each source once, and carries out its newest
revision if that is a new one.

exit codes:
  0  the newest revision of each source is in force
  1  a source did not answer, a revision is refused or has failed, or the machine has drifted from its revision
  2  bad usage or settings
  4  the daemon, or another command, follows the source
  8  there is no such source
"""

_HEADER = ("NAME", "STATE", "REVISION", "SINCE", "NEXT", "WHERE", "DETAILS")

_BAD = (Shown.FAILED, Shown.REFUSED, Shown.UNKNOWN)
"""The states of a source with a problem."""


def add(commands: state_options.Commands) -> None:
    """Declare the command and its subcommands."""
    inner = state_options.group(
        commands, "source", "list the sources of work, and bring the machine up to date"
    )
    parser = state_options.command(
        inner,
        "list",
        "list the sources with their states and revisions",
        "list: List the sources that the daemon asks, and those that stacks and documents follow.",
        epilog=_LIST_CODES,
    )
    _add_names(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="end with 1 if a source has a problem, and with 9 if the machine has drifted",
    )
    _runs(parser, list_, "sources")
    parser = state_options.command(
        inner,
        "show",
        "show everything about a source",
        "show: Show everything about a source.",
        epilog=_SHOW_CODES,
    )
    parser.add_argument("name", metavar="SOURCE", help=_SOURCE)
    _runs(parser, show, "source")
    parser = state_options.command(
        inner,
        "sync",
        "bring the machine to the newest revisions of followed sources",
        "sync: Ask followed sources for their newest revisions, and carry these out.",
        epilog=_SYNC_EPILOG,
    )
    _add_names(parser)
    parser.add_argument(
        "--again",
        action="store_true",
        help="carry out the newest revision even if it was carried out, or has failed",
    )
    state_options.add_plan(parser)
    state_options.add_diff(parser)
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)
    _runs(parser, sync, "sources")


_SOURCE = "the name of a source: that of its section [follow SOURCE], or one of the daemon's, such as heat"


def _add_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="SOURCE", help=f"{_SOURCE}; default: all of them"
    )


def _runs(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    kind: str,
) -> None:
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind=kind)


# The sources as they are.


def list_(options: argparse.Namespace) -> int:
    """List the sources."""
    settings = state_options.of(options)
    rows = _chosen(settings, options.names)
    states = {row["state"] for row in rows}
    code = ExitCode.OK
    if options.check and not states.isdisjoint(_BAD):
        code = ExitCode.FAILED
    elif options.check and Shown.DRIFTED in states:
        code = ExitCode.DRIFTED
    if options.json:
        envelope.result({"sources": rows}, code=code, error=_failure(rows, code))
        return code
    for line in terminal.table(
        [_cells(row) for row in rows], header=_HEADER, empty="no sources"
    ):
        terminal.say(line)
    return code


def _failure(
    rows: Sequence[Mapping[str, object]], code: int
) -> envelope.Failure | None:
    if code == ExitCode.OK:
        return None
    wrong = [str(row["message"]) for row in rows if row["message"]]
    kind = "drifted" if code == ExitCode.DRIFTED else "failed"
    return envelope.Failure(kind, "; ".join(wrong))


def show(options: argparse.Namespace) -> int:
    """Show a source."""
    settings = state_options.of(options)
    [row] = _chosen(settings, [options.name])
    if options.json:
        envelope.result(row)
        return ExitCode.OK
    for key, value in row.items():
        if value in (None, "", False) or key in _PARTS:
            continue
        text = _time(value) if key in _TIMES else str(value)
        label = key.replace("_", " ")
        text = terminal.wrapped(terminal.line(text), 12, terminal.room(), begin=12)
        text = terminal.stated(text) if key == "state" else text
        terminal.say(f"{terminal.padded(label, 11)} {text}")
    return ExitCode.OK


_TIMES = ("since", "answered", "next_poll")
_PARTS = ("reason", "drift", "trouble")
"""The parts of the sentence about a source, for programs."""


def _time(value: object) -> str:
    """Return a time of a row for people."""
    return wording.moment(_seconds(str(value))) if value else "-"


def _seconds(stamp: str) -> float:
    """Return a time of a row in seconds since the epoch."""
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def _chosen(settings: Settings, names: Sequence[str]) -> list[dict[str, object]]:
    """Return the sources of these names, or all. Raises NotFoundError."""
    rows = [*_of_daemon(settings), *_of_followed(settings)]
    for name in names:
        if all(row["name"] != name for row in rows):
            raise _missing(settings, name, [str(row["name"]) for row in rows])
    return [row for row in rows if not names or row["name"] in names]


def _missing(settings: Settings, name: str, known: Sequence[str]) -> NotFoundError:
    shown = f"`{settings.command('source', 'list')}` shows them all"
    return NotFoundError(
        f"there is no source {name}",
        hint=meant(name, known) or shown,
        subject=("source", name),
    )


def _report(settings: Settings) -> dict[str, object]:
    """Return the health file of the running daemon; empty if there is none."""
    holder = lock.holder(settings.state)
    if holder is None or holder[1] != lock.DAEMON:
        return {}
    report = health.read(settings.state, holder[0])
    return report if health.is_from(report, holder[0]) else {}


def _of_daemon(settings: Settings) -> Iterator[dict[str, object]]:
    """Yield the sources that the running daemon asks by itself."""
    report = _report(settings)
    at, poll = report.get("at"), report.get("next_poll")
    due = at + poll if isinstance(at, float) and isinstance(poll, float) else None
    sources = report.get("sources")
    for source in sources if isinstance(sources, list) else ():
        if not isinstance(source, dict) or not isinstance(source.get("name"), str):
            continue
        working, trouble = source.get("working"), str(source.get("trouble") or "")
        state = Shown.WAITING if working is None else Shown.OK
        answered = source.get("answered")
        yield {
            "name": source["name"],
            "state": str(Shown.UNKNOWN if working is False else state),
            "kind": "daemon",
            "where": str(source.get("from") or ""),
            "revision": None,
            "since": _stamp(source.get("since")),
            "answered": _stamp(answered),
            "next_poll": _stamp(due),
            "running": None,
            "refused": None,
            "failed": None,
            "reason": None,
            "drift": None,
            "trouble": trouble or None,
            "message": trouble,
            "hint": None,
            "document": True,
        }


def _stamp(seconds: object) -> str | None:
    is_time = isinstance(seconds, int | float) and seconds > 0
    return wording.stamp(float(seconds)) if is_time else None  # type: ignore[arg-type]  # it is a number


def _of_followed(settings: Settings) -> Iterator[dict[str, object]]:
    """Yield the sources that are or were followed, each compared with the machine as it is now."""
    records = {each.name: each for each in stack_package.followed_records(settings)}
    for name in settings.followed:
        url = str(without_secrets(str(settings.section(f"follow {name}")["url"])))
        records.setdefault(name, Followed(name=name, source=url))
    paused = asked.paused(settings.state)
    is_running = bool(_report(settings))
    for name in sorted(records):
        record = records[name]
        is_wanted = name in settings.followed
        values = followed.values(record)
        if paused and record.state == Shown.UNKNOWN and "paused" in record.trouble:
            values["state"] = str(Shown.PAUSED)
        interval = settings.section(f"follow {name}")["interval"] if is_wanted else 0
        again = f"`{settings.command('source', 'sync', name, '--again')}`"
        hint = f"{again} carries it out again" if _is_repeatable(record) else None
        yield {
            "name": name,
            "state": values["state"],
            "kind": "followed",
            "where": record.source,
            "revision": values["revision"],
            "since": values["since"],
            "answered": values["answered"],
            "next_poll": _stamp(record.answered + float(str(interval)))
            if record.answered and is_running and is_wanted
            else None,
            "running": values["running"],
            "refused": values["refused"],
            "failed": values["failed"],
            "reason": values["reason"],
            "drift": values["drift"],
            "trouble": values["trouble"],
            "message": _message(record) if is_wanted else _left(record),
            "hint": hint,
            "document": record.document,
        }


def _is_repeatable(record: Followed) -> bool:
    return record.state in (Shown.FAILED, Shown.DRIFTED) and not record.trouble


def _message(record: Followed) -> str:
    return record.problem.removeprefix(f"source {record.name}: ")


def _left(record: Followed) -> str:
    end = "is deleted" if record.delete and not record.document else "stays"
    what = "its document" if record.document else "its stack"
    return f"it has no section any more: {what} {end}"


def _cells(row: Mapping[str, object]) -> tuple[str, ...]:
    details = str(row["message"] or "")
    if row["hint"]:
        details += f": {row['hint']}"
    next_poll = row["next_poll"]
    seconds = _seconds(str(next_poll)) - time.time() if next_poll else None
    return (
        str(row["name"]),
        str(row["state"]),
        short(str(row["revision"] or "")) or "-",
        _time(row["since"]),
        "-" if seconds is None else f"in {wording.duration(max(seconds, 1.0) // 1)}",
        str(row["where"] or "-"),
        details,
    )


# Bringing the machine up to date.


def sync(options: argparse.Namespace) -> int:
    """Ask followed sources once, or with `--attached` until standard input ends."""
    if options.again and not options.names:
        raise UsageError(
            "--again needs the name of a source",
            hint="such as `heat-config-agent source sync web --again`",
        )
    settings = effective.make(
        os.environ, config=options.config, state=options.state_dir
    )
    known = {*settings.followed, *followed.names(settings.state)}
    own = {str(row["name"]) for row in _of_daemon(settings)}
    for name in options.names:
        if name not in known | own:
            raise _missing(settings, name, sorted(known | own))
    names = tuple(name for name in options.names if name in known)
    if not options.names:
        names = settings.followed
    if options.plan:
        return _plan(settings, names, options)
    lock.guard(settings.state)
    if options.attached:
        return _attached(settings, names)
    if own.intersection(options.names):
        process = pause.wake(settings.state)
        terminal.note(f"the agent (process {process}) asks its sources now")
    if options.again and _daemon_goes_on(settings, names):
        return _synced(settings, options, names, ExitCode.OK)
    errors = {} if options.names else _abandon(settings)
    results = [_once(settings, name, options) for name in names]
    for error in errors.values():
        raise error
    if not results and not options.names and not options.json:
        terminal.say("no followed sources")
    is_bad = any(record.problem for record in results)
    return _synced(settings, options, names, ExitCode.FAILED if is_bad else ExitCode.OK)


def _synced(
    settings: Settings, options: argparse.Namespace, names: Sequence[str], code: int
) -> int:
    if options.json:
        rows = [row for row in _of_followed(settings) if row["name"] in names]
        envelope.result({"sources": rows}, code=code, error=_failure(rows, code))
    return code


def _plan(settings: Settings, names: Sequence[str], options: argparse.Namespace) -> int:
    """Show which revisions would be carried out, and carry out none."""
    changes: list[dict[str, object]] = []
    inner: list[tuple[str, str]] = []
    for name in names:
        with _held(settings, name, lambda _text: None) as follower:
            at, newest, is_due = follower.foresee(again=options.again)
            done = (
                _inner_plan(follower, newest, options)
                if is_due and options.diff
                else None
            )
        why = f"revision {short(at)} → {short(newest)}" if at else short(newest)
        if not is_due:
            why = f"revision {short(newest)} was carried out"
        elif at == newest:
            why = f"revision {short(newest)} again"
        source = str(settings.section(f"follow {name}")["url"])
        changes.append(
            {
                "change": "sync" if is_due else "unchanged",
                "name": name,
                "type": str(without_secrets(source)),
                "why": why,
            }
        )
        if done is not None and options.json:
            changes += _inner_changes(name, done)
        elif done is not None:
            inner.append((name, done))
    if options.json:
        envelope.begin("plan", is_on=True)
        envelope.result({"changes": changes, "mistakes": []})
        return ExitCode.OK
    for line in terminal.table(
        [tuple(map(str, each.values())) for each in changes],
        header=("CHANGE", "NAME", "TYPE", "WHY"),
        empty="no followed sources",
    ):
        terminal.say(line)
    for name, text in inner:
        terminal.say(f"\n{terminal.line(name)}:")
        for line in text.splitlines():
            terminal.say(f"  {line}".rstrip())
    due = sum(each["change"] == "sync" for each in changes)
    if inner:
        terminal.say("")
    terminal.say(f"{terminal.count(due, 'source')} to sync; nothing was done")
    return ExitCode.OK


def _inner_plan(follower: Follower, revision: str, options: argparse.Namespace) -> str:
    """Return the plan of a source's deployments in a revision. Raises AgentError if they cannot be planned."""
    environment = {**os.environ, "COLUMNS": str(terminal.width())}
    if terminal.has_colour():
        environment["CLICOLOR_FORCE"] = "1"
    with follower.plan(revision) as words:
        more = ["--diff", *(["--json"] if options.json else [])]
        done = subprocess.run(
            [*words, *more],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            env=environment,
        )
    for line in done.stderr.splitlines():
        terminal.complain(line)
    if done.returncode:
        raise AgentError(
            f"revision {short(revision)} has no plan: exit code {done.returncode}"
        )
    return done.stdout


def _inner_changes(name: str, text: str) -> list[dict[str, object]]:
    """Return the changes in the plan of a source's deployments, with their full names."""
    data = json.loads(text)["data"]
    return [{**each, "name": f"{name}/{each['name']}"} for each in data["changes"]]


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
        terminal.note(
            f"the agent (process {process}) carries out {', '.join(names)} again now"
        )
    return process is not None


@contextlib.contextmanager
def _held(
    settings: Settings, name: str, note: Callable[[str], None]
) -> Iterator[Follower]:
    """Return the follower of a source, whose lock it holds. Raises LockedError and StateError."""
    with lock.held(followed.folder(settings.state, name)):
        yield Follower(settings, name, note)


def _once(settings: Settings, name: str, options: argparse.Namespace) -> Followed:
    """Poll one source, and print the state of its stack, or the problem, also one of an earlier poll."""
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(f"source {text}")
        _note(text, name)

    try:
        with _held(settings, name, note) as follower:
            record = follower.step()
    except LockedError as error:
        holder = lock.holder(followed.folder(settings.state, name))
        problem = f"another process{f' ({holder[0]})' if holder else ''} follows {name}"
        raise LockedError(
            problem,
            hint=f"`{settings.command('poll')}` has the daemon ask the source now",
        ) from error
    at = (
        f"is at revision {short(record.revision)}"
        if record.revision
        else "has no revision yet"
    )
    if not record.problem:
        if not options.json:
            terminal.say(terminal.line(f"{name}: {at}"))
    elif not any(record.problem.startswith(text[:_COMPARED]) for text in notes):
        terminal.say(terminal.line(record.problem), error=True)
    return record


def _note(text: str, stack: str = "") -> None:
    """Print a line about an event of a stack: for the system's journal with the stack as a field, or with the time."""
    line = terminal.line(f"source {text}")
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
    """Forget the sources without a section in the settings, as soon as work for them has ended."""
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

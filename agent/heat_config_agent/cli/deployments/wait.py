"""`heat-config-agent wait [ID]`: Wait until a deployment, a stack, or all that the agent has been given is done."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from heat_config_agent.cli import stack_package, state_options, terminal
from heat_config_agent.cli.command_line import Option, seconds
from heat_config_agent.cli.deployments import named, status
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import AgentError, ExitCode, StateError, UsageError
from heat_config_agent.state import agents, followed, health, journal, lock
from heat_config_agent.state.followed import Followed
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.settings.effective import Settings

_DESCRIPTION = """: Wait until a deployment, a stack, or all deployments are done, and print how they ended. Without ID
and --stack, wait until the running agent has the document of every source that it uses, each deployment in force has
run, and each followed stack is at the newest revision of its source, or has refused it. This works before the agent,
the deployment or the stack is there. It does not wait until a server accepts the result. If several deployments have
the name ID, the newest one counts.
"""

_EPILOG = """\
exit codes:
  0  it is done, and nothing failed
  1  it is done, and a deployment or the stack failed; or the action of the stack was interrupted
  2  bad usage or configuration, or a state directory that cannot be used
  7  the time of --timeout is over, and it is not done yet
  8  the time of --timeout is over, and the deployment, the stack or the agent is not there
"""

_INTERVAL = 0.25
"""Seconds between two looks at the state directory."""

_SELDOM = 1.0
"""Seconds between two looks into the journals of all stacks and followed documents."""

_TIMES = re.compile(r", [^,]* of at most .*")
"""The part of a line that changes with the time, while it waits for the same."""

_OUTCOMES = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "failed",
    ExitCode.TIMED_OUT: "timed out",
    ExitCode.NOT_THERE: "not there",
}

_HAS_RUN = frozenset(
    {State.FINISHED, State.SIGNALLED, State.UNASKED, State.REFUSED, State.SUPERSEDED}
)

_TIMEOUT = Option(
    "--timeout", "wait at most SECONDS, or a time like 90s, 5m or 2h; 0 only looks (default: no limit)", "SECONDS",
    read=seconds,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _View:
    """The findings of one look at the state directory."""

    code: ExitCode
    """OK or FAILED once it is done; else the exit code at the end of the time."""
    line: str
    """One line about it for people."""
    entries: tuple[Entry, ...] = ()
    """The deployments that it is about."""

    @property
    def is_done(self) -> bool:
        return self.code in (ExitCode.OK, ExitCode.FAILED)


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "wait",
        "wait until deployments are done",
        _DESCRIPTION,
        epilog=_EPILOG,
    )
    subject = parser.add_mutually_exclusive_group()
    subject.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="a deployment's id, the beginning of its id, its name, its resource in the template, STACK/RESOURCE, or "
        "NAME/DEPLOYMENT for one that the source NAME has",
    )
    subject.add_argument(
        "--stack", metavar="NAME", help="wait for the action of a stack on this machine"
    )
    parser.add_argument(
        "--for-action",
        metavar="ACTION",
        help="wait for this action, such as CREATE, and no other",
    )
    _TIMEOUT.add(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object at the end"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Wait, and print how it ended."""
    if options.id == "" or options.stack == "" or options.for_action == "":
        raise UsageError(
            "an ID, a NAME or an ACTION is empty", hint="leave it out, or give a value"
        )
    settings = state_options.of(options)
    action = options.for_action or ""
    if options.stack:
        look = _stack(settings, options.stack, action)
    else:
        look = _deployments(
            *_named(settings.state, options.id or ""), action, settings.followed
        )
        look = _elsewhere(look, settings, options) if options.id else look
        if lock.holder(settings.state) is None:
            elsewhere = agents.hint(
                settings.state, settings.options, os.environ, "wait"
            )
            if elsewhere:
                terminal.say(terminal.line(elsewhere), error=True)
    end = None if options.timeout is None else time.monotonic() + options.timeout
    view = look()
    said: list[str] = []
    waits_for = ""
    while not view.is_done and (end is None or time.monotonic() < end):
        said = _say_new(status.obstacles(settings.state), said)
        if (now := _TIMES.sub("", view.line)) != waits_for:
            waits_for = now
            terminal.say(terminal.line(f"waiting: {waits_for}"), error=True)
        time.sleep(
            _INTERVAL
            if end is None
            else max(min(_INTERVAL, end - time.monotonic()), 0.0)
        )
        view = look()
    if options.json:
        deployments = [status.values(entry, settings.state) for entry in view.entries]
        terminal.say(
            json.dumps(
                {
                    "outcome": _OUTCOMES[view.code],
                    "reason": view.line,
                    "deployments": deployments,
                }
            )
        )
    else:
        terminal.say(terminal.line(view.line), error=view.code != ExitCode.OK)
    return view.code


def _named(state: Path, wanted: str) -> tuple[Path, str]:
    """Return the state directory of a deployment and its name in it: `NAME/DEPLOYMENT` is of a followed document."""
    source, slash, rest = wanted.partition("/")
    if (
        not slash
        or source not in dict(followed.documents(state))
        or named.matching(journal.read(state), wanted)
    ):
        return state, wanted
    return followed.document(state, source), rest


def _elsewhere(
    look: Callable[[], _View], settings: Settings, options: argparse.Namespace
) -> Callable[[], _View]:
    """Return a function that looks for a deployment in stacks and followed documents too, under all its names."""
    next_time, last = 0.0, _View(code=ExitCode.NOT_THERE, line="")

    def look_everywhere() -> _View:
        nonlocal next_time, last
        view = look()
        if view.code != ExitCode.NOT_THERE:
            return view
        if time.monotonic() >= next_time or last.is_done:
            last = _found(view, settings, options)
            # it takes longer than a look into one journal
            next_time = time.monotonic() + _SELDOM
        return last

    return look_everywhere


def _found(missing: _View, settings: Settings, options: argparse.Namespace) -> _View:
    """Return how far the deployment of a stack or a followed document is; `missing` with a reason if there is none."""
    action = options.for_action or ""
    try:
        found = named.find(settings, options.id, options.config, newest=True)
    except AgentError as error:
        return replace(missing, line=error.brief) if not action else missing
    if action and found.entry.action != action:
        return missing
    return _view_of_entry(found.entry, found.settings.state, found.title)


def _say_new(obstacles: list[str], said: list[str]) -> list[str]:
    """Print the obstacles that have not been said, whenever they are tried next; return those that there are."""
    causes = [obstacle.partition("; next try")[0] for obstacle in obstacles]
    for obstacle, cause in zip(obstacles, causes, strict=True):
        if cause not in said:
            terminal.say(terminal.line(obstacle), error=True)
    return causes


def _deployments(
    state: Path, argument: str, action: str, names: Sequence[str]
) -> Callable[[], _View]:
    """Return a function that looks at one deployment, or at all of them if none is `wanted`.

    `names` are those of the stacks that follow sources.
    """
    seen: object = ()
    entries: Mapping[str, Entry] = {}

    def look() -> _View:
        nonlocal seen, entries
        # Before the journal: what the agent says in its file is already in the journal.
        stacks = {} if argument or not names else _records(state, names)
        trouble = "" if argument else _trouble_of_agent(state, stacks)
        changed = _last_change(state / journal.FILE)
        if changed != seen:
            seen, entries = changed, journal.read(state)
        chosen = {
            key: each
            for key, each in entries.items()
            if not action or each.action == action
        }
        if argument:
            return _one(chosen, argument, action, state)
        refused = [each.problem for each in stacks.values() if each and each.refused]
        return _all(chosen, action, trouble, refused, state)

    return look


def _records(state: Path, names: Sequence[str]) -> dict[str, Followed | None]:
    """Return the record of each followed stack, with the trouble that could not be written into it."""
    records = {name: followed.read(state, name) for name in names}
    troubles = {
        name: text for name, text in health.unrecorded(state).items() if name in records
    }
    told = followed.with_troubles(filter(None, records.values()), troubles)
    return records | {record.name: record for record in told}


def _one(entries: Mapping[str, Entry], name: str, action: str, state: Path) -> _View:
    """Return how far the newest deployment of that name is."""
    matches = named.matching(entries, name)
    if not matches:
        suffix = f" for {action}" if action else ""
        return _View(
            code=ExitCode.NOT_THERE, line=f"no deployment {name!r}{suffix} in {state}"
        )
    names = sorted({each.title for each in matches})
    if len(names) > 1:
        raise UsageError(
            f"{name!r} is more than one deployment: {', '.join(names)}",
            hint="give more of the id",
        )
    return _view_of_entry(max(matches, key=lambda each: each.accepted), state)


def _view_of_entry(entry: Entry, state: Path, title: str = "") -> _View:
    """Return how far a deployment is; `title` is its full name, if that is not the one in its journal."""
    line = _line(entry, state, title)
    if not _has_ended(entry):
        return _View(code=ExitCode.TIMED_OUT, line=line, entries=(entry,))
    # one that was replaced before it ran has done nothing
    failed = entry.failed or entry.ended is None
    return _View(
        code=ExitCode.FAILED if failed else ExitCode.OK, line=line, entries=(entry,)
    )


def _all(
    entries: Mapping[str, Entry],
    action: str,
    trouble: str,
    refused: list[str],
    state: Path,
) -> _View:
    """Return how far the deployments in force are; `trouble` says why more of them may be to come.

    `refused` are the sentences about followed stacks whose newest revision was refused or has failed.
    """
    current = tuple(
        entry
        for entry in entries.values()
        if entry.left_at is None or entry.state is State.RUNNING
    )
    if trouble:
        code = ExitCode.TIMED_OUT if lock.holder(state) else ExitCode.NOT_THERE
        return _View(code=code, line=trouble, entries=current)
    if action and not current:
        return _View(
            code=ExitCode.NOT_THERE, line=f"no deployment for {action} in {state}"
        )
    if unfinished := [entry for entry in current if not _has_ended(entry)]:
        return _View(
            code=ExitCode.TIMED_OUT, line=_lines(unfinished, state), entries=current
        )
    if refused or any(entry.failed for entry in current):
        failed = _lines([entry for entry in current if entry.failed], state)
        return _View(
            code=ExitCode.FAILED,
            line="; ".join(filter(None, (failed, *refused))),
            entries=current,
        )
    number = terminal.count(len(current), "deployment")
    return _View(code=ExitCode.OK, line=f"{number} done", entries=current)


def _trouble_of_agent(state: Path, stacks: Mapping[str, Followed | None]) -> str:
    """Return why the running agent may have more to begin; empty if it has not.

    `stacks` has the record of each stack that follows a source, None for one without a record.
    """
    holder = lock.holder(state)
    if holder is None or holder[1] != lock.DAEMON:
        return "no agent is running"
    report = health.read(state, holder[0])
    if obstacles := status.obstacles(state):
        return "; ".join(obstacles)
    if not health.is_from(report, holder[0]) or report.get("ended") is not None:
        return "the agent is starting"
    sources = report.get("sources")
    asked = (
        [each for each in sources if not each.get("seldom")]
        if isinstance(sources, list)
        else []
    )
    if silent := [str(each.get("name")) for each in asked if not each.get("working")]:
        return f"no answer yet from {', '.join(silent)}"
    if not report.get("current") and (asked or not stacks):
        return "the agent has not read the documents of its sources yet"
    return next(filter(None, map(_unfinished, stacks.items())), "")


def _unfinished(stack: tuple[str, Followed | None]) -> str:
    """Return what a stack that follows a source waits for; empty if it is as far as it gets."""
    name, record = stack
    if record is not None and record.trouble:
        return record.problem
    if record is None or not (record.begun or record.concluded):
        return f"follow {name}: no revision was carried out yet"
    return (
        f"follow {name}: revision {followed.short(record.begun)} is being carried out"
        if record.begun
        else ""
    )


def _stack(settings: Settings, name: str, action: str) -> Callable[[], _View]:
    """Return a function that looks at a stack on this machine. Raises UsageError if the name is not valid.

    An action that was interrupted is not waited for: only a command continues it.
    """
    state = settings.state
    path = stack_package.records_file(state, name)
    seen: object = ()
    view = _View(code=ExitCode.NOT_THERE, line="")
    interruption: Callable[[], str] = str

    def look() -> _View:
        nonlocal seen, view, interruption
        changed = _last_change(path)
        if changed != seen:
            seen, stack = changed, stack_package.kept(state, name)
            if stack is None or stack.blank:
                code = ExitCode.OK if action == "DELETE" else ExitCode.NOT_THERE
                view = _View(code=code, line=f"there is no stack {name} in {state}")
                return view
            if stack.record is None:
                raise StateError(f"cannot read the stack {name}: {stack.trouble}")
            view = _view_of(
                name,
                action,
                stack.record.action,
                stack.record.status,
                stack.record.reason,
            )
            interruption = partial(stack_package.interrupted, settings, stack)
        if view.code == ExitCode.TIMED_OUT and (why := interruption()):
            return _View(code=ExitCode.FAILED, line=why)
        return view

    return look


def _view_of(name: str, wanted: str, action: str, status: str, reason: str) -> _View:
    """Return how far a stack is with the `wanted` action; with any if that is empty."""
    line = f"{name}: {action}_{status}" + (f": {reason}" if reason else "")
    if wanted and action != wanted:
        return _View(code=ExitCode.TIMED_OUT, line=f"{line}; it has not begun {wanted}")
    codes = {"COMPLETE": ExitCode.OK, "FAILED": ExitCode.FAILED}
    return _View(code=codes.get(status, ExitCode.TIMED_OUT), line=line)


def _has_ended(entry: Entry) -> bool:
    """Return whether nothing is run any more for a deployment."""
    return entry.state in _HAS_RUN and not entry.again


def _lines(entries: list[Entry], state: Path) -> str:
    return "; ".join(_line(entry, state) for entry in entries)


def _line(entry: Entry, state: Path, title: str = "") -> str:
    details = status.details(entry, state).replace("\n", "; ")
    name = (
        f"{title or entry.title} ({entry.action})"
        if entry.action
        else title or entry.title
    )
    return f"{name}: {status.word(entry, state)}" + (f": {details}" if details else "")


def _last_change(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes when a file is written or replaced; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116  # four times a second
    except OSError:  # reading it reports an error that matters
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

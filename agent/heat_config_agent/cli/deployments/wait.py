"""`heat-config-agent wait [NAME]`: Wait until something, or all that the agent has been given, is done."""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.deployments import named, status, verdicts
from heat_config_agent.cli.deployments.named import Named, NamedPlace
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import (
    ExitCode,
    NotFoundError,
    StateError,
    UsageError,
)
from heat_config_agent.model.states import Shown
from heat_config_agent.state import agents, followed, health, journal, lock, requests
from heat_config_agent.state.followed import Followed
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.settings.effective import Settings

_DESCRIPTION = """: Wait until a deployment, a stack, a source, or everything is done, and print how it ended. Without
NAME, wait until the running agent has the document of every source that it uses, each deployment in force has run, each
stack has ended its action, and each followed source is at its newest revision, or has refused it. This works before the
agent, the deployment or the stack is there. It does not wait until a server accepts the result. If several deployments
have the NAME, the newest one counts.
"""

_EPILOG = """\
exit codes:
  0  it is done, and nothing failed
  1  it is done, and a deployment or the stack failed or has drifted; or the action of the stack was interrupted
  2  bad usage or settings
  7  the time of --wait-for is over, and it is not done yet
  8  the time of --wait-for is over, and the deployment, the stack, the source or the agent is not there
  10  the state directory cannot be used
"""

_INTERVAL = 0.25
"""Seconds between two looks at the state directory."""

_SILENT = 1.0
"""Seconds after which a terminal shows that the command waits."""

_TIMES = re.compile(r", [^,]* of at most .*")
"""The part of a line that changes with the time, while it waits for the same."""

_NO_AGENT = "no agent is running"

_OUTCOMES = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "failed",
    ExitCode.TIMED_OUT: "timed_out",
    ExitCode.NOT_THERE: "not_there",
}

_CODES = {
    ExitCode.FAILED: "failed",
    ExitCode.TIMED_OUT: "timeout",
    ExitCode.NOT_THERE: "not_found",
}
"""The exit codes of a wait that was in vain, and the codes of the error in JSON."""

_HAS_RUN = frozenset(
    {State.FINISHED, State.SIGNALLED, State.UNASKED, State.REFUSED, State.SUPERSEDED}
)


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A deployment that is waited for."""

    entry: Entry
    state: Path
    """The state directory of its journal."""
    title: str = ""
    """Its full name, if it differs from the name in its journal."""
    follows: str = ""

    @property
    def line(self) -> str:
        """Its name, and how far it is."""
        entry = self.entry
        details = status.details(entry, self.state).replace("\n", "; ")
        action = f" ({entry.action})" if entry.action else ""
        name = f"{self.title or entry.title}{action}"
        word = status.word(entry, self.state)
        return f"{name}: {word}" + (f": {details}" if details else "")

    @property
    def has_drifted(self) -> bool:
        """True if its last verification says that it is not in effect any more."""
        return verdicts.drift(self.entry, self.state) is not None

    @property
    def values(self) -> dict[str, object]:
        """The deployment as JSON."""
        return status.values(
            self.entry, self.state, title=self.title, follows=self.follows
        )


@dataclass(frozen=True, kw_only=True)
class View:
    """The findings of one look at the state directory."""

    code: ExitCode
    """OK or FAILED once it is done; else the exit code at the end of the time."""
    line: str
    """One line about it for people."""
    entries: tuple[_Part, ...] = ()
    """The deployments that it is about."""
    subject: tuple[str, str] | None = None
    """The kind and the name of the thing that was named, if it is there."""

    @property
    def is_done(self) -> bool:
        return self.code in (ExitCode.OK, ExitCode.FAILED)

    @property
    def outcome(self) -> str:
        """The word for the exit code."""
        return _OUTCOMES[self.code]

    @property
    def failure(self) -> envelope.Failure | None:
        """The error in JSON; None if it is done, and nothing failed."""
        if self.code == ExitCode.OK:
            return None
        return envelope.Failure(_CODES[self.code], self.line, subject=self.subject)

    @property
    def values(self) -> dict[str, object]:
        """The findings as JSON."""
        subject = self.subject
        return {
            "outcome": self.outcome,
            "message": self.line,
            "subject": {"kind": subject[0], "name": subject[1]} if subject else None,
            "deployments": [each.values for each in self.entries],
        }


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "wait",
        "wait until deployments are done",
        _DESCRIPTION,
        epilog=_EPILOG,
    )
    state_options.add_id(parser, needed=False)
    parser.add_argument(
        "--for-action",
        metavar="ACTION",
        help="wait for this action, such as CREATE, and no other",
    )
    state_options.add_wait_for(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="wait")


def run(options: argparse.Namespace) -> int:
    """Wait, and print how it ended."""
    if options.id == "" or options.for_action == "":
        raise UsageError(
            "the NAME or the ACTION is empty", hint="leave it out, or give a value"
        )
    settings = state_options.of(options)
    action = options.for_action or ""
    look: Callable[[], View] = (
        _Thing(settings, options.id, options.config, action).look
        if options.id
        else _Everything(settings, action).look
    )
    if lock.holder(settings.state) is None:
        elsewhere = agents.hint(settings.state, settings.options, os.environ, "wait")
        if elsewhere:
            terminal.complain(terminal.line(elsewhere))
    view = until(look, settings, options.wait_for, quiet=options.quiet)
    error = view.failure
    if error is not None:
        terminal.complain(f"error: {terminal.line(view.line)}")
    if options.json:
        envelope.result(view.values, code=view.code, error=error)
    elif error is None:
        terminal.say(terminal.line(view.line))
    return view.code


def of_things(
    settings: Settings, names: Sequence[str], config: Path | None
) -> Callable[[], View]:
    """Return a function that looks at several things: they are done once all of them are."""
    looks = [_Thing(settings, name, config, "", quiet=True).look for name in names]

    def look() -> View:
        views = [each() for each in looks]
        open_views = [each for each in views if not each.is_done]
        worst = max(views, key=lambda each: each.code)
        lines = "; ".join(each.line for each in open_views or views)
        entries = tuple(entry for each in views for entry in each.entries)
        return View(code=worst.code, line=lines, entries=entries)

    return look


def until(
    look: Callable[[], View],
    settings: Settings,
    limit: float | None,
    *,
    quiet: bool = False,
) -> View:
    """Look until the work is done or the time is over, report the obstacles meanwhile, and return the last view."""
    begin = time.monotonic()
    end = None if limit is None else begin + limit
    told = _Told(settings, quiet=quiet)
    view = look()
    try:
        while not view.is_done and (end is None or time.monotonic() < end):
            told.about(view, time.monotonic() - begin)
            rest = _INTERVAL if end is None else end - time.monotonic()
            time.sleep(max(min(_INTERVAL, rest), 0.0))
            view = look()
    finally:
        told.erase()
    return view


class _Told:
    """The messages of a waiting command on standard error: a line for each change, or a line that is redrawn."""

    def __init__(self, settings: Settings, *, quiet: bool) -> None:
        self._settings, self._quiet = settings, quiet
        self._is_live = terminal.is_live(error=True)
        self._obstacles: list[str] = []
        self._waits_for = ""
        self._is_drawn = False

    def about(self, view: View, waited: float) -> None:
        """Report the awaited work and the agent's obstacles, if they have changed or on a terminal."""
        if self._quiet:
            return
        self._say_obstacles()
        if self._is_live:
            self._draw(view, waited)
        elif (now := _TIMES.sub("", view.line)) != self._waits_for:
            self._waits_for = now
            terminal.complain(f"waiting: {terminal.line(now)}")

    def erase(self) -> None:
        """Erase the line that is drawn again and again."""
        if self._is_drawn:
            self._is_drawn = False
            terminal.say("\r\x1b[K", error=True, end="")

    def _say_obstacles(self) -> None:
        """Print the obstacles that have not been said, whenever they are tried next."""
        obstacles = status.obstacles(self._settings.state)
        causes = [obstacle.partition("; next try")[0] for obstacle in obstacles]
        for obstacle, cause in zip(obstacles, causes, strict=True):
            if cause not in self._obstacles:
                self.erase()
                terminal.complain(terminal.line(obstacle))
        self._obstacles = causes

    def _draw(self, view: View, waited: float) -> None:
        if not self._waits_for and lock.holder(self._settings.state) is None:
            # a person need not wait to learn that it will take long
            run = self._settings.command("wait", "--wait-for", "TIME")
            terminal.note(f"{_NO_AGENT}: `{run}` does not wait for ever")
        self._waits_for = view.line
        if waited < _SILENT:
            return
        text = f"waiting {terminal.duration(int(waited))}: {terminal.line(view.line)}"
        self._is_drawn = True
        shown = terminal.clipped(text, max(terminal.room(error=True) - 1, 1))
        terminal.say(f"\r{shown}\x1b[K", error=True, end="")


class _Thing:
    """A deployment, a stack, a resource or a source, by its name, from before it is there."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        config: Path | None,
        action: str,
        *,
        quiet: bool = False,
    ) -> None:
        """With an action, deployments and stacks of others do not count; `quiet` leaves out the note about others."""
        self._settings, self._name, self._config = settings, name, config
        self._action, self._quiet = action, quiet
        self._seen: object = None
        self._missing = ""
        self._target: Named | NamedPlace | None = None
        self._was_stack = False

    def look(self) -> View:
        """Return how far it is."""
        changed = fingerprint(self._settings.state)
        if changed != self._seen:
            self._seen = changed
            self._find()
        target = self._target
        if target is None:
            if self._was_stack and self._action == "DELETE":
                return View(code=ExitCode.OK, line=f"the stack {self._name} is deleted")
            return View(code=ExitCode.NOT_THERE, line=self._missing)
        subject = (target.kind, target.title)
        if isinstance(target, Named):
            return _view_of_entry(target, subject)
        if target.kind == "stack":
            self._was_stack = True
            return _view_of_stack(self._settings, target, self._action, subject)
        if target.kind == "resource":
            return _view_of_resource(self._settings, target, subject)
        return _view_of_source(
            self._settings, target, self._config, self._action, subject
        )

    def _find(self) -> None:
        try:
            self._target = named.find_any(
                self._settings,
                self._name,
                self._config,
                newest=True,
                quiet=self._quiet,
                action=self._action,
            )
        except NotFoundError as error:
            self._target, self._missing = None, error.brief
        else:
            self._quiet = True


def fingerprint(state: Path) -> object:
    """Return a value that changes when a journal, a stack or the record of a source does."""
    files = [state / journal.FILE]
    for name in followed.names(state):
        files.append(followed.folder(state, name) / followed.FILE)
        files.append(followed.document(state, name) / journal.FILE)
    for name in stack_package.names(state):
        records = stack_package.records_file(state, name)
        files += [records, records.with_name(journal.FILE)]
    return tuple((path, _last_change(path)) for path in files)


class _Everything:
    """All deployments in force, all stacks, and all followed sources."""

    def __init__(self, settings: Settings, action: str) -> None:
        """With an action, the deployments of others do not count, and neither do stacks."""
        self._settings, self._action = settings, action
        self._seen: object = None
        self._entries: Mapping[str, Entry] = {}
        self._failed: Sequence[str] = ()
        self._working: Sequence[str] = ()
        self._stacks = 0

    def look(self) -> View:
        """Return how far everything is."""
        state = self._settings.state
        # Before the journal: what the agent says in its file is already in the journal.
        sources = (
            _records(state, self._settings.followed) if self._settings.followed else {}
        )
        trouble = _trouble_of_agent(state, sources)
        changed = fingerprint(state)
        if changed != self._seen:
            self._seen, self._entries = changed, journal.read(state)
            self._look_at_stacks()
        current = tuple(
            _Part(entry=each, state=state)
            for each in self._entries.values()
            if self._action in ("", each.action)
            and (each.left_at is None or each.state is State.RUNNING)
        )
        if trouble:
            code = ExitCode.TIMED_OUT if lock.holder(state) else ExitCode.NOT_THERE
            return View(code=code, line=trouble, entries=current)
        if self._action and not current:
            return View(
                code=ExitCode.NOT_THERE,
                line=f"there is no deployment for {self._action} in {state}",
            )
        problems = [
            *(each.problem for each in sources.values() if each and each.refused),
            *self._failed,
        ]
        done = terminal.count(len(current), "deployment")
        if self._stacks:
            done += f" and {terminal.count(self._stacks, 'stack')}"
        return _all(current, problems, self._working, f"{done} done")

    def _look_at_stacks(self) -> None:
        rows = [] if self._action else stack_package.stack_rows(self._settings)
        self._stacks = len(rows)
        self._failed = [row.alarm for row in rows if row.alarm]
        self._working = [
            f"stack {row.name}: {row.status}"
            for row in rows
            if row.state is Shown.RUNNING and not row.alarm
        ]


def _all(
    current: tuple[_Part, ...],
    problems: Sequence[str],
    working: Sequence[str],
    done: str,
    subject: tuple[str, str] | None = None,
) -> View:
    """Return how far some deployments and stacks are; `done` is the line for the end without a failure.

    `problems` are sentences about stacks and sources that have failed, and `working` about those that have not ended.
    """
    unfinished = [each.line for each in current if not _has_ended(each)]
    if unfinished or working:
        line = "; ".join([*unfinished, *working])
        return View(
            code=ExitCode.TIMED_OUT, line=line, entries=current, subject=subject
        )
    failed = [each.line for each in current if each.entry.failed or each.has_drifted]
    if failed or problems:
        line = "; ".join([*failed, *problems])
        return View(code=ExitCode.FAILED, line=line, entries=current, subject=subject)
    return View(code=ExitCode.OK, line=done, entries=current, subject=subject)


def _view_of_entry(target: Named, subject: tuple[str, str]) -> View:
    """Return how far a deployment is."""
    part, entry = _part(target), target.entry
    # one that was replaced before it ran has done nothing
    failed = entry.failed or entry.ended is None or part.has_drifted
    code = ExitCode.FAILED if failed else ExitCode.OK
    return View(
        code=code if _has_ended(part) else ExitCode.TIMED_OUT,
        line=part.line,
        entries=(part,),
        subject=subject,
    )


def _part(target: Named) -> _Part:
    return _Part(
        entry=target.entry,
        state=target.settings.state,
        title=target.title,
        follows=target.follows,
    )


def _view_of_stack(
    settings: Settings, target: NamedPlace, action: str, subject: tuple[str, str]
) -> View:
    """Return how far a stack is with the `action` action; with any if that is empty.

    An action that was interrupted is not waited for: only a command continues it.
    """
    name = target.name
    if target.is_followed and not action:
        record = _records(settings.state, [name])[name]
        if waits := _asked_again(settings.state, name) or _unfinished((name, record)):
            return View(code=ExitCode.TIMED_OUT, line=waits, subject=subject)
        if record is not None and record.refused:
            return View(code=ExitCode.FAILED, line=record.problem, subject=subject)
    stack = stack_package.kept(settings.state, name)
    if stack is None or stack.blank:
        code = ExitCode.OK if action == "DELETE" else ExitCode.NOT_THERE
        return View(code=code, line=f"there is no stack {name} in {settings.state}")
    if stack.record is None:
        raise StateError(f"cannot read the stack {name}: {stack.trouble}")
    record_ = stack.record
    line = f"{name}: {record_.action}_{record_.status}"
    line += f": {record_.reason}" if record_.reason else ""
    if why := stack_package.interrupted(settings, stack):
        return View(code=ExitCode.FAILED, line=why, subject=subject)
    if action and record_.action != action:
        line = f"{line}; it has not begun {action}"
        return View(code=ExitCode.TIMED_OUT, line=line, subject=subject)
    return View(code=_code(record_.status), line=line, subject=subject)


def _code(status_of_heat: str) -> ExitCode:
    codes = {"COMPLETE": ExitCode.OK, "FAILED": ExitCode.FAILED}
    return codes.get(status_of_heat, ExitCode.TIMED_OUT)


def _view_of_resource(
    settings: Settings, target: NamedPlace, subject: tuple[str, str]
) -> View:
    """Return how far a resource of a stack is that is not a deployment, or a deployment that has not run."""
    record = stack_package.resources(settings, target.stack).get(target.name)
    if record is None:
        line = f"the stack {target.stack} has no resource {target.name}"
        return View(code=ExitCode.NOT_THERE, line=line)
    line = f"{target.title}: {record.action}_{record.status}"
    line += f": {record.reason}" if record.reason else ""
    is_begun = record.action != "INIT"
    code = _code(record.status) if is_begun else ExitCode.TIMED_OUT
    return View(code=code, line=line, subject=subject)


def _view_of_source(
    settings: Settings,
    target: NamedPlace,
    config: Path | None,
    action: str,
    subject: tuple[str, str],
) -> View:
    """Return how far a source is: its newest revision, and the deployments of its document."""
    problems, done = [], f"{target.name}: its deployments are done"
    if target.is_followed:
        record = _records(settings.state, [target.name])[target.name]
        if waits := _asked_again(settings.state, target.name) or _unfinished(
            (target.name, record)
        ):
            return View(code=ExitCode.TIMED_OUT, line=waits, subject=subject)
        if record is not None:
            done = f"{target.name}: {record.progress}"
            problems = [record.problem] if record.refused else []
    current = tuple(
        _part(each)
        for each in named.members(target, config)
        if action in ("", each.entry.action)
    )
    if action and not current:
        line = f"{target.name} has no deployment for {action}"
        return View(code=ExitCode.NOT_THERE, line=line, subject=subject)
    return _all(current, problems, (), done, subject)


def _records(state: Path, names: Sequence[str]) -> dict[str, Followed | None]:
    """Return the record of each followed stack, with the trouble that could not be written into it."""
    records = {name: followed.read(state, name) for name in names}
    troubles = {
        name: text for name, text in health.unrecorded(state).items() if name in records
    }
    told = followed.with_troubles(filter(None, records.values()), troubles)
    return records | {record.name: record for record in told}


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


def _asked_again(state: Path, name: str) -> str:
    """Return that a source is to be carried out again; empty if that is not requested."""
    is_asked = followed.is_asked_again(state, name)
    return f"follow {name}: it is carried out again" if is_asked else ""


def _unfinished(stack: tuple[str, Followed | None]) -> str:
    """Return what a stack that follows a source waits for; empty if it waits for nothing."""
    name, record = stack
    if record is not None and record.trouble:
        return record.problem
    if record is None or not (record.begun or record.concluded):
        return f"source {name}: no revision was carried out yet"
    return (
        f"source {name}: revision {followed.short(record.begun)} is being carried out"
        if record.begun
        else ""
    )


def _has_ended(part: _Part) -> bool:
    """Return whether nothing is run any more for a deployment, and no other run is requested."""
    entry = part.entry
    return (
        entry.state in _HAS_RUN
        and not entry.again
        and not requests.is_asked(part.state, entry.key)
    )


def _last_change(path: Path) -> tuple[int, int, int] | None:
    """Return a value that changes when a file is written or replaced; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116  # four times a second
    except OSError:  # reading it reports an error that matters
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino

"""`heat-config-agent status`: every source, stack and deployment of this machine, and its state."""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import stack_package, state_options, terminal
from heat_config_agent.cli.command_line import Option, seconds
from heat_config_agent.cli.deployments import verdicts
from heat_config_agent.deployments import plan, replacement
from heat_config_agent.model import states, wording
from heat_config_agent.model.deployment import CLEANUP
from heat_config_agent.model.entry import SETTLED, Entry, Removed, State
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.model.states import Delivery, Shown
from heat_config_agent.model.wording import next_attempt
from heat_config_agent.runs import run_folder, supervisor
from heat_config_agent.settings.effective import Settings
from heat_config_agent.settings.schema import TRANSPORTS
from heat_config_agent.signals.delivery import REPLACED
from heat_config_agent.state import agents, asked, followed, health, journal, lock
from heat_config_agent.state.clock import Steady
from heat_config_agent.state.deployed import begun_elsewhere, report_of
from heat_config_agent.state.removal import retention
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.cli import envelope
    from heat_config_agent.cli.deployments import named

_EPILOG = """\
exit codes:
  0  the status was shown; with --check: the agent is well, and nothing has failed; with --failed: nothing has failed
  1  with --check: no agent is running, it has a problem (a source, a delivery, the settings, or a pause), or a stack
     or a deployment has failed, was interrupted or has drifted; with --failed: a deployment or a stack has failed
  2  bad usage or settings
  8  there is no such state directory
"""

_LONGEST_NAME = 80
"""Columns of a name in a table: a longer one leaves out its middle."""

_INTERVAL = 2.0
"""Seconds between two looks with --watch, if it does not say how many."""

_COUNTED = (
    Shown.FAILED,
    Shown.REFUSED,
    Shown.UNKNOWN,
    Shown.DRIFTED,
    Shown.REBOOT,
    Shown.RUNNING,
    Shown.WAITING,
    Shown.PAUSED,
    Shown.SKIPPED,
    Shown.OK,
)
"""The order in which states are counted: the states that a person has to look after come first."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "status",
        "show every source, stack and deployment, and its state",
        __doc__,
        epilog=_EPILOG,
    )
    state_options.add_some(parser)
    parser.add_argument(
        "--failed",
        action="store_true",
        help="show only what has failed, and why; the exit code is 1 if anything has",
    )
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="only name the deployments that have begun and are not finished, or whose results are not delivered",
    )
    parser.add_argument(
        "--wide", action="store_true", help="also show ids and sources, and whole names"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also show deployments whose details were pruned",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show it again and again until ^C; only on a terminal",
    )
    Option(
        "--interval",
        "the time between two looks of --watch (default 2s)",
        "TIME",
        read=seconds,
    ).add(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check whether the agent, stacks and deployments are well; the exit code is 1 if they are not",
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="status")


def run(options: argparse.Namespace) -> int:
    """Show the state of the agent, and then its sources, stacks and deployments."""
    if options.watch:
        return _watch(options)
    return _look(options)


def show(options: argparse.Namespace) -> int:
    """Show the status for a command that has no options of its own for it."""
    if options.json:
        from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

        envelope.begin("status", is_on=True)
    own = dict.fromkeys(("failed", "unfinished", "wide", "all", "check"), False)
    return _look(argparse.Namespace(**{**vars(options), **own, "names": []}))


def _watch(options: argparse.Namespace) -> int:
    """Show the status again and again, until the user interrupts the command."""
    if options.json or not terminal.is_live():
        raise UsageError(
            "--watch is for a terminal",
            hint="without it, the status is printed once",
        )
    from heat_config_agent.cli.canvas import Canvas  # noqa: PLC0415  # only on a terminal

    canvas = Canvas()
    pause = _INTERVAL if options.interval is None else max(options.interval, 0.1)
    settings = state_options.there(options)
    while True:
        rows = deployment_rows(settings.state)
        overview = _overview(settings, rows, with_pruned=options.all)
        overview = _chosen(overview, options)
        lines = _screen(options, overview)
        canvas.draw(lines[: terminal.height() - 1])
        time.sleep(pause)


def _look(options: argparse.Namespace) -> int:
    """Show the status once, and return the exit code."""
    settings = state_options.there(options)
    overview = _overview(
        settings, deployment_rows(settings.state), with_pruned=options.all
    )
    overview = _chosen(overview, options)
    error = _error(options, overview)
    code = ExitCode.FAILED if error else ExitCode.OK
    if options.json:
        from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

        envelope.result(_values(options, overview), code=code, error=error)
    elif options.check:
        terminal.say(terminal.line(overview.verdict))
    elif options.unfinished:
        _name_unfinished(overview)
    else:
        terminal.say("\n".join(_screen(options, overview)))
    return code


def _name_unfinished(overview: _Overview) -> None:
    """Print a sentence for each deployment that is not finished: packages that are removed print it to people."""
    sentences = [sentence for row in overview.rows if (sentence := _unfinished(row))]
    for sentence in sentences:
        terminal.say(terminal.line(sentence))
    if not sentences:
        terminal.note("nothing is unfinished")


def _unfinished(row: Row) -> str:
    """Return a sentence about the unfinished part of a deployment; empty if it is finished."""
    entry = row.entry
    name = f"{row.title} ({entry.action})" if entry.action else row.title
    return {
        State.RUNNING: f"{name} is running",
        State.REBOOT: f"{name} continues after a reboot",
        State.RETRY: f"{name} is run again",
        State.FINISHED: f"{name} has run, and its result is not delivered",
    }.get(entry.state, "")


def _error(options: argparse.Namespace, overview: _Overview) -> envelope.Failure | None:
    """Return why the exit code is not 0; None if it is."""
    failed = overview.failed if options.failed else []
    is_alarmed = options.check and overview.alarms
    if not failed and not is_alarmed:
        return None
    from heat_config_agent.cli import envelope  # noqa: PLC0415  # only after a failure

    if is_alarmed:
        return envelope.Failure("failed", overview.verdict)
    names = _listed([row.name for row in failed])
    return envelope.Failure("failed", f"{len(failed)} failed: {names}")


def _listed(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


_NAMED = 5
"""The number of failed things that a sentence names."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A deployment of the agent, or of a followed document."""

    entry: Entry
    title: str
    """The name that every command takes."""
    state: Path
    """The state directory whose journal has it."""
    follows: str = ""
    """The name of the followed source; empty if it is of none."""

    @property
    def has_failed(self) -> bool:
        """Tell whether it has failed, and is still wanted."""
        return self.entry.has_failed or (
            self.entry.failed and self.entry.action == CLEANUP
        )

    @property
    def is_pruned(self) -> bool:
        """Tell whether its details were pruned."""
        return self.entry.removed is Removed.ALL

    def values(self) -> dict[str, object]:
        """Return it as JSON."""
        return values(self.entry, self.state, title=self.title, follows=self.follows)


def _followed_rows(state: Path) -> list[Row]:
    """Return the deployments of followed documents, by source and then oldest first."""
    rows = []
    for name, place in followed.documents(state):
        entries = sorted(journal.read(place).values(), key=lambda entry: entry.accepted)
        rows += [
            Row(entry=each, title=f"{name}/{each.title}", state=place, follows=name)
            for each in entries
        ]
    return rows


def deployment_rows(state: Path) -> list[Row]:
    """Return all deployments: the agent's own, oldest first, and then those of followed documents."""
    entries = sorted(journal.read(state).values(), key=lambda entry: entry.accepted)
    return [
        Row(entry=entry, title=entry.title, state=state) for entry in entries
    ] + _followed_rows(state)


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A row of the table: a source, a stack or a deployment."""

    name: str
    state: str
    action: str = ""
    tool: str = ""
    result: str = ""
    since: float | None = None
    identity: str = ""
    source: str = ""
    details: str = ""
    has_failed: bool = False

    def cells(self, *, wide: bool) -> tuple[str, ...]:
        """Return it as a row of the table."""
        name = terminal.line(self.name)
        more = (self.identity or "-", self.source or "-") if wide else ()
        return (
            name if wide else terminal.squeezed(name, _LONGEST_NAME),
            self.state,
            self.action or "-",
            self.tool or "-",
            self.result or "-",
            terminal.moment(self.since),
            *more,
            self.details.replace("\n", "; "),
        )


_HEADER = ("NAME", "STATE", "ACTION", "TOOL", "RESULT", "SINCE", "DETAILS")
_WIDE = (*_HEADER[:-1], "ID", "SOURCE", "DETAILS")


@dataclass(frozen=True, kw_only=True)
class _Overview:
    """The agent, its sources, its stacks and its deployments at one moment."""

    settings: Settings
    agent: Mapping[str, object]
    """The state of the daemon as JSON."""
    rows: Sequence[Row]
    """The deployments to show."""
    hidden: int
    """The number of deployments that are not shown, because their details were pruned."""
    skipped: Sequence[Mapping[str, object]]
    replaced: Sequence[replacement.Replacement]
    sources: Sequence[Mapping[str, object]]
    stacks: Sequence[stack_package.StackRow]
    elsewhere: Sequence[str]
    """The sources that cannot be followed, and deployments that another agent has begun."""
    hint: str
    """The place where an agent of this machine works, if none works here."""
    problems: list[str]
    superseded: Collection[str]
    """The keys of deployments of which a file has another edition by now."""

    @property
    def alarms(self) -> list[str]:
        """Return a sentence for everything that somebody has to look after."""
        stacks = [each.alarm for each in self.stacks if each.alarm]
        failed = [
            line.name
            for line in self.failed
            if line.tool != "source"
            and line.name not in {each.name for each in self.stacks}
        ]
        named = [f"{len(failed)} failed: {_listed(failed)}"] if failed else []
        return [*self.problems, *stacks, *named]

    @property
    def verdict(self) -> str:
        """Return everything that is wrong in one line, or that the agent is well."""
        said = self.alarms or [f"the agent is well: {self.agent['doing']}"]
        return "; ".join([*said, *(each.sentence for each in self.replaced)])

    @functools.cached_property
    def lines(self) -> list[_Line]:
        """Return the rows of the table: sources, stacks and deployments."""
        return [
            *map(_source_line, self.sources),
            *map(_stack_line, self.stacks),
            *(
                _deployment_line(row, is_old=row.entry.key in self.superseded)
                for row in self.rows
            ),
            *map(_skipped_line, self.skipped),
        ]

    @property
    def failed(self) -> list[_Line]:
        """Return the rows of failed deployments and stacks that are still in force."""
        return [line for line in self.lines if line.has_failed]


def _source_line(source: Mapping[str, object]) -> _Line:
    is_followed = source["kind"] == "followed"
    return _Line(
        name=str(source["name"]),
        state=str(source["state"]),
        tool="source",
        since=_float(source["since" if is_followed else "answered"]),
        identity=str(source["revision"] or ""),
        source=str(source["where"]),
        details=str(source["message"]),
    )


def _stack_line(stack: stack_package.StackRow) -> _Line:
    return _Line(
        name=stack.name,
        state=stack.state.value,
        action=stack.action,
        tool="stack",
        since=stack.since or None,
        identity=stack.id,
        details=stack.message,
        has_failed=stack.has_failed,
    )


def _deployment_line(row: Row, *, is_old: bool) -> _Line:
    entry = row.entry
    result = states.result_of(entry)
    return _Line(
        name=row.title,
        state=shown(entry, row.state).value,
        action=entry.action,
        tool=entry.tool,
        result=result.value if result else "",
        since=since(entry, row.state),
        identity=entry.id or entry.key,
        source=entry.source,
        details=details(entry, row.state),
        has_failed=row.has_failed and not is_old,
    )


def since(entry: Entry, state: Path) -> float:
    """Return since when a deployment is in its state."""
    verified = verdicts.drift(entry, state)
    return verified.since if verified else entry.at


def _skipped_line(skipped: Mapping[str, object]) -> _Line:
    return _Line(
        name=str(skipped["title"]),
        state=Shown.SKIPPED.value,
        action=str(skipped["action"]),
        identity=str(skipped["id"]),
        details=str(skipped["reason"]),
    )


def _overview(
    settings: Settings, all_rows: Sequence[Row], *, with_pruned: bool
) -> _Overview:
    """Collect the facts of the overview."""
    state = settings.state
    keys = [row.entry.key for row in all_rows if not row.follows]
    rows = [row for row in all_rows if with_pruned or not row.is_pruned]
    entries = [row.entry for row in rows if not row.follows]
    agent = _agent(state)
    skipped = _skipped(state, keys)
    given = (
        {str(each[name]) for each in skipped for name in ("key", "id")}
        if agent["current"]
        else None
    )
    records = stack_package.followed_records(settings)
    elsewhere = [_problem_of(settings, record) for record in records if record.problem]
    elsewhere += report_of(begun_elsewhere(settings.deployed, keys, given))
    problems = [
        *_problems(agent, entries, following=bool(settings.followed)),
        *elsewhere,
    ]
    problems += _refused(settings, rows)
    problems += _drifted(settings, rows)
    problems += [
        mistake
        for mistake in settings.mistakes
        if not any(mistake in problem for problem in problems)
    ]
    hint = (
        ""
        if agent["running"]
        else agents.hint(state, settings.options, os.environ, "status")
    )
    if hint:
        problems.insert(1, hint)
    return _Overview(
        settings=settings,
        agent=agent,
        rows=rows,
        hidden=len(all_rows) - len(rows),
        skipped=skipped,
        replaced=replacement.replacements(entries),
        sources=_sources(settings, agent, records),
        stacks=stack_package.stack_rows(settings),
        elsewhere=elsewhere,
        hint=hint,
        problems=problems,
        superseded=_superseded(rows),
    )


def _chosen(overview: _Overview, options: argparse.Namespace) -> _Overview:
    """Return the overview with the things that were named, and no others; all of it if none is.

    A stack or a source has its deployments with it. Raises NotFoundError.
    """
    if not options.names:
        return overview
    from heat_config_agent.cli.deployments import named  # noqa: PLC0415  # only for names

    rows: dict[tuple[Path, str], Row] = {}
    stacks: list[stack_package.StackRow] = []
    sources: list[Mapping[str, object]] = []
    for name in options.names:
        things: list[named.Named] = []
        thing = named.find_any(overview.settings, name, options.config, newest=True)
        if isinstance(thing, named.Named):
            things.append(thing)
        else:
            things += named.members(thing, options.config)
            stack = thing.stack or thing.name
            stacks += [each for each in overview.stacks if each.name == stack]
            sources += [each for each in overview.sources if each["name"] == thing.name]
        for each in things:
            state = each.settings.state
            rows[state, each.entry.key] = Row(
                entry=each.entry, title=each.title, state=state, follows=each.follows
            )
    return replace(
        overview,
        rows=list(rows.values()),
        stacks=[each for each in overview.stacks if each in stacks],
        sources=[each for each in overview.sources if each in sources],
        skipped=[],
        hidden=0,
    )


def _sources(
    settings: Settings,
    agent: Mapping[str, object],
    records: Sequence[followed.Followed],
) -> list[Mapping[str, object]]:
    """Return the sources as JSON: the daemon's sources of documents, and the followed ones."""
    asked_for = [
        _asked_source(each)
        for each in _maps(agent["sources"])
        if agent["running"] and not each.get("seldom")
    ]
    return asked_for + [
        {
            "name": record.name,
            "state": record.state,
            "kind": "followed",
            "where": record.source,
            "revision": record.revision or None,
            "since": record.since or None,
            "answered": record.answered or None,
            "message": _message_of(settings, record),
        }
        for record in records
    ]


def _asked_source(source: Mapping[str, object]) -> Mapping[str, object]:
    """Return a source that the daemon asks for documents, as JSON."""
    working = source.get("working")
    state = Shown.OK if working else Shown.WAITING if working is None else Shown.UNKNOWN
    message = str(source.get("trouble") or "")
    if working is None and not message:
        message = "it has not answered yet"
    elif working is False and isinstance(since := source.get("since"), float):
        message = f"{message}; failing since {terminal.moment(since)}"
    return {
        "name": str(source.get("name")),
        "state": state.value,
        "kind": "daemon",
        "where": str(source.get("from") or ""),
        "revision": None,
        "since": source.get("since") or None,
        "answered": source.get("answered") or None,
        "message": message,
    }


def _message_of(settings: Settings, record: followed.Followed) -> str:
    """Return the remark about a followed source."""
    said = record.problem.removeprefix(f"source {record.name}: ") or record.progress
    if record.name in settings.followed:
        return said
    left = f"these settings have no section [follow {record.name}]"
    return f"{said}; {left}"


def _values(options: argparse.Namespace, overview: _Overview) -> dict[str, object]:
    """Return the status as JSON."""
    rows = overview.rows
    stacks = overview.stacks
    skipped = [_skipped_values(each) for each in overview.skipped]
    if options.failed:
        rows = [
            row
            for row in rows
            if row.has_failed and row.entry.key not in overview.superseded
        ]
        stacks = [each for each in stacks if each.has_failed]
    if options.unfinished:
        rows = [row for row in rows if _unfinished(row)]
        stacks = [each for each in stacks if each.state is Shown.RUNNING]
    if options.failed or options.unfinished:
        skipped = []
    counted = _counts(overview.lines)
    return {
        "host": _host(),
        "state_directory": str(overview.settings.state),
        "healthy": not overview.problems,
        "problems": overview.problems,
        "states": {each.value: counted[each.value] for each in _COUNTED},
        "results_due": _due(overview.rows),
        "agent": _agent_values(overview.agent),
        "sources": [
            {
                **each,
                "since": wording.stamp(_float(each["since"])),
                "answered": wording.stamp(_float(each["answered"])),
            }
            for each in overview.sources
        ],
        "stacks": [each.values() for each in stacks],
        "deployments": [*(row.values() for row in rows), *skipped],
        "pruned": overview.hidden,
        "replaced": [replacement_values(each) for each in overview.replaced],
    }


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _due(rows: Iterable[Row]) -> int:
    return sum(states.result_of(row.entry) is Delivery.DUE for row in rows)


def _agent_values(agent: Mapping[str, object]) -> dict[str, object]:
    """Return the state of the daemon as JSON, with times as commands print them."""
    pause, said, poll = (
        agent["paused"],
        _float(agent["said"]),
        _float(agent["next_poll"]),
    )
    paused = None
    if isinstance(pause, Mapping):
        since, until = _float(pause["since"]), _float(pause["until"])
        paused = {
            "reason": pause["reason"],
            "since": wording.stamp(since),
            "until": wording.stamp(until),
        }
    return {
        "running": agent["running"],
        "process": agent["process"],
        "version": agent["version"],
        "started": wording.stamp(_float(agent["started"])),
        "doing": agent["doing"],
        "said": wording.stamp(said),
        "next_poll": wording.stamp(said + poll)
        if said is not None and poll is not None
        else None,
        "silent_seconds": agent["silent"],
        "current": agent["current"],
        "starting": agent["starting"],
        "paused": paused,
        "reboot": agent["reboot"],
        "channels": [
            {
                "name": each.get("name"),
                "lost": each.get("lost") or 0,
                "trouble": each.get("trouble") or None,
            }
            for each in _maps(agent["channels"])
        ],
        "troubles": agent["troubles"],
        "blocked": [
            {
                "cause": each["cause"],
                "reason": each["reason"] or None,
                "since": wording.stamp(_float(each["since"])),
                "next_try": wording.stamp(_float(each["next_try"])),
                "deployments": [
                    {"key": key, "reason": why} for key, why in keys.items()
                ]
                if isinstance(keys := each["deployments"], Mapping)
                else [],
            }
            for each in _maps(agent["blocked"])
        ],
    }


def _counts(lines: Iterable[_Line]) -> Counter[str]:
    """Return the number of stacks and deployments in each state, and of sources in other states than ok."""
    return Counter(
        line.state
        for line in lines
        if line.tool != "source" or line.state != Shown.OK.value
    )


def _host() -> str:
    return os.uname().nodename


def _superseded(rows: Iterable[Row]) -> set[str]:
    """Return the keys of deployments without an id of their own of which a file has another edition by now."""
    by_journal: dict[Path, list[Entry]] = {}
    for row in rows:
        by_journal.setdefault(row.state, []).append(row.entry)
    repeated = [
        entries
        for entries in by_journal.values()
        if len({entry.name for entry in entries}) < len(entries)
    ]
    if not repeated:
        return set()
    from heat_config_agent.deployments import edition  # noqa: PLC0415  # only where names are repeated

    return {key for entries in repeated for key in edition.superseded(entries)}


def table(rows: Sequence[Row], *, wide: bool) -> list[str]:
    """Return deployments as a table for people."""
    old = _superseded(rows)
    lines = [_deployment_line(row, is_old=row.entry.key in old) for row in rows]
    return terminal.table(
        [line.cells(wide=wide) for line in lines],
        _WIDE if wide else _HEADER,
        "no deployments",
    )


def _screen(options: argparse.Namespace, overview: _Overview) -> list[str]:
    """Return the status for people, line by line."""
    lines, settings = overview.lines, overview.settings
    empty = f"nothing was applied yet in {settings.state}"
    if options.failed:
        lines, empty = overview.failed, "nothing has failed"
    header = _WIDE if options.wide else _HEADER
    table = terminal.table(
        [line.cells(wide=options.wide) for line in lines],
        header,
        terminal.line(empty),
    )
    if options.failed:
        return table
    above = _above(overview, lines)
    below = _below(overview, lines)
    return [
        *above,
        *([""] if above else []),
        *table,
        *([""] if below else []),
        *below,
    ]


def _above(overview: _Overview, lines: Sequence[_Line]) -> list[str]:
    """Return the lines above the table: the machine, the agent, and their problems."""
    agent = overview.agent
    doing = str(agent["doing"])
    doing = (
        f"agent: {doing} (process {agent['process']})"
        if agent["running"]
        else "no agent is running"
    )
    counted = _counts(lines)
    counts = [
        f"{counted[each.value]} {each}" for each in _COUNTED if counted[each.value]
    ]
    if due := _due(overview.rows):
        counts.append(f"{terminal.count(due, 'result')} due")
    summary = " · ".join(counts)
    first = f"{_host()}   {summary}{'   ' if summary else ''}{doing}"
    above = [terminal.line(first)]
    pause = agent["paused"]
    if isinstance(pause, Mapping):
        until = (
            f" until {terminal.moment(pause['until'])}"
            if pause["until"] is not None
            else ""
        )
        begun = f" since {terminal.moment(pause['since'])}" if pause["since"] else ""
        above.append(f"paused{begun}{until}: {terminal.line(pause['reason'])}")
    if agent["running"]:
        above += [terminal.line(each) for each in overview.problems]
        above += [
            terminal.line(
                f"{each.get('name')}: {each['lost']} notices lost"
                + (f": {each['trouble']}" if each.get("trouble") else "")
            )
            for each in _maps(agent["channels"])
            if each.get("lost")
        ]
    else:
        above += [terminal.line(each) for each in overview.elsewhere]
    above += [
        terminal.line(f"{each.sentence} → {each.todo}") for each in overview.replaced
    ]
    above += [terminal.line(each.asked) for each in overview.stacks if each.asked]
    most = terminal.room()
    return [terminal.wrapped(each, 2, most) for each in above]


def _below(overview: _Overview, lines: Sequence[_Line]) -> list[str]:
    """Return the lines below the table: the most helpful command, and a note about rows that were left out."""
    settings = overview.settings
    below = []
    failed = [line for line in lines if line.has_failed and line.tool != "source"]
    if failed:
        log = settings.command("log", failed[0].name)
        below.append(f"`{log}` shows why")
    if overview.hidden:
        more = terminal.count(overview.hidden, "older deployment")
        below.append(f"{more} without details, which were pruned: --all shows them")
    steady = Steady(settings.state)
    if excess := retention.excess(steady.bytes, steady.files, settings.limits):
        prune = settings.command("prune", "--plan")
        below.append(f"{excess}: `{prune}` shows the details")
    if not lines and overview.hint:
        below.append(overview.hint)
    most = terminal.room()
    return [terminal.wrapped(terminal.line(each), 2, most) for each in below]


def _waits(entry: Entry, state: Path) -> str:
    """Return what an accepted deployment waits for."""
    if pause := asked.paused(state):
        return f"waits: the agent is paused ({pause[0]})"
    process = _daemon(state)
    if not process:
        return "not started yet: the next run starts it"
    report = health.read(state, process)
    for obstacle in _blocked(state, report):
        keys = obstacle["deployments"]
        if why := keys.get(entry.key) if isinstance(keys, Mapping) else None:
            return f"cannot begin: {str(why).removeprefix(f'cannot start {entry.title}: ')}{_next_try(obstacle)}"
        if obstacle["reason"]:
            return f"cannot begin: {obstacle['reason']}{_next_try(obstacle)}"
    return (
        "waits for a reboot of the machine"
        if report.get("reboot")
        else "waits for its turn"
    )


def _daemon(state: Path) -> int:
    """Return the process of the daemon; 0 if none is running."""
    holder = lock.holder(state)
    return holder[0] if holder is not None and holder[1] == lock.DAEMON else 0


def _agent(state: Path) -> dict[str, object]:
    """Return the state of the daemon as JSON: whether it is running, and the last health that it has written."""
    holder = lock.holder(state)
    running = holder is not None and holder[1] == lock.DAEMON
    report = health.read(state, holder[0] if running and holder else 0)
    pause = asked.paused(state)
    doing = str(report.get("doing") or "starting")
    blocked = _blocked(state, report) if running else []
    if blocked and not report.get("blocked"):
        # the daemon could not report it, or has not yet
        doing = f"blocked: {blocked[0]['cause']}; {doing}"
    return {
        "running": running,
        "process": holder[0] if running and holder else report.get("process"),
        "version": report.get("version")
        if not holder or report.get("process") == holder[0]
        else None,
        "started": report.get("started"),
        "doing": doing if running else "not running",
        "said": report.get("at"),
        "next_poll": report.get("next_poll") if running else None,
        "paused": {"reason": pause[0], "since": pause[1] or None, "until": pause[2]}
        if pause
        else None,
        "reboot": report.get("reboot", []),
        "sources": report.get("sources", []),
        "channels": report.get("channels", []),
        "troubles": report.get("troubles", []),
        "blocked": blocked,
        "current": bool(running and report.get("current")),
        "starting": running and not health.is_settled(report),
        "silent": round(health.silence(report)) if running else 0,
    }


def _blocked(state: Path, report: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the obstacles that the daemon has reported, else the obstacle that this command sees."""
    reported = _maps(report.get("blocked"))
    if reported or not (trouble := run_folder.lacks(state)):
        return reported
    words = f"{trouble[0].lower()}{trouble[1:]}"
    return [
        {
            "cause": words,
            "since": None,
            "next_try": None,
            "reason": words,
            "deployments": {},
        }
    ]


def obstacles(state: Path) -> list[str]:
    """Return a sentence for each cause that keeps the daemon from beginning its work."""
    holder = lock.holder(state)
    if holder is None or holder[1] != lock.DAEMON:
        return []
    return [_sentence(each) for each in _blocked(state, health.read(state, holder[0]))]


def _sentence(obstacle: Mapping[str, object]) -> str:
    """Return a sentence about an obstacle: its effect, its begin, and the time of the next try."""
    keys = obstacle.get("deployments")
    number = len(keys) if isinstance(keys, Mapping) else 0
    work = f"; {terminal.count(number, 'deployment')} cannot begin" if number else ""
    since = (
        f"; since {terminal.moment(moment)}"
        if isinstance(moment := obstacle.get("since"), float)
        else ""
    )
    return f"blocked: {obstacle.get('cause')}{work}{since}{_next_try(obstacle)}"


def _next_try(obstacle: Mapping[str, object]) -> str:
    moment = obstacle.get("next_try")
    return (
        f"; next try at {terminal.moment(moment)}" if isinstance(moment, float) else ""
    )


def _problems(
    agent: Mapping[str, object], entries: list[Entry], *, following: bool
) -> list[str]:
    """Return the problems of the daemon, one sentence each. One that is `following` sources needs no others."""
    problems = [] if agent["running"] else ["no agent is running"]
    problems += map(_sentence, _maps(agent["blocked"]))
    if agent["silent"]:
        problems.append(
            f"the agent (process {agent['process']}) has reported nothing for {agent['silent']} s"
        )
    sources = [
        source
        for source in _maps(agent["sources"])
        if agent["running"] and not source.get("seldom")
    ]
    away = [source for source in sources if source.get("working") is False]
    problems += [
        f"source {source.get('name')} is failing: {source.get('trouble')}"
        for source in away
    ]
    problems += [
        f"{source.get('name')}: {source['trouble']}"
        for source in sources
        if source not in away and source.get("trouble")
    ]
    pending = [source for source in sources if source.get("working") is None]
    waits = bool(pending) and bool(agent["starting"])
    if not waits:
        awaited = [
            source.get("name") for source in pending if source.get("name") in TRANSPORTS
        ]
        problems += [f"{name} has not answered yet" for name in awaited]
        if (
            agent["running"]
            and not any(source.get("working") for source in sources)
            and (sources or not following)
        ):
            ever = any(source.get("answered") for source in sources)
            problems.append(
                "no source answers now" if ever else "no source has answered"
            )
    troubles = agent["troubles"]
    problems += (
        [str(trouble) for trouble in troubles]
        if isinstance(troubles, list) and agent["running"]
        else []
    )
    late = [entry for entry in entries if entry.state is State.FINISHED and entry.tries]
    problems += (
        [f"{terminal.count(len(late), 'result')} could not be delivered yet"]
        if late
        else []
    )
    if agent["paused"]:
        problems.append("the agent is paused")
    if age := health.outdated(agent) if agent["running"] else "":
        problems.append(f"{age}: restart it")
    return problems


def _skipped_values(skipped: Mapping[str, object]) -> dict[str, object]:
    """Return a deployment without a record as JSON, in the form of the others."""
    known = {
        "id": skipped["id"] or None,
        "key": skipped["key"],
        "name": skipped["title"],
        "config": skipped["name"],
        "action": skipped["action"] or None,
        "state": Shown.SKIPPED.value,
        "message": skipped["reason"],
        "reason": skipped["reason"],
    }
    return {**_NOTHING, **known}


_NOTHING: Mapping[str, object] = {
    "id": None,
    "key": "",
    "name": "",
    "config": "",
    "action": None,
    "tool": None,
    "source": None,
    "follows": None,
    "state": "",
    "result": None,
    "message": "",
    "reason": "",
    "since": None,
    "accepted": None,
    "started": None,
    "ended": None,
    "run_seconds": None,
    "process": None,
    "scope": None,
    "user": None,
    "isolated": None,
    "again": False,
    "attempts": 0,
    "reboots": 0,
    "tries": 0,
    "trouble": None,
    "not_before": None,
    "verified": None,
    "drift": None,
}
"""The JSON of a deployment of which nothing is on record."""


def _problem_of(settings: Settings, record: followed.Followed) -> str:
    """Return the problem of a followed source, and the command that brings the machine in step with it."""
    if record.state != "drifted":
        return record.problem
    again = settings.command("source", "sync", record.name, "--again")
    return f"{record.problem}: `{again}` carries the revision out again"


def _drifted(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """Return a sentence about deployments that have drifted, with the command that repairs them."""
    names = [row.title for row in rows if shown(row.entry, row.state) is Shown.DRIFTED]
    if not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = f"{', '.join(names[:_NAMED])}{more}"
    have = "has" if len(names) == 1 else "have"
    again = settings.command("verify", "--repair")
    return [f"{listed} {have} drifted: `{again}` repairs what has drifted"]


def _refused(settings: Settings, rows: Sequence[Row]) -> list[str]:
    """Return a sentence about the results that their servers have refused for good, if the metadata has any of them."""
    refused = [
        row.title
        for row in rows
        if row.entry.state is State.REFUSED and row.entry.left_at is None
    ]
    if not refused:
        return []
    number = (
        "the server has refused the result"
        if len(refused) == 1
        else f"{len(refused)} results were refused"
    )
    return [
        f"{number} of {', '.join(refused[:5])} for good: `{settings.command('show', refused[0])}` says why"
    ]


def _skipped(state: Path, keys: Collection[str]) -> list[Mapping[str, object]]:
    """Return the deployments without a record that the daemon's last plan skipped, each with the reason."""
    named = [
        each
        for each in _maps(health.read(state).get("skipped"))
        if {*each} >= {"key", "name", "id", "reason"}
    ]
    return [
        {"action": "", "title": each["name"], **each}
        for each in named
        if each["key"] not in keys
    ]


def _maps(value: object) -> list[Mapping[str, object]]:
    return (
        [each for each in value if isinstance(each, Mapping)]
        if isinstance(value, list)
        else []
    )


def shown(entry: Entry, state: Path) -> states.Shown:
    """Return the state of a deployment."""
    going_on = entry.state is not State.RUNNING or _is_going_on(entry, state)
    drifted = verdicts.drift(entry, state) is not None
    return states.of_entry(entry, going_on=going_on, drifted=drifted)


def _is_going_on(entry: Entry, state: Path) -> bool:
    """Return whether a run goes on, or an agent is there that records its end at once."""
    run = entry.run
    going_on = run and supervisor.going_on(run, state / "runs" / entry.key)
    return bool(going_on) or lock.holder(state) is not None


def word(entry: Entry, state: Path) -> str:
    """Return the state of a deployment, and where its result is if that is not the usual: «ok, result due»."""
    result = states.result_of(entry)
    usual = result in (None, states.Delivery.SENT)
    return f"{shown(entry, state)}{'' if usual else f', result {result}'}"


def details(entry: Entry, state: Path) -> str:
    """Return what a deployment is doing or waiting for, or how it ended."""
    again = (
        f"; will run again {_next(state)}"
        if entry.again and entry.left_at is None
        else ""
    )
    if (
        entry.failed
        and entry.left_at is not None
        and entry.action != CLEANUP
        and entry.state in SETTLED
    ):
        again = "; its document no longer has it"
    if entry.state is State.ACCEPTED:
        return _waits(entry, state)
    if shown(entry, state) is Shown.DRIFTED:
        return _drift(entry, state)
    if entry.state is State.RUNNING:
        return _running(entry, state / "runs" / entry.key)
    if entry.state is State.REBOOT:
        return f"waits for the reboot of the machine that it asked for ({plan.times(entry.reboots)})"
    if entry.state is State.RETRY:
        return f"{_reason(entry)}{next_attempt(entry)}{again}"
    if entry.state is State.FINISHED:
        due = (
            f" at {terminal.moment(entry.not_before)}"
            if entry.not_before > time.time()
            else ""
        )
        attempt = (
            f"next attempt{due or ' soon'}"
            if _daemon(state)
            else "the next run sends it"
        )
        tried = f"{_tries(entry)}: {entry.trouble}; " if entry.tries else ""
        return f"{_reason(entry)}{tried}{attempt}{again}"
    if entry.state is State.REFUSED:
        return f"{_reason(entry)}the server refused the result: {entry.trouble}{again}"
    if entry.state is State.SUPERSEDED:
        return f"{_reason(entry)}the result {REPLACED}{again}"
    return f"{entry.reason}{again}".removeprefix("; ")


def _drift(entry: Entry, state: Path) -> str:
    """Return how a deployment has drifted, since when, and whether the schedule repairs it."""
    verified = verdicts.drift(entry, state)
    if verified is None:
        return ""
    repair = f"; {verified.repair}" if verified.repair else ""
    seen = terminal.moment(verified.since)
    return f"{verified.verdict.reason}; first seen at {seen}{repair}"


def _next(state: Path) -> str:
    """Return when a deployment that was asked for again runs."""
    return "at the next poll" if _daemon(state) else "in the next run"


def _tries(entry: Entry) -> str:
    return "1 try" if entry.tries == 1 else f"{entry.tries} tries"


def _reason(entry: Entry) -> str:
    return f"{entry.reason}; " if entry.reason else ""


def _running(entry: Entry, folder: Path) -> str:
    run = entry.run
    if run is None or not supervisor.going_on(run, folder):
        return "ended while no agent was running; the next run records how"
    lasted = processes.since_boot() - run.began + run.spent
    limit = f" of at most {terminal.duration(run.limit)}" if run.limit else ""
    why = run_folder.noted_ending(folder, run)
    ending = f"; being ended: {why}" if why else ""
    return f"process {run.pid}, {terminal.duration(lasted)}{limit}{ending}"


def replacement_values(replaced: replacement.Replacement) -> dict[str, object]:
    """Return a replacement as JSON."""
    return {
        "name": replaced.new.title,
        "old": replaced.old.id,
        "new": replaced.new.id,
        "message": replaced.sentence,
        "hint": replaced.todo,
    }


def values(
    entry: Entry, state: Path, *, title: str = "", follows: str = ""
) -> dict[str, object]:
    """Return a deployment as JSON, with the name that every command takes, and the source that is followed."""
    run = entry.run
    attempts = entry.attempts + (run is not None and entry.state is not State.RETRY)
    return {
        "id": entry.id or None,
        "key": entry.key,
        "name": title or entry.title,
        "config": entry.name,
        "action": entry.action or None,
        "tool": entry.tool or None,
        "source": entry.source or None,
        "follows": follows or None,
        "state": shown(entry, state).value,
        "result": states.result_of(entry),
        "message": details(entry, state),
        "reason": entry.reason,
        "since": wording.stamp(since(entry, state)),
        "accepted": wording.stamp(entry.accepted),
        "started": wording.stamp(entry.started),
        "ended": wording.stamp(entry.ended),
        "run_seconds": run_seconds(entry),
        "process": run.pid if run and entry.state is State.RUNNING else None,
        "scope": Path(run.scope).name if run and run.scope else None,
        "user": run.user or None if run else None,
        "isolated": run.isolated or None if run else None,
        "again": entry.again,
        "attempts": attempts,
        "reboots": entry.reboots,
        "tries": entry.tries,
        "trouble": entry.trouble or None,
        "not_before": wording.stamp(entry.not_before or None),
        **_verified_values(entry, state),
    }


def _verified_values(entry: Entry, state: Path) -> dict[str, object]:
    """Return when a deployment was last verified, and its drift, as JSON."""
    verified, drift = verdicts.of(entry, state), verdicts.drift(entry, state)
    return {
        "verified": wording.stamp(verified.at) if verified else None,
        "drift": drift.verdict.reason if drift else None,
    }


def run_seconds(entry: Entry) -> float | None:
    """Return how long the last run of a deployment took; None if nothing was run, or it has not ended."""
    if not entry.started or not entry.ended:
        return None
    return max(round(entry.ended - entry.started, 3), 0.0)

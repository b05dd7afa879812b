"""`heat-config-agent status`: every deployment and its state."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.cli import stack_package, state_options, terminal
from heat_config_agent.deployments import plan, replacement
from heat_config_agent.model.deployment import CLEANUP
from heat_config_agent.model.entry import SETTLED, Entry, Removed, State
from heat_config_agent.model.errors import ExitCode
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
from heat_config_hooks.values import dataclass

_EPILOG = """\
exit codes:
  0  the status was shown; with --check: the agent is well, even if deployments failed; with --failed: nothing failed
  1  with --check: no agent is running, it has a problem (a source, a delivery, the settings, or a pause), or a stack
     has failed or was interrupted; with --failed: a deployment or a stack has failed
  2  bad usage or configuration
"""

_LONGEST_NAME = 80
"""Columns of a name in a table: a longer one leaves out its middle."""

_STYLES = {
    State.REBOOT: "warn",
    State.RETRY: "warn",
    State.RUNNING: "live",
    State.FINISHED: "warn",
    State.REFUSED: "bad",
    State.ACCEPTED: "warn",
}


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "status",
        "show every deployment and its state",
        __doc__,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="also show deployments whose details were pruned",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of a table"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="only check whether the agent is running and well; the exit code is 1 if it is not",
    )
    parser.add_argument(
        "--failed",
        action="store_true",
        help="only name the deployments and stacks that have failed, and why; the exit code is 1 if there are any",
    )
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="only name the deployments that are running, and those whose results are not delivered",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the state of the agent, and the deployments, oldest first."""
    settings = state_options.of(options)
    rows = _rows(settings.state)
    if options.unfinished:
        shown = [
            row
            for row in rows
            if (options.all or not row.is_pruned) and _unfinished(row)
        ]
        _name(options, shown, [_unfinished(row) for row in shown])
        return ExitCode.OK
    overview = _overview(settings, rows, with_pruned=options.all)
    if options.failed:
        return _name_failures(options, overview)
    is_bad = options.check and overview.alarms
    code = ExitCode.FAILED if is_bad else ExitCode.OK
    if options.json:
        terminal.say(json.dumps(overview.values()))
    elif options.check:
        terminal.say(terminal.line(overview.verdict))
    else:
        _show_overview(overview)
    return code


@dataclass(frozen=True, kw_only=True)
class _Row:
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
        own = values(self.entry, self.state)
        return (
            {**own, "title": self.title, "followed": self.follows}
            if self.follows
            else own
        )


def _followed_rows(state: Path) -> list[_Row]:
    """Return the deployments of followed documents, by source and then oldest first."""
    rows = []
    for name, place in followed.documents(state):
        entries = sorted(journal.read(place).values(), key=lambda entry: entry.accepted)
        rows += [
            _Row(entry=each, title=f"{name}/{each.title}", state=place, follows=name)
            for each in entries
        ]
    return rows


def _rows(state: Path) -> list[_Row]:
    """Return all deployments: the agent's own, oldest first, and then those of followed documents."""
    entries = sorted(journal.read(state).values(), key=lambda entry: entry.accepted)
    return [
        _Row(entry=entry, title=entry.title, state=state) for entry in entries
    ] + _followed_rows(state)


@dataclass(frozen=True, kw_only=True)
class _Overview:
    """The agent, its deployments, its stacks and its followed sources at one moment."""

    settings: Settings
    agent: Mapping[str, object]
    """The state of the daemon as JSON."""
    rows: Sequence[_Row]
    """The deployments to show."""
    hidden: int
    """The number of deployments that are not shown, because their details were pruned."""
    skipped: Sequence[Mapping[str, object]]
    replaced: Sequence[replacement.Replacement]
    records: Sequence[followed.Followed]
    stacks: Sequence[str]
    failed_stacks: Mapping[str, str]
    """The reason of every stack that has failed."""
    interrupted_stacks: Mapping[str, str]
    """A sentence for every stack whose action was interrupted."""
    repeated_stacks: Mapping[str, str]
    """A sentence for every stack of which a person asked for deployments again."""
    elsewhere: Sequence[str]
    """The sources that cannot be followed, and deployments that another agent has begun."""
    hint: str
    """The place where an agent of this machine works, if none works here."""
    problems: list[str]

    @property
    def failed_stack_lines(self) -> list[str]:
        """Return a line for every stack that has failed."""
        return [f"stack {name}: {why}" for name, why in self.failed_stacks.items()]

    @property
    def alarms(self) -> list[str]:
        """Return a sentence for everything that somebody has to look after, failed deployments excepted."""
        return [
            *self.problems,
            *self.failed_stack_lines,
            *self.interrupted_stacks.values(),
        ]

    @property
    def verdict(self) -> str:
        """Return everything that is wrong in one line, or that the agent is well."""
        well = f"the agent is well: {self.agent['doing']}"
        well += "".join(f"; {each.sentence}" for each in self.replaced)
        return "; ".join(self.alarms) or well

    def values(self) -> dict[str, object]:
        """Return it as JSON."""
        return {
            "state_directory": str(self.settings.state),
            "agent": self.agent,
            "healthy": not self.problems,
            "problems": self.problems,
            "deployments": [row.values() for row in self.rows],
            "skipped": self.skipped,
            "replaced": [replacement_values(each) for each in self.replaced],
            "followed": [followed.values(record) for record in self.records],
            "stacks": self.stacks,
            "failed_stacks": self.failed_stacks,
            "interrupted_stacks": self.interrupted_stacks,
            "repeated_stacks": self.repeated_stacks,
        }


def _overview(
    settings: Settings, all_rows: Sequence[_Row], *, with_pruned: bool
) -> _Overview:
    """Collect what there is to show."""
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
    failed_stacks, interrupted_stacks, repeated = stack_package.troubles(settings)
    problems = [
        *_problems(agent, entries, following=bool(settings.followed)),
        *elsewhere,
    ]
    problems += _refused(settings, rows)
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
        records=records,
        stacks=stack_package.names(state),
        failed_stacks=failed_stacks,
        interrupted_stacks=interrupted_stacks,
        repeated_stacks=repeated,
        elsewhere=elsewhere,
        hint=hint,
        problems=problems,
    )


def _name_failures(options: argparse.Namespace, overview: _Overview) -> int:
    """Print a line for each deployment and stack that has failed; return the exit code.

    A deployment that its document no longer has was replaced, or is not wanted any more. A DELETE is still wanted.
    """
    superseded = _superseded(overview.rows)
    failed = [
        row
        for row in overview.rows
        if row.has_failed and row.entry.key not in superseded
    ]
    lines = [f"{row.title}: {details(row.entry, row.state)}" for row in failed]
    _name(
        options,
        failed,
        [*lines, *overview.failed_stack_lines],
        failed_stacks=overview.failed_stacks,
    )
    return ExitCode.FAILED if lines or overview.failed_stacks else ExitCode.OK


def _name(
    options: argparse.Namespace,
    rows: Sequence[_Row],
    lines: Sequence[str],
    **more: object,
) -> None:
    """Print a line for each of some deployments, or one JSON object with them."""
    if options.json:
        terminal.say(
            json.dumps({"deployments": [row.values() for row in rows], **more})
        )
        return
    for line in lines:
        terminal.say(terminal.line(line.replace("\n", "; ")))


def _superseded(rows: Iterable[_Row]) -> set[str]:
    """Return the keys of deployments without an id of their own of which a file has another edition by now."""
    from heat_config_agent.deployments import edition  # noqa: PLC0415  # few commands need it

    by_journal: dict[Path, list[Entry]] = {}
    for row in rows:
        by_journal.setdefault(row.state, []).append(row.entry)
    return {
        key for entries in by_journal.values() for key in edition.superseded(entries)
    }


def _warn(line: str) -> None:
    terminal.say(terminal.styled(terminal.line(line), "warn"))


def _show_overview(overview: _Overview) -> None:
    """Show the agent, what it follows, its stacks and its deployments."""
    settings, agent = overview.settings, overview.agent
    if agent["process"] or asked.paused(settings.state):
        _show(agent, overview.problems)
    if not agent["running"]:
        for line in overview.elsewhere:
            _warn(line)
    for replaced in overview.replaced:
        _warn(f"{replaced.sentence} → {replaced.todo}")
    _show_stacks(overview)
    if overview.rows or overview.hidden or overview.skipped:
        _show_deployments(overview.rows, overview.skipped)
        _show_excess(settings, overview.hidden)
    elif not overview.stacks:
        missing = "" if settings.state.is_dir() else ", which does not exist"
        terminal.say(terminal.line(f"no deployments yet in {settings.state}{missing}"))
        if overview.hint:
            _warn(overview.hint)


def _show_stacks(overview: _Overview) -> None:
    """Show what is followed, the names of the stacks, and which of them failed or were interrupted."""
    settings, stacks = overview.settings, overview.stacks
    for record in overview.records:
        left = (
            ""
            if record.name in settings.followed
            else _no_section(settings, record.name)
        )
        terminal.say(
            terminal.line(
                f"follow {record.name}: {record.progress} of {record.source or 'its source'}{left}"
            )
        )
    if stacks:
        states = settings.command("stack", "list")
        terminal.say(
            f"{terminal.count(len(stacks), 'stack')}: {', '.join(stacks)} (`{states}` shows their states)"
        )
    for line in overview.failed_stack_lines:
        terminal.say(terminal.styled(terminal.line(line), "bad"))
    for line in overview.interrupted_stacks.values():
        terminal.say(terminal.styled(terminal.line(line), "bad"))
    for line in overview.repeated_stacks.values():
        terminal.say(terminal.styled(terminal.line(line), "warn"))


def _show_excess(settings: Settings, hidden: int) -> None:
    """Say if more is kept than the limits allow, and how many deployments are not shown."""
    steady = Steady(settings.state)
    if excess := retention.excess(steady.bytes, steady.files, settings.limits):
        terminal.say(
            terminal.styled(
                f"{excess}: `{settings.command('prune', '--plan')}` shows the details",
                "warn",
            )
        )
    if hidden:
        more = terminal.count(hidden, "older deployment")
        terminal.say(
            terminal.styled(
                f"{more} without details, which were pruned: --all shows them", "quiet"
            )
        )


def _no_section(settings: Settings, name: str) -> str:
    return f" (these settings have no section [follow {name}]; `{settings.command('follow')}` forgets it)"


def _show_deployments(
    shown: Sequence[_Row], skipped: Sequence[Mapping[str, object]]
) -> None:
    """Print a row for each deployment, those that are skipped last."""
    rows: list[tuple[str, ...]] = [
        ("NAME", "ID", "ACTION", "TOOL", "STATE", "SINCE", "DETAILS")
    ]
    rows += [
        (
            terminal.squeezed(terminal.line(each.title), _LONGEST_NAME),
            (each.entry.id or each.entry.key)[:36],
            each.entry.action or "-",
            each.entry.tool or "-",
            word(each.entry, each.state),
            plan.clock(each.entry.at),
            details(each.entry, each.state).replace("\n", "; "),
        )
        for each in shown
    ]
    rows += [
        (
            str(each["title"]),
            str(each["id"])[:36],
            str(each["action"]) or "-",
            "-",
            "skipped",
            "-",
            str(each["reason"]),
        )
        for each in skipped
    ]
    if (
        sum(
            2 + max(terminal.columns(row[column]) for row in rows)
            for column in range(6)
        )
        > terminal.room()
        > 0
    ):
        rows[1:] = _narrower(rows[1:])
    header, *lines = terminal.table(rows)
    terminal.say(terminal.styled(header, "quiet"))
    for each, line in zip(shown, lines, strict=False):
        style = "bad" if each.entry.failed else _STYLES.get(each.entry.state, "")
        terminal.say(terminal.styled(line, style))
    for line in lines[len(shown) :]:
        terminal.say(terminal.styled(line, "quiet"))


def _narrower(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the rows for a narrow terminal: with beginnings of ids, which commands take too, and shorter times."""
    ids = {row[1] for row in rows}
    size = next(
        (
            size
            for size in range(8, 36)
            if len({each[:size] for each in ids}) == len(ids)
        ),
        36,
    )
    today = plan.clock(time.time())[:11]
    return [
        (
            terminal.squeezed(terminal.line(name), 24),
            identity[:size],
            action,
            tool,
            state,
            since.removeprefix(today) if since.startswith(today) else since[5:16],
            *rest,
        )
        for name, identity, action, tool, state, since, *rest in rows
    ]


def _unfinished(row: _Row) -> str:
    """Return what is left to do for a deployment that has begun; empty if nothing is."""
    entry = row.entry
    name = f"{row.title} ({entry.action})" if entry.action else row.title
    if entry.state is State.RUNNING:
        return f"{name} is running"
    if entry.state is State.REBOOT:
        return f"{name} continues after a reboot"
    if entry.state is State.RETRY:
        return f"{name} is run again"
    return (
        f"{name} has run, and its result is not delivered"
        if entry.state is State.FINISHED
        else ""
    )


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
    """Return the obstacles that the daemon has reported, or else the one that this command sees."""
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
    """Return what an obstacle is, what it keeps from beginning, since when, and when that is tried again."""
    keys = obstacle.get("deployments")
    number = len(keys) if isinstance(keys, Mapping) else 0
    work = f"; {terminal.count(number, 'deployment')} cannot begin" if number else ""
    since = (
        f"; since {plan.clock(moment)}"
        if isinstance(moment := obstacle.get("since"), float)
        else ""
    )
    return f"blocked: {obstacle.get('cause')}{work}{since}{_next_try(obstacle)}"


def _next_try(obstacle: Mapping[str, object]) -> str:
    moment = obstacle.get("next_try")
    return (
        f"; next try at {plan.clock(moment)[11:]}" if isinstance(moment, float) else ""
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


def _problem_of(settings: Settings, record: followed.Followed) -> str:
    """Return what is wrong with a followed source, and which command brings the machine in step with it."""
    if record.state != "out of step":
        return record.problem
    return f"{record.problem}: `{settings.command('follow', record.name, '--again')}` carries the revision out again"


def _refused(settings: Settings, rows: Sequence[_Row]) -> list[str]:
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


def _show(agent: Mapping[str, object], problems: list[str]) -> None:
    """Show the state of the daemon."""
    line = f"agent: {agent['doing']}"
    if agent["running"]:
        line += f" (process {agent['process']})"
    terminal.say(
        terminal.styled(terminal.line(line), "" if agent["running"] else "bad")
    )
    pause = agent["paused"]
    if isinstance(pause, Mapping):
        until = (
            f" until {plan.clock(pause['until'])}" if pause["until"] is not None else ""
        )
        begun = f" since {plan.clock(pause['since'])}" if pause["since"] else ""
        line = f"paused{begun}{until}: {terminal.line(pause['reason'])}"
        terminal.say(terminal.styled(line, "warn"))
    for source in _maps(agent["sources"]) if agent["running"] else []:
        if source.get("seldom"):
            continue
        moment = source.get("answered")
        last = (
            f"answered {plan.clock(moment)}"
            if isinstance(moment, float)
            else "has not answered yet"
        )
        if source.get("working") is False and isinstance(
            since := source.get("since"), float
        ):
            last = (
                f"failing since {plan.clock(since)}, last {last}"
                if isinstance(moment, float)
                else f"failing; {last}"
            )
        terminal.say(terminal.line(f"source {source.get('name')}: {last}"))
    for channel in _maps(agent["channels"]) if agent["running"] else []:
        if not channel.get("lost"):
            continue
        why = f": {channel['trouble']}" if channel.get("trouble") else ""
        lost = f"{channel.get('name')}: {channel['lost']} notices lost{why}"
        terminal.say(terminal.styled(terminal.line(lost), "warn"))
    for problem in problems if agent["running"] else []:
        terminal.say(terminal.styled(terminal.line(problem), "warn"))
    terminal.say("")


def word(entry: Entry, state: Path) -> str:
    """Return the state of a deployment in one or two words."""
    if entry.state is State.RUNNING and not (
        entry.run and supervisor.going_on(entry.run, state / "runs" / entry.key)
    ):
        return "ended"
    if entry.ended is None:
        return entry.state.value
    outcome = "failed" if entry.failed else "ok"
    return (
        outcome
        if entry.state in (State.SIGNALLED, State.UNASKED)
        else f"{outcome}, {_UNDELIVERED.get(entry.state, entry.state.value)}"
    )


_UNDELIVERED = {
    State.FINISHED: "waiting",
    State.REFUSED: "refused",
    State.SUPERSEDED: "replaced",
}


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
    if entry.state is State.RUNNING:
        return _running(entry, state / "runs" / entry.key)
    if entry.state is State.REBOOT:
        return f"waits for a reboot of the machine; it has asked for one {plan.times(entry.reboots)}"
    if entry.state is State.RETRY:
        return f"{_reason(entry)}{next_attempt(entry)}{again}"
    if entry.state is State.FINISHED:
        due = (
            f" at {plan.clock(entry.not_before)}"
            if entry.not_before > time.time()
            else ""
        )
        attempt = (
            f"next attempt{due or ' soon'}"
            if _daemon(state)
            else "the next run sends it"
        )
        return f"{_reason(entry)}result not yet delivered{plan.tried(entry)}; {attempt}{again}"
    if entry.state is State.REFUSED:
        return f"{_reason(entry)}the server refused the result for good: {entry.trouble}{again}"
    if entry.state is State.SUPERSEDED:
        return f"{_reason(entry)}the result {REPLACED}{again}"
    return f"{entry.reason}{again}".removeprefix("; ")


def _next(state: Path) -> str:
    """Return when a deployment that was asked for again runs."""
    return "at the next poll" if _daemon(state) else "in the next run"


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
        "title": replaced.new.title,
        "old": replaced.old.id,
        "new": replaced.new.id,
        "says": replaced.sentence,
        "todo": replaced.todo,
    }


def values(entry: Entry, state: Path) -> dict[str, object]:
    """Return a deployment as JSON."""
    return {
        "id": entry.id,
        "key": entry.key,
        "name": entry.name,
        "title": entry.title,
        "action": entry.action,
        "tool": entry.tool,
        "source": entry.source,
        "state": entry.state.value,
        "since": entry.at,
        "accepted": entry.accepted,
        "started": entry.started,
        "ended": entry.ended,
        "failed": entry.failed if entry.ended else None,
        "reason": entry.reason,
        "what": details(entry, state),
        "process": entry.run.pid
        if entry.run and entry.state is State.RUNNING
        else None,
        "scope": Path(entry.run.scope).name if entry.run and entry.run.scope else None,
        "user": entry.run.user or None if entry.run else None,
        "isolated": entry.run.isolated or None if entry.run else None,
        "tries": entry.tries,
        "trouble": entry.trouble,
        "not_before": entry.not_before or None,
        "again": entry.again,
        "reboots": entry.reboots,
        "attempts": entry.attempts
        + (entry.run is not None and entry.state is not State.RETRY),
    }

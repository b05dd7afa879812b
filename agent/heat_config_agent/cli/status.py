"""`heat-config-agent status`: every deployment, and how far it has come."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import asked, health, journal, lock, plan, retention, runner
from heat_config_agent.cli import chosen, terminal
from heat_config_agent.errors import ExitCode
from heat_config_agent.model import Entry, Removed, State
from heat_config_agent.steady import Steady
from heat_config_hooks import processes

_EPILOG = """\
exit codes:
  0  what there is has been shown; with --check: all is well with the agent, whatever became of deployments
  1  with --check: no agent is running, or something is not well with it: a source, a delivery, the settings, a pause
  2  bad usage or configuration
"""

_STYLES = {
    State.REBOOT: "warn",
    State.RUNNING: "live",
    State.FINISHED: "warn",
    State.REFUSED: "bad",
    State.ACCEPTED: "warn",
}


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "status", "what ran, runs and waits", __doc__, epilog=_EPILOG)
    parser.add_argument("--all", action="store_true", help="also those of which only that they ran is still known")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument(
        "--check",
        action="store_true",
        help="only say whether a daemon is running and all is well with it; if not, the exit code is 1",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show how it is with the agent, and the deployments, the oldest first."""
    given = chosen.of(options)
    state = given.state
    entries = sorted(journal.read(state).values(), key=lambda entry: entry.accepted)
    known = len(entries)
    entries = [each for each in entries if options.all or each.removed is not Removed.ALL]
    agent = _agent(state)
    problems = [*_problems(agent, entries), *given.mistakes]
    code = ExitCode.FAILED if options.check and problems else ExitCode.OK
    if options.json:
        value = {
            "state_directory": str(state),
            "agent": agent,
            "healthy": not problems,
            "problems": problems,
            "deployments": [values(entry, state) for entry in entries],
        }
        terminal.say(json.dumps(value))
        return code
    if options.check:
        failed = sum(entry.failed and entry.ended is not None for entry in entries)
        well = f"all is well with the agent: {agent['doing']}"
        well += f"; {terminal.count(failed, 'deployment')} failed" if failed else ""
        terminal.say(terminal.line("; ".join(problems) or well))
        return code
    if agent["process"] or asked.paused(state):
        _show(agent, problems)
    if not entries and not known:
        terminal.say(f"no deployments yet in {state}")
        return ExitCode.OK
    rows = [("NAME", "ID", "ACTION", "TOOL", "STATE", "SINCE", "WHAT")]
    rows += [
        (
            entry.name,
            (entry.id or entry.key)[:36],
            entry.action or "-",
            entry.tool or "-",
            word(entry),
            plan.clock(entry.at),
            what(entry, state).replace("\n", "; "),
        )
        for entry in entries
    ]
    header, *lines = terminal.table(rows)
    terminal.say(terminal.styled(header, "quiet"))
    for entry, line in zip(entries, lines, strict=True):
        style = "bad" if entry.failed else _STYLES.get(entry.state, "")
        terminal.say(terminal.styled(line, style))
    steady = Steady(state)
    if excess := retention.excess(steady.bytes, steady.files, given.limits):
        terminal.say(terminal.styled(f"{excess}: `{given.command('prune', '--plan')}` shows it", "warn"))
    if known > len(entries):
        more = terminal.count(known - len(entries), "older deployment")
        terminal.say(terminal.styled(f"{more} of which only that they ran is known: --all shows them", "quiet"))
    return ExitCode.OK


def _waits(state: Path) -> str:
    """Say what a deployment waits for that is not started yet."""
    if pause := asked.paused(state):
        return f"waits: paused ({pause[0]})"
    return "waits for its turn" if _daemon(state) else "not started yet: the next run does"


def _daemon(state: Path) -> bool:
    """Return whether a daemon is running."""
    holder = lock.holder(state)
    return holder is not None and holder[1] == lock.DAEMON


def _agent(state: Path) -> dict[str, object]:
    """Return how it is with the daemon: what it has said last, and whether it is running at all."""
    said = health.read(state)
    holder = lock.holder(state)
    running = holder is not None and holder[1] == lock.DAEMON
    pause = asked.paused(state)
    return {
        "running": running,
        "process": holder[0] if running and holder else said.get("process"),
        "version": said.get("version"),
        "started": said.get("started"),
        "doing": (said.get("doing") or "starting") if running else "not running",
        "said": said.get("at"),
        "next_poll": said.get("next_poll") if running else None,
        "paused": {"reason": pause[0], "since": pause[1]} if pause else None,
        "reboot": said.get("reboot", []),
        "sources": said.get("sources", []),
        "troubles": said.get("troubles", []),
    }


def _problems(agent: Mapping[str, object], entries: list[Entry]) -> list[str]:
    """Return what is not well with the daemon, in words."""
    found = [] if agent["running"] else ["no agent is running"]
    sources = [each for each in _maps(agent["sources"]) if agent["running"] and not each.get("seldom")]
    away = [each for each in sources if each.get("working") is False]
    found += [f"{each.get('name')} does not answer: {each.get('trouble')}" for each in away]
    found += [f"{each.get('name')}: {each['trouble']}" for each in sources if each not in away and each.get("trouble")]
    if agent["running"] and not any(each.get("working") for each in sources):
        found.append("no source has answered")
    troubles = agent["troubles"]
    found += [str(each) for each in troubles] if isinstance(troubles, list) and agent["running"] else []
    late = [entry for entry in entries if entry.state is State.FINISHED and entry.tries]
    found += [f"{terminal.count(len(late), 'result')} could not be delivered yet"] if late else []
    if agent["paused"]:
        found.append("it is paused")
    return found


def _maps(value: object) -> list[Mapping[str, object]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _show(agent: Mapping[str, object], problems: list[str]) -> None:
    """Show how it is with the daemon."""
    line = f"agent: {agent['doing']}"
    if agent["running"]:
        line += f" (process {agent['process']})"
    terminal.say(terminal.styled(terminal.line(line), "" if agent["running"] else "bad"))
    pause = agent["paused"]
    if isinstance(pause, Mapping):
        terminal.say(
            terminal.styled(f"paused since {plan.clock(pause['since'])}: {terminal.line(pause['reason'])}", "warn")
        )
    for each in [each for each in _maps(agent["sources"]) if agent["running"] and not each.get("seldom")]:
        moment = each.get("answered")
        last = f"answered {plan.clock(moment)}" if isinstance(moment, float) else "has not answered yet"
        terminal.say(terminal.line(f"source {each.get('name')}: {last}"))
    for problem in problems if agent["running"] else []:
        terminal.say(terminal.styled(terminal.line(problem), "warn"))
    terminal.say("")


def word(entry: Entry) -> str:
    """Return in one word how far a deployment has come."""
    if entry.state is State.RUNNING and not (entry.run and runner.going_on(entry.run)):
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


def what(entry: Entry, state: Path) -> str:
    """Say what is going on with a deployment, or came of it."""
    again = "; will be run again by the next run" if entry.again else ""
    if entry.state is State.ACCEPTED:
        return _waits(state)
    if entry.state is State.RUNNING:
        return _running(entry, state / "runs" / entry.key)
    if entry.state is State.REBOOT:
        return f"waits for a reboot of the machine, for which it has asked {plan.times(entry.reboots)}"
    if entry.state is State.FINISHED:
        due = f", not before {plan.clock(entry.not_before)}" if entry.not_before > time.time() else ""
        sent = "it is sent again" if _daemon(state) else "sent by the next run"
        return f"{_reason(entry)}its result is not delivered{plan.tried(entry)}; {sent}{due}{again}"
    if entry.state is State.REFUSED:
        return f"{_reason(entry)}its result was refused for good: {entry.trouble}{again}"
    if entry.state is State.SUPERSEDED:
        return f"{_reason(entry)}its result is not sent: its deployment has been replaced{again}"
    return f"{entry.reason}{again}".removeprefix("; ")


def _reason(entry: Entry) -> str:
    return f"{entry.reason}; " if entry.reason else ""


def _running(entry: Entry, folder: Path) -> str:
    run = entry.run
    if run is None or not runner.going_on(run):
        return "has ended while no agent was there; the next run finds out how"
    lasted = processes.since_boot() - run.began
    limit = f" of at most {terminal.duration(run.limit)}" if run.limit else ""
    why = runner.noted_ending(folder, run)
    ending = f"; being ended, as {why}" if why else ""
    return f"process {run.pid}, {terminal.duration(lasted)}{limit}{ending}"


def values(entry: Entry, state: Path) -> dict[str, object]:
    """Return a deployment as JSON."""
    return {
        "id": entry.id,
        "key": entry.key,
        "name": entry.name,
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
        "what": what(entry, state),
        "process": entry.run.pid if entry.run and entry.state is State.RUNNING else None,
        "scope": Path(entry.run.scope).name if entry.run and entry.run.scope else None,
        "tries": entry.tries,
        "trouble": entry.trouble,
        "not_before": entry.not_before or None,
        "again": entry.again,
        "reboots": entry.reboots,
    }

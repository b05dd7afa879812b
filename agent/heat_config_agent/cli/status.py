"""`heat-config-agent status`: every deployment, and how far it has come."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from heat_config_agent import journal, plan, runner
from heat_config_agent.cli import chosen, terminal
from heat_config_agent.errors import ExitCode
from heat_config_agent.model import Entry, State
from heat_config_hooks import processes

_STYLES = {State.RUNNING: "live", State.FINISHED: "warn", State.REFUSED: "bad", State.ACCEPTED: "warn"}


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "status", "what ran, runs and waits", __doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the deployments, the oldest first."""
    state = chosen.of(options).state
    entries = sorted(journal.read(state).values(), key=lambda entry: entry.accepted)
    if options.json:
        terminal.say(
            json.dumps({"state_directory": str(state), "deployments": [values(entry, state) for entry in entries]})
        )
        return ExitCode.OK
    if not entries:
        terminal.say(f"no deployments yet in {state}")
        return ExitCode.OK
    rows = [("NAME", "ID", "ACTION", "TOOL", "STATE", "SINCE", "WHAT")]
    rows += [
        (
            terminal.plain(entry.name),
            terminal.plain(entry.id or entry.key)[:36],
            terminal.plain(entry.action) or "-",
            terminal.plain(entry.tool) or "-",
            word(entry),
            plan.clock(entry.at),
            terminal.plain(what(entry, state).replace("\n", "; ")),
        )
        for entry in entries
    ]
    header, *lines = terminal.table(rows)
    terminal.say(terminal.styled(header, "quiet"))
    for entry, line in zip(entries, lines, strict=True):
        style = "bad" if entry.failed else _STYLES.get(entry.state, "")
        terminal.say(terminal.styled(line, style))
    return ExitCode.OK


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
        return "not started yet: the next run does"
    if entry.state is State.RUNNING:
        return _running(entry, state / "runs" / entry.key)
    if entry.state is State.FINISHED:
        due = f", not before {plan.clock(entry.not_before)}" if entry.not_before > time.time() else ""
        return f"{_reason(entry)}its result is not delivered{plan.tried(entry)}; sent by the next run{due}{again}"
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
        "tries": entry.tries,
        "trouble": entry.trouble,
        "not_before": entry.not_before or None,
        "again": entry.again,
    }

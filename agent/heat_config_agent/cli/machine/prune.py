"""`heat-config-agent prune`: Remove what is older or larger than the settings allow, or show it.

The agent does this itself once an hour. The settings keep_for and keep_size of [agent] say how long and how much is
kept. A deployment whose result is not delivered yet loses nothing.
"""

from __future__ import annotations

import argparse
import json

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.apply.progress import Collected
from heat_config_agent.cli.machine import pause
from heat_config_agent.model.errors import AgentError, ExitCode, LockedError
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal, lock, requests
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.removal import pruning, sweep
from heat_config_agent.state.removal.retention import Part, Removal, bytes_of

_EPILOG = """\
exit codes:
  0  everything that was due has been removed, or with --plan, shown
  1  some of it could not be removed
  2  bad usage or configuration, or a state directory that cannot be used
"""

_SAYS = {
    Part.SECRETS: "its inputs and config",
    Part.OUTPUT: "its output",
    Part.DEPLOYMENT: "everything except that it ran",
    Part.ID: "the record that it ran",
}


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    brief = "remove what is older or larger than the settings allow"
    parser = state_options.command(commands, "prune", brief, __doc__, epilog=_EPILOG)
    parser.add_argument(
        "--plan",
        action="store_true",
        help="show what would be removed and why; remove nothing",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Remove what is due, ask the running agent to remove it, or show it."""
    settings = state_options.of(options)
    deployed = Deployed(settings.deployed)
    if options.plan:
        removals, size, files = sweep.planned(
            settings.state,
            deployed,
            settings.limits,
            full=pruning.is_full(settings.state),
        )
        _show(removals, as_json=options.json, planned=True, size=size, files=files)
        return ExitCode.OK
    if not settings.state.is_dir():
        _show([], as_json=options.json, planned=False)
        return ExitCode.OK
    try:
        with lock.held(settings.state):
            removed, wrong = _prune(settings, deployed)
    except LockedError as error:
        requests.prune(settings.state)
        process = pause.wake(settings.state)
        when = (
            f"the agent (process {process}) prunes now"
            if process
            else f"{error.brief}, and prunes in its next run"
        )
        terminal.say(
            json.dumps({"asked": when}) if options.json else f"requested: {when}"
        )
        return ExitCode.OK
    _show(removed, as_json=options.json, planned=False)
    if wrong:
        raise AgentError("; ".join(wrong))
    return ExitCode.OK


def _prune(settings: Settings, deployed: Deployed) -> tuple[list[Removal], list[str]]:
    report = Collected()
    book = journal.Journal(settings.state)
    work = pruning.Pruning(book, deployed, settings.state, settings.limits, report)
    work.consider(now=True)
    while work.busy:
        work.work(pruning.LAST_SLICE)
    book.close()
    return work.removed, [*report.warnings, *book.warnings]


def _show(
    removals: list[Removal],
    *,
    as_json: bool,
    planned: bool,
    size: int = 0,
    files: int = 0,
) -> None:
    if as_json:
        objects = [
            {
                "id": removal.entry.id,
                "name": removal.entry.name,
                "title": removal.entry.title,
                "removes": removal.part.value,
                "reason": removal.reason,
            }
            for removal in removals
        ]
        held = {"bytes": size, "files": files} if planned else {}
        terminal.say(json.dumps({"removals": objects, "planned": planned, **held}))
        return
    rows = [
        (
            terminal.plain(removal.entry.title),
            terminal.plain(removal.entry.id or removal.entry.key)[:36],
            _SAYS[removal.part],
            removal.reason,
        )
        for removal in removals
    ]
    for line in terminal.table(rows):
        terminal.say(terminal.line(line))
    number = len({removal.entry.key for removal in removals})
    if planned:
        terminal.say(
            f"would prune {terminal.count(number, 'deployment')}; nothing was removed"
        )
        terminal.say(f"kept now: {bytes_of(size)} in {terminal.count(files, 'file')}")
    else:
        terminal.say(f"pruned {terminal.count(number, 'deployment')}")

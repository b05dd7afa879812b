"""`heat-config-agent prune`: Remove now what is kept no longer, or show what that would be.

The agent does so by itself, once an hour. How long and how much is kept is said by keep_secrets, keep_for, keep_count,
keep_size and keep_files of [agent]. Nothing goes of a deployment whose result is still to be delivered.
"""

from __future__ import annotations

import argparse
import json

from heat_config_agent import asked, journal, lock, pruning
from heat_config_agent.cli import chosen, pausing, terminal
from heat_config_agent.cli.progress import Collected
from heat_config_agent.deployed import Deployed
from heat_config_agent.errors import AgentError, ExitCode, LockedError
from heat_config_agent.retention import Removal, What, bytes_of
from heat_config_agent.settings import Settings

_EPILOG = """\
exit codes:
  0  what is kept no longer has been removed, or shown
  1  some of it could not be removed
  2  bad usage or configuration, or a state directory that cannot be used
"""

_SAYS = {
    What.SECRETS: "its inputs and config",
    What.OUTPUT: "its output",
    What.DEPLOYMENT: "all but that it ran",
    What.ID: "that it ran",
}


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "prune", "remove what is kept no longer", __doc__, epilog=_EPILOG)
    parser.add_argument("--plan", action="store_true", help="show what would be removed, and why, and remove nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Remove it, or have it removed, or show it."""
    given = chosen.of(options)
    deployed = Deployed(given.deployed)
    if options.plan:
        found, size, files = pruning.planned(given.state, deployed, given.limits)
        _show(found, as_json=options.json, planned=True, size=size, files=files)
        return ExitCode.OK
    if not given.state.is_dir():
        _show([], as_json=options.json, planned=False)
        return ExitCode.OK
    try:
        with lock.held(given.state):
            removed, wrong = _prune(given, deployed)
    except LockedError as error:
        asked.prune(given.state)
        process = pausing.wake(given.state)
        when = f"process {process} does it now" if process else f"{error.brief} and does it at its next run"
        terminal.say(json.dumps({"asked": when}) if options.json else f"asked for; {when}")
        return ExitCode.OK
    _show(removed, as_json=options.json, planned=False)
    if wrong:
        raise AgentError("; ".join(wrong))
    return ExitCode.OK


def _prune(given: Settings, deployed: Deployed) -> tuple[list[Removal], list[str]]:
    report = Collected()
    book = journal.Journal(given.state)
    work = pruning.Pruning(book, deployed, given.state, given.limits, report)
    work.consider(now=True)
    while work.busy:
        work.work(pruning.LAST_SLICE)
    book.close()
    return work.removed, [*report.warnings, *book.warnings]


def _show(found: list[Removal], *, as_json: bool, planned: bool, size: int = 0, files: int = 0) -> None:
    if as_json:
        removals = [
            {"id": each.entry.id, "name": each.entry.name, "removes": each.what.value, "reason": each.reason}
            for each in found
        ]
        held = {"bytes": size, "files": files} if planned else {}
        terminal.say(json.dumps({"removals": removals, "planned": planned, **held}))
        return
    rows = [
        (
            terminal.plain(each.entry.name),
            terminal.plain(each.entry.id or each.entry.key)[:36],
            _SAYS[each.what],
            each.reason,
        )
        for each in found
    ]
    for line in terminal.table(rows):
        terminal.say(terminal.line(line))
    number = len({each.entry.key for each in found})
    if planned:
        terminal.say(f"{terminal.count(number, 'deployment')} of which something would be removed; nothing was")
        terminal.say(f"what is kept now takes {bytes_of(size)} in {terminal.count(files, 'file')}")
    else:
        terminal.say(f"{terminal.count(number, 'deployment')} of which something was removed")

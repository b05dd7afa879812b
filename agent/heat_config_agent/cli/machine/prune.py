"""`heat-config-agent prune`: Remove what is older or larger than the settings allow, or show it.

The agent does this itself once an hour. The settings keep_for and keep_size of [agent] say how long and how much is
kept. A deployment whose result is not delivered yet loses nothing.
"""

from __future__ import annotations

import argparse
import os

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.cli.apply.progress import Collected
from heat_config_agent.cli.machine import pause
from heat_config_agent.model.errors import ExitCode, LockedError
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal, lock, requests
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.removal import pruning, sweep
from heat_config_agent.state.removal.retention import Part, Removal, bytes_of

_EPILOG = """\
exit codes:
  0  everything that was due has been removed, or with --plan, shown
  1  some of it could not be removed
  2  bad usage, or a mistake in the settings: nothing is removed by doubtful limits
  10  a state directory that cannot be used
"""

_SAYS = {
    Part.SECRETS: "inputs and config",
    Part.OUTPUT: "output",
    Part.DEPLOYMENT: "all but its record",
    Part.ID: "record that it ran",
}
"""The column TYPE of each part."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    brief = "remove what is older or larger than the settings allow"
    parser = state_options.command(commands, "prune", brief, __doc__, epilog=_EPILOG)
    state_options.add_plan(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="prune")


def run(options: argparse.Namespace) -> int:
    """Carry out the removals that are due, request them of the running agent, or show them."""
    if options.plan:
        settings = state_options.of(options)
    else:
        # nothing is removed by doubtful limits
        settings = effective.make(
            os.environ, config=options.config, state=options.state_dir
        )
    deployed = Deployed(settings.deployed)
    if options.plan:
        removals, size, files = sweep.planned(
            settings.state,
            deployed,
            settings.limits,
            full=pruning.is_full(settings.state),
        )
        if options.json:
            envelope.result(_values(removals, planned=True, size=size, files=files))
        else:
            _show_plan(removals, size, files, settings.command("prune"))
        return ExitCode.OK
    removed: list[Removal] = []
    wrong: list[str] = []
    if settings.state.is_dir():
        try:
            with lock.held(settings.state):
                removed, wrong = _prune(settings, deployed)
        except LockedError as error:
            return _request(settings, error, as_json=options.json)
    failure = envelope.Failure("failed", "; ".join(wrong)) if wrong else None
    code = ExitCode.FAILED if wrong else ExitCode.OK
    if failure is not None:
        terminal.complain(f"error: {terminal.line(failure.message)}")
    if options.json:
        envelope.result(_values(removed), code=code, error=failure)
    else:
        _show_table(removed)
        number = terminal.count(_number(removed), "deployment")
        terminal.say(f"pruned {number}" if removed else "nothing to prune")
    return code


def _request(settings: Settings, error: LockedError, *, as_json: bool) -> int:
    """Have the program that holds the lock prune."""
    requests.prune(settings.state)
    process = pause.wake(settings.state)
    if as_json:
        envelope.result(_values([], requested=True, process=process))
        return ExitCode.OK
    when = (
        f"the agent (process {process}) prunes now"
        if process
        else f"{error.brief}, and prunes in its next run"
    )
    terminal.say(f"requested: {when}")
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


def _values(
    removals: list[Removal],
    *,
    planned: bool = False,
    requested: bool = False,
    process: int | None = None,
    size: int | None = None,
    files: int | None = None,
) -> dict[str, object]:
    changes = [
        {
            "change": "remove",
            "name": removal.entry.title,
            "type": removal.part.value,
            "why": removal.reason,
            "id": removal.entry.id or None,
        }
        for removal in removals
    ]
    return {
        "planned": planned,
        "requested": requested,
        "process": process,
        "changes": changes,
        "kept_bytes": size,
        "kept_files": files,
    }


def _show_plan(removals: list[Removal], size: int, files: int, command: str) -> None:
    _show_table(removals)
    kept = f"{bytes_of(size)} in {terminal.count(files, 'file')} are kept now"
    if removals:
        number = terminal.count(_number(removals), "deployment")
        terminal.say(
            f"\n{number} to prune; nothing was done (`{terminal.line(command)}` does it); {kept}"
        )
    else:
        terminal.say(f"nothing to prune; {kept}")


def _show_table(removals: list[Removal]) -> None:
    rows = [
        ("remove", removal.entry.title, _SAYS[removal.part], removal.reason)
        for removal in removals
    ]
    for line in terminal.table(rows, header=("CHANGE", "NAME", "TYPE", "WHY")):
        terminal.say(line)


def _number(removals: list[Removal]) -> int:
    return len({removal.entry.key for removal in removals})

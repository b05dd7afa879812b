"""`heat-config-agent log ID`: Print everything that a deployment's tool printed, with secrets masked."""

from __future__ import annotations

import argparse
import codecs
import time
from pathlib import Path

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.deployments import kept_runs, named
from heat_config_agent.deployments import plan
from heat_config_agent.masking.redaction import beginning, concealer
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.runs import earlier, resolved, run_folder, streams, supervisor
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal, lock
from heat_config_hooks import files
from heat_config_hooks.reply import CUT, EDGE

_INTERVAL = 0.2
"""Seconds between two reads of the output of a run that is followed."""

_BLOCK = 256 * 1024

_LONGEST = 64 * 1024
"""Number of characters that are held back of a line that has not ended: they may be the beginning of a secret."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands, "log", "print the output of a deployment's tool", __doc__
    )
    state_options.add_id(parser)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="follow the output until the run ends",
    )
    parser.add_argument(
        "--run",
        dest="chosen",
        type=kept_runs.number,
        metavar="N",
        help="print the output of one of the runs that show lists: 1 is the oldest one that is kept, 0 is the newest, "
        "and -1 is the one before that",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the run's standard output to standard output, and its standard error to standard error."""
    asked = state_options.of(options)
    target = named.find(asked, options.id, options.config, newest=True)
    settings, entry = target.settings, target.entry
    show = asked.command("show", options.id)
    if options.chosen is not None:
        runs = kept_runs.of(target)
        chosen = kept_runs.choose(
            runs, options.chosen, target.title, f"`{show}` lists them"
        )
        entry = chosen.entry
        _say_which(chosen, len(runs))
        if chosen.before is not None:
            _print_earlier(settings, chosen)
            return ExitCode.OK
    folder = settings.state / "runs" / entry.key
    if not folder.is_dir() or (
        entry.started is None
        and not options.follow
        and not kept_runs.has_output(folder)
    ):
        before = (
            f"`{show}` lists earlier runs, whose output is kept"
            if kept_runs.of(target)
            else ""
        )
        raise AgentError(
            f"there is no output of {entry.title}: {_why_none(entry)}", hint=before
        )
    if options.follow:
        entry = _on_record(settings.state, entry, folder)
    deployment = state_options.deployment(settings, entry)
    if deployment is None:
        raise AgentError(
            f"cannot mask the secrets in the output of {entry.title}: they are no longer known",
            hint=f"the output is in {folder}",
        )
    deployment = revealed(deployment, folder, entry, follow=options.follow)
    if deployment is None:
        return ExitCode.OK
    _print(settings, entry, deployment, follow=options.follow)
    if options.chosen is None:
        _say_earlier(target, asked, options.id)
    return ExitCode.OK


def _print(
    settings: Settings, entry: Entry, deployment: Deployment, *, follow: bool
) -> None:
    """Print the output of the last run of an entry; with `follow`, until it ends."""
    folder = settings.state / "runs" / entry.key
    printed = [
        _Stream(folder / "stdout", deployment),
        _Stream(folder / "stderr", deployment, error=True),
    ]
    while True:
        running = follow and _is_running(entry, folder)
        for stream in printed:
            stream.copy(to_the_end=not running)
        if not running:
            return
        time.sleep(_INTERVAL)


def _print_earlier(settings: Settings, chosen: kept_runs.KeptRun) -> None:
    """Print the output of an earlier run, which was masked when it was kept. Raises AgentError if it is not there."""
    bare = {"id": chosen.entry.id, "name": chosen.entry.name}
    deployment = state_options.deployment(settings, chosen.entry) or plan.deployment_of(
        chosen.entry, bare
    )
    printed = [
        chosen.folder / name
        for name in earlier.STREAMS
        if (chosen.folder / name).exists()
    ]
    if not printed:
        raise AgentError(
            f"the output of run {chosen.number} of {chosen.entry.title} is not kept: the secrets in it were not known"
        )
    for path in printed:
        _Stream(path, deployment, error=path.name == "stderr").copy(to_the_end=True)


def _say_which(chosen: kept_runs.KeptRun, count: int) -> None:
    """Say on standard error which run it is."""
    when = f", {plan.clock(chosen.started)}" if chosen.started else ""
    why = f": {chosen.reason}" if chosen.reason else ""
    terminal.complain(
        f"run {chosen.number} of {count}{when}: {chosen.outcome}{terminal.line(why)}",
        "quiet",
    )


def _say_earlier(found: named.Named, asked: Settings, name: str) -> None:
    """Say on standard error that the output of earlier runs is kept too, if it is."""
    before = [
        each
        for each in kept_runs.of(found)
        if each.entry.key != found.entry.key or each.before is not None
    ]
    if before:
        last = before[-1]
        log = asked.command("log", name, "--run", str(last.number))
        earlier_runs = terminal.count(len(before), "earlier run")
        terminal.complain(
            f"{earlier_runs}, the last one {last.outcome}: `{log}` prints its output",
            "quiet",
        )


def _on_record(state: Path, entry: Entry, folder: Path) -> Entry:
    """Return the entry once the run for which its folder was made is on record.

    An agent makes the folder, prepares the command in it, and then records the run. This waits while an agent is at
    work on the state directory, and the deployment is to run.
    """
    while (
        entry.state in {State.ACCEPTED, State.RETRY, State.REBOOT}
        and not (
            entry.run
            and kept_runs.has_output(folder)
            and run_folder.status(folder, entry.run.mark).exists()
        )
        and lock.holder(state) is not None
    ):
        time.sleep(_INTERVAL)
        entry = journal.read(state).get(entry.key, entry)
    return entry


def revealed(
    deployment: Deployment, folder: Path, entry: Entry, *, follow: bool
) -> Deployment | None:
    """Return a deployment with the secrets to which its inputs refer, so that they can be masked in its output.

    Returns None if they are not known yet, so that nothing was printed; with `follow`, this waits until they are.
    """
    while deployment.references:
        running = _is_running(entry, folder)
        known = resolved.revealed(deployment, folder)
        if known is not None:
            return known
        if not running:
            break  # the secrets in the output are overwritten
        if not follow:
            return None
        time.sleep(_INTERVAL)
    return deployment


def _why_none(entry: Entry) -> str:
    """Return why there is no output."""
    if entry.removed is Removed.ALL or (entry.settled and entry.started):
        return "it was pruned; keep_for and keep_size say how long it is kept, and a full disk shortens that"
    return (
        "it has not been started yet"
        if entry.state in (State.ACCEPTED, State.RETRY)
        else "nothing was run for it"
    )


def _is_running(entry: Entry, folder: Path) -> bool:
    return (
        entry.state is State.RUNNING
        and entry.run is not None
        and supervisor.going_on(entry.run, folder)
    )


class _Stream:
    """One stream of a run, copied as it grows, whole lines at a time."""

    def __init__(
        self, path: Path, deployment: Deployment, *, error: bool = False
    ) -> None:
        self._path = path
        self._error = error
        self._redact = concealer(deployment).text
        self._begun = beginning(deployment)
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def copy(self, *, to_the_end: bool) -> None:
        try:
            descriptor = files.open_regular(self._path)
        except OSError as error:  # the command may have done anything to its own folder
            raise AgentError(f"cannot read {self._path}: {error.strerror}") from error
        with open(descriptor, "rb") as file:
            while True:
                left_out, block = streams.read(file.fileno(), self._offset, _BLOCK)
                self._offset += left_out + len(block)
                if not block:
                    break
                if left_out:
                    block = self._leap(left_out, block)
                text = self._rest + self._decoder.decode(block)
                # What may be half of a secret waits for its other half. A secret may have several lines, and its last
                # line may be too short to be masked by itself.
                whole = len(text) - self._begun(text)
                masked = self._redact(text[:whole])
                end = max(masked.rfind("\n") + 1, len(masked) - _LONGEST)
                self._print(masked[:end])
                self._rest = masked[end:] + text[whole:]
        if to_the_end:
            self._print(self._redact(self._rest))
            self._rest = ""

    def _leap(self, left_out: int, block: bytes) -> bytes:
        """Print that output was left out, and return the rest of the block.

        The text next to the gap is left out too: it may be half of a secret.
        """
        rest, edge = self._rest[:-EDGE], self._rest[-EDGE:]
        self._print(
            self._redact(rest)
            + CUT.format(left_out + len(edge.encode()) + min(len(block), EDGE))
        )
        self._rest = ""
        self._decoder.reset()
        return block[EDGE:]

    def _print(self, text: str) -> None:
        if text:
            terminal.say(terminal.plain(text), error=self._error, end="")

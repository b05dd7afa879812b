"""`heat-config-agent log ID`: what a deployment's tool printed, all of it, without its secrets."""

from __future__ import annotations

import argparse
import codecs
import time
from functools import partial
from pathlib import Path

from heat_config_agent import runner, streams
from heat_config_agent.cli import chosen, terminal
from heat_config_agent.errors import AgentError, ExitCode
from heat_config_agent.model import Deployment, Entry, Removed, State
from heat_config_agent.redaction import beginning, redactor
from heat_config_hooks import files
from heat_config_hooks.reply import CUT, EDGE

_INTERVAL = 0.2
"""Seconds between two looks at a run that is followed."""

_BLOCK = 256 * 1024

_LONGEST = 64 * 1024
"""Characters of a line that has not ended which are held back: the beginning of a secret may be the last of them."""


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "log", "what its tool printed", __doc__)
    chosen.add_id(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print standard output to standard output, and standard error to standard error."""
    given = chosen.of(options)
    entry = chosen.entry(given, options.id, newest=True)
    folder = given.state / "runs" / entry.key
    if not folder.is_dir():
        raise AgentError(f"there is no output of {entry.name}: {_status_of(entry)}")
    deployment = chosen.deployment(given, entry)
    if deployment is None:
        raise AgentError(f"what is secret in the output of {entry.name} is no longer known", hint=f"it is in {folder}")
    printed = [_Stream(folder / "stdout", deployment), _Stream(folder / "stderr", deployment, error=True)]
    while True:
        running = options.follow and _is_running(entry)
        for stream in printed:
            stream.copy(to_the_end=not running)
        if not running:
            return ExitCode.OK
        time.sleep(_INTERVAL)


def _status_of(entry: Entry) -> str:
    """Say why there is no output."""
    if entry.removed is Removed.ALL or (entry.settled and entry.run):
        return "it was removed, as settings say how long it is kept (keep_…)"
    return "it has not been started yet" if entry.state is State.ACCEPTED else "nothing was run for it"


def _is_running(entry: Entry) -> bool:
    return entry.state is State.RUNNING and entry.run is not None and runner.going_on(entry.run)


class _Stream:
    """One stream of a run, copied as it grows, whole lines at a time."""

    def __init__(self, path: Path, deployment: Deployment, *, error: bool = False) -> None:
        self._path = path
        self._error = error
        self._redact = partial(redactor(deployment), "deploy_stdout")
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
                # What may be half of a secret waits for the rest of it: also of one that has several lines, of which
                # the last may be too short to be hidden by itself.
                whole = len(text) - self._begun(text)
                known = self._redact(text[:whole])
                end = max(known.rfind("\n") + 1, len(known) - _LONGEST)
                self._print(known[:end])
                self._rest = known[end:] + text[whole:]
        if to_the_end:
            self._print(self._redact(self._rest))
            self._rest = ""

    def _leap(self, left_out: int, block: bytes) -> bytes:
        """Say that something was left out, with what may be half of a secret beside it; return what comes after."""
        rest, edge = self._rest[:-EDGE], self._rest[-EDGE:]
        self._print(self._redact(rest) + CUT.format(left_out + len(edge.encode()) + min(len(block), EDGE)))
        self._rest = ""
        self._decoder.reset()
        return block[EDGE:]

    def _print(self, text: str) -> None:
        if text:
            terminal.say(terminal.plain(text), error=self._error, end="")

"""`heat-config-agent log ID`: what a deployment's tool printed, all of it, without its secrets."""

from __future__ import annotations

import argparse
import codecs
import time
from collections.abc import Callable
from pathlib import Path

from heat_config_agent import runner
from heat_config_agent.cli import chosen, terminal
from heat_config_agent.errors import AgentError, ExitCode
from heat_config_agent.model import Entry, State
from heat_config_agent.redaction import redactor
from heat_config_agent.settings import Settings

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
    redact = _redactor(given, entry, folder)
    streams = [_Stream(folder / "stdout", redact), _Stream(folder / "stderr", redact, error=True)]
    while True:
        running = options.follow and _is_running(entry)
        for stream in streams:
            stream.copy(to_the_end=not running)
        if not running:
            return ExitCode.OK
        time.sleep(_INTERVAL)


def _status_of(entry: Entry) -> str:
    """Say why there is no output."""
    return "it has not been started yet" if entry.state is State.ACCEPTED else "nothing was run for it"


def _is_running(entry: Entry) -> bool:
    return entry.state is State.RUNNING and entry.run is not None and runner.going_on(entry.run)


def _redactor(given: Settings, entry: Entry, folder: Path) -> Callable[[str], str]:
    deployment = chosen.deployment(given, entry)
    if deployment is None:
        raise AgentError(f"what is secret in the output of {entry.name} is no longer known", hint=f"it is in {folder}")
    redact = redactor(deployment)
    return lambda text: redact("deploy_stdout", text)


class _Stream:
    """One stream of a run, copied as it grows, whole lines at a time."""

    def __init__(self, path: Path, redact: Callable[[str], str], *, error: bool = False) -> None:
        self._path = path
        self._error = error
        self._redact = redact
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def copy(self, *, to_the_end: bool) -> None:
        try:
            file = self._path.open("rb")
        except OSError as error:  # the command may have done anything to its own folder
            raise AgentError(f"cannot read {self._path}: {error.strerror}") from error
        with file:
            file.seek(self._offset)
            while block := file.read(_BLOCK):
                self._offset += len(block)
                # Redacted before it is cut: a secret must not be printed in two parts.
                self._rest = self._redact(self._rest + self._decoder.decode(block))
                lines, newline, rest = self._rest.rpartition("\n")
                if len(rest) > _LONGEST:
                    lines, newline, rest = self._rest[:-_LONGEST], "", self._rest[-_LONGEST:]
                self._rest = rest
                self._print(lines + newline)
        if to_the_end:
            self._print(self._redact(self._rest))
            self._rest = ""

    def _print(self, text: str) -> None:
        if text:
            terminal.say(terminal.plain(text), error=self._error, end="")

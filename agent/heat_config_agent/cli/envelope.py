"""The JSON of every command: one object with `--json`, also for mistakes, and the lines of a stream before it.

`docs/schemas/envelope.json` describes the object. Its `data` differs by `kind`: `docs/schemas/KIND.json`. A stream is a
line of the kind "event" for each event, and the object of the command in the last line.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from heat_config_agent import __version__
from heat_config_agent.cli import terminal
from heat_config_agent.model import wording
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_hooks.values import dataclass

FORMAT = 1
"""The version of the object. Keys are added without a new version; another meaning of a key needs one."""

EVENT = "event"
"""The kind of all lines of a stream but the last."""


@dataclass(frozen=True)
class Failure:
    """The reason for an exit code other than 0."""

    code: str
    """The kind of failure, such as "failed" or "not_found": see `AgentError.code`."""
    message: str
    hint: str = ""
    """A command or a sentence that helps; empty if nothing is known."""
    subject: tuple[str, str] | None = None
    """The kind and the name of the thing that it is about."""
    mistakes: Sequence[Mapping[str, object]] = ()
    """Mistakes in documents and templates, each with file, line, column, path, code, problem and hint."""


@dataclass
class _Output:
    """The output of this process."""

    is_on: bool = False
    kind: str = "usage"
    is_printed: bool = False


_output = _Output()


def is_wanted(words: Sequence[str]) -> bool:
    """Return whether a command line asks for JSON."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def begin(kind: str, *, is_on: bool) -> None:
    """Name the kind of data that the command answers with, if its output is JSON."""
    _output.is_on, _output.kind, _output.is_printed = is_on, kind, False


def is_on() -> bool:
    """Return whether the output of this process is JSON."""
    return _output.is_on


def result(
    data: object, *, code: int = ExitCode.OK, error: Failure | None = None
) -> None:
    """Print the object of a command. It is the last output of the process."""
    if _output.is_printed:
        return
    _output.is_printed = True
    _print(
        {
            "format": FORMAT,
            "kind": _output.kind,
            "version": __version__,
            "at": wording.stamp(time.time()),
            "exit_code": int(code),
            "data": data,
            "warnings": list(terminal.warnings),
            "error": _error(error) if error else None,
        }
    )


def event(data: Mapping[str, object]) -> None:
    """Print a line of a stream."""
    _print(
        {
            "format": FORMAT,
            "kind": EVENT,
            "at": wording.stamp(time.time()),
            "data": data,
        }
    )


def failed(error: AgentError) -> None:
    """Print the object of a command that failed before it had any data; nothing if its output is not JSON."""
    if _output.is_on:
        failure = Failure(error.code, error.brief, error.hint, error.subject)
        result(None, code=error.exit_code, error=failure)


def ended(code: int, kind: str, message: str) -> None:
    """Print the object of a command that has printed none: it was interrupted, or has a defect or a usage mistake."""
    if _output.is_on:
        result(None, code=code, error=Failure(kind, message))


def _error(failure: Failure) -> dict[str, object]:
    subject = failure.subject
    return {
        "code": failure.code,
        "message": failure.message,
        "hint": failure.hint or None,
        "subject": {"kind": subject[0], "name": subject[1]} if subject else None,
        "mistakes": list(failure.mistakes),
    }


def _print(value: object) -> None:
    import json  # noqa: PLC0415  # only with --json

    terminal.say(json.dumps(value, ensure_ascii=False))

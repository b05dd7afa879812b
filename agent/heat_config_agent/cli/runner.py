"""The frame of every command: its exit code, and one sentence if it fails."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

from heat_config_agent.cli import terminal
from heat_config_agent.model import signal_numbers
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    Interrupted,
    UsageError,
    hindrance,
    shortage,
)
from heat_config_hooks import memory

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from types import SimpleNamespace
    from typing import NoReturn


def run(main: Callable[[list[str]], int]) -> int:
    """Run a command and return its exit code. A foreseen failure prints one line, a defect prints a traceback."""
    _usable_output()
    memory.keep_no_core()
    sys.excepthook = lambda _kind, error, _trace: terminal.defect(error)
    sys.unraisablehook = lambda unraisable: terminal.defect(unraisable.exc_value)
    signal_numbers.handle(signal_numbers.SIGTERM, _interrupt)
    signal_numbers.handle(signal_numbers.SIGINT, _interrupt)
    hung_up = signal_numbers.handle(signal_numbers.SIGHUP, _interrupt)
    if hung_up is signal_numbers.SIG_IGN:  # nohup: it goes on without the terminal
        signal_numbers.handle(signal_numbers.SIGHUP, signal_numbers.SIG_IGN)
    code = _ended(main)
    try:
        sys.stdout.flush()
    except OSError:  # the reader of our output has gone (`… | head`), or the disk that it goes to is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _ended(main: Callable[[list[str]], int]) -> int:
    """Run a command and return its exit code, however it ends."""
    words = sys.argv[1:]
    try:
        if "--json" in words:
            _begin_json(words)
        return main(words)
    except SystemExit as end:  # argparse has printed the help or the version
        return end.code if isinstance(end.code, int) else ExitCode.USAGE
    except AgentError as error:
        return _failed(error)
    except (OSError, MemoryError, ImportError) as error:
        foreseen = (
            hindrance(error) if isinstance(error, PermissionError) else shortage(error)
        )
        if foreseen is None:
            raise
        return _failed(foreseen)
    except Interrupted:
        more = f": {going_on[-1]}" if going_on else ""
        terminal.say(f"interrupted{more}", error=True)
        if "--json" in words:
            from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

            envelope.ended(ExitCode.INTERRUPTED, "interrupted", f"interrupted{more}")
        return ExitCode.INTERRUPTED


going_on: list[str] = []
"""Sentences about what an interrupted command leaves running; empty if it leaves nothing."""

RUNS_GO_ON = "runs that have begun go on; run the command again to follow them"
"""The sentence for commands that run deployments."""


def use(options: SimpleNamespace | argparse.Namespace, kind: str) -> None:
    """Take over the options of all commands; `kind` is that of the answer of this one. Raises UsageError."""
    terminal.use(
        no_color=getattr(options, "no_color", False),
        quiet=getattr(options, "quiet", False),
    )
    if getattr(options, "json", False):
        from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

        envelope.begin(kind, is_on=True)
    # `verify --diff` shows what differs on the machine, with and without a plan
    is_of_plan = kind != "verification" and getattr(options, "diff", False)
    if is_of_plan and not getattr(options, "plan", True):
        raise UsageError("--diff is for plans", hint="add --plan")


def _begin_json(words: list[str]) -> None:
    from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

    envelope.begin("usage", is_on=envelope.is_wanted(words))


def _failed(error: AgentError) -> int:
    """Print one sentence, and with --json the object; return the exit code."""
    terminal.complain(f"error: {terminal.line(str(error))}")
    if "--json" in sys.argv[1:]:
        from heat_config_agent.cli import envelope  # noqa: PLC0415  # only with --json

        envelope.failed(error)
    return error.exit_code


def _usable_output() -> None:
    """Make standard output and error accept any text, even if they are closed or have another encoding."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _interrupt(_number: int, _frame: object) -> NoReturn:
    # a second signal ends the process, also where the cleanup waits for something
    for number in (
        signal_numbers.SIGTERM,
        signal_numbers.SIGINT,
        signal_numbers.SIGHUP,
    ):
        signal_numbers.handle(number, signal_numbers.SIG_DFL)
    raise Interrupted

"""How every command ends: with an exit code, and in a sentence where it could not do what it was to."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable

from heat_config_agent import kill_points
from heat_config_agent.cli import terminal
from heat_config_agent.errors import AgentError, ExitCode, shortage
from heat_config_hooks import memory

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import NoReturn


class Interrupted(BaseException):
    """A signal asks the command to end.

    Whatever it was doing can be left as it is: the next run goes on from the journal.
    """


def run(main: Callable[[list[str]], int]) -> int:
    """Run a command: a failure that we understand is one line and an exit code, anything else keeps its traceback."""
    _usable_output()
    memory.keep_no_core()
    sys.excepthook = lambda _kind, error, _trace: terminal.defect(error)
    sys.unraisablehook = lambda found: terminal.defect(found.exc_value)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    code = _ended(main)
    try:
        sys.stdout.flush()
    except OSError:  # the reader of our output has gone (`… | head`), or the disk that it goes to is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _ended(main: Callable[[list[str]], int]) -> int:
    """Run a command and return its exit code, whichever way it ends."""
    try:
        if armed := os.environ.get(kill_points.VARIABLE):
            kill_points.arm(armed)
        return main(sys.argv[1:])
    except SystemExit as end:  # argparse's, which has said what there was to say
        return end.code if isinstance(end.code, int) else ExitCode.USAGE
    except AgentError as error:
        print(f"error: {terminal.line(str(error))}", file=sys.stderr)
        return error.exit_code
    except (OSError, MemoryError, ImportError) as error:
        lack = shortage(error)
        if lack is None:
            raise
        print(f"error: {lack}", file=sys.stderr)
        return lack.exit_code
    except Interrupted:
        print("interrupted: what is running goes on; run the command again to follow it", file=sys.stderr)
        return ExitCode.INTERRUPTED


def _usable_output() -> None:
    """See to it that whatever is said can be written: in any alphabet, and where there is no output at all."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _interrupt(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough, and twice would interrupt the ending
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Interrupted

"""Freezing the old programs: nothing that they run is cut short, and they begin nothing while they are stopped."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Sequence

import psutil

from heat_config_agent.migration import COLLECTOR, Unit, survey
from heat_config_agent.model.errors import AgentError
from heat_config_hooks.values import dataclass

_TICK = 0.1
"""Seconds between two checks of whether something has ended."""

_GRACE = 10.0
"""Seconds between TERM and KILL for an os-collect-config that its unit does not stop."""


@dataclass
class Wait:
    """A wait for the old programs, until a deadline."""

    deadline: float
    """As `time.monotonic` has it."""
    waits: Callable[[str], None]
    """Called with the reason of the wait, whenever it changes."""
    reason: str = ""

    def until(self, attempt: Callable[[contextlib.ExitStack], str]) -> contextlib.ExitStack:
        """Repeat an attempt until it succeeds, and return the resources that it holds then. Raises AgentError.

        An attempt returns why it has not succeeded yet, or an empty text.
        """
        while True:
            with contextlib.ExitStack() as held:
                reason = attempt(held)
                if not reason:
                    return held.pop_all()
            if time.monotonic() > self.deadline:
                hint = "run the command again when that has ended, or wait longer with --wait"
                raise AgentError(f"{reason}, and must not be cut short", hint=hint)
            if reason != self.reason:
                self.reason = reason
                self.waits(reason)
            time.sleep(_TICK)


def locked(old_units: Sequence[Unit], held: contextlib.ExitStack) -> str:
    """Lock os-refresh-config out; return why that is not possible yet, or an empty text.

    An os-refresh-config that is locked out fails, and os-collect-config runs it again later.
    """
    reason = survey.busy(old_units)
    if reason:
        return reason
    for path in survey.locks(old_units):
        if not path.parent.is_dir():
            continue
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        held.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return f"another process holds {path}"
    return ""


def still(unit: Unit, held: contextlib.ExitStack) -> str:
    """Stop os-collect-config with SIGSTOP while it runs no command; return which command it runs, or an empty text.

    The lock is not enough: os-collect-config may run another command than os-refresh-config.
    """
    for process in survey.collectors(unit):
        with contextlib.suppress(psutil.NoSuchProcess):
            held.callback(_let_go, process)
            process.send_signal(signal.SIGSTOP)
            while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                time.sleep(0.001)
    # It can begin nothing any more, so this answer is final.
    commands = survey.commands(unit)
    return f"{COLLECTOR} runs a command (process {commands[0].pid})" if commands else ""


def end(collectors: Sequence[psutil.Process]) -> None:
    """End the processes of os-collect-config that stopping the unit has left: its main process may be a shell."""
    for process in collectors:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
            _let_go(process)
    for process in psutil.wait_procs(collectors, _GRACE)[1]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _let_go(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)

"""Their programs held back: nothing of theirs is cut short, and nothing of theirs begins while it is stopped."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable, Sequence

import psutil

from heat_config_agent.errors import AgentError
from heat_config_agent.migration import COLLECTOR, Unit, looking
from heat_config_hooks.values import dataclass

_TICK = 0.1
"""Seconds between two looks at whether something has ended."""

_GRACE = 10.0
"""Seconds between asking os-collect-config to end, where its unit does not, and killing it."""


@dataclass
class Wait:
    """The patience with what they are at, and who is told of that."""

    deadline: float
    waits: Callable[[str], None]
    told: str = ""

    def until(self, attempt: Callable[[contextlib.ExitStack], str]) -> contextlib.ExitStack:
        """Try until it works, and return what it holds then: it returns why it does not yet. Raises AgentError."""
        while True:
            with contextlib.ExitStack() as held:
                at_work = attempt(held)
                if not at_work:
                    return held.pop_all()
            if time.monotonic() > self.deadline:
                hint = "run it again when that has ended, or have it waited for longer with --wait"
                raise AgentError(f"{at_work}, and must not be cut short", hint=hint)
            if at_work != self.told:
                self.told = at_work
                self.waits(at_work)
            time.sleep(_TICK)


def locked(theirs: Sequence[Unit], held: contextlib.ExitStack) -> str:
    """Keep os-refresh-config from beginning; return why that cannot be done now, empty where it is.

    To os-collect-config that is a command that failed: it would have it run again later.
    """
    at_work = looking.busy(theirs)
    if at_work:
        return at_work
    for path in looking.locks(theirs):
        if not path.parent.is_dir():
            continue
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        held.callback(os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return f"somebody holds {path}"
    return ""


def still(unit: Unit, held: contextlib.ExitStack) -> str:
    """Have os-collect-config stand still while it waits for nothing that it has begun; return what that is else.

    What it runs may be no os-refresh-config, which a lock keeps from beginning.
    """
    for process in looking.collectors(unit):
        with contextlib.suppress(psutil.NoSuchProcess):
            held.callback(_let_go, process)
            process.send_signal(signal.SIGSTOP)
            while process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                time.sleep(0.001)
    # Only now is it certain: what was begun in between shows, and nothing else can.
    begun = looking.commands(unit)
    return f"{COLLECTOR} has begun something (process {begun[0].pid})" if begun else ""


def end(collectors: Sequence[psutil.Process]) -> None:
    """End what the unit has left of os-collect-config: a shell may have been its main process."""
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

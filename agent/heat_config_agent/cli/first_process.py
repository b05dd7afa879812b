"""The first process of a container: the init of all others, whose command runs as its child.

The kernel gives the orphans of a container to process 1, which has to reap them: as zombies, they would fill up the
table of processes. A command cannot do that itself, because it must not take the exit statuses of its own children.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import NoReturn

_OWN = frozenset(
    {
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGSYS,
    }
)
"""Signals that a process causes by its own mistakes."""


def lead() -> None:
    """Return in a child, which carries out the command. This process passes signals on, reaps, and ends as the child.

    If there is no room for a child, the function returns in this process.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OWN)
    try:
        child = os.fork()
    except OSError:
        child = 0
    if child:
        _lead(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if os.environ.get("WATCHDOG_PID") == "1":
        os.environ["WATCHDOG_PID"] = str(os.getpid())


def _lead(child: int) -> NoReturn:
    """Pass signals on to a child and reap, until that child ends; end with its exit code. Signals are blocked."""
    while True:
        number = signal.sigwait(signal.valid_signals() - _OWN)
        if number != signal.SIGCHLD:
            os.kill(child, number)  # at most a zombie: only this process reaps it
            continue
        for ended, status in _reaped():
            if ended == child:
                code = os.waitstatus_to_exitcode(status)
                os._exit(code if code >= 0 else 128 - code)


def _reaped() -> list[tuple[int, int]]:
    """Reap all children that have ended; return their numbers and statuses."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not process:
            return ended
        ended.append((process, status))

"""The processor time of all that a process has started, also of what has ended, or has been left to run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import time
from collections.abc import Iterable

import psutil

_ADOPTING = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""

_SECONDS = 60.0
"""For how long the end of processes is waited for."""


def adopt() -> None:
    """Have processes whose parents end become children of this process, so that their time is counted."""
    ctypes.CDLL(None).prctl(_ADOPTING, 1, 0, 0, 0)


def spent(servers: Iterable[int]) -> float:
    """Return the processor time of the children of this process that have ended, and of the servers and their children.

    The servers are children of this process that go on. All others have to have ended: see `settle`.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        ended.ru_utime
        + ended.ru_stime
        + sum(sum(psutil.Process(pid).cpu_times()[:4]) for pid in servers)
    )


def settle(servers: Iterable[int], lasting: str = "") -> None:
    """Wait until only the servers are left of what this process has started.

    Processes of the name `lasting` would go on for a while: they are ended.
    """
    kept, end = set(servers), time.monotonic() + _SECONDS
    while left := _left(kept):
        assert time.monotonic() < end, f"these have not ended: {left}"
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                if lasting and each.name() == lasting:
                    each.terminate()
        time.sleep(0.02)


def end() -> None:
    """Kill all processes below this one, also those that would go on for a while."""
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def _left(servers: set[int]) -> list[psutil.Process]:
    """Return the processes below this one that are not servers; those that have ended are waited for."""
    this, left = os.getpid(), list[psutil.Process]()
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, ChildProcessError):
            if each.pid in servers:
                continue
            if each.status() == psutil.STATUS_ZOMBIE and each.ppid() == this:
                os.waitpid(each.pid, os.WNOHANG)
            else:
                left.append(each)
    return left

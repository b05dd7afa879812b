"""The ends of processes that tests start: whatever they do meanwhile, they are killed with their children, and reaped.

A process may end at any moment: between a look at the table of processes and the signal, or between two questions
about it. What is not reaped is reported by Python in whatever test frees it.
"""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

import psutil

Popen = TypeVar("Popen", bound="subprocess.Popen[Any]")


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended; its parent may not have reaped it yet."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def pid_has_ended(pid: int) -> bool:
    """Return whether the process with an id has ended."""
    try:
        return has_ended(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


def words(process: psutil.Process) -> list[str]:
    """Return the command line of a process; nothing where it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.cmdline()
    return []


def children(
    process: psutil.Process | int, *, recursive: bool = False
) -> list[psutil.Process]:
    """Return the children of a process that have not ended; none where it has ended itself."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process) if isinstance(process, int) else process
        return [
            each for each in parent.children(recursive=recursive) if not has_ended(each)
        ]
    return []


def kill(*processes: psutil.Process) -> bool:
    """Kill processes; return whether any of them was still there."""
    hit = False
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
            hit = True
    return hit


def end(*processes: subprocess.Popen[Any] | None) -> None:
    """Kill processes that a test has started, with all their children; reap them, and close their streams."""
    for process in filter(None, processes):
        if process.poll() is None:
            kill(*_held(psutil.Process(process.pid)))
        process.wait()
        for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
            with contextlib.suppress(OSError):
                # there may be no reader of what was written
                stream.close()


@contextlib.contextmanager
def ended(process: Popen) -> Iterator[Popen]:
    """Have a process end with the block."""
    try:
        yield process
    finally:
        end(process)


def _held(root: psutil.Process) -> list[psutil.Process]:
    """Return a process and all below it, stopped: those that are killed start no others meanwhile."""
    held: list[psutil.Process] = []
    while new := [
        each for each in (root, *children(root, recursive=True)) if each not in held
    ]:
        for each in new:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.suspend()
        held += new
    return held


def clean_up_after_a_failure() -> None:
    """Free what a failed test has left, and kill and reap its processes: the next test does not hear of them.

    The traceback keeps them until then. The processes that are still referred to are those of fixtures for a session.
    """
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    left: list[subprocess.Popen[Any]] = subprocess._active  # type: ignore[attr-defined]  # noqa: SLF001  # those freed
    for process in list(left):
        process.kill()
        process.wait()

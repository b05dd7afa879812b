"""Identifies processes of the kernel, and ends whole trees of them.

A process is identified by its id and its start time in clock ticks since boot.
Both are read from `/proc`, because the start times of psutil change when the clock is set.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Collection
from pathlib import Path

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import psutil

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESS_IDS = Path("/proc/self/ns/pid")


@functools.cache
def boot_id() -> str:
    """Return an identifier of this boot of the machine or container: process ids have a meaning within one boot only.

    A restarted container may get the same number for its namespace again, but its init has another start time.
    """
    try:
        init = ticks(1)
    except PermissionError:
        # /proc is mounted with hidepid, and this process is not root's
        init = None
    return f"{_BOOT_ID.read_text(encoding='utf-8').strip()}/{_PROCESS_IDS.stat().st_ino}/{init}"


def same_kernel(boot: str) -> bool:
    """Return whether a boot of a container, see `boot_id`, belongs to the present boot of the machine's kernel."""
    return boot.partition("/")[0] == boot_id().partition("/")[0]


def since_boot() -> float:
    """Return the seconds since boot, including suspended time; changes of the clock do not affect them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if it does not exist or has ended."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fields = os.read(descriptor, 4096).rpartition(b")")[2].split()
        finally:
            os.close(descriptor)
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, started = fields[0], int(fields[19])
    return None if state in (b"Z", b"X") else started


def owner(pid: int) -> int | None:
    """Return the user of a process; None if it does not exist. The owner of its folder in /proc may be root instead."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return next(
                int(line.split()[1]) for line in file if line.startswith(b"Uid:")
            )
    except (FileNotFoundError, ProcessLookupError):
        return None


def alive(pid: int, started: int) -> bool:
    """Return whether the process with this id is still the one with this start time."""
    return ticks(pid) == started


def tree(
    leader: int, started: int, mark: str, others: Collection[int] = ()
) -> list[psutil.Process]:
    """Return the living processes of a run.

    They are the session of `leader`, `others`, all processes with `mark`, and all descendants of these.
    `mark` is a `NAME=value` in the environment of this run alone.
    It identifies daemons, which have left the session and whose parents have ended.
    The session counts only while its leader lives, because later its id may belong to another session.
    """
    import psutil  # noqa: PLC0415  # 15 ms, and most runs are never ended

    # A damaged journal may name any process: those of the system, this one and its parents are never part of a run.
    spared = {
        0,
        1,
        2,
        os.getpid(),
        *(parent.pid for parent in psutil.Process().parents()),
    }
    living = {
        process.pid: process
        for process in psutil.process_iter(["ppid"])
        if process.pid not in spared
    }
    session = leader if leader > 1 and ticks(leader) == started else None
    members = [
        pid
        for pid in living
        if pid == session
        or pid in others
        or _session(pid) == session
        or _has(pid, mark)
    ]
    children: dict[int, list[int]] = {}
    for pid, process in living.items():
        children.setdefault(process.info["ppid"], []).append(pid)
    for pid in members:  # the list grows during the loop
        members += [child for child in children.get(pid, ()) if child not in members]
    return [living[pid] for pid in members]


def _has(pid: int, mark: str) -> bool:
    """Return whether a process has `mark` in its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark.encode() in file.read().split(b"\0")
    except OSError:
        return False


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def keep_descriptors() -> None:
    """Stop programs that this process starts from inheriting its descriptors, which may hold locks."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                # the descriptor of the listing itself, which is closed now
                os.set_inheritable(int(name), False)


def send(processes: list[psutil.Process], number: int) -> None:
    """Send a signal to processes. Those that have ended are skipped, even if their ids were given to others."""
    import psutil  # noqa: PLC0415

    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:  # the process has ended, or belongs to another user
            continue

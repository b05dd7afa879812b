"""Processes of the kernel's: which one is which, and how a whole tree of them is ended.

A process is named by its id and its start time in clock ticks since boot. Both are read from `/proc` and not through
psutil, whose start times move when the clock is set.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
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
    """Return what tells this boot of the machine, or of the container, from every other: process ids are its own.

    A container that is started again may have the number of the namespace that it had before, but its init is another.
    """
    try:
        init = ticks(1)
    except PermissionError:  # /proc is mounted with hidepid, and we are not root
        init = None
    return f"{_BOOT_ID.read_text().strip()}/{_PROCESS_IDS.stat().st_ino}/{init}"


def boot_id_of(recorded: str) -> str:
    """Return a boot that is on record as `boot_id` says it: earlier versions told nothing of the init."""
    ours = boot_id()
    return ours if recorded == ours.rpartition("/")[0] else recorded


def since_boot() -> float:
    """Return seconds since boot, suspended time included, which no change of the clock moves."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def ticks(pid: int) -> int | None:
    """Return the start time of a process that has not ended, in clock ticks since boot; None where there is none."""
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


def alive(pid: int, started: int) -> bool:
    """Whether the process with this id is still the one that was started then."""
    return ticks(pid) == started


def tree(leader: int, started: int, mark: str, others: Collection[int] = ()) -> list[psutil.Process]:
    """Return what lives of a run: the session that `leader` leads or led, `others`, all descendants of those.

    And whatever has `mark`, a `NAME=value` that was put into the environment of the run and of nothing else: by it
    those are found that have left the session and whose parents have ended, as daemons do. The session is looked at
    only while its leader lives: once it has ended, its id may be that of anybody's session.
    """
    import psutil  # noqa: PLC0415  # 15 ms, and most runs are never ended

    # Whatever a damaged journal says: the system's own processes, ourselves and who started us are part of no run.
    spared = {0, 1, 2, os.getpid(), *(each.pid for each in psutil.Process().parents())}
    living = {each.pid: each for each in psutil.process_iter(["ppid"]) if each.pid not in spared}
    session = leader if leader > 1 and ticks(leader) == started else None
    found = [pid for pid in living if pid == session or pid in others or _session(pid) == session or _has(pid, mark)]
    children: dict[int, list[int]] = {}
    for pid, each in living.items():
        children.setdefault(each.info["ppid"], []).append(pid)
    for pid in found:  # grows as it is walked
        found += [child for child in children.get(pid, ()) if child not in found]
    return [living[pid] for pid in found]


def _has(pid: int, mark: str) -> bool:
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
    """Keep to ourselves what was left open for us: a lock that a run inherits is held while its daemons live."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the one with which the folder was read
                os.set_inheritable(int(name), False)


def send(processes: list[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each that still is the process it was. Those that have ended are passed over."""
    import psutil  # noqa: PLC0415

    for each in processes:
        try:
            each.send_signal(number)
        except psutil.Error:  # it has ended, or we may not
            continue

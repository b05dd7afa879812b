"""The processes of tests end with the run: a watcher looks on from outside, whatever signal the run is killed by.

Each process that runs tests has one. When that process ends, or the one that commands it, the watcher kills whatever
belongs to the folder of its tests: a process whose environment, command line or current folder names it.
The one that commands it is that of pytest-xdist, or make. A test with a folder elsewhere names it (`belongs`).
A process that begins loaded (`support.loaded`) has the folder in its environment for that reason.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

VARIABLE = "TESTS_FOLDER"
"""Names the folder in the environment of processes that would not name it otherwise."""

_ELSEWHERE = ".folders-elsewhere"
"""The file in the folder of the tests that lists their other folders."""

_SHELLS = 3
"""The number of processes above that of the tests in which make is looked for: a shell may be between the two."""

_LOOKS = 3
"""The number of times in a row that nothing is left before the watcher ends: a process may just be starting another."""

_PAUSE = 0.1
_PATIENCE = 20.0


def watch(config: pytest.Config) -> None:
    """Have the processes of this process's tests end with it, and with the process that commands it."""
    from _pytest.tmpdir import TempPathFactory  # noqa: PLC0415  # the watcher itself has no pytest

    factory: TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]  # noqa: SLF001  # no fixture yet
    folder = os.environ[VARIABLE] = str(factory.getbasetemp())
    commanding = (
        [os.getppid()] if hasattr(config, "workerinput") else _up_to_make(os.getppid())
    )
    watched = [os.getpid(), *commanding]
    command = [sys.executable, "-I", "-S", __file__, folder, *map(str, watched)]
    null = [
        (os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)
    ]
    os.waitpid(
        os.posix_spawn(command[0], command, {}, file_actions=null, setsid=True), 0
    )


def _up_to_make(pid: int) -> list[int]:
    """Return a process and those above it, up to the make that has started it; empty if none has."""
    above = []
    for _ in range(_SHELLS):
        above.append(pid)
        try:
            name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        except OSError:
            break
        if name in ("make", "gmake"):
            return above
        pid = int(stat.rpartition(")")[2].split()[1])
    return []


def belongs(folder: Path) -> None:
    """Have the processes that name a folder outside of that of the tests end with the run, too."""
    if VARIABLE in os.environ:
        with Path(os.environ[VARIABLE], _ELSEWHERE).open("a") as file:
            file.write(f"{folder}\n")


# The watcher.


def processes(folder: str) -> list[int]:
    """Return the processes that name a folder, other than this one."""
    name, own = os.fsencode(folder), str(os.getpid())
    return [
        int(pid)
        for pid in os.listdir("/proc")
        if pid.isdigit() and pid != own and _names(pid, name)
    ]


def _names(pid: str, folder: bytes) -> bool:
    """Return whether a process names a folder."""
    for part in ("environ", "cmdline"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/{part}", "rb") as file:
            text = file.read() + b"\0"
            # A path in the folder: one that names just the folder may be the command of another run.
            if (
                folder + b"/" in text
                or os.fsencode(VARIABLE) + b"=" + folder + b"\0" in text
            ):
                return True
    with contextlib.suppress(OSError, IndexError):
        place = os.fsencode(Path(f"/proc/{pid}/cwd").readlink()) + b"/"
        return place.startswith(folder + b"/") and not _has_terminal(pid)
    return False


def _has_terminal(pid: str) -> bool:
    """Return whether a process has a terminal: it may be the shell of a person who looks at the folder."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[4] != b"0"


def _elsewhere(folder: str) -> list[str]:
    """Return the other folders of the tests, also of those that this process has commanded."""
    return [
        line
        for pattern in (_ELSEWHERE, f"*/{_ELSEWHERE}")
        for path in Path(folder).glob(pattern)
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def main(folder: str, watched: list[int]) -> None:
    """Wait for the end of the first of the watched processes; then end that of the tests, and what they have left."""
    if os.fork():
        # the watcher must not be a child of the process of the tests, some of which look at their children
        os._exit(0)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    descriptors = []
    for pid in watched:
        try:
            descriptors.append(os.pidfd_open(pid))
        except ProcessLookupError:
            break
        poll.register(descriptors[-1], select.POLLIN)
    else:
        poll.poll()
    if descriptors:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptors[0], signal.SIGKILL)
    looks, end = 0, time.monotonic() + _PATIENCE
    folders = [folder, *_elsewhere(folder)]
    while looks < _LOOKS and time.monotonic() < end:
        left = [pid for each in folders for pid in processes(each)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        looks = 0 if left else looks + 1
        time.sleep(_PAUSE)


if __name__ == "__main__":
    main(sys.argv[1], [int(each) for each in sys.argv[2:]])

"""The output of processes that a run has left behind: a small process keeps it within the limit as long as they write.

A run may end and leave a process that still has its output open, as a server that was started without a redirection.
That process may be the purpose of the deployment, so it is neither ended nor hindered. The watcher (`main`) needs no
agent and no command to be alive: it looks at the output below one state directory until no process writes any of it.
It locks the folder `runs`, so that there is one for each state directory, and whoever finds the lock free starts one.

Processes also write output that has no name any more: the folder of their run was removed, or a masked copy has taken
its place. Nobody can read it, and it could fill the disk unseen. The watcher finds it in the table of processes, and
empties it again and again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from heat_config_agent.runs import streams
from heat_config_agent.runs.run_folder import LEFT, STREAMS, is_file_written
from heat_config_hooks import files, processes

_SOON, _LATER = 0.2, 2.0
"""Seconds between two looks: while processes print much, and otherwise."""

_REMOVED = " (deleted)"
"""The end of the name of a file that was removed, as the kernel shows it."""

_AGAIN = 60.0
"""Seconds after which the watcher lists all runs again, even if it was not told of another one."""


def watch(state: Path, limit: int, *, scoped: bool) -> None:
    """Have a process keep the output below this state directory within `limit` bytes (0 for no limit) from now on.

    With `scoped`, that process has a scope of systemd's if possible: it outlives the service that has started it.
    """
    with contextlib.suppress(OSError):  # a full disk: the watcher is needed even more
        os.close(
            os.open(
                state / LEFT,
                os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
        )
    try:
        runs = os.open(state / "runs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # there is nothing to look at
        return
    try:
        _touch(runs)
        fcntl.flock(runs, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a watcher is at work, and sees the change
        return
    finally:
        os.close(runs)
    _start(state, limit, scoped=scoped)


def _touch(descriptor: int) -> None:
    now = time.time_ns()
    os.utime(descriptor, ns=(now, now))


def _start(state: Path, limit: int, *, scoped: bool) -> None:
    from heat_config_agent.runs import scopes, supervisor  # noqa: PLC0415  # few runs leave anything behind

    words = [sys.executable, "-I", "-m", __name__, str(state), str(limit)]
    script = '"$@" &'
    if scoped and not scopes.missing():
        import shlex  # noqa: PLC0415

        scope = scopes.Scope(
            f"heat-config-agent: limits the output of what runs left in {state}", {}
        )
        before = shlex.join(scopes.words(f"output.{time.time_ns()}", scope))
        script = f'({before} sh -c \'"$@" &\' sh "$@" || exec "$@") &'
    with contextlib.suppress(OSError):
        # too many processes, for example: the next look tries again
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", script, "sh", *words],
            {
                name: os.environ[name]
                for name in ("PATH", "LD_LIBRARY_PATH")
                if name in os.environ
            },
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=supervisor.RESET,
        )
        os.waitpid(pid, 0)


# The watcher.


class Watcher:
    """Looks at the output below one state directory."""

    def __init__(self, state: Path, limit: int) -> None:
        """Look at nothing yet. `limit` is the setting `output_limit` in bytes; 0 for no limit."""
        # as the kernel names the files in it
        self._runs = os.path.realpath(state / "runs")
        self._limit = limit
        self._written: dict[tuple[int, int], int] = {}
        """Descriptors of the files that are written, by device and inode."""
        self._listed = -1
        self._list_at = 0.0

    def look(self) -> int:
        """Shorten the output that has grown too long; return the most bytes that any of it took on disk."""
        if self.is_told or processes.since_boot() >= self._list_at:
            self._list()
        largest = 0
        for identity, descriptor in list(self._written.items()):
            if is_file_written(descriptor):
                with contextlib.suppress(OSError):
                    largest = max(largest, self._shorten(descriptor))
            else:
                os.close(self._written.pop(identity))
        return largest

    @property
    def is_done(self) -> bool:
        """True if no process wrote any output at the last look."""
        return not self._written

    @property
    def is_told(self) -> bool:
        """True if the output of another run may be written since it was last listed."""
        return _changed(self._runs) != self._listed

    def _list(self) -> None:
        """Open all output that is written now."""
        self._listed, self._list_at = (
            _changed(self._runs),
            processes.since_boot() + _AGAIN,
        )
        for key in _names(self._runs):
            for name in STREAMS[:2]:
                self._open(f"{self._runs}/{key}/{name}", os.O_NOFOLLOW)
        for link in _nameless(f"{self._runs}/"):
            self._open(link, 0)

    def _open(self, path: str, flags: int) -> None:
        """Keep a file open if it is written."""
        try:
            descriptor = os.open(
                path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags
            )
        except OSError:  # it is gone, or it is another user's
            return
        status = os.fstat(descriptor)
        identity = status.st_dev, status.st_ino
        if (
            identity not in self._written
            and stat.S_ISREG(status.st_mode)
            and is_file_written(descriptor)
        ):
            self._written[identity] = descriptor
        else:
            os.close(descriptor)

    def _shorten(self, descriptor: int) -> int:
        """Leave out the middle of a file that is too long, or all of one without a name. Raises OSError."""
        status = os.fstat(descriptor)
        size, named = status.st_blocks * 512, status.st_nlink > 0
        if not size or (named and not 0 < self._limit < size):
            return size if named else 0
        writer = os.open(
            f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC
        )
        try:
            if named:
                streams.shorten(writer, self._limit)
            else:
                os.ftruncate(writer, 0)
        except OSError:
            # a file system without holes: the limit matters more than what was printed
            os.ftruncate(writer, 0)
        finally:
            os.close(writer)
        return size


def main() -> int:
    """Look at the output below the state directory that the command line names, until no process writes it."""
    state, limit = Path(sys.argv[1]), int(sys.argv[2])
    os.chdir("/")  # it may outlive whoever has started it, and keeps no disk in use
    watcher = Watcher(state, limit)
    while True:
        try:
            runs = os.open(state / "runs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(runs, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another one is at work, or everything was removed
            return 0
        largest = watcher.look()
        while not watcher.is_done:
            time.sleep(_SOON if 0 < limit < 4 * largest else _LATER)
            largest = watcher.look()
        files.remove(state / LEFT)
        os.close(runs)
        if not watcher.is_told:
            return 0


def _changed(path: str) -> int:
    """Return when a folder has changed, or a command has told of it; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116
    except OSError:
        return 0


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _nameless(folder: str) -> Iterator[str]:
    """Yield links to the files that processes have open, and that were removed below a folder."""
    for pid in _names("/proc"):
        for number in _names(f"/proc/{pid}/fd") if pid.isdigit() else ():
            link = f"/proc/{pid}/fd/{number}"
            with contextlib.suppress(OSError):  # it has ended
                target = os.readlink(link)  # noqa: PTH115
                if target.startswith(folder) and target.endswith(_REMOVED):
                    yield link


if __name__ == "__main__":
    sys.exit(main())

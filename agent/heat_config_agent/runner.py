"""One deployment's command, in a session of its own that outlives the agent.

The command runs under a supervisor: a shell of four lines that waits for the agent's word, runs the command, and writes
its exit code into the run's folder. So nothing of a run hangs on the agent: output and exit code go to files, and
whichever agent comes next finds the run by process id and start time, or finds its exit code.

The word is what makes «a known id never runs twice» exact. The supervisor exists before the journal says `running`, and
does nothing until the journal has said it: if the agent dies between the two, its end of the pipe closes and the
supervisor leaves, having started nothing.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from heat_config_agent import processes
from heat_config_agent.errors import StateError
from heat_config_agent.model import Run
from heat_config_hooks import files
from heat_config_hooks.protocol import Command, Ended

if TYPE_CHECKING:
    import psutil

SUPERVISOR = """\
trap : HUP INT QUIT TERM
run=$1 in=$2 code=126
if cd "$3" && unset OLDPWD && shift 3; then
  if read -r go; then "$@" <"$in" >>"$run/stdout" 2>>"$run/stderr"; code=$?; else code=unstarted; fi
fi
echo "$code" 1<>"$run/status"
"""
"""It catches the signals that end a run so as to record the run's end, and a caught signal, unlike an ignored one, is
back at its default in what it starts. Its own messages go to `$run/supervisor`; the command's two streams are the
command's alone. The status file is written in place, where its block is already reserved: a disk that the run has
filled cannot hide how it ended."""

KILLS = 10
"""How often, a second apart, a run is killed before it is given up."""

MARK = "HEAT_RUN"
"""A variable in the environment of every run, of a value of its own: by it all its processes are known."""

UNSTARTED = "unstarted"
KEPT = frozenset({"stdout", "stderr", "supervisor", "status"})
"""What stays in the folder of a run."""

_PENDING = b"-".ljust(15) + b"\n"

RESET = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD),
    *(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGUSR2),
)
"""Python ignores SIGPIPE and SIGXFSZ, and whoever started the agent may have ignored SIGHUP: programs would inherit
that."""


class Running:
    """A command that was started by this agent or by one before it."""

    def __init__(self, directory: Path, run: Run, *, pidfd: int | None, ours: bool) -> None:
        """Use `start` or `adopt`."""
        self.directory = directory
        self.run = run
        self._pidfd = pidfd
        self._ours = ours
        self._kill_at: float | None = None
        self._kills = 0
        self._snapshot: list[psutil.Process] = []

    def fileno(self) -> int:
        """Return a descriptor that is readable once the supervisor has ended; -1 where the kernel has none to offer."""
        return -1 if self._pidfd is None else self._pidfd

    @property
    def ended(self) -> bool:
        """Whether the supervisor, and so the command, has ended."""
        if self._pidfd is None:
            if self._ours:
                self._reap(os.WNOHANG)
            return not processes.alive(self.run.pid, self.run.ticks)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def due(self) -> float | None:
        """Seconds since boot at which something has to be done about the run: end it, or kill it."""
        if self._kill_at is not None:
            return self._kill_at
        return None if self.run.limit is None else self.run.began + self.run.limit

    def terminate(self, grace: float) -> None:
        """Ask every process of the run to end; the next call, due after `grace` seconds, and later ones kill the rest.

        The supervisor is left to record how the command ended, and killed when all else is gone and it still has not.
        """
        living = _tree(self.run)
        known = {each.pid for each in living}
        self._snapshot = living + [each for each in self._snapshot if each.pid not in known]
        others = [each for each in self._snapshot if each.pid != self.run.pid]
        if self._kill_at is None:
            processes.send(others, signal.SIGTERM)
            self._kill_at = processes.since_boot() + grace
            return
        processes.send(others or self._snapshot, signal.SIGKILL)
        self._kill_at = processes.since_boot() + 1
        self._kills += 1

    @property
    def hopeless(self) -> bool:
        """Whether the run cannot be ended: the kernel holds on to a process that was killed again and again."""
        return self._kills > KILLS

    def close(self) -> str:
        """Return what the supervisor recorded: an exit code, `unstarted`, or nothing.

        Of a run that was ended, end the rest too.
        """
        if self._ours:
            self._reap(os.WNOHANG)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if self._kill_at is not None:
            processes.send(_tree(self.run) + self._snapshot, signal.SIGKILL)
        return recorded(self.directory)

    def _reap(self, flags: int) -> None:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.run.pid, flags)[0]:
                self._ours = False


def start(
    directory: Path,
    command: Command,
    environment: Mapping[str, str],
    mark: str,
    announce: Callable[[int, int], Run],
) -> Running:
    """Start a command once `announce` (its process id and start time → the run) has put it on record.

    `directory` is the run's folder, see `folder`. Raises OSError where the process cannot be started, and whatever
    `announce` raises; in both cases the command was not started.
    """
    word, hold = os.pipe()
    try:
        pid = os.posix_spawn(
            "/bin/sh",
            [
                "sh",
                "-c",
                SUPERVISOR,
                "supervisor",
                str(directory),
                str(command.stdin or os.devnull),
                str(command.cwd),
                *command.argv,
            ],
            {**environment, **command.environment, MARK: mark},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, word, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, str(directory / "supervisor"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=RESET,
        )
    except BaseException:
        os.close(word)
        os.close(hold)
        raise
    os.close(word)
    try:
        started = processes.ticks(pid)
        if started is None:
            os.waitpid(pid, 0)
            raise StateError(f"cannot start /bin/sh, which supervises every run: see {directory / 'supervisor'}")
        run = announce(pid, started)
        with contextlib.suppress(BrokenPipeError):  # killed already: its status says how far it came
            os.write(hold, b"go\n")
    finally:
        os.close(hold)
    return Running(directory, run, pidfd=_pidfd(pid), ours=True)


def adopt(directory: Path, run: Run) -> Running | None:
    """Return the run of an agent before us where it is still going on, None where it has ended."""
    if run.boot != processes.boot_id():
        return None
    pidfd = _pidfd(run.pid)
    if processes.alive(run.pid, run.ticks):
        return Running(directory, run, pidfd=pidfd, ours=False)
    if pidfd is not None:
        os.close(pidfd)
    return None


def folder(directory: Path) -> None:
    """Make the folder of a run: empty streams, and a status that is still pending."""
    files.make_directory(directory)
    tidy(directory)
    for name in KEPT - {"status"}:
        os.close(os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
    descriptor = os.open(directory / "status", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, _PENDING)
    finally:
        os.close(descriptor)


def tidy(directory: Path) -> None:
    """Remove from the folder of a run that has ended what it was given: inputs, and with them secrets."""
    try:
        found = [path for path in directory.iterdir() if path.name not in KEPT]
        for path in found:
            files.remove(path)
    except FileNotFoundError:
        return  # nothing was run


def recorded(directory: Path) -> str:
    """Return what the supervisor wrote when the command ended; empty where it did not."""
    try:
        line, newline, _ = (directory / "status").read_bytes().partition(b"\n")
    except FileNotFoundError:
        return ""
    text = line.decode("ascii", "replace")
    return text if newline and (text.isdecimal() or text == UNSTARTED) else ""


def ended(directory: Path, code: int) -> Ended:
    """Return how a command ended, as its hook wants to know it."""
    return Ended(code=code, stdout=directory / "stdout", stderr=directory / "stderr")


def _tree(run: Run) -> list[psutil.Process]:
    return processes.tree(run.pid, run.ticks, f"{MARK}={run.mark}")


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:  # a kernel before 5.3, or the process is gone: `ended` finds out without it
        return None


def end_remains(run: Run) -> bool:
    """Kill what is left of a run whose supervisor is gone; return whether there was anything."""
    remains = _tree(run) if run.boot == processes.boot_id() else []
    processes.send(remains, signal.SIGKILL)
    return bool(remains)

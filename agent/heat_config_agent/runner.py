"""One deployment's command, in a session of its own that outlives the agent.

The command runs under a supervisor: a few lines of shell that wait for the agent's word, run the command, and write
its exit code into the run's folder. So nothing of a run hangs on the agent: output and exit code go to files, and
whichever agent comes next finds the run by process id and start time, or finds its exit code.

The word is what makes «a known id never runs twice» exact. The supervisor exists before the journal says `running`, and
does nothing until the journal has said it: if the agent dies between the two, its end of the pipe closes and the
supervisor leaves, having started nothing.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from heat_config_agent import kill_points, scopes
from heat_config_agent.errors import PASSING
from heat_config_agent.model import Run
from heat_config_agent.scopes import Scope, ScopeError
from heat_config_hooks import files, processes
from heat_config_hooks.protocol import Command, Ended

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import NoReturn

    import psutil

SUPERVISOR = """\
trap : HUP INT QUIT TERM
if cd "$1" 2>&5 && shift && unset OLDPWD; then
  if read -r HEAT_RUN_WORD; then
    unset HEAT_RUN_WORD
    (exec "$@") <&3 >&4 2>&5 3<&- 4>&- 5>&-
    set -- $?
    if ! [ -d "/proc/$PPID" ]; then
      trap "" HUP INT QUIT TERM
      [ "$1" -gt 128 ] && [ "$(systemctl is-system-running 2>/dev/null)" = stopping ] && exit
      sync -f . /dev/fd/1 ${heat_outputs_path:+"${heat_outputs_path%/*}"} 2>/dev/null || sync && set -- "$1 flushed"
    fi
    echo "$1"
  else
    echo unstarted
  fi
else
  echo 126
fi
"""
"""It catches the signals that end a run so as to record the run's end, and a caught signal, unlike an ignored one, is
back at its default in what it starts. It sets no variable that an input could have: what it set would be the script's.
Its descriptors: 0 the agent's word, 1 the status, 2 its own complaints, 3 to 5 the command's streams. That file is
written in place, where its block is already reserved: a disk that the run has filled cannot hide how it ended.

The agent that started it takes what the command wrote as soon as that has ended. Where that agent is gone, all is
flushed first, and that is said: a power cut must not leave the exit code alone, and take the outputs. Only the file
systems of the run are, where that can be asked for: another one that hangs is none of its business. What a signal ends
while the machine goes down is interrupted, as by a power cut: of its end nothing is recorded. What it starts to find
that out ignores these signals, which may come to it as well."""

_IN_SCOPE = "exec 6>&-\nunset INVOCATION_ID\n"
"""What it does first where systemd-run has become it: it lets the agent know, and drops what that has left it."""

KILLS = 10
"""How often, a second apart, a run is killed before it is given up."""

MARK = "HEAT_RUN"
"""A variable in the environment of every run, of a value of its own: by it all its processes are known."""

UNSTARTED, FLUSHED = "unstarted", "flushed"
STREAMS = ("stdout", "stderr", "supervisor")

_CODE, _ENDING = 16, 240
"""Bytes of a status file that are reserved for how the command ended, and for why the agent ended it."""
_PENDING = b"-".ljust(_CODE - 1) + b"\n" + b"-".ljust(_ENDING - 1) + b"\n"

RESET = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
"""Python ignores SIGPIPE and SIGXFSZ, and whoever started the agent may have ignored any: programs would inherit that.
All that there are: the library asks the kernel about each that is not named."""


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
        self.ending = "" if ours else noted_ending(directory, run)
        """Why the agent, or one before it, is ending the run."""
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
        if self.ending:
            return 0.0  # an agent before us had begun to end it
        return None if self.run.limit is None else self.run.began + self.run.limit

    def terminate(self, grace: float) -> None:
        """Ask every process of the run to end; the next call, due after `grace` seconds, and later ones kill the rest.

        The supervisor is left to record how the command ended, and killed when all else is gone and it still has not.
        """
        living = _tree(self.run)
        known = {each.pid for each in living}
        self._snapshot = living + [each for each in self._snapshot if each.pid not in known]
        self._snapshot = [each for each in self._snapshot if processes.ticks(each.pid) is not None]
        others = [each for each in self._snapshot if each.pid != self.run.pid]
        if self._kill_at is None:
            processes.send(others, signal.SIGTERM)
            self._kill_at = processes.since_boot() + grace
            kill_points.reached("runner.term")
            return
        processes.send(others or self._snapshot, signal.SIGKILL)
        kill_points.reached("runner.kill")
        self._kill_at = processes.since_boot() + 1
        self._kills += 1

    @property
    def hopeless(self) -> bool:
        """Whether the run cannot be ended: the kernel holds on to a process that was killed again and again."""
        return self._kills > KILLS

    def close(self) -> str:
        """Let go of the run and return what the supervisor recorded. Of a run that was ended, end the rest too."""
        if self._ours:
            self._reap(os.WNOHANG)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if self.ending or self._kill_at is not None:  # perhaps by an agent before us, that came no further
            processes.send(_tree(self.run) + self._snapshot, signal.SIGKILL)
        kill_points.reached("runner.closed")
        return recorded(self.directory, self.run)

    def _reap(self, flags: int) -> None:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self.run.pid, flags)[0]:
                self._ours = False


def start(
    directory: Path,
    command: Command,
    environment: Mapping[str, str],
    mark: str,
    announce: Callable[[int, int, str], Run],
    *,
    scope: Scope | None = None,
) -> Running:
    """Start a command once `announce` (its process id, start time and scope → the run) has put it on record.

    `directory` is the run's folder, see `folder`; `mark` names this run and no other. Raises OSError where the process
    cannot be started (ScopeError: the scope that is asked for cannot be had), and whatever `announce` raises; in both
    cases the command was not started.
    """
    word, hold = os.pipe()
    try:
        given = {**environment, **command.environment, MARK: mark}
        spawn = functools.partial(_spawn, directory, command, given, mark, word)
        pid = _in_scope(spawn, scopes.words(mark, scope)) if scope else spawn()
    except BaseException:
        os.close(hold)
        raise
    finally:
        os.close(word)
    kill_points.reached("runner.spawned")
    spoken = False
    try:
        found = _found_scope(directory, pid, mark, scope) if scope else ""
        started = processes.ticks(pid)
        run = announce(pid, started if started is not None else _ended_at_once(directory, pid), found)
        spoken = True
        kill_points.reached("runner.announced")
        with contextlib.suppress(BrokenPipeError):  # killed already: its status says how far it came
            os.write(hold, b"\n")
        kill_points.reached("runner.word")
    finally:
        os.close(hold)
        if not spoken:  # without the word it leaves
            with contextlib.suppress(ChildProcessError):  # which is known already where it has ended at once
                os.waitpid(pid, 0)
    return Running(directory, run, pidfd=_pidfd(pid), ours=True)


def _spawn(
    directory: Path,
    command: Command,
    environment: Mapping[str, str],
    mark: str,
    word: int,
    *,
    before: Sequence[str] = (),
    first: str = "",
    more: Sequence[tuple[int, int, int]] = (),
) -> int:
    """Start the supervisor and return its process; `before` is what starts it, `first` and `more` what it does then."""
    argv = ["sh", "-c", f"{first}{SUPERVISOR}", "heat-config-agent", str(command.cwd), *command.argv]
    return os.posix_spawn(
        before[0] if before else "/bin/sh",
        [*before, "/bin/sh", *argv[1:]] if before else argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, word, 0),
            (os.POSIX_SPAWN_OPEN, 1, _status_of(directory, mark), os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, f"{directory}/supervisor", os.O_WRONLY | os.O_APPEND, 0),
            (os.POSIX_SPAWN_OPEN, 3, str(command.stdin or os.devnull), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 4, f"{directory}/stdout", os.O_WRONLY | os.O_APPEND, 0),
            (os.POSIX_SPAWN_OPEN, 5, f"{directory}/stderr", os.O_WRONLY | os.O_APPEND, 0),
            *more,
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=RESET,
    )


def _in_scope(spawn: Callable[..., int], words: Sequence[str]) -> int:
    """Have the supervisor started in a scope, and return its process once it is there, or has failed to be."""
    there, closed = os.pipe()
    try:
        try:
            pid = spawn(before=words, first=_IN_SCOPE, more=[(os.POSIX_SPAWN_DUP2, closed, 6)])
        finally:
            os.close(closed)
        poll = select.poll()
        poll.register(there)
        poll.poll(scopes.SECONDS * 1000)
        return pid
    finally:
        os.close(there)


def _found_scope(directory: Path, pid: int, mark: str, scope: Scope) -> str:
    """Return the folder of the scope in which a supervisor waits. Raises ScopeError: then nothing waits any more."""
    found = scopes.folder(pid, mark)
    unheld = scopes.unheld(pid, mark, scope.limits) if found and scope.limits else []
    if found and not unheld:
        return found
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # without a word: what it says of its end would be taken for that of the next
    if unheld:
        raise ScopeError(f"the kernel gives systemd no control of {' and '.join(unheld)} here")
    complaint = files.read(f"{directory}/supervisor").decode("utf-8", "replace").strip()[:500]
    raise ScopeError(complaint or f"none was made within {scopes.SECONDS:g} s")


def _ended_at_once(directory: Path, pid: int) -> NoReturn:
    """Raise why there is no supervisor. One that somebody has killed, as a machine without memory does, is passing."""
    if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
        raise BlockingIOError(errno.EAGAIN, "its supervisor was killed before it could begin")
    complaint = files.read(f"{directory}/supervisor").decode("utf-8", "replace").strip()[:500]
    raise ChildProcessError(errno.ECHILD, "its supervisor ended at once", complaint)


def going_on(run: Run) -> bool:
    """Whether a run that was started, by whichever agent, has not ended."""
    return run.boot == processes.boot_id() and processes.alive(run.pid, run.ticks)


def adopt(directory: Path, run: Run) -> Running | None:
    """Return the run of an agent before us where it is still going on, None where it has ended."""
    pidfd = _pidfd(run.pid)
    if going_on(run):
        kill_points.reached("runner.adopted")
        return Running(directory, run, pidfd=pidfd, ours=False)
    if pidfd is not None:
        os.close(pidfd)
    return None


def status(directory: Path, mark: str) -> Path:
    """Return the file in which the end of the run of that mark is recorded.

    It is this run's alone: neither what a power cut brings back of an earlier run, nor the supervisor of one that comes
    to its end late, can speak for another.
    """
    return Path(_status_of(directory, mark))


def _status_of(directory: Path, mark: str) -> str:
    return f"{directory}/status.{mark.rpartition('.')[2]}"


def folder(directory: Path, mark: str) -> None:
    """Make the folder of a run: empty streams, and a status that is still pending. What was there is removed."""
    try:
        os.mkdir(directory, 0o700)
    except (FileExistsError, FileNotFoundError):  # of itself, or of what it is to be in
        if directory.is_symlink() or not directory.is_dir():  # a run before this one has put something in its place
            files.remove(directory)
        files.make_directory(directory)
        for path in list(directory.iterdir()):
            files.remove(path)
    for name in STREAMS:
        os.close(os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    descriptor = os.open(_status_of(directory, mark), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if os.write(descriptor, _PENDING) < len(_PENDING):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
    finally:
        os.close(descriptor)
    kill_points.reached("runner.folder")


def tidy(directory: Path) -> None:
    """Remove from the folder of a run that has ended what it was given: inputs, and with them secrets."""
    if os.path.islink(directory):  # a run has put it there, and what it leads to is not ours
        directory.unlink(missing_ok=True)
        return
    try:
        for name in os.listdir(directory):
            if name not in STREAMS and not name.startswith("status."):
                files.remove(f"{directory}/{name}")
    except (FileNotFoundError, NotADirectoryError):
        return  # nothing was run
    kill_points.reached("runner.tidied")


def note_ending(directory: Path, run: Run, why: str) -> None:
    """Put on record why the agent is about to end a run: in the status file, where there is room for it on any disk."""
    # The command may have put anything there, a link to a file that matters or a pipe that nobody reads.
    descriptor = os.open(status(directory, run.mark), os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        os.pwrite(descriptor, why.encode()[: _ENDING - 1].ljust(_ENDING - 1) + b"\n", _CODE)
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    kill_points.reached("runner.ending")


def recorded(directory: Path, run: Run) -> str:
    """Return what the supervisor wrote when the command ended; empty where it did not.

    In another boot it counts only where all that the command wrote was flushed before it: else that may be gone.
    """
    line, newline, _ = _status(directory, run)[:_CODE].partition(b"\n")
    text, _, flushed = line.decode("ascii", "replace").partition(" ")
    if text.isdecimal() and flushed != FLUSHED and (flushed or run.boot != processes.boot_id()):
        return ""
    return text if newline and (text.isdecimal() or text == UNSTARTED) else ""


def has_run(directory: str | Path) -> bool:
    """Whether a command has come to its end in a run's folder, whatever else is known of it."""
    try:
        names = os.listdir(directory)
        found = [files.read(f"{directory}/{each}")[:_CODE] for each in names if each.startswith("status.")]
    except OSError:
        return False
    return any(each.partition(b"\n")[0].partition(b" ")[0].isdigit() for each in found)


def noted_ending(directory: Path, run: Run) -> str:
    """Return why an agent has begun to end the run; empty where none has."""
    content = _status(directory, run)
    ours = len(content) == len(_PENDING) and content[_CODE - 1 : _CODE] == content[-1:] == b"\n"
    return content[_CODE:].decode("utf-8", "replace").strip().removeprefix("-") if ours else ""


def unreadable(directory: Path, run: Run) -> str:
    """Return why the status of a run cannot be read, where the machine is to blame for it; empty where it is not."""
    try:
        files.read(status(directory, run.mark))
    except OSError as error:
        return f"{error.strerror}: {status(directory, run.mark)}" if error.errno in PASSING else ""
    return ""


def _status(directory: Path, run: Run) -> bytes:
    for _ in range(2):  # what a disk does not give at first it may give once more
        try:
            return files.read(_status_of(directory, run.mark))
        except OSError as error:
            if error.errno not in PASSING:
                break  # the command may have done anything to its own folder
    return b""


def ended_at(directory: Path, run: Run) -> float | None:
    """Return when the end of a run was recorded, in seconds since the epoch; None where it was not."""
    if not recorded(directory, run):
        return None
    try:
        return status(directory, run.mark).stat().st_mtime
    except OSError:
        return None


def ended(directory: Path, code: int) -> Ended:
    """Return how a command ended, as its hook wants to know it."""
    return Ended(code=code, stdout=directory / "stdout", stderr=directory / "stderr")


def _tree(run: Run) -> list[psutil.Process]:
    others = scopes.members(run.scope, run.mark) if run.scope else ()
    return processes.tree(run.pid, run.ticks, f"{MARK}={run.mark}", others)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:  # a kernel before 5.3, or the process is gone: `ended` finds out without it
        return None


def end_remains(run: Run) -> bool:
    """Kill what is left of a run whose supervisor is gone; return whether there was anything."""
    remains = _tree(run) if run.boot == processes.boot_id() else []
    processes.send(remains, signal.SIGKILL)
    kill_points.reached("runner.remains")
    return bool(remains)

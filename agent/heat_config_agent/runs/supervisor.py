"""One deployment's command, in a session of its own that outlives the agent.

The command runs under a supervisor: a few lines of shell that wait for the agent's word, run the command, and write
its exit code into the run's folder. So a run does not depend on the agent: output and exit code go to files, and the
next agent finds the run by process id and start time, or finds its exit code.

Because of the word, «a known id never runs twice» is exact. The supervisor exists before the journal says `running`,
and does nothing until that record is on disk. If the agent dies before, its end of the pipe closes, and the supervisor
exits without having started the command.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import select
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.model import signal_numbers
from heat_config_agent.model.entry import Run
from heat_config_agent.runs import scopes
from heat_config_agent.runs.run_folder import (
    is_open_to_write,
    noted_ending,
    recorded,
    status_path,
)
from heat_config_agent.runs.scopes import Scope, ScopeError
from heat_config_hooks import files, processes
from heat_config_hooks.protocol import Command

TYPE_CHECKING = False  # as `typing` has it, which takes long to load


if TYPE_CHECKING:
    from typing import NoReturn

    import psutil


SUPERVISOR = """\
unset HEAT_RUN_SUPERVISOR
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
"""The supervisor, for /bin/sh.

It catches the signals that end a run, so that it can record the end. A caught signal, unlike an ignored one, has its
default action in the command. The script sets no variable that an input could have: the command would inherit it.
Its descriptors are 0 for the agent's word, 1 for the status file, 2 for its own errors, and 3 to 5 for the command's
streams. The status file is written in place, into a block that is already reserved: so even a run that has filled the
disk has its end recorded.

The agent that started the supervisor reads the outputs as soon as the command has ended. If that agent is gone, the
supervisor flushes everything first, and records that: after a power cut there must not be an exit code without the
outputs. It flushes only the file systems of the run if it can, as another one may hang. A command that a signal ends
while the machine shuts down was interrupted, as by a power cut, so no exit code is recorded. The programs that the
supervisor starts to find that out ignore these signals, as they may receive them too.

The shell finds it in a variable, so that `ps` and `systemctl status` show one short line for each run."""

_BEGIN = 'eval "$HEAT_RUN_SUPERVISOR"'
"""The program on the shell's command line."""

_IN_SCOPE = "exec 6>&-\nunset INVOCATION_ID\n"
"""The first lines of a supervisor in a scope: it tells the agent so, and drops a variable of systemd's."""

KILLS = 10
"""The number of times, a second apart, that a run is killed before the agent gives it up."""

MARK = "HEAT_RUN"
"""A variable in the environment of every run, with a value of its own, that identifies all its processes."""

_DESCRIPTORS = 12
"""The number of open files that a process must be allowed: a shell keeps copies of descriptors from 10 on."""

RESET = tuple(
    signal_numbers.valid_signals() - {signal_numbers.SIGKILL, signal_numbers.SIGSTOP}
)
"""The signals that have their default action in a run. Python ignores SIGPIPE and SIGXFSZ, the parent of the agent may
ignore others, and programs inherit that. All signals are listed, as the C library asks the kernel about every other."""


class Running:
    """A command that was started by this agent or an earlier one."""

    def __init__(
        self, directory: Path, run: Run, *, pidfd: int | None, ours: bool
    ) -> None:
        """Use `start` or `adopt` instead. `ours` is True if this process has started the run."""
        self.directory = directory
        self.run = run
        self._pidfd = pidfd
        self._ours = ours
        self._kill_at: float | None = None
        self._kills = 0
        self.ending = "" if ours else noted_ending(directory, run)
        """The reason why this agent or an earlier one is ending the run; empty if none is."""
        self._snapshot: list[psutil.Process] = []

    def fileno(self) -> int:
        """Return a descriptor that is readable once the supervisor has ended; -1 if the kernel has none to offer."""
        return -1 if self._pidfd is None else self._pidfd

    @property
    def ended(self) -> bool:
        """True if the supervisor, and so the command, has ended."""
        if self._pidfd is None:
            if self._ours:
                self._reap(os.WNOHANG)
            return not going_on(self.run, self.directory)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(0))

    @property
    def due(self) -> float | None:
        """When the run has to be ended or killed, in seconds since boot; None if it has no time limit."""
        if self._kill_at is not None:
            return self._kill_at
        if self.ending:
            return 0.0  # an earlier agent had begun to end it
        return (
            None
            if self.run.limit is None
            else self.run.began + self.run.limit - self.run.spent
        )

    def terminate(self, grace: float) -> None:
        """Ask every process of the run to end. The next call, due after `grace` seconds, and later ones kill the rest.

        The supervisor may record how the command ended. It is killed if it still runs when the others are gone.
        """
        living = _tree(self.run)
        pids = {process.pid for process in living}
        self._snapshot = living + [
            process for process in self._snapshot if process.pid not in pids
        ]
        self._snapshot = [
            process
            for process in self._snapshot
            if processes.ticks(process.pid) is not None
        ]
        others = [process for process in self._snapshot if process.pid != self.run.pid]
        if self._kill_at is None:
            processes.send(others, signal_numbers.SIGTERM)
            self._kill_at = processes.since_boot() + grace
            return
        processes.send(others or self._snapshot, signal_numbers.SIGKILL)
        self._kill_at = processes.since_boot() + 1
        self._kills += 1

    @property
    def hopeless(self) -> bool:
        """True if the run cannot be ended: the kernel does not end a process that was killed again and again."""
        return self._kills > KILLS

    def close(self) -> str:
        """Let go of the run, and return what the supervisor recorded. If the run was ended, kill the rest of it."""
        if self._ours:
            self._reap(os.WNOHANG)
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if self.ending or self._kill_at is not None:
            # perhaps by an earlier agent, which got no further
            processes.send(_tree(self.run) + self._snapshot, signal_numbers.SIGKILL)
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
    """Start a command once `announce` has put its run on record.

    `announce` takes the process id, start time and scope, and returns the run. `directory` is the run's folder, made by
    `run_folder.make`, and `mark` identifies this run alone. Raises OSError if the process cannot be started, ScopeError
    if there is no such scope, and any error of `announce`; the command was not started then.
    """
    if 0 <= os.sysconf("SC_OPEN_MAX") < _DESCRIPTORS:
        raise OSError(errno.EMFILE, "too few open files are allowed («ulimit -n»)")
    word, hold = os.pipe()
    try:
        variables = {**environment, **command.environment, MARK: mark}
        spawn = functools.partial(_spawn, directory, command, variables, mark, word)
        pid = _in_scope(spawn, scopes.words(mark, scope)) if scope else spawn()
    except BaseException:
        os.close(hold)
        raise
    finally:
        os.close(word)
    spoken = False
    try:
        group = _scope_folder(directory, pid, mark, scope) if scope else ""
        ticks = processes.ticks(pid)
        run = announce(
            pid, ticks if ticks is not None else _ended_at_once(directory, pid), group
        )
        spoken = True
        with contextlib.suppress(BrokenPipeError):
            # the supervisor was killed already; its status file says so
            os.write(hold, b"\n")
    finally:
        os.close(hold)
        if not spoken:  # without the word, the supervisor exits
            with contextlib.suppress(ChildProcessError):
                # it has ended at once, and was reaped
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
    """Start the supervisor and return its process id.

    `before` are words to put before its command, `first` is shell code that it runs first, and `more` are further file
    actions.
    """
    argv = ["sh", "-c", _BEGIN, "heat-config-agent", str(command.cwd), *command.argv]
    return os.posix_spawn(
        before[0] if before else "/bin/sh",
        [*before, "/bin/sh", *argv[1:]] if before else argv,
        {**environment, "HEAT_RUN_SUPERVISOR": f"{first}{SUPERVISOR}"},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, word, 0),
            (os.POSIX_SPAWN_OPEN, 1, status_path(directory, mark), os.O_WRONLY, 0),
            (
                os.POSIX_SPAWN_OPEN,
                2,
                f"{directory}/supervisor",
                os.O_WRONLY | os.O_APPEND,
                0,
            ),
            (os.POSIX_SPAWN_OPEN, 3, str(command.stdin or os.devnull), os.O_RDONLY, 0),
            (
                os.POSIX_SPAWN_OPEN,
                4,
                f"{directory}/stdout",
                os.O_WRONLY | os.O_APPEND,
                0,
            ),
            (
                os.POSIX_SPAWN_OPEN,
                5,
                f"{directory}/stderr",
                os.O_WRONLY | os.O_APPEND,
                0,
            ),
            *more,
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=RESET,
    )


def _in_scope(spawn: Callable[..., int], words: Sequence[str]) -> int:
    """Start the supervisor in a scope; return its process id once it is there, or has failed."""
    reader, writer = os.pipe()
    try:
        try:
            pid = spawn(
                before=words, first=_IN_SCOPE, more=[(os.POSIX_SPAWN_DUP2, writer, 6)]
            )
        finally:
            os.close(writer)
        poll = select.poll()
        poll.register(reader)
        poll.poll(scopes.SECONDS * 1000)
        return pid
    finally:
        os.close(reader)


def _scope_folder(directory: Path, pid: int, mark: str, scope: Scope) -> str:
    """Return the folder of the scope in which a supervisor waits. Raises ScopeError, and kills the supervisor then."""
    folder = scopes.folder(pid, mark)
    unenforced = (
        scopes.unenforced(pid, mark, scope.limits) if folder and scope.limits else []
    )
    if folder and not unenforced:
        return folder
    with contextlib.suppress(ProcessLookupError):
        # not by closing the pipe: it would record an end, which could be taken for that of the next try
        os.kill(pid, signal_numbers.SIGKILL)
    if unenforced:
        raise ScopeError(
            f"the kernel gives systemd no control of {' and '.join(unenforced)} here"
        )
    complaint = (
        files.read(f"{directory}/supervisor").decode("utf-8", "replace").strip()[:500]
    )
    raise ScopeError(complaint or f"systemd made no scope within {scopes.SECONDS:g} s")


def _ended_at_once(directory: Path, pid: int) -> NoReturn:
    """Raise OSError for a supervisor that is gone. If it was killed, as by a lack of memory, a retry may work."""
    if os.WIFSIGNALED(os.waitpid(pid, 0)[1]):
        raise BlockingIOError(
            errno.EAGAIN, "its supervisor was killed before it could begin"
        )
    complaint = (
        files.read(f"{directory}/supervisor").decode("utf-8", "replace").strip()[:500]
    )
    raise ChildProcessError(errno.ECHILD, "its supervisor ended at once", complaint)


def going_on(run: Run, directory: Path | None = None) -> bool:
    """Return whether the supervisor of a run is alive, whichever agent has started it; `directory` is the run's folder.

    In another namespace of processes (a container with the same state), its process id means nothing. But it holds the
    status file of the run open as long as it lives, and nothing else does.
    """
    if run.boot == processes.boot_id():
        return processes.alive(run.pid, run.ticks)
    if directory is None or not processes.same_kernel(run.boot):
        return False
    return is_open_to_write(status_path(directory, run.mark))


def adopt(directory: Path, run: Run) -> Running | None:
    """Return the run of an earlier agent if it has not ended, else None."""
    pidfd = _pidfd(run.pid) if run.boot == processes.boot_id() else None
    if going_on(run, directory):
        return Running(directory, run, pidfd=pidfd, ours=False)
    if pidfd is not None:
        os.close(pidfd)
    return None


def _tree(run: Run) -> list[psutil.Process]:
    others = scopes.members(run.scope, run.mark) if run.scope else ()
    return processes.tree(run.pid, run.ticks, f"{MARK}={run.mark}", others)


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        # a kernel before 5.3, or the process is gone: `ended` finds out without it
        return None


def end_remains(run: Run) -> bool:
    """Kill the remaining processes of a run whose supervisor is gone; return whether there were any."""
    remains = _tree(run) if run.boot == processes.boot_id() else []
    processes.send(remains, signal_numbers.SIGKILL)
    return bool(remains)

"""The process that logs in to Keystone for the agent, as the agent sees it.

It is started for a login, and killed at the deadline of the login, or soon after it. So the agent never loads requests
and keystoneauth1 for one login an hour (`docs/decisions/0011-keystone.md`). `login_program` is what runs in it.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import threading
import time

from heat_config_agent.model.errors import UnreachableError, obstacle
from heat_config_agent.web import answers, login_messages
from heat_config_agent.web.login_messages import Access, Request
from heat_config_hooks import alphabet

NAME = "the process that logs in to Keystone"
"""Its name in messages."""

LARGEST = 8 * 1024 * 1024
"""The longest answer in bytes."""

IDLE_SECONDS = 10.0
"""The time for which a process waits for another login: results of many users follow one another."""

START_SECONDS = 60.0
"""The time that a process may take to start, over several logins: a machine that boots may be slow."""

GONE_SECONDS = 1.0
"""The time after which a process that has to be gone is left to the kernel."""

PART = 64 * 1024
"""The most bytes that are read from the process at once."""

_PROGRAM = "from heat_config_agent.web.login_program import main; main()"

_left_over: set[int] = set()
"""Processes that were not gone in time: the kernel waits for a disk. The start of the next process reaps them."""


class Logins:
    """Logs in, each time in a process that does nothing else meanwhile. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._until = 0.0
        """The moment at which idle processes are ended (monotonic seconds)."""
        self._is_watched = False
        """True if a thread waits for that moment."""

    def prepare(self) -> None:
        """Start a process for a login that comes soon, unless one is idle. The login reports failures."""
        with contextlib.suppress(UnreachableError):
            if not self._idle:
                self._put(_Process(), IDLE_SECONDS)

    def log_in(self, request: Request) -> Access:
        """Return what Keystone grants.

        Raises DeniedError and UnreachableError as `login.Keystone` does, UnreachableError if the process fails, and
        TimeoutError if there is no answer at the deadline.
        """
        try:
            answer = self._answer(request)
        except _EndedError as error:
            raise UnreachableError(f"{NAME} ended without an answer{error}") from None
        except _UnknownError:
            raise UnreachableError(f"{NAME} gave an answer that cannot be understood") from None
        if isinstance(answer, UnreachableError):
            raise answer
        return answer

    def rest(self) -> None:
        """End all idle processes."""
        while process := self._take():
            process.end()

    def _answer(self, request: Request) -> Access | UnreachableError:
        """Return the answer to a request. A process that does not answer as it should is ended.

        One that is still starting at the deadline is left to start: the next login finds it further on.
        """
        process = self._take()
        while process and process.has_ended:  # while it was idle, as when the machine had no memory left
            process.end()
            process = self._take()
        process = process or _Process()
        try:
            answer = process.ask(request)
        except _StartingError:
            if time.monotonic() < process.latest_start:
                self._put(process, START_SECONDS)
            else:
                process.end()
            raise UnreachableError(f"{NAME} did not start in time") from None
        except BaseException:
            process.end()
            raise
        self._put(process, IDLE_SECONDS)
        return answer

    def _take(self) -> _Process | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put(self, process: _Process, seconds: float) -> None:
        """Keep a process for the next login; end it after this many seconds without one."""
        with self._lock:
            self._idle.append(process)
            self._until = max(self._until, time.monotonic() + seconds)
            if self._is_watched:
                return
            self._is_watched = True
        try:
            threading.Thread(target=self._watch, name="idle logins", daemon=True).start()
        except RuntimeError:  # the machine has no room for one more thread
            self._is_watched = False
            self.rest()

    def _watch(self) -> None:
        """End idle processes after a while."""
        while True:
            with self._lock:
                seconds = self._until - time.monotonic()
                if seconds <= 0:
                    self._is_watched = False
                    break
            time.sleep(seconds)
        self.rest()


LOGINS = Logins()
"""The processes of this program."""


class _EndedError(Exception):
    """The process has ended; the text says how, in brackets, if that is known."""


class _StartingError(Exception):
    """The process is still starting at the deadline."""


class _UnknownError(Exception):
    """The process does not answer as it should."""


class _Process:
    """One process, in a session of its own. Its standard error is not read: that may contain secrets."""

    def __init__(self) -> None:
        """Start it. Raises UnreachableError."""
        _reap_left_over()
        self._pid: int | None
        """Its process id, and group; None once it is reaped."""
        try:
            self._pid, self._input, self._output = _started()
        except (OSError, MemoryError, ValueError) as error:
            raise UnreachableError(f"{NAME} cannot be started: {obstacle(error)}") from error
        self._is_ready = False
        self.latest_start = time.monotonic() + START_SECONDS
        """The moment by which it has to be ready (monotonic seconds)."""

    @property
    def has_ended(self) -> bool:
        """True if it has ended, or has closed its output."""
        poll = select.poll()
        poll.register(self._output, 0)  # `POLLHUP` is always reported
        return bool(poll.poll(0))

    def ask(self, request: Request) -> Access | UnreachableError:
        """Return the answer to a request.

        Raises TimeoutError at the deadline, _StartingError if the process is not ready by then, _EndedError, and
        _UnknownError.
        """
        if not self._is_ready:
            try:
                first = self._line()
            except TimeoutError:
                raise _StartingError from None
            if first != login_messages.READY:
                raise _UnknownError
            self._is_ready = True
        self._write(login_messages.request_line(request))
        try:
            answer = login_messages.answer(self._line())
        except ValueError:
            raise _UnknownError from None
        if isinstance(answer, Access) and not answer.covers(request.services):
            raise _UnknownError
        return answer

    def end(self) -> None:
        """End it, in the middle of a login or not."""
        os.close(self._input)
        os.close(self._output)
        if self._pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        if not _reaped(self._pid)[0]:
            _left_over.add(self._pid)

    def _write(self, line: bytes) -> None:
        poll = select.poll()
        poll.register(self._input, select.POLLOUT)
        rest = memoryview(line)
        while rest:
            _wait(poll)
            try:
                rest = rest[os.write(self._input, rest) :]
            except BrokenPipeError:
                raise self._ended() from None

    def _line(self) -> bytes:
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        line = bytearray()
        while not line.endswith(b"\n"):
            _wait(poll)
            part = os.read(self._output, PART)
            if not part:
                raise self._ended()
            line += part
            if len(line) > LARGEST:
                raise _UnknownError
        return bytes(line)

    def _ended(self) -> _EndedError:
        """Return how the process, which has closed a pipe, has ended."""
        if self._pid is None:
            return _EndedError("")
        is_gone, how = _reaped(self._pid)
        if is_gone:
            self._pid = None
        return _EndedError(how)


def _started() -> tuple[int, int, int]:
    """Start a process; return its id, and the descriptors of its standard input and output. Raises OSError."""
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as its:
        reader, to_it = os.pipe()
        its.callback(os.close, reader)
        ours.callback(os.close, to_it)
        from_it, writer = os.pipe()
        its.callback(os.close, writer)
        ours.callback(os.close, from_it)
        os.set_blocking(to_it, False)
        pid = os.posix_spawn(
            sys.executable,
            # `-I` ignores the variables of Python, the modules of the user, and the working directory.
            [sys.executable, "-I", *alphabet.UTF8_MODE, "-c", _PROGRAM],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reader, 0),
                (os.POSIX_SPAWN_DUP2, writer, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            setsid=True,
            setsigmask=(),
        )
        ours.pop_all()
    return pid, to_it, from_it


def _wait(poll: select.poll) -> None:
    """Wait for a descriptor. Raises TimeoutError at the deadline."""
    while not poll.poll(math.ceil(answers.left() * 1000)):
        pass


def _reaped(pid: int) -> tuple[bool, str]:
    """Wait for a process that is about to end; return whether it is gone, and in brackets how it ended, if known."""
    until = time.monotonic() + GONE_SECONDS
    while True:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:  # the agent was started so that the kernel reaps its processes
            return True, ""
        if done:
            code = os.waitstatus_to_exitcode(status)
            return True, f" (exit code {code})" if code >= 0 else f" (signal {-code})"
        if time.monotonic() > until:
            return False, ""
        time.sleep(0.001)


def _reap_left_over() -> None:
    waiting = []
    while _left_over:
        with contextlib.suppress(KeyError):  # another thread has taken the last one
            waiting.append(_left_over.pop())
    for pid in waiting:
        with contextlib.suppress(ChildProcessError):
            if not os.waitpid(pid, os.WNOHANG)[0]:
                _left_over.add(pid)

"""Commands that begin loaded: processes of their own, forked from one that has loaded what they are made of.

To start Python and load modules is most of what a short command takes, and tests run thousands of them. Here one
process does that once for all tests of a session. It starts each command by a fork, with the arguments, environment,
folder and streams that a new process would have. Only `ps` shows a difference, so a test that looks for a command
among the processes, kills it at a point, or follows what it prints starts a new one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

PROGRAMS = {"heat-config-agent": "agent", "heat-config-apply": "apply"}
"""The commands → their functions in `heat_config_agent.cli.main`."""

STARTED = {"LANG": "C.UTF-8", "TZ": "UTC"}
"""The variables of a command that are heeded when Python starts, as all tests have them."""

_HEEDED = ("PYTHON", "LD_", "COVERAGE_", "FAKETIME", "LC_", *STARTED)
"""The prefixes of such variables."""


def may_be(environment: Mapping[str, str]) -> bool:
    """Return whether a command in this environment does the same when it begins loaded."""
    heeded = {name: value for name, value in environment.items() if name.startswith(_HEEDED)}
    return heeded == STARTED


def run(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, seconds: float
) -> tuple[int, str, str]:
    """Run a command to its end; return its exit code, or minus the signal that ended it, and what it printed.

    The program `-c` is Python's: its first argument is code, which calls commands itself.
    Raises subprocess.TimeoutExpired.
    """
    read, write = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(read, "rb", buffering=0) as ends:
        try:
            request = {"words": [program, *arguments], "environment": dict(environment), "folder": str(folder)}
            _loaded().start(request, [out.fileno(), err.fileno(), write])
        finally:
            os.close(write)
        deadline = time.monotonic() + seconds
        process, ended = _line(ends, deadline), _line(ends, deadline)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
            raise subprocess.TimeoutExpired([program, *arguments], seconds)
        printed, complained = (_content(each) for each in (out, err))
    return int(ended), printed, complained


def _line(ends: BinaryIO, deadline: float) -> bytes:
    """Return what comes next before the deadline; nothing if nothing does."""
    there, _, _ = select.select([ends], [], [], max(deadline - time.monotonic(), 0))
    return ends.readline() if there else b""


def _content(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


class _Loaded:
    """The process that has loaded the commands."""

    def __init__(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(its.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env={"PATH": os.environ["PATH"], **STARTED},
            )
        self._socket = ours
        self._lock = threading.Lock()
        atexit.register(self.end)

    def start(self, request: object, streams: Sequence[int]) -> None:
        """Have it start a command."""
        text = json.dumps(request).encode()
        head = len(text).to_bytes(8, "big")
        with self._lock:
            socket.send_fds(self._socket, [head], streams)
            self._socket.sendall(text)

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


@functools.cache
def _loaded() -> _Loaded:
    return _Loaded()


# In the process that has loaded them.


def _serve(connection: socket.socket) -> Callable[[], int] | None:
    """Start commands until nobody asks any more. Each comes back from here as a process that is to run it."""
    from heat_config_agent.cli import main  # noqa: PLC0415  # only this process needs them

    for name in ("agent", "apply", "runner"):
        importlib.import_module(f"heat_config_agent.cli.{name}")
    importlib.import_module("heat_config_agent.cli.agent").parser()  # which loads the module of each command
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody is waited for here
    while True:
        head, streams, _, _ = socket.recv_fds(connection, 8, 3)
        if not head:
            return None
        request = json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        if not os.fork():
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if _is_command(*streams):
                words, environment = request["words"], request["environment"]
                os.chdir(request["folder"])
                os.environ.clear()
                os.environ.update(environment)
                if words[0] == "-c":
                    sys.argv[:] = ["-c", *words[2:]]
                    return lambda: _executed(words[1])
                sys.argv[:] = [str(Path(sys.executable).parent / words[0]), *words[1:]]
                function: Callable[[], int] = getattr(main, PROGRAMS[words[0]])
                return function
        for each in streams:
            os.close(each)


def _executed(code: str) -> int:
    exec(code, {"__name__": "__main__"})  # noqa: S102  # it is a test's own
    return 0


def _is_command(out: int, err: int, ends: int) -> bool:
    """Make the process that runs a command, and return True in it; the one before it tells how it ended, and ends."""
    process = os.fork()
    if process:
        os.write(ends, b"%d\n" % process)
        _, status = os.waitpid(process, 0)
        os.write(ends, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for each in (out, err, ends):
        os.close(each)
    return True


if __name__ == "__main__":
    del sys.path[0]  # no module of a test is one of a command
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(command() if command else 0)

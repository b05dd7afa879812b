"""Commands that begin loaded: processes of their own, forked from one that has loaded what they are made of.

To start Python and load modules is most of what a short command takes, and tests run thousands of them. Here one
process does that once for all tests of a session. It starts each command by a fork, with the arguments, environment,
folder and streams that a new process would have. Only `ps` shows a difference, so a test that looks for a command
among the processes, kills it at a point, or follows what it prints starts a new one. The same holds for daemons.
They do not wait for the disk either: nothing but a power cut could tell, and tests of those start new processes.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NoReturn

if TYPE_CHECKING:
    from support.loaded_process import LoadedProcess

PROGRAMS = {
    "heat-config-agent": ("heat_config_agent.cli.main", "agent"),
    "heat-config-apply": ("heat_config_agent.cli.main", "apply"),
    "heat-config-hook": ("heat_config_hooks.standalone", "main"),
}
"""The commands → the modules and the names of their functions."""

BIN = Path(sys.executable).parent

STARTED = {"LANG": "C.UTF-8", "TZ": "UTC"}
"""The variables of a command that are heeded when Python starts, as all tests have them."""

_CLONE_NEWNS = 0x00020000
"""The flag of setns(2) for mounts."""

_PACKAGES = ("heat_config_agent", "heat_config_stack", "heat_config_hooks")
"""The packages that are loaded: half a second in all, where each command about a stack would take a tenth of it."""

_NOT_LOADED = {"heat_config_stack.plugins"}
"""Its modules look for what else is loaded, and have plug-ins import other modules than there are."""

_HEEDED = ("PYTHON", "LD_", "COVERAGE_", "FAKETIME", "LC_", *STARTED)
"""The prefixes of such variables."""


def may_be(environment: Mapping[str, str]) -> bool:
    """Return whether a command in this environment does the same when it begins loaded."""
    heeded = {
        name: value for name, value in environment.items() if name.startswith(_HEEDED)
    }
    return heeded == STARTED


class Loaded:
    """A command that began loaded. It is asked as `subprocess.Popen` is."""

    def __init__(
        self,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        streams: tuple[BinaryIO, BinaryIO],
        *,
        mounts: int | None = None,
        given: BinaryIO | None = None,
        called: Path | None = None,
    ) -> None:
        """Start a command; `streams` are those to which it prints, `given` what it reads.

        The program `-c` is Python's: its first argument is code, which calls commands itself.
        The command sees the mounts that the process `mounts` sees, and a link by which it is called.
        """
        self.args = [program, *arguments]
        self.returncode: int | None = None
        read, write = os.pipe()
        self._ends = open(read, "rb", buffering=0)  # noqa: SIM115  # closed when it has told the end
        try:
            request: dict[str, object] = {
                "words": self.args,
                "environment": dict(environment),
            }
            request |= {"folder": str(folder), "mounts": mounts}
            request["called"] = str(called or BIN / program)
            with contextlib.nullcontext(given) if given else _nothing() as read_from:
                descriptors = [each.fileno() for each in (read_from, *streams)]
                _loaded().ask(request, [*descriptors, write])
        finally:
            os.close(write)
        self.pid = int(self._ends.readline())

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal that ended it; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the same. Raises subprocess.TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ends], [], [], timeout)[0]:
            self.returncode = int(self._ends.readline())
            self._ends.close()
        return self.returncode


def run(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    seconds: float,
    *,
    mounts: int | None = None,
    given: str = "",
    called: Path | None = None,
) -> tuple[int, str, str]:
    """Run a command, as `Loaded` starts it, to its end; return its exit code and what it printed.

    It reads the text `given`. Raises subprocess.TimeoutExpired.
    """
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        tempfile.TemporaryFile() if given else contextlib.nullcontext() as text,
    ):
        if text:
            text.write(given.encode())
            text.seek(0)
        command = Loaded(
            program,
            arguments,
            environment,
            folder,
            (out, err),
            mounts=mounts,
            given=text,
            called=called,
        )
        try:
            code = command.wait(seconds)
        except subprocess.TimeoutExpired:
            command.kill()
            command.wait()
            raise
        printed, complained = (_content(each) for each in (out, err))
    return code, printed, complained


def hook(
    link: Path,
    given: str,
    environment: Mapping[str, str],
    *,
    arguments: Sequence[str] = (),
    folder: Path | None = None,
    seconds: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Call `heat-config-hook`, or a link to it, which reads a text; loaded where that makes no difference."""
    from support import pace  # noqa: PLC0415  # the started process has no package of tests

    words, seconds = [str(link), *arguments], pace.seconds(seconds)
    if may_be(environment):
        code, out, err = run(
            "heat-config-hook",
            arguments,
            environment,
            folder or Path.cwd(),
            seconds,
            given=given,
            called=link,
        )
        return subprocess.CompletedProcess(words, code, out, err)
    return subprocess.run(
        words,
        input=given,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )


def _nothing() -> BinaryIO:
    return open(os.devnull, "rb")


def _content(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


@functools.cache
def _loaded() -> LoadedProcess:
    from support import leftovers  # noqa: PLC0415  # the started process has no package of tests
    from support.loaded_process import LoadedProcess  # noqa: PLC0415  # as before

    folder = {
        name: os.environ[name] for name in (leftovers.VARIABLE,) if name in os.environ
    }
    return LoadedProcess(__file__, {"PATH": os.environ["PATH"], **folder, **STARTED})


# In the process that has loaded them.


def _serve(connection: socket.socket) -> Callable[[], int] | None:
    """Start commands until nobody asks any more. Each comes back from here as a process that is to run it."""
    for package in filter(importlib.util.find_spec, _PACKAGES):
        # `make test-agent` has no stack package
        _load(package)
    _use()
    gc.collect()
    gc.freeze()  # whoever looks for garbage in it writes to it: a command would have it all copied
    if limits := sys.modules.get("heat_config_stack.definition.limits"):
        limits.within_template(
            lambda: None
        )  # it counts what is frozen, once: a command would, each
    running: dict[int, tuple[int, int]] = {}
    """The descriptor that tells that a command has ended → its process, and the place for its exit code."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while True:
        ready = [file for file, _ in poll.poll()]
        for ended in running.keys() & ready:
            process, ends = running.pop(ended)
            poll.unregister(ended)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with contextlib.suppress(BrokenPipeError):
                # it took too long, and its test has gone
                os.write(ends, b"%d\n" % code)
            os.close(ended)
            os.close(ends)
        if connection.fileno() not in ready:
            continue
        head, streams, _, _ = socket.recv_fds(connection, 8, 4)
        if not head:
            return None
        request = json.loads(
            connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        )
        given, out, err, ends = streams
        process = os.fork()
        if not process:
            os.dup2(given, 0)
            os.dup2(out, 1)
            os.dup2(err, 2)
            for file in (
                given,
                out,
                err,
                ends,
                *(
                    each
                    for ended, (_, ends) in running.items()
                    for each in (ended, ends)
                ),
            ):
                os.close(file)
            connection.close()
            words, environment = request["words"], request["environment"]
            os.fsync = os.fdatasync = _flushed  # type: ignore[assignment]
            if request["mounts"]:
                _enter(request["mounts"])
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(environment)
            if words[0] == "-c":
                sys.argv[:] = ["-c", *words[2:]]
                return lambda: _executed(words[1])
            sys.argv[:] = [request["called"], *words[1:]]
            module, name = PROGRAMS[words[0]]
            function: Callable[[], int] = getattr(sys.modules[module], name)
            return function
        os.close(given)
        os.close(out)
        os.close(err)
        with contextlib.suppress(BrokenPipeError):
            os.write(ends, b"%d\n" % process)
        ended = os.pidfd_open(process)
        running[ended] = (process, ends)
        poll.register(ended, select.POLLIN)


def _flushed(_descriptor: object) -> None:
    """Stand in for a flush to the disk, for which a test would wait longer than for the command."""


def _load(name: str) -> None:
    """Load a module and, of a package, all of its modules."""
    module = importlib.import_module(name)
    for found in pkgutil.iter_modules(getattr(module, "__path__", ())):
        inner = f"{name}.{found.name}"
        if inner not in _NOT_LOADED:
            _load(inner)


def _use() -> None:
    """Have used what a first use makes: patterns, schemas, tables of types. Each command would make them for itself.

    Nothing is used that remembers what was printed, or how: a command begins without that.
    """
    importlib.import_module("heat_config_agent.cli.agent").parser()
    if not importlib.util.find_spec("heat_config_stack"):
        return
    from heat_config_stack.hot import loader  # noqa: PLC0415  # `make test-agent` has no stack package
    from heat_config_stack.lifecycle import advice, validation  # noqa: PLC0415  # as before
    from heat_config_stack.resource_types import known_types  # noqa: PLC0415  # as before
    from heat_config_stack.tosca.checks.checker import Checker  # noqa: PLC0415  # as before

    examples, types = Path(__file__).parents[2] / "examples", known_types()
    for name in ("group.yaml", "lifecycle.yaml"):
        definition = loader.check(str(examples / "hot" / name), [], {}).definition
        if definition:
            list(validation.mistakes(definition, types))
            advice.warnings(definition, types, ())
    Checker().check(str(examples / "tosca/notes/notes.yaml"))


def _enter(process: int) -> None:
    """See the mounts that another process sees."""
    import ctypes  # noqa: PLC0415  # few commands are run in this way

    with open(f"/proc/{process}/ns/mnt", "rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), _CLONE_NEWNS):
            raise OSError(
                ctypes.get_errno(), f"cannot see the mounts of process {process}"
            )


def _executed(code: str) -> int:
    exec(code, {"__name__": "__main__"})  # noqa: S102  # it is a test's own
    return 0


def _end(command: Callable[[], int]) -> NoReturn:
    """Run a command and end as Python ends, except that what is loaded is not freed: that takes as long as a start."""
    code: object
    try:
        code = command()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001  # Python shows it and ends, too
        sys.excepthook(*sys.exc_info())
        code = 1
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  # which waits for threads
    atexit._run_exitfuncs()  # noqa: SLF001  # as `multiprocessing` ends its processes
    for stream in filter(None, (sys.stdout, sys.stderr)):  # either may be closed
        stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    del sys.path[0]  # no module of a test is one of a command
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command:
        _end(command)

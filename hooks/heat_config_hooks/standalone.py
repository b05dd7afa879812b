"""`heat-config-hook`: runs a built-in hook without the agent, by hand or for another agent.

Call it as `heat-config-hook NAME < deployment`, or through a link that is named after the tool.

The hook takes the same two steps as in the agent, around the same command, which runs in the foreground.
Only the reply goes to standard output; the output of the tool is in the reply.
The tool inherits the environment of this program.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import heat_config_hooks
from heat_config_hooks import (
    alphabet,
    files,
    memory,
    options,
    processes,
    protocol,
    strict_json,
)
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import (
    CANNOT_START,
    TIMED_OUT,
    UNKNOWN,
    Capture,
    Reply,
    failure,
    fit,
)

_USAGE = """\
usage: heat-config-hook NAME < DEPLOYMENT

Carry out one deployment (a JSON object with id, config, inputs, outputs and options) with the hook NAME, and print its
reply: a JSON object with deploy_stdout, deploy_stderr, deploy_status_code and the declared outputs. A link to this
program in a hook directory, named after a tool, is the hook of that tool.

hooks: {hooks}

exit codes:
  0  the reply was printed, whether the deployment succeeded or failed
  1  standard input is not a deployment, or the reply cannot be printed
  2  bad usage, such as an unknown hook
"""

_NO_INPUT = 1
"""The exit code if standard input is not a deployment: the same as that of heat-agents' hooks."""

_PREFIX = "heat-config-hook-"
"""The beginning of the names of our temporary folders."""

_ABANDONED = 60.0
"""Seconds after which a temporary folder that no process has locked counts as abandoned."""

GRACE = 10.0
"""Seconds between TERM and KILL."""

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that end the run and this program."""

MARK = "HEAT_HOOK_RUN"
"""A variable with a unique value in the environment of the command: it identifies all processes of the run."""


def main() -> int:
    """Run the hook that the command line names, and return an exit code."""
    alphabet.use_utf8()
    if sys.stdin is None or sys.stdout is None:
        print("error: standard input and standard output must be open", file=sys.stderr)
        return 2
    try:
        code = _main()
        sys.stdout.flush()
    except OSError:  # standard output was closed, or its disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def usage() -> str:
    """Return the text of `--help`."""
    return _USAGE.format(hooks=", ".join(sorted(heat_config_hooks.HOOKS)))


def _main() -> int:
    memory.keep_no_core()
    for number in _ENDING:
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    program = Path(sys.argv[0]).name
    arguments = sys.argv[1:]
    known = heat_config_hooks.COMPAT.union(heat_config_hooks.HOOKS)
    if program in known and not arguments:
        arguments = [program]
    if arguments in (["-h"], ["--help"]):
        print(usage(), end="")
        return 0
    if len(arguments) != 1 or arguments[0] not in known:
        problem = (
            f"there is no hook {arguments[0]!r}"
            if len(arguments) == 1
            else "expected the name of one hook"
        )
        names = ", ".join(sorted(heat_config_hooks.HOOKS))
        print(f"error: {problem} (the hooks are: {names}; see --help)", file=sys.stderr)
        return 2
    try:
        document = strict_json.loads(_standard_input().decode("utf-8", "replace"))
    except OSError as error:
        print(
            f"error: cannot read standard input: {error.strerror or error}",
            file=sys.stderr,
        )
        return _NO_INPUT
    except ValueError as error:
        print(f"error: standard input is not valid JSON: {error}", file=sys.stderr)
        return _NO_INPUT
    if not isinstance(document, dict):
        print(
            "error: standard input is not a deployment: expected a JSON object",
            file=sys.stderr,
        )
        return _NO_INPUT
    json.dump(_carry_out(arguments[0], document), sys.stdout)
    return 0


def _standard_input() -> bytes:
    descriptor = sys.stdin.fileno()
    return files.drain(
        descriptor, patience=None if os.isatty(descriptor) else files.PATIENCE
    )


def _carry_out(name: str, document: dict[str, object]) -> dict[str, object]:
    """Return the reply of a hook, as JSON values that fit into a signal."""
    _remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        return fit(_reply(name, document, folder, lock))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_abandoned() -> None:
    """Remove the folders of hooks that were killed: they contain inputs, and so secrets.

    A hook that works in its folder, and the processes that it has started, hold the lock of the folder.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            # the folder belongs to another user, or has been removed
            status = path.lstat()
            if (
                status.st_uid != os.geteuid()
                or time.time() - status.st_mtime < _ABANDONED
            ):
                continue
            descriptor = os.open(
                path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            )
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _reply(name: str, document: dict[str, object], folder: Path, lock: int) -> Reply:
    """Prepare a hook, run its command, and return the reply."""
    place = protocol.workplace(name, folder, None, os.environ)
    try:
        hook = heat_config_hooks.load(name)
        values = options.read(_options(name, document, hook), hook.ABOUT.options)
        request = protocol.request(
            document, key=protocol.file_key(str(document.get("id", ""))), options=values
        )
        command = hook.prepare(request, place)
        if not isinstance(command, protocol.Command):
            return command
        for note in command.notes:
            print(note, file=sys.stderr)
        timeout = values["timeout"]
        ended = _run(
            command, folder, lock, timeout if isinstance(timeout, float) else None
        )
    except HookError as error:
        return failure(error.code, str(error))
    except OSError as error:
        path = f": {error.filename}" if error.filename else ""
        return failure(
            CANNOT_START, f"cannot run the hook {name}: {error.strerror or error}{path}"
        )
    except Exception as error:  # noqa: BLE001  # a defect of the hook
        return failure(
            CANNOT_START,
            f"the hook {name} cannot be prepared: {type(error).__name__}: {error}",
        )
    if ended is None:
        sentence = f"ended because it timed out after {timeout:g} s"
        return failure(
            TIMED_OUT, sentence, Capture(folder / "stdout"), Capture(folder / "stderr")
        )
    try:
        return hook.finish(request, place, ended)
    except Exception as error:  # noqa: BLE001  # a defect of the hook, or the command has damaged its folder
        sentence = f"the hook {name} cannot determine the outcome: {type(error).__name__}: {error}"
        return failure(UNKNOWN, sentence, Capture(ended.stdout), Capture(ended.stderr))


def _options(
    name: str, document: dict[str, object], hook: protocol.Hook
) -> Mapping[str, object]:
    """Return the options for this tool, which may be among those of a component. Raises HookError."""
    every = document.get("options")
    if not isinstance(every, Mapping) and every is not None:
        raise HookError("expected an object with the options of the tool", "options")
    own = options.own(
        every or {}, name, heat_config_hooks.COMPAT.union(heat_config_hooks.HOOKS)
    )
    mistakes = options.mistakes(own, hook.ABOUT.options, tool=name)
    for bound in options.BOUNDS:
        if own.get(bound) is not None:
            raise HookError(
                "only the agent can enforce this option, not a hook that runs alone",
                f"options.{bound}",
            )
    if own.get("artifacts"):
        raise HookError(
            "only the agent can fetch artifacts, not a hook that runs alone",
            "options.artifacts",
        )
    if own.get("user") and "user" in hook.ABOUT.options:
        raise HookError(
            "only the agent can run as another user, not a hook that runs alone",
            "options.user",
        )
    if own.get("isolate") and "isolate" in hook.ABOUT.options:
        raise HookError(
            "only the agent can isolate a run, not a hook that runs alone",
            "options.isolate",
        )
    if mistakes:
        # the options may be those of a component, whose other tools are unknown here
        also = {
            option
            for tool in heat_config_hooks.HOOKS
            for option in heat_config_hooks.load(tool).ABOUT.options
        }
        also |= {option for option, value in own.items() if isinstance(value, Mapping)}
        mistakes = options.mistakes(own, hook.ABOUT.options, tool=name, also=also)
    if mistakes:
        raise HookError("\n".join(map(str, mistakes)))
    return own


def _run(
    command: protocol.Command, folder: Path, lock: int, timeout: float | None
) -> protocol.Ended | None:
    """Run a command, and return how it ended; None if it timed out, and all its processes were ended."""
    ended = protocol.Ended(code=0, stdout=folder / "stdout", stderr=folder / "stderr")
    mark = f"{folder.name}.{time.time_ns()}"
    with (
        ended.stdout.open("xb") as stdout,
        ended.stderr.open("xb") as stderr,
        (command.stdin or Path(os.devnull)).open("rb") as stdin,
    ):
        process = None
        try:
            process = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env={**os.environ, **command.environment, MARK: mark},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=(lock,),
            )
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            _end(process, mark)
            return None
        except BaseException:
            _end(process, mark)
            raise
    return protocol.Ended(
        code=code if code >= 0 else 128 - code, stdout=ended.stdout, stderr=ended.stderr
    )


def _end(process: subprocess.Popen[bytes] | None, mark: str) -> None:
    """End a command and all processes that it has started.

    `process` is None if a signal arrived while the command was being started.
    The command may have begun nevertheless; its mark identifies it.
    """
    import psutil  # noqa: PLC0415  # 15 ms, and most runs are never ended

    for number in _ENDING:  # a second signal must not interrupt this
        signal.signal(number, signal.SIG_IGN)
    pid = process.pid if process else 0
    started = processes.ticks(pid) or 0
    living = processes.tree(pid, started, f"{MARK}={mark}")
    processes.send(living, signal.SIGTERM)
    if process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    else:
        psutil.wait_procs(living, GRACE)
    processes.send(processes.tree(pid, started, f"{MARK}={mark}"), signal.SIGKILL)
    if process:
        process.wait()

"""A hook of ours run by hand or by another agent.

`heat-config-hook NAME < deployment`, or through a link named after the tool.

The same two steps as in the agent, around the same command, in the foreground. The reply goes to standard output and
nothing else does: what the tool prints is in the reply. The tool gets the environment that we were given.
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
from heat_config_hooks import memory, options, processes, protocol, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START, TIMED_OUT, UNKNOWN, Capture, Reply, failure, fit

_USAGE = """\
usage: heat-config-hook NAME < DEPLOYMENT

Carry out one deployment (a JSON object with id, config, inputs, outputs and options) with the hook NAME, and print its
reply: a JSON object with deploy_stdout, deploy_stderr, deploy_status_code and the declared outputs. Linked into a hook
directory under the name of a tool, it is that tool's hook.

hooks: {hooks}

exit codes:
  0  there is a reply, whatever it says of the deployment
  1  the reply could not be written
  2  bad usage: no such hook, or no deployment on standard input
"""

_PREFIX = "heat-config-hook-"
"""How the names of our temporary folders begin."""

_YOUNG = 60.0
"""Seconds after which a temporary folder that nobody holds is nobody's."""

GRACE = 10.0
"""Seconds between TERM and KILL."""

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals at which the run is ended, and we with it."""

MARK = "HEAT_HOOK_RUN"
"""A variable of a value of its own in the environment of the command: by it all its processes are known."""


def main() -> int:
    """Run the command and return its exit code."""
    if sys.stdin is None or sys.stdout is None:
        print("error: it takes a deployment on standard input, and replies on standard output", file=sys.stderr)
        return 2
    try:
        code = _main()
        sys.stdout.flush()
    except OSError:  # nobody reads the reply, or the disk that it goes to is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def usage() -> str:
    """Return what `--help` prints."""
    return _USAGE.format(hooks=", ".join(sorted(heat_config_hooks.HOOKS)))


def _main() -> int:
    memory.keep_no_core()
    for number in _ENDING:
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    called = Path(sys.argv[0]).name
    arguments = sys.argv[1:]
    if called in heat_config_hooks.HOOKS and not arguments:
        arguments = [called]
    if arguments in (["-h"], ["--help"]):
        print(usage(), end="")
        return 0
    if len(arguments) != 1 or arguments[0] not in heat_config_hooks.HOOKS:
        wrong = f"there is no hook {arguments[0]!r}" if len(arguments) == 1 else "expected the name of one hook"
        print(f"error: {wrong} (there are: {', '.join(sorted(heat_config_hooks.HOOKS))}; see --help)", file=sys.stderr)
        return 2
    try:
        document = strict_json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
    except ValueError as error:
        print(f"error: standard input is no JSON: {error}", file=sys.stderr)
        return 2
    if not isinstance(document, dict):
        print("error: standard input is no deployment: expected a JSON object", file=sys.stderr)
        return 2
    json.dump(_carry_out(arguments[0], document), sys.stdout)
    return 0


def _carry_out(name: str, document: dict[str, object]) -> dict[str, object]:
    _clear_up()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        return fit(_reply(name, document, folder, lock))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _clear_up() -> None:
    """Remove what was left by hooks that were killed: inputs, and with them secrets.

    Whoever works in such a folder, the hook or what it has started, holds its lock.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else's, or gone by now
            found = path.lstat()
            if found.st_uid != os.geteuid() or time.time() - found.st_mtime < _YOUNG:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _reply(name: str, document: dict[str, object], folder: Path, lock: int) -> Reply:
    hook = heat_config_hooks.load(name)
    place = protocol.workplace(name, folder, None, os.environ)
    try:
        given = options.read(_options(name, document, hook), hook.ABOUT.options)
        request = protocol.request(document, key=protocol.file_key(str(document.get("id", ""))), options=given)
        command = hook.prepare(request, place)
        if not isinstance(command, protocol.Command):
            return command
        limit = given["timeout"]
        ended = _run(command, folder, lock, limit if isinstance(limit, float) else None)
    except HookError as error:
        return failure(error.code, str(error))
    except OSError as error:
        about = f": {error.filename}" if error.filename else ""
        return failure(CANNOT_START, f"cannot run the {name} hook: {error.strerror or error}{about}")
    except Exception as error:  # noqa: BLE001  # a defect of the hook
        return failure(CANNOT_START, f"the {name} hook cannot be prepared: {type(error).__name__}: {error}")
    if ended is None:
        sentence = f"ended, as its time limit of {limit:g} s was over"
        return failure(TIMED_OUT, sentence, Capture(folder / "stdout"), Capture(folder / "stderr"))
    try:
        return hook.finish(request, place, ended)
    except Exception as error:  # noqa: BLE001  # a defect of the hook, or what the command did to its folder
        sentence = f"the {name} hook cannot say what came of it: {type(error).__name__}: {error}"
        return failure(UNKNOWN, sentence, Capture(ended.stdout), Capture(ended.stderr))


def _options(name: str, document: dict[str, object], hook: protocol.Hook) -> Mapping[str, object]:
    """Return the options of this tool; where they are a component's, those that are for it. Raises HookError."""
    given = document.get("options")
    if not isinstance(given, Mapping) and given is not None:
        raise HookError("expected an object of the tool's options", "options")
    found = options.own(given or {}, name, heat_config_hooks.HOOKS)
    wrong = options.mistakes(found, hook.ABOUT.options, tool=name)
    if any(found.get(each) is not None for each in options.BOUNDS):
        bound = next(each for each in options.BOUNDS if found.get(each) is not None)
        raise HookError("the agent can hold it, a hook alone cannot", f"options.{bound}")
    if wrong:  # they may be a component's, and nobody says here which other tools it has: what may be theirs passes
        also = {option for each in heat_config_hooks.HOOKS for option in heat_config_hooks.load(each).ABOUT.options}
        also |= {option for option, value in found.items() if isinstance(value, Mapping)}
        wrong = options.mistakes(found, hook.ABOUT.options, tool=name, also=also)
    if wrong:
        raise HookError("\n".join(str(each) for each in wrong))
    return found


def _run(command: protocol.Command, folder: Path, lock: int, limit: float | None) -> protocol.Ended | None:
    """Run a command to its end; None where its time limit came first, and all that it had started was ended."""
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
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            _end(process, mark)
            return None
        except BaseException:
            _end(process, mark)
            raise
    return protocol.Ended(code=code if code >= 0 else 128 - code, stdout=ended.stdout, stderr=ended.stderr)


def _end(process: subprocess.Popen[bytes] | None, mark: str) -> None:
    """End a command with all that it has started, wherever that has gone.

    There may be no `process`: where we are ended as the command begins, it may have begun, and is found by its mark.
    """
    import psutil  # noqa: PLC0415  # 15 ms, and most runs are never ended

    for number in _ENDING:  # once is enough
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

"""Hooks that need more than one command: a program of ours that does their steps one after the other.

Besides `prepare` and `finish`, the module of such a hook has a function

    carry_out(request, place) -> int

It runs in a process of its own, where it may run commands, wait and decide.
The output of the process and its commands is the output of the run, and the returned number is its exit code.
`prepare` of such a hook returns `steps.command(__name__, request, place)`.

If such a hook verifies with commands, its module also has a function

    look(request, place) -> Verdict

which runs in such a process too.
Then `verify` returns `steps.looking(__name__, request, place)`, and `verdict` is `steps.seen`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from heat_config_hooks import alphabet, files, memory, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

_ARGUMENTS = "steps.json"
"""The file in the folder of the run from which the process reads what to do."""

_LOOKS = "looks"
"""The key there of a verification."""

_ANSWER = 16 * 1024 * 1024
"""The most bytes of a verdict."""


def command(
    module: str,
    request: protocol.Request,
    place: protocol.Workplace,
    notes: Sequence[str] = (),
    **variables: str,
) -> protocol.Command:
    """Return the command that calls `carry_out` of `module` (its `__name__`), with notes for the log.

    `variables` are added to the environment of the process.
    """
    return _command(_arguments(module, request, place), place, notes, variables)


def looking(
    module: str, request: protocol.Request, place: protocol.Workplace
) -> protocol.Command:
    """Return the command that calls `look` of `module` (its `__name__`): it verifies, and changes nothing."""
    return _command({**_arguments(module, request, place), _LOOKS: True}, place)


def seen(
    _request: protocol.Request, _place: protocol.Workplace, ended: protocol.Ended
) -> Verdict:
    """Return the verdict of a process that has called `look`: its last line. Raises OSError."""
    from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

    if ended.code:
        return verdict.unknown(f"the verification ended with exit code {ended.code}")
    text = files.read(ended.stdout, _ANSWER).decode("utf-8", "replace")
    return verdict.of_json(text.rstrip("\n").rpartition("\n")[2])


def _arguments(
    module: str, request: protocol.Request, place: protocol.Workplace
) -> dict[str, object]:
    return {
        "module": module,
        "request": vars(request),
        "working": str(place.working),
        "outputs": str(place.outputs),
        "environment": dict(place.environment),
    }


def _command(
    arguments: Mapping[str, object],
    place: protocol.Workplace,
    notes: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> protocol.Command:
    files.replace(place.run / _ARGUMENTS, json.dumps(arguments).encode())
    return protocol.Command(
        # Isolated: no module is imported from the working folder, nor from a folder named in the environment.
        argv=(
            sys.executable,
            "-I",
            *alphabet.UTF8_MODE,
            "-m",
            "heat_config_hooks.steps",
            str(place.run),
        ),
        cwd=place.run,
        environment=variables or {},
        notes=tuple(notes),
    )


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    quiet: bool = False,
) -> int:
    """Run a command whose output becomes the output of the run, with `quiet` only its standard error.

    Return its exit code, or 128 plus the number of the signal that ended it.
    """
    sys.stdout.flush()
    code = subprocess.run(
        argv,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if quiet else None,
        check=False,
    ).returncode
    return code if code >= 0 else 128 - code


def ask(argv: Sequence[str], *, cwd: Path | None = None) -> tuple[int, str]:
    """Run a command for its standard output; return its exit code, as `run` does, and that output.

    Its standard error becomes standard error of the run.
    """
    sys.stdout.flush()
    done = subprocess.run(
        argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    return (
        done.returncode if done.returncode >= 0 else 128 - done.returncode,
        done.stdout.decode("utf-8", "replace"),
    )


def say(text: str, *, error: bool = False) -> None:
    """Print text to the output of the run at once, on a line of its own."""
    stream = sys.stderr if error else sys.stdout
    stream.flush()
    print(
        f"{'' if _begins_line(stream.fileno()) else chr(10)}{text}",
        file=stream,
        flush=True,
    )


def _begins_line(descriptor: int) -> bool:
    """Return whether the next byte written to a descriptor begins a line.

    The output of a run goes to a file. If it goes elsewhere, the last byte is unknown, and the answer is yes.
    """
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return True
        # The descriptor itself may be open for writing only.
        with open(f"/proc/self/fd/{descriptor}", "rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read() in (b"\n", b"")
    except OSError:
        return True


def main() -> int:
    """Call `carry_out`, or `look`, for the request in the folder that the command line names; return an exit code."""
    memory.keep_no_core()
    signal.signal(signal.SIGTERM, _exit)
    for stream in (sys.stdout, sys.stderr):
        # The output is read as UTF-8 in every locale; a text may contain bytes that are not.
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    folder = Path(sys.argv[1])
    arguments: dict[str, Any] = json.loads((folder / _ARGUMENTS).read_bytes())
    request = _request(arguments["request"])
    place = protocol.Workplace(
        run=folder,
        working=Path(arguments["working"]),
        outputs=Path(arguments["outputs"]),
        environment=arguments["environment"],
    )
    module = importlib.import_module(arguments["module"])
    if arguments.get(_LOOKS):
        return _look(module, request, place)
    try:
        code: int = module.carry_out(request, place)
    except HookError as error:
        say(str(error), error=True)
        return error.code
    except OSError as error:
        name = f": {error.filename}" if error.filename else ""
        say(f"{error.strerror or error}{name}", error=True)
        return CANNOT_START
    return code


def _look(module: Any, request: protocol.Request, place: protocol.Workplace) -> int:
    """Print the verdict of `look`, on a line of its own; return 0."""
    from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

    try:
        answer = module.look(request, place)
    except HookError as error:
        answer = verdict.unknown(str(error))
    except OSError as error:
        name = f": {error.filename}" if error.filename else ""
        answer = verdict.unknown(f"{error.strerror or error}{name}")
    say(str(verdict.encoded(answer)[verdict.KEY]))
    return 0


def _request(fields: dict[str, Any]) -> protocol.Request:
    """Return the request with these fields, whose tuples JSON has as lists."""
    variables = fields["variables"]
    tuples = {
        "outputs": tuple(fields["outputs"]),
        "variables": None if variables is None else tuple(variables),
    }
    return protocol.Request(**{**fields, **tuples})


def _exit(number: int, _frame: object) -> NoReturn:
    """Exit because of a signal, through the `finally` clauses and context managers that are active."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())

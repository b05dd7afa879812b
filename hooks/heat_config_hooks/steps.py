"""Hooks that need more than one command: a program of ours that does their steps one after the other.

Besides `prepare` and `finish`, the module of such a hook has a function

    carry_out(request, place) -> int

It runs in a process of its own, where it may run commands, wait and decide.
The output of the process and its commands is the output of the run, and the returned number is its exit code.
`prepare` of such a hook returns `steps.command(__name__, request, place)`.
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

_ARGUMENTS = "steps.json"
"""The file in the folder of the run from which the process reads what to do."""


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
    arguments = {
        "module": module,
        "request": vars(request),
        "working": str(place.working),
        "outputs": str(place.outputs),
        "environment": dict(place.environment),
    }
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
        environment=variables,
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
    """Call `carry_out` for the request in the folder that the command line names, and return its exit code."""
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

"""Hooks whose work is more than one command: a program of ours that does one step after the other.

Such a hook's module has, beside `prepare` and `finish`,

    carry_out(request, place) -> int

which runs as a process of its own, where it may run commands, wait and decide. What it and its commands print is the
output of the run; what it returns is the exit code. Its `prepare` ends with `steps.command`.
"""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from heat_config_hooks import files, memory, protocol
from heat_config_hooks.errors import HookError
from heat_config_hooks.reply import CANNOT_START

_GIVEN = "steps.json"


def command(module: str, request: protocol.Request, place: protocol.Workplace, **more: str) -> protocol.Command:
    """Return the command that has `module` (its `__name__`) carry out a request; `more` is added to the environment."""
    given = {
        "module": module,
        "request": vars(request),
        "working": str(place.working),
        "outputs": str(place.outputs),
        "environment": dict(place.environment),
    }
    files.replace(place.run / _GIVEN, json.dumps(given).encode())
    return protocol.Command(
        # Isolated: no module is found in the working folder, nor where the environment says.
        argv=(sys.executable, "-I", "-m", "heat_config_hooks.steps", str(place.run)),
        cwd=place.run,
        environment=more,
    )


def run(argv: Sequence[str], *, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Run a command whose output is the run's; return its exit code, of a signal 128 plus its number."""
    sys.stdout.flush()
    code = subprocess.run(argv, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, check=False).returncode
    return code if code >= 0 else 128 - code


def ask(argv: Sequence[str], *, cwd: Path | None = None) -> tuple[int, str]:
    """Run a command that answers a question; return its exit code and what it printed. Its complaints are the run's."""
    sys.stdout.flush()
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout.decode("utf-8", "replace")


def say(text: str, *, error: bool = False) -> None:
    """Print a line of the run's output at once, so that who follows it sees it in its order."""
    print(text, file=sys.stderr if error else sys.stdout, flush=True)


def main() -> int:
    """Carry out the request in the folder that the command line names."""
    memory.keep_no_core()
    signal.signal(signal.SIGTERM, _ended)
    for stream in (sys.stdout, sys.stderr):
        # As it is read again, whatever the locale; what was printed elsewhere may be anything.
        stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    folder = Path(sys.argv[1])
    given: dict[str, Any] = json.loads((folder / _GIVEN).read_bytes())
    request = protocol.Request(**{**given["request"], "outputs": tuple(given["request"]["outputs"])})
    place = protocol.Workplace(
        run=folder,
        working=Path(given["working"]),
        outputs=Path(given["outputs"]),
        environment=given["environment"],
    )
    module = importlib.import_module(given["module"])
    try:
        code: int = module.carry_out(request, place)
    except HookError as error:
        say(str(error), error=True)
        return error.code
    except OSError as error:
        about = f": {error.filename}" if error.filename else ""
        say(f"{error.strerror or error}{about}", error=True)
        return CANNOT_START
    return code


def _ended(number: int, _frame: object) -> NoReturn:
    """End as a signal asks, but by way of whatever has to be put in order."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())

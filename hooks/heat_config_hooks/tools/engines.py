"""Chooses the container program that works on this machine: many machines have a docker client without a daemon."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from heat_config_hooks import files, programs
from heat_config_hooks.errors import MissingTool
from heat_config_hooks.programs import Program
from heat_config_hooks.protocol import Workplace
from heat_config_hooks.values import replace

_PATIENCE = 30.0
"""Seconds in which an engine must report its version."""


def choose(
    program: Program, place: Workplace, *, removes: bool, notes: bool = True
) -> tuple[str, ...]:
    """Return the beginning of the command line of the first program that is installed and works. Raises MissingTool.

    A program that the variable names is used without a check.
    A program that was chosen earlier is kept as long as it is installed: no other engine knows its containers.
    With `removes`, the program is needed for containers that exist, so another engine cannot replace it.
    Unless it `notes` the choice, this changes nothing on the machine.
    """
    if place.environment.get(program.variable):
        return programs.find(program, place.environment)
    note = place.working / ".program"
    earlier = list(
        programs.every(replace(program, names=_read(note)), place.environment)
    )
    if removes and not earlier and (gone := "".join(_read(note))):
        problem = f"{gone}, which made the containers, is no longer installed"
        raise MissingTool(f"{problem} (remove {note} to have another program chosen)")
    troubles = []
    for argv in earlier or programs.every(program, place.environment):
        trouble = _trouble(argv)
        if not trouble:
            if notes and not earlier:
                files.make_directory(place.working)
                files.replace(note, shlex.join(argv).encode(), durable=True)
            return argv
        troubles.append(f"{shlex.join(argv)} does not work: {trouble}")
    if not troubles:
        raise programs.missing(program, place.environment)
    kept = (
        f" (it was chosen earlier; remove {note} to have another program chosen)"
        if earlier
        else ""
    )
    raise MissingTool(f"{'; '.join(troubles)}{kept}; start it, or {program.install}")


def _read(note: Path) -> tuple[str, ...]:
    try:
        return (note.read_text(encoding="utf-8"),)
    except FileNotFoundError:
        return ()


def behind(argv: Sequence[str]) -> str | None:
    """Return the path of the engine that a program drives; None if it is not installed.

    docker-compose drives docker, podman-compose drives podman, and docker and podman are engines themselves.
    """
    return shutil.which(Path(argv[0]).name.partition("-")[0])


def _trouble(argv: Sequence[str]) -> str:
    """Return why a program does not work; empty if it works.

    Some programs report their version without an engine, so the engine is asked as well.
    """
    for question in dict.fromkeys(
        [(*argv, "version"), (behind(argv) or argv[0], "version")]
    ):
        try:
            process = subprocess.run(
                question,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {_PATIENCE:g} s"
        except OSError as error:
            return error.strerror or str(error)
        if process.returncode:
            output = (
                (process.stderr or process.stdout).decode("utf-8", "replace").strip()
            )
            return (
                output.splitlines()[0] if output else f"exit code {process.returncode}"
            )
    return ""

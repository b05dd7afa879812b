"""Which of the programs for containers works on this machine: many have a docker client, and no daemon behind it."""

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
"""Seconds within which an engine has to say its version."""


def choose(program: Program, place: Workplace, *, removes: bool) -> tuple[str, ...]:
    """Return the beginning of the command line of the first program that is installed and works.

    One that the program's variable names is taken at its word. One that was chosen before is kept, as long as it is
    installed: the containers of this machine are its own, and no other engine knows of them, nor could remove them for
    who `removes` something. Raises MissingTool.
    """
    if place.environment.get(program.variable):
        return programs.find(program, place.environment)
    note = place.working / ".program"
    earlier = list(programs.every(replace(program, names=_read(note)), place.environment))
    if removes and not earlier and (gone := "".join(_read(note))):
        raise MissingTool(f"{gone}, which made it, is not installed any more (remove {note} to have another chosen)")
    troubles = []
    for argv in earlier or programs.every(program, place.environment):
        trouble = _trouble(argv)
        if not trouble:
            if not earlier:
                files.make_directory(place.working)
                files.replace(note, shlex.join(argv).encode(), durable=True)
            return argv
        troubles.append(f"{shlex.join(argv)} does not work: {trouble}")
    if not troubles:
        raise programs.missing(program, place.environment)
    kept = f" (it was chosen earlier; remove {note} to have another chosen)" if earlier else ""
    raise MissingTool(f"{'; '.join(troubles)}{kept}; start it, or {program.install}")


def _read(note: Path) -> tuple[str, ...]:
    try:
        return (note.read_text(),)
    except FileNotFoundError:
        return ()


def behind(argv: Sequence[str]) -> str | None:
    """Return the engine that a program drives, docker or podman, which may be that program; None where it is not there.

    docker-compose drives docker, podman-compose podman.
    """
    return shutil.which(Path(argv[0]).name.partition("-")[0])


def _trouble(argv: Sequence[str]) -> str:
    """Return why a program does not work; empty where it does.

    Some say their version without an engine: so it is asked too.
    """
    for question in dict.fromkeys([(*argv, "version"), (behind(argv) or argv[0], "version")]):
        try:
            done = subprocess.run(
                question, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {_PATIENCE:g} s"
        except OSError as error:
            return error.strerror or str(error)
        if done.returncode:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
            return said.splitlines()[0] if said else f"exit code {done.returncode}"
    return ""

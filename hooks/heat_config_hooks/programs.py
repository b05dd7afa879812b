"""The programs that hooks drive: which one there is on this machine, and how to get one where there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from heat_config_hooks.errors import MissingTool
from heat_config_hooks.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that a hook drives."""

    names: tuple[str, ...]
    """What it may be called, in the order of preference; one with a space is a program and its first arguments."""
    variable: str = ""
    """The variable that names another, e.g. `HEAT_PUPPET_CMD`: a path, a name, or a command line."""
    folders: tuple[str, ...] = ()
    """Where its own packages put it, outside the usual PATH."""
    install: str
    """How to get it, as the end of a sentence: `install it with «apt install puppet»`."""
    version: tuple[str, ...] = ("--version",)
    """Arguments that make it print its version."""


def find(program: Program, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the beginning of the command line: the program's absolute path, and first arguments where it has some.

    It is looked for in the PATH of `environment`, then beside our own interpreter (where an environment of ours has
    it), then where its packages put it. Raises MissingTool.
    """
    for command in every(program, environment):
        return command
    raise missing(program, environment)


def every(program: Program, environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the beginnings of the command lines of all that there is of it, in the order of preference."""
    import shlex  # noqa: PLC0415  # slow to load, and scripts need no program
    import shutil  # noqa: PLC0415

    named = _named(program, environment)
    for name in (named,) if named else program.names:
        try:
            first, *rest = [name] if os.access(name, os.X_OK) else shlex.split(name) or [name]
        except ValueError:  # a quotation mark too few
            first, rest = name, []
        path = shutil.which(first, path=_path(program, environment))
        if path is not None:
            yield (str(Path(path).absolute()), *rest)


def missing(program: Program, environment: Mapping[str, str]) -> MissingTool:
    """Return what is to be said where there is none."""
    named = _named(program, environment)
    wanted = f"{named} (${program.variable})" if named else " or ".join(program.names)
    return MissingTool(f"{wanted} is not installed; {program.install}")


def _named(program: Program, environment: Mapping[str, str]) -> str:
    return environment.get(program.variable, "") if program.variable else ""


def _path(program: Program, environment: Mapping[str, str]) -> str:
    path = environment.get("PATH") or os.defpath
    return os.pathsep.join((path, str(Path(sys.executable).parent), *program.folders))


def cannot_start(path: str) -> str:
    """Return why the kernel would not start an executable file, and what to do; empty where nothing is seen.

    Raises OSError where the machine cannot read it now.
    """
    try:
        if not os.access(path, os.X_OK):
            return f"it cannot be run; make it executable with «chmod +x {path}»"
        with open(path, "rb") as file:
            first = file.readline(256)
    except (FileNotFoundError, PermissionError) as error:
        return error.strerror or str(error)
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    interpreter = os.fsdecode(words[0]) if words else ""
    return f"its interpreter {interpreter} is not there" if interpreter and not os.path.exists(interpreter) else ""  # noqa: PTH110

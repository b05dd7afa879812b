"""The programs that hooks drive: finds them on this machine, or says how to install them."""

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
    """Its possible names, in the order of preference; a name may include first arguments: `docker compose`."""
    variable: str = ""
    """The variable that names another program, e.g. `HEAT_PUPPET_CMD`: a path, a name, or a command line."""
    folders: tuple[str, ...] = ()
    """Folders outside the usual PATH where its own packages install it."""
    install: str
    """The way to install it, as the end of a sentence: `install it with «apt install puppet»`."""
    version: tuple[str, ...] = ("--version",)
    """Arguments with which it prints its version."""


def find(program: Program, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the beginning of the command line: the program's absolute path, and its first arguments if it has any.

    The program is looked up in the PATH of `environment`, next to our own interpreter (in a virtual environment, it
    may be installed there), and then in the folders of its packages. Raises MissingTool.
    """
    for command in every(program, environment):
        return command
    raise missing(program, environment)


def every(program: Program, environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield the beginning of a command line, as `find` returns it, for each installed name of the program."""
    import shlex  # noqa: PLC0415  # slow to load, and scripts need no program
    import shutil  # noqa: PLC0415

    named = _named(program, environment)
    for name in (named,) if named else program.names:
        try:
            first, *rest = [name] if os.access(name, os.X_OK) else shlex.split(name) or [name]
        except ValueError:  # a quotation mark is missing
            first, rest = name, []
        path = shutil.which(first, path=_path(program, environment))
        if path is not None:
            yield (str(Path(path).absolute()), *rest)


def missing(program: Program, environment: Mapping[str, str]) -> MissingTool:
    """Return the error that says that a program is not installed, and how to install it."""
    named = _named(program, environment)
    wanted = f"{named} (${program.variable})" if named else " or ".join(program.names)
    return MissingTool(f"{wanted} is not installed; {program.install}")


def _named(program: Program, environment: Mapping[str, str]) -> str:
    return environment.get(program.variable, "") if program.variable else ""


def _path(program: Program, environment: Mapping[str, str]) -> str:
    path = environment.get("PATH") or os.defpath
    return os.pathsep.join((path, str(Path(sys.executable).parent), *program.folders))


def cannot_start(path: str) -> str:
    """Return why the kernel does not start an executable file, and what to do; empty if no reason is apparent.

    Raises OSError if the file cannot be read now.
    """
    try:
        if not os.access(path, os.X_OK):
            return f"it is not executable; make it so with «chmod +x {path}»"
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            first = file.readline(256) or b""  # None if it is a pipe without data
    except (FileNotFoundError, PermissionError) as error:
        return error.strerror or str(error)
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    interpreter = os.fsdecode(words[0]) if words else ""
    return f"its interpreter {interpreter} does not exist" if interpreter and not os.path.exists(interpreter) else ""  # noqa: PTH110

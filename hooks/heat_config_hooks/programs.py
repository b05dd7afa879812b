"""The programs that hooks drive: finds them on this machine, or says how to install them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from heat_config_hooks.errors import MissingTool
from heat_config_hooks.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Packages:
    """The packages in which a program is, by the command that installs them; as text, the way for this machine."""

    apt: str = ""
    """The package of Debian and Ubuntu."""
    dnf: str = ""
    """The package of Fedora and Red Hat."""
    zypper: str = ""
    """The package of SUSE."""
    pip: str = ""
    """The package for pip, where the distribution has none."""
    other: str = ""
    """Another way."""
    object: str = "it"
    """The object of the sentence: `one` of several programs."""

    def __str__(self) -> str:
        names = {"apt": self.apt, "dnf": self.dnf, "zypper": self.zypper}
        manager = _manager()
        if name := names.get(manager):
            ways = [f"with «{manager} install {name}»"]
        elif self.pip:
            ways = [f"with «pip install {self.pip}»"]
        else:
            ways = [f"from your distribution's package {self.apt}"]
        return f"install {self.object} {', or '.join([*ways, *filter(None, [self.other])])}"


RELEASE = "/etc/os-release"
"""The file that names the distribution."""

_MANAGERS = {
    **dict.fromkeys(("debian", "ubuntu"), "apt"),
    **dict.fromkeys(("fedora", "rhel", "centos"), "dnf"),
    **dict.fromkeys(("suse", "opensuse", "sles"), "zypper"),
}
"""Distribution, as `ID` and `ID_LIKE` name it → the command that installs its packages."""


def _manager() -> str:
    """Return the command that installs the packages of this machine's distribution; empty if it is not known."""
    try:
        with open(RELEASE, encoding="utf-8", errors="replace") as file:
            lines = [line.strip().partition("=") for line in file]
    except OSError:
        return ""
    values = {name: value.strip("\"'") for name, _, value in lines}
    words = [*values.get("ID", "").split(), *values.get("ID_LIKE", "").split()]
    return next((_MANAGERS[word] for word in words if word in _MANAGERS), "")


@dataclass(frozen=True, kw_only=True)
class Module:
    """A Python module that a hook loads."""

    name: str
    package: str
    """The name by which people know it."""
    purpose: str
    """The reason, as the end of a sentence: `runs ansible-playbook`."""
    install: str | Packages
    """See `Program.install`."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that a hook drives."""

    names: tuple[str, ...]
    """Its possible names, in the order of preference; a name may include first arguments: `docker compose`."""
    variable: str = ""
    """The variable that names another program, e.g. `HEAT_PUPPET_CMD`: a path, a name, or a command line."""
    folders: tuple[str, ...] = ()
    """Folders outside the usual PATH where its own packages install it."""
    install: str | Packages
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


def every(
    program: Program, environment: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """Yield the beginning of a command line, as `find` returns it, for each installed name of the program."""
    import shlex  # noqa: PLC0415  # slow to load, and scripts need no program
    import shutil  # noqa: PLC0415

    named = _named(program, environment)
    for name in (named,) if named else program.names:
        try:
            first, *rest = (
                [name] if os.access(name, os.X_OK) else shlex.split(name) or [name]
            )
        except ValueError:  # a quotation mark is missing
            first, rest = name, []
        path = shutil.which(first, path=_path(program, environment))
        if path is not None:
            yield (str(Path(path).absolute()), *rest)


def is_here(need: Program | Module, environment: Mapping[str, str]) -> bool:
    """Return whether a program or a module is installed."""
    if isinstance(need, Program):
        return next(every(need, environment), None) is not None
    import importlib.util  # noqa: PLC0415  # looking for a module takes much less time than loading it

    return importlib.util.find_spec(need.name) is not None


def missing(need: Program | Module, environment: Mapping[str, str]) -> MissingTool:
    """Return the error that says that a program or a module is not installed, and how to install it."""
    purpose = f", which {need.purpose}," if isinstance(need, Module) else ""
    return MissingTool(
        f"{title(need, environment)}{purpose} is not installed; {need.install}"
    )


def title(need: Program | Module, environment: Mapping[str, str]) -> str:
    """Return the name of a program, or its names, or that of a module's package."""
    if isinstance(need, Module):
        return need.package
    named = _named(need, environment)
    return f"{named} (${need.variable})" if named else " or ".join(need.names)


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
        with open(
            os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as file:
            first = file.readline(256) or b""  # None if it is a pipe without data
    except (FileNotFoundError, PermissionError) as error:
        return error.strerror or str(error)
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    interpreter = os.fsdecode(words[0]) if words else ""
    return (
        f"its interpreter {interpreter} does not exist"
        if interpreter and not os.path.exists(interpreter)  # noqa: PTH110
        else ""
    )

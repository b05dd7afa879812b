"""What the files of a unit say, as far as it matters here. They can be read where no systemd runs, too."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_agent.migration import Unit

FOLDERS = (
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
)
"""Where systemd looks for units; what is found first counts."""

_PLAIN = frozenset(
    {"ExecStart", "ExecStop", "ExecReload", "Environment", "EnvironmentFile", "KillMode", "Type", "PIDFile"}
    | {"Restart", "RestartSec", "RemainAfterExit", "TimeoutSec", "TimeoutStartSec", "TimeoutStopSec"}
    | {"StandardOutput", "StandardError", "SyslogIdentifier", "SuccessExitStatus", "NotifyAccess"}
    | {"GuessMainPID", "IgnoreSIGPIPE", "SourcePath"}
)
"""What a service may say that makes no difference to what is run by it, or that is looked at here."""


def names(root: Path) -> list[str]:
    """Return the names of all services that there are files of, without those that are another's second name."""
    found: set[str] = set()
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            found.update(each for each in os.listdir(root / folder) if each.endswith(".service") and "@" not in each)
    return sorted(each for each in found if not _is_second_name(root, each))


def where(root: Path, name: str) -> Path | None:
    """Return the file of a unit, if there is one."""
    return next((root / each / name for each in FOLDERS if os.path.lexists(root / each / name)), None)


def read(root: Path, name: str) -> Unit | None:
    """Return what a unit says; None where there is none of that name."""
    path = where(root, name)
    if path is None:
        return None
    if _name_of(path) == "null":  # a link to /dev/null
        return Unit(name=name, path=path, masked=True)
    added: dict[str, Path] = {}
    for folder in reversed(FOLDERS):
        with contextlib.suppress(OSError):
            added |= {each.name: each for each in (root / folder / f"{name}.d").iterdir() if each.suffix == ".conf"}
    return parse(name, path, [_text(each) for each in (path, *(added[each] for each in sorted(added)))])


def parse(name: str, path: Path, texts: Iterable[str]) -> Unit:
    """Return what the files of a unit say, each of which adds to those before it."""
    said: dict[str, list[str]] = {}
    for key, value in (each for text in texts for each in _directives(text)):
        if not value:  # it takes back what was said before
            said.pop(key, None)
        else:
            said.setdefault(key, []).append(value)
    pairs = [each.partition("=") for line in said.get("Environment", ()) for each in words(line)]
    rest = [key for key in said if key not in _PLAIN and not key.startswith("X-")]
    return Unit(
        name=name,
        path=path,
        commands=tuple(tuple(words(each.lstrip("@-:+!|"))) for each in said.get("ExecStart", ())),
        variables={key: value for key, sign, value in pairs if sign},
        variable_files=tuple(said.get("EnvironmentFile", ())),
        kill=said.get("KillMode", ["control-group"])[-1],
        rest=tuple(rest),
    )


def runs(unit: Unit, program: str) -> bool:
    """Whether a unit starts a program, by itself or through a shell."""
    return any(
        os.path.basename(each) == program  # noqa: PTH119  # it may be any text
        for command in unit.commands
        for word in command
        for each in word.split()
    )


def arguments(unit: Unit, program: str) -> list[str]:
    """Return what a unit gives to a program that it starts, by itself or in a line of a shell."""
    for command in unit.commands:
        said = [each for word in command for each in word.split()] if command[1:2] == ("-c",) else list(command)
        for position, word in enumerate(said):
            if os.path.basename(word) == program:  # noqa: PTH119  # it may be any text
                return list(itertools.takewhile(lambda each: not set(each) & set("|&;<>"), said[position + 1 :]))
    return []


def variables(root: Path, unit: Unit) -> dict[str, str]:
    """Return all that a unit adds to the environment, its files included."""
    found = dict(unit.variables)
    for each in unit.variable_files:
        for line in _text(root / each.lstrip("-").lstrip("/")).splitlines():
            name, sign, value = line.strip().partition("=")
            if sign and not name.startswith(("#", ";")):
                found[name.strip()] = " ".join(words(value))
    return found


def drop_in(variables: Mapping[str, str]) -> str:
    """Return the text that hands variables on to another unit."""
    lines = ["# What the unit of os-collect-config said of the environment, taken over by its successor.", "[Service]"]
    return (
        "\n".join([*lines, *(f"Environment={_quoted(f'{each}={variables[each]}')}" for each in sorted(variables))])
        + "\n"
    )


def _quoted(text: str) -> str:
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        text = text.replace(plain, written)
    return f'"{text}"'


def _is_second_name(root: Path, name: str) -> bool:
    """Whether a unit's file is a link to another unit's."""
    path = where(root, name)
    own = [(root / each).resolve() for each in FOLDERS]
    return path is None or (path.resolve().name != name and path.resolve().parent in own)


def _name_of(path: Path) -> str:
    """Return the name of the file that a path leads to."""
    return path.resolve().name


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _directives(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is said of the service: its lines may go on in the next."""
    section, begun = "", ""
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";")):
            continue
        begun += line.strip()
        if begun.endswith("\\"):
            begun = f"{begun[:-1]} "
            continue
        whole, begun = begun, ""
        if whole.startswith("["):
            section = whole.strip("[]")
        key, sign, value = whole.partition("=")
        if section == "Service" and sign:
            yield key.strip(), value.strip()


def words(text: str) -> list[str]:
    """Return the words of a command or a setting: systemd quotes nearly as a shell does."""
    try:
        return [each.replace("%%", "%") for each in shlex.split(text)]
    except ValueError:
        return text.split()

"""Reading the files of systemd units, as far as the migration needs them; systemd need not run."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_agent.migration import Unit
from heat_config_hooks import files

FOLDERS = (
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
)
"""The folders in which systemd looks for units, in order of precedence."""

_PLAIN = frozenset(
    {
        "ExecStart",
        "ExecStop",
        "ExecReload",
        "Environment",
        "EnvironmentFile",
        "KillMode",
        "Type",
        "PIDFile",
    }
    | {
        "Restart",
        "RestartSec",
        "RemainAfterExit",
        "TimeoutSec",
        "TimeoutStartSec",
        "TimeoutStopSec",
    }
    | {
        "StandardOutput",
        "StandardError",
        "SyslogIdentifier",
        "SuccessExitStatus",
        "NotifyAccess",
    }
    | {"GuessMainPID", "IgnoreSIGPIPE", "SourcePath"}
)
"""Keys of [Service] that do not affect the processes of a unit, or that the migration reads."""


def names(root: Path) -> list[str]:
    """Return the names of all services with a file, without aliases of other services."""
    services: set[str] = set()
    for folder in FOLDERS:
        with contextlib.suppress(OSError):
            services.update(
                name
                for name in os.listdir(root / folder)
                if name.endswith(".service") and "@" not in name
            )
    return sorted(name for name in services if not _is_alias(root, name))


def path_of(root: Path, name: str) -> Path | None:
    """Return the file of a unit, if there is one."""
    return next(
        (
            root / folder / name
            for folder in FOLDERS
            if os.path.lexists(root / folder / name)
        ),
        None,
    )


def read(root: Path, name: str) -> Unit | None:
    """Return a unit as its files describe it; None if there is none of that name."""
    path = path_of(root, name)
    if path is None:
        return None
    if _name_of(path) == "null":  # a link to /dev/null
        return Unit(name=name, path=path, masked=True)
    added: dict[str, Path] = {}
    for folder in reversed(FOLDERS):
        with contextlib.suppress(OSError):
            added |= {
                each.name: each
                for each in (root / folder / f"{name}.d").iterdir()
                if each.suffix == ".conf"
            }
    return parse(
        name,
        path,
        [_text(each) for each in (path, *(added[each] for each in sorted(added)))],
    )


def parse(name: str, path: Path, texts: Iterable[str]) -> Unit:
    """Return a unit from the texts of its files; each text adds to the ones before it."""
    values: dict[str, list[str]] = {}
    for key, value in (directive for text in texts for directive in _directives(text)):
        if not value:  # an empty value clears the list
            values.pop(key, None)
        else:
            values.setdefault(key, []).append(value)
    pairs = [
        word.partition("=")
        for line in values.get("Environment", ())
        for word in words(line)
    ]
    rest = [key for key in values if key not in _PLAIN and not key.startswith("X-")]
    return Unit(
        name=name,
        path=path,
        commands=tuple(
            tuple(words(line.lstrip("@-:+!|"))) for line in values.get("ExecStart", ())
        ),
        variables={key: value for key, sign, value in pairs if sign},
        variable_files=tuple(values.get("EnvironmentFile", ())),
        kill=values.get("KillMode", ["control-group"])[-1],
        rest=tuple(rest),
    )


def runs(unit: Unit, program: str) -> bool:
    """Return whether a unit starts a program, directly or through a shell."""
    return any(
        os.path.basename(each) == program  # noqa: PTH119  # it may be any text
        for command in unit.commands
        for word in command
        for each in word.split()
    )


def arguments(unit: Unit, program: str) -> list[str]:
    """Return the arguments of a program that a unit starts, directly or through a shell."""
    for command in unit.commands:
        line = (
            [part for word in command for part in word.split()]
            if command[1:2] == ("-c",)
            else list(command)
        )
        for position, word in enumerate(line):
            if os.path.basename(word) == program:  # noqa: PTH119  # it may be any text
                return list(
                    itertools.takewhile(
                        lambda part: not set(part) & set("|&;<>"), line[position + 1 :]
                    )
                )
    return []


def variables(root: Path, unit: Unit) -> dict[str, str]:
    """Return the variables of a unit, including those in its files."""
    variables = dict(unit.variables)
    for path in unit.variable_files:
        for line in _text(root / path.lstrip("-").lstrip("/")).splitlines():
            name, sign, value = line.strip().partition("=")
            if sign and not name.startswith(("#", ";")):
                variables[name.strip()] = " ".join(words(value))
    return variables


def drop_in(variables: Mapping[str, str]) -> str:
    """Return a drop-in that sets variables for a unit."""
    lines = [
        "# Variables of the unit of os-collect-config, taken over by heat-config-agent migrate.",
        "[Service]",
    ]
    return (
        "\n".join(
            [
                *lines,
                *(
                    f"Environment={_quoted(f'{each}={variables[each]}')}"
                    for each in sorted(variables)
                ),
            ]
        )
        + "\n"
    )


def _quoted(text: str) -> str:
    for plain, written in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("%", "%%")):
        text = text.replace(plain, written)
    return f'"{text}"'


def _is_alias(root: Path, name: str) -> bool:
    """Return whether the file of a unit is a link to the file of another unit."""
    path = path_of(root, name)
    own = [(root / each).resolve() for each in FOLDERS]
    return path is None or (
        path.resolve().name != name and path.resolve().parent in own
    )


def _name_of(path: Path) -> str:
    """Return the name of the file to which a path resolves."""
    return path.resolve().name


def _text(path: Path) -> str:
    try:
        return files.read(path, files.LARGEST).decode(errors="replace")
    except OSError:
        return ""


def _directives(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of the [Service] section; a backslash continues a line."""
    section, pending = "", ""
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";")):
            continue
        pending += line.strip()
        if pending.endswith("\\"):
            pending = f"{pending[:-1]} "
            continue
        whole, pending = pending, ""
        if whole.startswith("["):
            section = whole.strip("[]")
        key, sign, value = whole.partition("=")
        if section == "Service" and sign:
            yield key.strip(), value.strip()


def words(text: str) -> list[str]:
    """Return the words of a command or a setting; systemd's quoting is close to a shell's."""
    try:
        return [each.replace("%%", "%") for each in shlex.split(text)]
    except ValueError:
        return text.split()

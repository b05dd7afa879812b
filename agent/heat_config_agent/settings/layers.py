"""Reads the settings of one place: a file, or Heat's metadata. Pure, except for reading the file.

The agent's own files (`/etc/heat-config-agent/*.conf`) and os-collect-config's file have the same form, and their
sections of sources have the same names and keys, so one reader serves both. A file with a section `[agent]` is the
agent's own: in it, an unknown name is a mistake. In os-collect-config's file, names that only that program uses are
ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent.model.deployment import Mistake
from heat_config_agent.model.errors import UsageError
from heat_config_agent.settings import kinds
from heat_config_agent.settings.kinds import Setting
from heat_config_agent.settings.schema import (
    COLLECTORS,
    KNOWN,
    SECTIONS,
    SETTINGS,
    TRANSPORTS,
    declared,
)
from heat_config_hooks import files
from heat_config_hooks.values import dataclass, field

_SHOWN = 200
"""The most characters of a name or a value that a message repeats."""

THEIRS = frozenset(
    {
        "command",
        "cachedir",
        "backup_cachedir",
        "print_cachedir",
        "one_time",
        "force",
        "print",
        "deployment_key",
    }
    | {
        "config_file",
        "config_dir",
        "config_source",
        "debug",
        "verbose",
        "default_log_levels",
        "fatal_deprecations",
    }
    | {
        "publish_errors",
        "rate_limit_burst",
        "rate_limit_except_level",
        "rate_limit_interval",
        "watch_log_file",
    }
    | {"instance_format", "instance_uuid_format", "syslog_log_facility", "timeout"}
)
"""Options of os-collect-config and oslo.log that the agent does not use."""

_THEIR_BEGINNINGS = ("log_", "logging_", "use_", "max_logfile", "shell_completion")
"""The beginnings of the names of further such options."""

Sections = Mapping[str, Mapping[str, object]]
"""Section → name → value, whose type depends on the kind of the setting."""


@dataclass(frozen=True)
class Layer:
    """The settings of one place."""

    origin: str
    """The place: a file, the metadata, …"""
    sections: Sections = field(repr=False)
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The line of each setting, if the place is a file."""
    mistakes: tuple[Mistake, ...] = ()
    """The mistakes in it. A setting with a mistake does not count."""
    ignored: tuple[str, ...] = ()
    """The options of os-collect-config that the agent does not use, as `[section] name`."""
    own: bool = False
    """True if it is a file in the agent's own form, in which a mistake is an error."""
    wrong: tuple[str, ...] = ()
    """The names with mistakes, as they are written."""

    def get(self, section: str, name: str) -> object:
        """Return a value; None if the place does not set it."""
        return self.sections.get(section, {}).get(name)

    def origin_of(self, section: str, name: str) -> str:
        """Return the place of a setting, with its line in a file."""
        line = self.lines.get((section, name))
        return f"{self.origin}, line {line}" if line else self.origin


def file(path: Path, *, own: bool = False, refused: list[str] | None = None) -> Layer:
    """Return the settings of a file: the agent's own with `own`, `[agent]` or `[follow …]`, else os-collect-config's.

    Raises UsageError; with a list `refused`, lines of another form are reported there instead, and skipped.
    """
    try:
        text = files.text_of(files.take(path))
    except OSError as error:
        raise UsageError(
            f"cannot read the settings in {path}: {error.strerror}"
        ) from error
    wrong: list[str] = []

    def refuse(line: int, name: str, problem: str) -> None:
        sentence = f"cannot read the settings in {path}: line {line}: {problem}"
        if refused is None:
            raise UsageError(sentence)
        refused.append(sentence)
        wrong.append(name)

    lines_read = list(_parse(text, refuse))
    own = own or any(
        section == "agent" or declared(section) != section for section, *_ in lines_read
    )
    sections: dict[str, dict[str, object]] = {}
    lines: dict[tuple[str, str], int] = {}
    mistakes = _repeated(text)
    ignored: list[str] = []
    several: dict[tuple[str, str], list[str]] = {}
    for section, name, value, line in lines_read:
        place = "agent" if section == "DEFAULT" and not own else section
        setting = KNOWN.get((declared(place), name))
        if (
            setting is None
            or not _is_named(section)
            or (section == "DEFAULT" and not setting.shared)
        ):
            problem = _unknown(section, name) if own else _misspelt(section, name)
            if problem and not any(mistake.problem == problem for mistake in mistakes):
                mistakes.append(Mistake(path=f"line {line}", problem=problem))
            elif not problem:
                ignored.append(f"[{section}] {name}")
            wrong.append(name)
            continue
        lines.setdefault((place, name), line)
        several.setdefault((place, name), []).append(value)
    for (place, name), values in several.items():
        setting = KNOWN[declared(place), name]
        try:
            sections.setdefault(place, {})[name] = _read(
                setting, _one(setting, values), strict=own
            )
        except ValueError as error:
            mistakes.append(
                Mistake(path=f"line {lines[place, name]}", problem=f"{name}: {error}")
            )
            wrong.append(name)
    if not own:
        named = sections.get("agent", {}).get("collectors", ())
        for collector in named if isinstance(named, tuple) else ():
            if collector not in COLLECTORS:
                problem = f"collectors: {_no_source(collector)}"
                mistakes.append(
                    Mistake(
                        path=f"line {lines['agent', 'collectors']}", problem=problem
                    )
                )
    mistakes.sort(key=lambda mistake: int(mistake.path.removeprefix("line ")))
    return Layer(
        str(path), sections, lines, tuple(mistakes), tuple(ignored), own, tuple(wrong)
    )


def _repeated(text: str) -> list[Mistake]:
    """Return a mistake for each section `[follow NAME]` that a file has twice: one source would hide the other."""
    lines: dict[str, int] = {}
    mistakes = []
    for number, line in enumerate(text.splitlines(), 1):
        if line[:1] != "[" or not line.rstrip().endswith("]"):
            continue
        section = " ".join(line.strip()[1:-1].split())
        if section.startswith("follow ") and section in lines:
            problem = f"[{section}] is there twice: first in line {lines[section]}; give one of them another name"
            mistakes.append(Mistake(path=f"line {number}", problem=problem))
        lines.setdefault(section, number)
    return mistakes


def metadata(content: object, origin: str) -> Layer:
    """Return the settings in a document under `os-collect-config`. Null unsets a value, and mistakes are skipped."""
    content = content.get("os-collect-config") if isinstance(content, Mapping) else None
    if content is None:
        return Layer(origin, {})
    if not isinstance(content, Mapping):
        return Layer(
            origin,
            {},
            mistakes=(Mistake(path="os-collect-config", problem="expected an object"),),
        )
    sections: dict[str, dict[str, object]] = {}
    mistakes: list[Mistake] = []
    for section, name, path, value in _of_metadata(content):
        known = KNOWN.get((section, name))
        if known is None or value is None or (section == "agent" and not known.shared):
            continue
        try:
            sections.setdefault(section, {})[name] = _read(known, value)
        except ValueError as error:
            mistakes.append(Mistake(path=path, problem=str(error)))
    return Layer(origin, sections, mistakes=tuple(mistakes))


def _of_metadata(
    content: Mapping[str, object],
) -> Iterator[tuple[str, str, str, object]]:
    """Yield the section, name, path and value of each setting."""
    for key, value in content.items():
        if key in TRANSPORTS and isinstance(value, Mapping):
            for name, inner in value.items():
                yield key, str(name), f"os-collect-config.{key}.{name}", inner
        elif not isinstance(value, Mapping):
            yield "agent", str(key), f"os-collect-config.{key}", value


def general(text: str) -> dict[str, str]:
    """Return all of `[DEFAULT]` in the text of os-collect-config's file, including options only for that program."""
    return {
        name: value
        for section, name, value, _ in _parse(text, lambda *_: None)
        if section == "DEFAULT"
    }


def merged(layers: Iterable[Layer], origin: str) -> Layer:
    """Return the settings of several places together; an earlier place takes precedence."""
    sections: dict[str, dict[str, object]] = {}
    for layer in layers:
        for name, values in layer.sections.items():
            sections[name] = {**values, **sections.get(name, {})}
    return Layer(origin, sections)


def _parse(
    text: str, refuse: Callable[[int, str, str], None]
) -> Iterator[tuple[str, str, str, int]]:
    """Yield the section, name, value and line number of each setting in a file, in its order.

    The form is oslo.config's: `name = value` or `name: value`; names may be repeated, and a line that begins with a
    space continues the value before it. For a line of another form, `refuse` is called with the line number, the name
    and the problem.
    """
    section, name, value, start = "", "", "", 0
    homeless = False
    for number, line in enumerate(text.splitlines(), 1):
        if name and line[:1].isspace() and line.strip():
            value += f"\n{line.strip()}"
            continue
        if name:
            yield section, name, _unquoted(value), start
            name = ""
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped[0] == "[":
            if not stripped.endswith("]"):
                refuse(number, "", "the ']' at the end of the section is missing")
            section = " ".join(stripped[1:].removesuffix("]").split())
            continue
        at = min(
            (place for place in (stripped.find("="), stripped.find(":")) if place > 0),
            default=-1,
        )
        word = stripped[: max(at, 0)].strip().replace("-", "_")
        if at < 0 or (not section and not re.fullmatch(_NAME, word)):
            refuse(
                number,
                stripped.split()[0],
                "expected «name = value»" if section else _BEGIN,
            )
            continue
        if not section:
            if not homeless or word == "state_dir":
                refuse(
                    number,
                    word,
                    f"«{_short(word)}» is before the first section: begin with {_home(word)}",
                )
            homeless = True
            continue
        name, value, start = word, stripped[at + 1 :].strip(), number
    if name:
        yield section, name, _unquoted(value), start


_NAME = r"[\w.]+"

_BEGIN = "expected a section such as [agent], and below it «name = value»"


def _home(name: str) -> str:
    """Return the section to which a setting outside any section belongs."""
    sections = [row.section for row in SETTINGS if row.name == name]
    return (
        f"[{sections[0]}]"
        if sections
        else "[DEFAULT]"
        if name in THEIRS
        else "a section such as [agent]"
    )


def _unquoted(value: str) -> str:
    quoted = (
        len(value) > 1
        and value[0] in "\"'"
        and value.find(value[0], 1) == len(value) - 1
    )
    return value[1:-1] if quoted else value  # several quoted words keep their quotes


def _one(known: Setting, values: Sequence[str]) -> object:
    """Return the value of a name that may be repeated: all its values for a list, else the last one."""
    return (
        list(values)
        if known.kind in (kinds.WORDS, kinds.LINES, kinds.PATHS)
        else values[-1]
    )


def _misspelt(section: str, name: str) -> str:
    """Return the problem with an unknown name in os-collect-config's file; empty if it is an option of that program."""
    if name in THEIRS or name.startswith(_THEIR_BEGINNINGS):
        return ""
    if section != "DEFAULT":
        close = section in SECTIONS or similar(section, [*SECTIONS, "DEFAULT"])
        return _unknown(section, name) if close else ""
    if ("agent", name) in KNOWN:
        return f"{name!r} is a setting of [agent], not of [DEFAULT]"
    shared = [row.name for row in SETTINGS if row.shared]
    close = similar(name, [*shared, *THEIRS])
    return (
        f"there is no setting {_short(name)!r} in [DEFAULT]; did you mean {close}?"
        if close
        else ""
    )


def similar(name: str, names: Iterable[str]) -> str:
    """Return the name that a misspelt one may have been meant to be; empty if none is close."""
    from heat_config_hooks.words import closest  # noqa: PLC0415  # few names are misspelt

    return closest(name, names)


def _no_source(name: str) -> str:
    close = similar(name, COLLECTORS)
    return f"there is no source {_short(name)!r}; {f'did you mean {close}?' if close else f'the sources are {_LIST}'}"


_LIST = ", ".join(COLLECTORS)


def _is_named(section: str) -> bool:
    """Return whether the name in a section is valid, if it has one."""
    if declared(section) == section:
        return True
    from heat_config_agent.diagnostics.names import LONGEST_FOLLOWED, is_stack_name  # noqa: PLC0415  # few stacks follow

    return is_stack_name(section.removeprefix("follow "), LONGEST_FOLLOWED)


def _unknown(section: str, name: str) -> str:
    if not _is_named(section):
        from heat_config_agent.diagnostics.names import LONGEST_FOLLOWED, rule  # noqa: PLC0415

        return f"a stack cannot have the name in [{_short(section)}]: a name {rule(LONGEST_FOLLOWED)}"
    section = declared(section)
    if section == "DEFAULT":
        return "[DEFAULT] is for os-collect-config's file: in a file with [agent], put the setting there"
    if section not in SECTIONS:
        close = similar(section, SECTIONS)
        return f"there is no section [{_short(section)}]{f'; did you mean [{close}]?' if close else ''}"
    names = [row.name for row in SETTINGS if row.section == section]
    close = similar(name, names)
    hint = f"did you mean {close}?" if close else f"it has {', '.join(sorted(names))}"
    return f"there is no setting {_short(name)!r} in [{section}]; {hint}"


def _read(setting: Setting, value: object, *, strict: bool = False) -> object:
    """Return the value of a setting by its kind. Raises ValueError with the expected form.

    Without `strict`, unknown collectors are accepted, because os-collect-config may have more of them.
    """
    result = setting.kind.read(value)
    words = result if isinstance(result, tuple) else (result,)
    allowed = setting.choices if strict or setting.name != "collectors" else ()
    if result is None or (allowed and not all(word in allowed for word in words)):
        unknown = (
            [word for word in words if word not in allowed]
            if setting.name == "collectors" and result
            else []
        )
        if unknown:
            raise ValueError(_no_source(str(unknown[0])))
        shown = _short(repr(value))
        # Part of a URL or of a variable may be a secret.
        hidden = (
            setting.secret
            or setting.name.endswith("_url")
            or setting.name == "environment"
        )
        raise ValueError(
            f"expected {setting.expected}, not {'this value' if hidden else shown}"
        )
    return result


def _short(text: str) -> str:
    """Return text as a message repeats it: of long text, the beginning."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


Files = tuple[tuple["Layer", ...], "Layer | None"]
"""The agent's own files, in order of precedence, and the file of os-collect-config, if there is one."""


def machine(own: Path, other: Path, mistakes: list[str] | None) -> Files:
    """Return the settings in the default places: `*.conf` in the folder `own`, and the file `other`.

    Raises UsageError; with a list of `mistakes`, they are added to it instead, and so in the functions below.
    """
    try:
        names = sorted(os.listdir(own), reverse=True)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        names = []
    own_layers = tuple(
        _layer(own / name, mistakes, own=True)
        for name in names
        if name.endswith(".conf")
    )
    return own_layers, _layer(other, mistakes) if other.exists() else None


def only(path: Path, mistakes: list[str] | None) -> Files:
    """Return the settings in a single file, which is in the form of the agent's own files or of os-collect-config's."""
    layer = _layer(path, mistakes)
    return ((layer,), None) if layer.own else ((), layer)


def _layer(path: Path, mistakes: list[str] | None, *, own: bool = False) -> Layer:
    try:
        return file(path, own=own, refused=mistakes)
    except UsageError as error:
        refuse(error, mistakes)
        # an unreadable file may set any state_dir
        return Layer(str(path), {}, own=own, wrong=("state_dir",))


def refuse(error: UsageError, mistakes: list[str] | None) -> None:
    """Raise the error; with a list of `mistakes`, add it to the list instead, in one line."""
    if mistakes is None:
        raise error
    mistakes.append(str(error).replace("\n", " "))

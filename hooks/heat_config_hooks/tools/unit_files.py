"""The config of the `systemd-unit` hook: names and texts of unit files and drop-ins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from heat_config_hooks import protocol, strict_json, strict_yaml
from heat_config_hooks.errors import HookError

_TYPES = "service|socket|target|mount|automount|swap|timer|path|slice"
_NAME = re.compile(rf"(?!\.)[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\@-]*)?\.({_TYPES})")
"""A unit's name as in systemd.unit(5), of a type that has unit files."""
_DROP_IN = re.compile(rf"({_NAME.pattern})\.d/[A-Za-z0-9_][A-Za-z0-9_.@-]*\.conf")
_LONGEST = 255
_SECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_SETTING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_INSTALL = re.compile(r"^\[Install\]\s*$", re.MULTILINE)
_EXPECTED = "expected a map from names of units to units; for the text of a single unit, set options.name to its name"


def read(request: protocol.Request) -> dict[str, str]:
    """Return the files of a config: name in the unit folder → text. Raises HookError."""
    config, name = request.config, request.options["name"]
    if config is None or (isinstance(config, str) and not config.strip()):
        return {}
    units = {str(name): config} if name else _map(config) if isinstance(config, str) else config
    if not isinstance(units, Mapping):
        raise HookError(_EXPECTED, "config")
    path = "options.name" if name else "config"
    return {_checked(file, path): _text(file, unit) for file, unit in units.items()}


def is_drop_in(name: str) -> bool:
    """Return whether a file is a drop-in, such as `web.service.d/10-limits.conf`."""
    return "/" in name


def unit_of(name: str) -> str:
    """Return the unit that a file is for."""
    return name.partition("/")[0].removesuffix(".d") if is_drop_in(name) else name


def is_service(name: str) -> bool:
    """Return whether a file is the unit file of a service."""
    return name.endswith(".service") and not is_drop_in(name)


def pattern(unit: str) -> str:
    """Return the pattern for systemctl that matches a unit, or all instances of a template."""
    prefix, at, instance = unit.partition("@")
    return f"{prefix}@*{instance}" if at and instance.startswith(".") and instance.count(".") == 1 else unit


def startable(units: Mapping[str, str]) -> set[str]:
    """Return the units that can be started by name: no drop-ins, and no templates."""
    return {name for name in units if not is_drop_in(name) and pattern(name) == name}


def installable(units: Mapping[str, str]) -> set[str]:
    """Return the units with an `[Install]` section, in the unit file or in a drop-in."""
    return {unit_of(name) for name, text in units.items() if _INSTALL.search(text)}


def _map(text: str) -> object:
    try:
        return strict_json.loads(text)
    except ValueError:
        pass
    try:
        # All values are text: a mode of 0600 or a time of 10:30 must not become a number.
        return strict_yaml.loads(text, texts=True)
    except ValueError as error:
        raise HookError(f"{_EXPECTED}; the text is not valid YAML: {error}", "config") from error


def _checked(name: str, path: str) -> str:
    if len(name) > _LONGEST or not (_NAME.fullmatch(name) or _DROP_IN.fullmatch(name)):
        types = _TYPES.replace("|", ", ")
        problem = f"{name!r} is not the name of a unit (NAME.TYPE or NAME.TYPE.d/FILE.conf; TYPE is one of {types})"
        raise HookError(problem, path)
    return name


def _text(name: str, unit: object) -> str:
    path = f"config[{json.dumps(name)}]"
    if isinstance(unit, Mapping):
        lines = []
        for section, settings in unit.items():
            if not _SECTION.fullmatch(section):
                raise HookError(f"{section!r} is not a valid name of a section", path)
            if not isinstance(settings, Mapping) and settings not in (None, ""):
                raise HookError("expected a map of settings", f"{path}.{section}")
            lines += [f"[{section}]", *_assignments(settings or {}, f"{path}.{section}")]
        unit = "\n".join(lines)
    if not isinstance(unit, str):
        raise HookError("expected the text of a unit, or a map of its sections", path)
    text = unit.removeprefix("\ufeff").replace("\r\n", "\n").encode("utf-8", "replace").decode()
    if not text.strip() or "\0" in text:
        raise HookError("the text of a unit must not be empty or contain a NUL character", path)
    return text if text.endswith("\n") else f"{text}\n"


def _assignments(settings: Mapping[str, object], path: str) -> Iterator[str]:
    for key, value in settings.items():
        if not _SETTING.fullmatch(key):
            raise HookError(f"{key!r} is not a valid name of a setting", path)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping | list):
                raise HookError("expected text, a number, true or false, or a list of these", f"{path}.{key}")
            text = protocol.as_text(item).rstrip("\r\n")
            if "\n" in text or "\r" in text or text.endswith("\\"):
                problem = "a value must be one line, without a backslash at its end; use a list for several lines"
                raise HookError(problem, f"{path}.{key}")
            yield f"{key}={text}"

"""The configs of the hooks `systemd-unit` and `quadlet`: names and texts of unit files and drop-ins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from heat_config_hooks import protocol, strict_json, strict_yaml
from heat_config_hooks.errors import HookError

TYPES = (
    "service",
    "socket",
    "target",
    "mount",
    "automount",
    "swap",
    "timer",
    "path",
    "slice",
)
"""The types of units that have unit files."""
_NAME = r"(?!\.)[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\@-]*)?\.({types})"
"""A unit's name as in systemd.unit(5)."""
_DROP_IN = r"\.d/[A-Za-z0-9_][A-Za-z0-9_.@-]*\.conf"
_LONGEST = 255
_SECTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_SETTING = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_INSTALL = re.compile(r"^\[Install\]\s*$", re.MULTILINE)
_EXPECTED = "expected a map from names of units to units; for the text of a single unit, set options.name to its name"


def read(
    request: protocol.Request, types: Sequence[str] = TYPES, plain: Sequence[str] = ()
) -> dict[str, str]:
    """Return the files of a config: name in the unit folder → text. Raises HookError.

    The units are of these `types`. Files of the types `plain` are text of any form, without drop-ins.
    """
    config, name = request.config, request.options["name"]
    if config is None or (isinstance(config, str) and not config.strip()):
        return {}
    units = (
        {str(name): config}
        if name
        else _map(config)
        if isinstance(config, str)
        else config
    )
    if not isinstance(units, Mapping):
        raise HookError(_EXPECTED, "config")
    path = "options.name" if name else "config"
    return {
        _checked(file, path, types, plain): _text(file, unit, plain)
        for file, unit in units.items()
    }


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
    return (
        f"{prefix}@*{instance}"
        if at and instance.startswith(".") and instance.count(".") == 1
        else unit
    )


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
        raise HookError(
            f"{_EXPECTED}; the text is not valid YAML: {error}", "config"
        ) from error


def _checked(name: str, path: str, types: Sequence[str], plain: Sequence[str]) -> str:
    unit = rf"{_NAME.format(types='|'.join(types))}({_DROP_IN})?"
    other = _NAME.format(types="|".join(plain))
    if len(name) > _LONGEST or not (
        re.fullmatch(unit, name) or (plain and re.fullmatch(other, name))
    ):
        more = f", or NAME.{' or NAME.'.join(plain)}" if plain else ""
        kinds = f"NAME.TYPE or NAME.TYPE.d/FILE.conf{more}; TYPE is one of {', '.join(types)}"
        raise HookError(f"{name!r} is not the name of a unit ({kinds})", path)
    return name


def _text(name: str, unit: object, plain: Sequence[str]) -> str:
    path = f"config[{json.dumps(name)}]"
    if name.endswith(tuple(f".{type_}" for type_ in plain)):
        if not isinstance(unit, str):
            raise HookError("expected the text of the file", path)
    elif isinstance(unit, Mapping):
        lines = []
        for section, settings in unit.items():
            if not _SECTION.fullmatch(section):
                raise HookError(f"{section!r} is not a valid name of a section", path)
            if not isinstance(settings, Mapping) and settings not in (None, ""):
                raise HookError("expected a map of settings", f"{path}.{section}")
            lines += [
                f"[{section}]",
                *_assignments(settings or {}, f"{path}.{section}"),
            ]
        unit = "\n".join(lines)
    if not isinstance(unit, str):
        raise HookError("expected the text of a unit, or a map of its sections", path)
    text = (
        unit.removeprefix("\ufeff")
        .replace("\r\n", "\n")
        .encode("utf-8", "replace")
        .decode()
    )
    if not text.strip() or "\0" in text:
        raise HookError(
            "the text of a unit must not be empty or contain a NUL character", path
        )
    return text if text.endswith("\n") else f"{text}\n"


def _assignments(settings: Mapping[str, object], path: str) -> Iterator[str]:
    for key, value in settings.items():
        if not _SETTING.fullmatch(key):
            raise HookError(f"{key!r} is not a valid name of a setting", path)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping | list):
                raise HookError(
                    "expected text, a number, true or false, or a list of these",
                    f"{path}.{key}",
                )
            text = protocol.as_text(item).rstrip("\r\n")
            if "\n" in text or "\r" in text or text.endswith("\\"):
                problem = "a value must be one line, without a backslash at its end; use a list for several lines"
                raise HookError(problem, f"{path}.{key}")
            yield f"{key}={text}"

"""The `json-file` hook.

The config is a map from the path of a file to its data, or the JSON text of one; each file is written as JSON.

As heat-agents' hook of that name: sorted, indented by four, no newline at the end. Beside that the files are for nobody
else (option `mode`), whole or not there, and DELETE removes them while nobody has changed them. Nothing is run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from heat_config_hooks import protocol, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import Reply, nothing_done
from heat_config_hooks.written import Written, owner

ABOUT = protocol.About(
    config="an object: the path of each file, and its data",
    options={"mode": Option(Kind.TEXT, "permissions of the files, in octal", "0600")},
    variables=("HEAT_JSON_FILE_WORKING",),
    undoes=True,
    tested="real files",
)

_MODE = re.compile(r"0?[0-7]{3}")


def prepare(request: protocol.Request, place: protocol.Workplace) -> Reply:
    """Write the files, or remove them; say what was done."""
    kept, whose = Written(place.working), owner(request)
    if request.action == "DELETE":
        return kept.remove_all(_named(request.config), owner=whose)
    contents = _contents(_map(request.config))
    if not contents:
        return nothing_done("the config is empty: nothing was written")
    return kept.write_all(contents, owner=whose, mode=_mode(str(request.options["mode"])))


finish = protocol.collect


def as_json(data: object, path: str) -> bytes:
    """Return data in the form of heat-agents' files; `path` is where it is in the deployment. Raises HookError."""
    try:
        return json.dumps(data, indent=4, sort_keys=True, separators=(",", ": "), allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise HookError(f"it cannot be written as JSON: {error}", path) from None


def half_a_character(text: str) -> bool:
    """Whether there is half of a surrogate pair in a text, as JSON may have it and UTF-8 cannot."""
    return any("\ud800" <= each <= "\udfff" for each in text)


def _map(config: object) -> Mapping[str, object]:
    if isinstance(config, str):
        try:
            config = strict_json.loads(config) if config.strip() else {}
        except ValueError as error:
            raise HookError(f"expected an object, or the JSON text of one: {error}", "config") from None
    if not isinstance(config, Mapping) and config:
        raise HookError("expected an object: the path of each file, and its data", "config")
    return config if isinstance(config, Mapping) else {}


def _contents(config: Mapping[str, object]) -> dict[Path, bytes]:
    contents: dict[Path, bytes] = {}
    for name, data in config.items():
        path = _path(str(name))
        if path in contents:
            raise HookError(f"{path} is named twice", _at(name))
        contents[path] = as_json(data, _at(name))
    return contents


def _path(name: str) -> Path:
    if not name.startswith("/") or name.endswith("/") or "\0" in name:
        raise HookError("the name of a file has to be its whole path, e.g. /etc/app.json", _at(name))
    if half_a_character(name):
        raise HookError("there is half of a character in it, which the name of a file cannot have", _at(name))
    return Path(name)


def _at(name: str) -> str:
    """Return where the data of a file is in the deployment."""
    return f"config[{json.dumps(name)}]"


def _named(config: object) -> list[Path]:
    """Return the files that a config names; one with mistakes, which nobody can have written, names none."""
    try:
        return [_path(str(name)) for name in _map(config)]
    except HookError:
        return []


def _mode(text: str) -> int:
    if not _MODE.fullmatch(text):
        raise HookError(f'expected permissions in octal, e.g. "0644", not {text!r}', "options.mode")
    return int(text, 8)

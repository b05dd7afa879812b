"""The `json-file` hook: writes JSON files.

The config maps the path of each file to its data, or is the JSON text of such a map.

The files have the form of heat-agents' hook of the same name: sorted, indented by four, without a newline at the end.
Unlike there, only root can read them (option `mode`), a file is replaced as a whole,
and DELETE removes the files unless someone has changed them.
The hook runs no command.
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

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="an object: the path of each file, and its data",
    options={"mode": Option(Kind.TEXT, "permissions of the files, in octal", "0600")},
    variables=("HEAT_JSON_FILE_WORKING",),
    undoes=True,
    tested="real files",
)

_MODE = re.compile(r"0?[0-7]{3}")


def prepare(request: protocol.Request, place: protocol.Workplace) -> Reply:
    """Write or remove the files, and return the reply."""
    written = Written(place.working)
    if request.action == "DELETE":
        return written.remove_all(_paths(request.config), owner=owner(request))
    contents = _contents(_map(request.config))
    if not contents:
        return nothing_done("the config is empty: nothing was written")
    return written.write_all(
        contents, owner=owner(request), mode=_mode(str(request.options["mode"]))
    )


finish = protocol.collect


def verify(request: protocol.Request, place: protocol.Workplace) -> Verdict:
    """Return whether the files are as they were written."""
    return Written(place.working).verified(
        _contents(_map(request.config)),
        owner=owner(request),
        mode=_mode(str(request.options["mode"])),
    )


def as_json(data: object, path: str) -> bytes:
    """Return data in the form of heat-agents' files. Raises HookError with `path`, the data's place in the deployment.

    The form is sorted, indented by four, and has no newline at the end.
    """
    try:
        return json.dumps(
            data, indent=4, sort_keys=True, separators=(",", ": "), allow_nan=False
        ).encode()
    except (TypeError, ValueError) as error:
        raise HookError(f"it cannot be written as JSON: {error}", path) from None


def check_name(text: str, path: str) -> None:
    """Raise HookError if text cannot be part of a file: JSON may contain half of a surrogate pair, UTF-8 cannot."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise HookError(
            "it contains half of a surrogate pair, which cannot be written as UTF-8",
            path,
        )


def _map(config: object) -> Mapping[str, object]:
    if isinstance(config, str):
        try:
            config = strict_json.loads(config) if config.strip() else {}
        except ValueError as error:
            raise HookError(
                f"expected an object, or its JSON text: {error}", "config"
            ) from None
    if not isinstance(config, Mapping) and config:
        raise HookError(
            "expected an object: the path of each file, and its data", "config"
        )
    return config if isinstance(config, Mapping) else {}


def _contents(config: Mapping[str, object]) -> dict[Path, bytes]:
    contents: dict[Path, bytes] = {}
    for name, data in config.items():
        path = _path(str(name))
        if path in contents:
            raise HookError(f"{path} occurs twice", _place(name))
        contents[path] = as_json(data, _place(name))
    return contents


def _path(name: str) -> Path:
    if not name.startswith("/") or name.endswith("/") or "\0" in name:
        raise HookError(
            "expected the absolute path of a file, e.g. /etc/app.json", _place(name)
        )
    check_name(name, _place(name))
    return Path(name)


def _place(name: str) -> str:
    """Return the place of a file's data in the deployment."""
    return f"config[{json.dumps(name)}]"


def _paths(config: object) -> list[Path]:
    """Return the files of a config; none if it has mistakes, because then none can have been written."""
    try:
        return [_path(str(name)) for name in _map(config)]
    except HookError:
        return []


def _mode(text: str) -> int:
    if not _MODE.fullmatch(text):
        raise HookError(
            f'expected permissions in octal, e.g. "0644", not {text!r}', "options.mode"
        )
    return int(text, 8)

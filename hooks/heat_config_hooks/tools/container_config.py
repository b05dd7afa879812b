"""The config of the `docker-cmd` hook: which containers to run, in which order, and with which flags.

heat-agents' hook ignores keys that it does not know. So they are not mistakes here either; `ignored` names them.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from heat_config_hooks import protocol, strict_yaml
from heat_config_hooks.errors import HookError
from heat_config_hooks.values import dataclass
from heat_config_hooks.words import closest

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""The name of a container, as docker and podman define it."""


@dataclass(frozen=True, kw_only=True)
class ContainerConfig:
    """One entry of a config: a container to run, or a command to run in a container."""

    name: str
    action: str
    """`run` or `exec`."""
    image: str
    command: tuple[str, ...]
    """For `exec`, the first word is the name of the container."""
    exit_codes: tuple[int, ...]
    """Exit codes that count as success."""
    order: float
    environment: Mapping[str, str | None]
    """Variables; None takes the value from the environment of the hook."""
    flags: Mapping[str, tuple[str, ...]]
    """Flag → its values, in their order."""
    ignored: tuple[str, ...] = ()
    """A sentence for each key that has no effect, with its path."""


def read(config: object) -> list[ContainerConfig]:
    """Return the entries of a config, in the order in which they run. Raises HookError."""
    if isinstance(config, str):
        config = _from_yaml(config)
    if config is None:
        return []
    if not isinstance(config, Mapping):
        raise HookError(
            "expected a map from the name of each container to its settings", "config"
        )
    return sorted(
        (_entry(name, settings) for name, settings in config.items()),
        key=lambda entry: entry.order,
    )


def _from_yaml(text: str) -> object:
    try:
        return strict_yaml.loads(text)
    except ValueError as error:
        raise HookError(f"this text is not valid YAML: {error}", "config") from error


def _entry(name: object, settings: object) -> ContainerConfig:
    path = f"config.{name}"
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise HookError(
            "the name of a container consists of letters, digits, '_', '.' and '-'",
            path,
        )
    if not isinstance(settings, Mapping):
        raise HookError(
            "expected a map of settings, for example {image: …, command: …}", path
        )
    settings = {
        key: value
        for key, value in settings.items()
        if value is not None and value != ""
    }
    action = settings.get("action", "run")
    if not isinstance(action, str) or action not in _KEYS:
        raise HookError(f"expected run or exec, not {action!r}", f"{path}.action")
    values = {
        key: _READERS[key](value, f"{path}.{key}")
        for key, value in settings.items()
        if key in _READERS and key in _KEYS[action]
    }
    command: tuple[str, ...] = values.get("command", ())
    if action == "run" and "image" not in values:
        raise HookError("every container needs an image", f"{path}.image")
    if action == "exec" and (len(command) < 2 or not NAME.fullmatch(command[0])):
        raise HookError(
            "expected the name of a container, and the command to run in it",
            f"{path}.command",
        )
    return ContainerConfig(
        name=name,
        action=action,
        image=values.get("image", ""),
        command=command,
        exit_codes=values.get("exit_codes", (0,)),
        order=values.get("start_order", 0),
        environment=values.get("environment", {}),
        flags=_flags(action, values),
        ignored=tuple(_ignored(name, action, settings)),
    )


def _flags(action: str, values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    flags: dict[str, tuple[str, ...]] = {}
    if action == "run" and values.get("detach", True):
        flags["--detach"] = ("true",)
    for key in ("env_file", "publish", "volumes", "volumes_from"):
        flags[f"--{key.removesuffix('s').replace('_', '-')}"] = values.get(key, ())
    for key in ("net", "pid", "restart", "user"):
        if key in values:
            flags[f"--{key}"] = (values[key],)
    if "privileged" in values:
        flags["--privileged"] = (str(values["privileged"]).lower(),)
    return flags


def _ignored(
    name: str, action: str, settings: Mapping[object, object]
) -> Iterator[str]:
    """Yield a sentence for each key that has no effect."""
    for key in settings:
        if key not in _KEYS[action]:
            yield f"config.{name}.{key} is ignored: {_reason(name, str(key), action)}"


def _reason(name: str, key: str, action: str) -> str:
    """Return why a key has no effect."""
    if key == "name":
        return f"the container is named {name}, as its key in the config"
    if key in _KEYS["run"]:
        return f"it applies to action: run, not to action: {action}"
    close = closest(key, _KEYS[action])
    known = ", ".join(sorted(_KEYS[action]))
    return f"docker-cmd has no such key; {f'did you mean {close}?' if close else f'the keys are {known}'}"


def _text(value: object, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise HookError(f"expected text, not {value!r}", path)
    text = str(value)
    if "\0" in text or text.encode("utf-8", "replace").decode() != text:
        raise HookError(
            "it contains a character that a command line cannot contain", path
        )
    return text


def _word(value: object, path: str) -> str:
    text = _text(value, path)
    if text.startswith("-"):
        raise HookError(f"{text!r} would be read as an option of the command", path)
    return text


def _restart(value: object, path: str) -> str:
    # an unquoted no is false in YAML
    return "no" if value is False else _text(value, path)


def _texts(value: object, path: str) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(
        _text(item, f"{path}[{index}]")
        for index, item in enumerate(items)
        if item not in (None, "")
    )


def _pairs(value: object, path: str) -> tuple[str, ...]:
    """Return a list of texts `KEY:VALUE`, given as such a list or as a map."""
    if not isinstance(value, Mapping):
        return _texts(value, path)
    pairs = {_text(key, path): item for key, item in value.items()}
    return tuple(
        key if item in (None, "") else f"{key}:{_text(item, f'{path}.{key}')}"
        for key, item in pairs.items()
    )


def _command(value: object, path: str) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(
            _text(protocol.as_text(word), f"{path}[{index}]")
            for index, word in enumerate(value)
        )
    try:
        return tuple(shlex.split(_text(value, path)))
    except ValueError as error:
        raise HookError(
            f"it cannot be split into words as a shell does: {error}", path
        ) from error


def _environment(value: object, path: str) -> dict[str, str | None]:
    if isinstance(value, Mapping):
        items = [(_text(name, path), item) for name, item in value.items()]
    else:
        split = [text.partition("=") for text in _texts(value, path)]
        items = [(name, item if equals else None) for name, equals, item in split]
    for name, _ in items:
        if not name or "=" in name or any(character.isspace() for character in name):
            raise HookError(f"{name!r} is not a valid name of a variable", path)
    return {
        name: None if item is None else _text(protocol.as_text(item), f"{path}.{name}")
        for name, item in items
    }


def _exit_codes(value: object, path: str) -> tuple[int, ...]:
    codes = value if isinstance(value, list) else [value]
    if not codes:
        raise HookError("expected at least one exit code", path)
    try:
        return tuple(
            int(_text(code, f"{path}[{index}]")) for index, code in enumerate(codes)
        )
    except ValueError:
        raise HookError(
            f"expected exit codes, for example [0, 3], not {value!r}", path
        ) from None


def _number(value: object, path: str) -> float:
    try:
        number = float(_text(value, path))
    except (ValueError, HookError):
        number = math.nan
    if not math.isfinite(number):
        raise HookError(f"expected a number, not {value!r}", path)
    return number


def _flag(value: object, path: str) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    flag = words.get(str(value).lower()) if isinstance(value, str | int) else None
    if flag is None:
        raise HookError(f"expected true or false, not {value!r}", path)
    return flag


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "command": _command,
    "detach": _flag,
    "env_file": _texts,
    "environment": _environment,
    "exit_codes": _exit_codes,
    "image": _word,
    "net": _text,
    "pid": _text,
    "privileged": _flag,
    "publish": _texts,
    "restart": _restart,
    "start_order": _number,
    "user": _text,
    "volumes": _pairs,
    "volumes_from": _pairs,
}
"""Key → function that checks a value, given its path, and returns it in one form."""

_KEYS = {
    "run": {"action", *_READERS},
    "exec": {
        "action",
        "command",
        "env_file",
        "environment",
        "exit_codes",
        "privileged",
        "start_order",
        "user",
    },
}
"""Action → keys that have an effect."""

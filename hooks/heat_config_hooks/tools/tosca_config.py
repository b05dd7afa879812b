"""The config of the `tosca` hook: the files of an operation, and the steps that process them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from heat_config_hooks import protocol, strict_json
from heat_config_hooks.errors import HookError
from heat_config_hooks.values import dataclass, field

PREFIX = "tosca."
"""The beginning of the names of inputs and outputs that are for the hook and not for scripts."""

SURROUNDINGS = f"{PREFIX}surroundings"
"""The input with values for every step that do not come from the operation: `TOSCA_NODE`, `SOURCES`, …"""

SCRIPTS = ("bash", "python", "executable")
"""The processors of scripts."""

CONTAINER = "container"

PROCESSORS = (*SCRIPTS, "ansible", "puppet", "salt", "chef", CONTAINER)
"""All processors; those that are not of scripts are tools with hooks of their own."""

LARGEST = 64 * 1024 * 1024
"""The most bytes that the files in a config may have together. Larger files are kept in a folder, by digest."""

MOST = 10_000
"""The largest number of files, places and steps in a config."""

_DIGEST = re.compile(r"[0-9a-f]{64}")

_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")

_LONGEST_NAME, _LONGEST_PATH = 255, 2048
"""The longest name of a file and the longest path in bytes. Linux allows 255 and 4,096 with the folder of the run."""


@dataclass(frozen=True)
class Digest:
    """A file that is kept in the folder that `HEAT_STACK_FILES` names, under its SHA-256 digest."""

    sha256: str


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container to run instead of a file."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    """Ports to publish, as `8080:80`."""
    volumes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Step:
    """One file to process, or a container to run."""

    processor: str
    primary: str = ""
    """The path of the file among the files of the config; empty for a container."""
    container: Container | None = None
    operation: str = ""
    """The name of the operation, for the variable `TOSCA_OPERATION`."""
    inputs: str = ""
    """The input that is a map with the inputs of this step; empty if they are the inputs of the deployment."""
    path: str = "config"
    """The path of the step in the deployment, for messages."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A file that is copied to a path on the machine."""

    file: str
    to: str
    until: str = "delete"
    """When it is removed: `end` of the run, `delete` of the deployment, or `never`."""
    mode: int | None = None
    """Its permissions; None for those of a new file."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole config."""

    steps: tuple[Step, ...] = ()
    files: Mapping[str, bytes | Digest] = field(default_factory=dict)
    places: tuple[Place, ...] = ()
    root: str = ""
    """Text that stands for the folder of the files in all inputs; empty for none."""
    verify: Step | None = None
    """The operation that verifies the node."""


def read(config: object) -> Config:
    """Return the config of a deployment. Raises HookError."""
    values = _map(config)
    _check_keys(values, _KEYS, "config")
    paths = {
        name: _content(content, _file_path(name))
        for name, content in _files(values).items()
    }
    _check_folders(paths)
    if (
        sum(len(content) for content in paths.values() if isinstance(content, bytes))
        > LARGEST
    ):
        raise HookError(
            f"the files are longer than {LARGEST // 1024**2} MiB together",
            "config.files",
        )
    is_one = any(key in values for key in ("primary", "processor"))
    steps = _items(values, "steps") if "steps" in values else [values] if is_one else []
    return Config(
        steps=tuple(
            _step(
                item, f"config.steps[{index}]" if "steps" in values else "config", paths
            )
            for index, item in enumerate(steps)
        ),
        files=paths,
        places=tuple(
            _place(item, index, paths)
            for index, item in enumerate(_items(values, "places"))
        ),
        root=_text(values, "root", "config"),
        verify=_verify(values, paths),
    )


def _verify(values: Mapping[str, object], files: Mapping[str, object]) -> Step | None:
    """Return the operation that verifies the node; None if there is none. Raises HookError."""
    given, path = values.get("verify"), "config.verify"
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise HookError("expected an object", path)
    step = _step(given, path, files)
    if step.processor not in SCRIPTS:
        raise HookError("expected a script", f"{path}.processor")
    return step


def _map(config: object) -> Mapping[str, object]:
    if isinstance(config, str):
        try:
            config = strict_json.loads(config) if config.strip() else {}
        except ValueError as error:
            raise HookError(
                f"expected an object, or its JSON text: {error}", "config"
            ) from None
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise HookError(
            "expected an object with the keys primary, processor and files", "config"
        )
    return config


_STEP_KEYS = ("primary", "processor", "operation", "inputs", "container")
_KEYS = (*_STEP_KEYS, "steps", "files", "places", "root", "verify")


def _check_keys(
    values: Mapping[str, object], known: tuple[str, ...], path: str
) -> None:
    for key in values:
        if key not in known:
            raise HookError(
                f"there is no such key; the keys are {', '.join(known)}",
                f"{path}.{shown(key)}",
            )
    if "steps" in values and any(key in values for key in _STEP_KEYS):
        raise HookError(
            "the keys of a step stand in the steps or in the config, not in both",
            f"{path}.steps",
        )


def _items(values: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    items = values.get(key)
    if items is None:
        return []
    if not isinstance(items, list) or not all(
        isinstance(item, Mapping) for item in items
    ):
        raise HookError("expected a list of objects", f"config.{key}")
    if len(items) > MOST:
        raise HookError(f"there are over {MOST:,} entries", f"config.{key}")
    return items


def _text(values: Mapping[str, object], key: str, path: str) -> str:
    value = values.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise HookError("expected text", f"{path}.{key}")
    return value


def _step(values: Mapping[str, object], path: str, files: Mapping[str, object]) -> Step:
    if path != "config":
        _check_keys(values, _STEP_KEYS, path)
    primary, processor = (
        _text(values, "primary", path),
        _text(values, "processor", path),
    )
    if processor not in PROCESSORS:
        problem = f"expected one of {', '.join(PROCESSORS)}, not {shown(processor)}"
        raise HookError(problem, f"{path}.processor")
    container = (
        _container(values.get("container"), f"{path}.container")
        if processor == CONTAINER
        else None
    )
    if container is None and "container" in values:
        raise HookError(
            f"it is for the processor {CONTAINER} only", f"{path}.container"
        )
    if container is None and not primary:
        raise HookError("expected the path of the file to process", f"{path}.primary")
    if (container is None or primary) and primary not in files:
        raise HookError(
            f"there is no file {shown(primary)} in config.files", f"{path}.primary"
        )
    operation, inputs = _text(values, "operation", path), _text(values, "inputs", path)
    if operation and not _WORD.fullmatch(operation):
        raise HookError("expected the name of an operation", f"{path}.operation")
    if inputs and (not inputs.startswith(PREFIX) or inputs == SURROUNDINGS):
        raise HookError(
            f"expected the name of an input that begins with «{PREFIX}»",
            f"{path}.inputs",
        )
    return Step(
        primary=primary,
        processor=processor,
        container=container,
        operation=operation,
        inputs=inputs,
        path=path,
    )


def _container(values: object, path: str) -> Container:
    if not isinstance(values, Mapping):
        raise HookError(
            "expected an object with the name and the image of a container", path
        )
    _check_keys(values, ("name", "image", "command", "ports", "volumes"), path)
    name, image = _text(values, "name", path), _text(values, "image", path)
    if not _CONTAINER.fullmatch(name):
        raise HookError(
            "the name of a container consists of letters, digits, '_', '.' and '-'",
            f"{path}.name",
        )
    if not image or image.startswith("-"):
        raise HookError("expected the name of an image", f"{path}.image")
    command, ports, volumes = (
        _texts(values, key, path) for key in ("command", "ports", "volumes")
    )
    return Container(
        name=name, image=image, command=command, ports=ports, volumes=volumes
    )


def _texts(values: Mapping[str, object], key: str, path: str) -> tuple[str, ...]:
    items = values.get(key) or []
    if not isinstance(items, list) or not all(
        isinstance(item, str) and "\0" not in item for item in items
    ):
        raise HookError("expected a list of texts", f"{path}.{key}")
    return tuple(items)


def _place(
    values: Mapping[str, object], index: int, files: Mapping[str, object]
) -> Place:
    path = f"config.places[{index}]"
    _check_keys(values, ("file", "to", "until", "mode"), path)
    file, to, until, mode = (
        _text(values, key, path) for key in ("file", "to", "until", "mode")
    )
    if file not in files:
        raise HookError(
            f"there is no file {shown(file)} in config.files", f"{path}.file"
        )
    if (
        not to.startswith("/")
        or to.endswith("/")
        or ".." in to.split("/")
        or "\0" in to
        or not _is_utf8(to)
    ):
        raise HookError(
            "expected the absolute path of a file, without «..»", f"{path}.to"
        )
    if (until or "delete") not in _UNTIL:
        raise HookError(f"expected one of {', '.join(_UNTIL)}", f"{path}.until")
    if mode and not re.fullmatch("0?[0-7]{3}", mode):
        raise HookError(
            f'expected permissions in octal, e.g. "0640", not {shown(mode)}',
            f"{path}.mode",
        )
    return Place(
        file=file, to=to, until=until or "delete", mode=int(mode, 8) if mode else None
    )


_UNTIL = ("end", "delete", "never")


def _files(values: Mapping[str, object]) -> Mapping[str, object]:
    files = values.get("files")
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise HookError(
            "expected an object: the path of each file, and its content", "config.files"
        )
    if len(files) > MOST:
        raise HookError(f"there are over {MOST:,} files", "config.files")
    return files


def _file_path(name: object) -> str:
    """Return the path of a file in the deployment. Raises HookError if it does not stay among the files."""
    path = f"config.files[{shown(name)}]"
    if not isinstance(name, str) or not name or "\0" in name or not _is_utf8(name):
        raise HookError(
            "expected the path of a file as text, without control characters", path
        )
    if name.startswith("/"):
        raise HookError(
            "expected a relative path, because the files have a folder of their own",
            path,
        )
    parts = name.split("/")
    if ".." in parts:
        raise HookError("it leads out of the folder of the files: remove «..»", path)
    if "" in parts or "." in parts:
        raise HookError("expected a path without empty parts and without «.»", path)
    if len(name.encode()) > _LONGEST_PATH or any(
        len(part.encode()) > _LONGEST_NAME for part in parts
    ):
        raise HookError(
            f"names have at most {_LONGEST_NAME} bytes, and paths {_LONGEST_PATH:,}",
            path,
        )
    return path


def _content(content: object, path: str) -> bytes | Digest:
    if isinstance(content, str):
        return content.encode("utf-8", "replace")
    if isinstance(content, Mapping) and len(content) == 1:
        [(form, value)] = content.items()
        if form == "sha256" and isinstance(value, str) and _DIGEST.fullmatch(value):
            return Digest(value)
        if form == "base64" and isinstance(value, str):
            try:
                return base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError) as error:
                raise HookError(f"this is not valid base64: {error}", path) from None
    raise HookError(
        "expected the text of the file, {base64: …} with its bytes, or {sha256: …} with its digest",
        path,
    )


def _check_folders(paths: Mapping[str, object]) -> None:
    """Raise HookError if a path is that of a file and of a folder."""
    for name in paths:
        parts = name.split("/")
        for end in range(1, len(parts)):
            if (folder := "/".join(parts[:end])) in paths:
                raise HookError(
                    "it is both a file and the folder of another file",
                    f"config.files[{shown(folder)}]",
                )


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def shown(value: object) -> str:
    """Return a name as a message shows it, in one line and shortened."""
    import json  # noqa: PLC0415
    import reprlib  # noqa: PLC0415  # needed for mistakes only

    return (
        json.dumps(value[:80] + "…" if len(value) > 80 else value)
        if isinstance(value, str)
        else reprlib.repr(value)
    )


def step_inputs(request: protocol.Request, step: Step) -> dict[str, object]:
    """Return the inputs of a step: of its own operation, of its surroundings, and those of each deployment.

    Raises HookError.
    """
    values = {
        name: value
        for name, value in request.inputs.items()
        if not name.startswith(PREFIX)
    }
    if step.inputs:
        values = {
            name: value for name, value in values.items() if name.startswith("deploy_")
        }
        values.update(_input_map(request, step.inputs))
    named = {"TOSCA_OPERATION": step.operation} if step.operation else {}
    return {**named, **_input_map(request, SURROUNDINGS), **values}


def _input_map(request: protocol.Request, name: str) -> Mapping[str, object]:
    value = request.inputs.get(name)
    if isinstance(value, str):
        try:
            value = strict_json.loads(value) if value else None
        except ValueError:
            value = False
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise HookError(
            "expected an object with the value of each input", f"inputs.{name}"
        )
    return value

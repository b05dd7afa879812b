"""The `docker-cmd` hook.

The config is a map of containers, which are run one after the other with docker or podman.

As heat-agents' hook of that name: in the order of `start_order`, each is run, or a command in one of them; they carry
the labels `deploy_stack_id`, `deploy_resource_name`, `config_id`, `container_name` and `managed_by`, and are known by
those alone. One whose name is in use gets a suffix, and its name as soon as that is free. An earlier config's are
removed before, and all of them with the deployment.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from heat_config_hooks import files, protocol, steps, strict_yaml
from heat_config_hooks.errors import HookError
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.programs import Program
from heat_config_hooks.reply import Reply, nothing_done
from heat_config_hooks.tools import engines
from heat_config_hooks.values import dataclass

_PROGRAM = Program(
    names=("docker", "podman"),
    variable="HEAT_DOCKER_CMD",
    install="install one with «apt install podman»",
    version=("version",),
)

ABOUT = protocol.About(
    config="a map of containers, or the YAML text of one",
    options={
        "continue_on_failure": Option(Kind.FLAG, "go on with the next container after one that failed", False),
    },
    program=_PROGRAM,
    variables=("HEAT_DOCKER_CMD",),
    cleans="config",
    files=(),
    undoes=True,
    tested="real podman",
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""A container's name."""

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]{0,4096}")
"""A value that every engine reads alike from a file of variables: some take quotes away there, none takes newlines."""

_MANAGED = "docker-cmd"


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Look at all containers before any is run."""
    if not request.leaves and request.action != "DELETE" and not _containers(request.config):
        return nothing_done()
    return steps.command(__name__, request, place)


finish = protocol.collect


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Remove what is there of an earlier config, and run what is in this one; or only remove, if it is to go."""
    goes = bool(request.leaves) or request.action == "DELETE"
    engine = _Engine(engines.choose(_PROGRAM, place, removes=goes))
    earlier = [each for each in engine.found() if _earlier(each.labels, request)]
    if goes and not earlier:
        steps.say("it has no containers: nothing is to be removed", error=True)
    code = engine.remove(earlier)
    if code == 0 and not goes:
        code = _run_all(engine, request, place)
    engine.rename()
    return code


def _earlier(labels: Mapping[str, str], request: protocol.Request) -> bool:
    """Whether a container was made for this deployment, by whichever of its configs."""
    if labels.get("managed_by") != _MANAGED:
        return False
    if request.leaves or labels.get("config_id") == request.id:
        return labels.get("config_id") == (request.leaves or request.id)
    resource = _resource(request)
    return all(resource.values()) and resource == {name: labels.get(name) for name in resource}


def _resource(request: protocol.Request) -> dict[str, str]:
    """Return what is the same for all actions of one deployment resource, and for no other's."""
    names = ("deploy_stack_id", "deploy_resource_name")
    return {name: protocol.as_text(request.inputs.get(name)) for name in names}


# What a config says.


@dataclass(frozen=True, kw_only=True)
class _Container:
    name: str
    action: str
    image: str
    command: tuple[str, ...]
    exit_codes: tuple[int, ...]
    order: float
    environment: Mapping[str, str | None]
    """None: the value that we have ourselves."""
    flags: Mapping[str, tuple[str, ...]]
    """Flag → its values, in their order."""


def _containers(config: object) -> list[_Container]:
    """Return the containers of a config, in the order in which they are to be run. Raises HookError."""
    if isinstance(config, str):
        config = _from_yaml(config)
    if config is None:
        return []
    if not isinstance(config, Mapping):
        raise HookError("expected a map of containers, each under its name", "config")
    return sorted((_container(name, given) for name, given in config.items()), key=lambda each: each.order)


def _from_yaml(text: str) -> object:
    try:
        return strict_yaml.loads(text)
    except ValueError as error:
        raise HookError(f"this text is no YAML: {error}", "config") from error


def _container(name: object, given: object) -> _Container:
    path = f"config.{name}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise HookError("a container's name is made of letters, digits, «_», «.» and «-»", path)
    if not isinstance(given, Mapping):
        raise HookError("expected a map that says what to run, e.g. {image: …, command: …}", path)
    given = {key: value for key, value in given.items() if value is not None and value != ""}
    action = given.get("action", "run")
    if not isinstance(action, str) or action not in _KEYS:
        raise HookError(f"expected run or exec, not {action!r}", f"{path}.action")
    for key in given:
        if key not in _KEYS[action]:
            raise HookError(_unknown(str(key), action), f"{path}.{key}")
    read = {key: _READ[key](value, f"{path}.{key}") for key, value in given.items() if key in _READ}
    command: tuple[str, ...] = read.get("command", ())
    if action == "run" and "image" not in read:
        raise HookError("every container needs an image", f"{path}.image")
    if action == "exec" and (len(command) < 2 or not _NAME.fullmatch(command[0])):
        raise HookError("expected the name of a container, and what to run in it", f"{path}.command")
    return _Container(
        name=name,
        action=action,
        image=read.get("image", ""),
        command=command,
        exit_codes=read.get("exit_codes", (0,)),
        order=read.get("start_order", 0),
        environment=read.get("environment", {}),
        flags=_flags(action, read),
    )


def _flags(action: str, read: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    flags: dict[str, tuple[str, ...]] = {}
    if action == "run" and read.get("detach", True):
        flags["--detach"] = ("true",)
    for key in ("env_file", "volumes", "volumes_from"):
        flags[f"--{key.removesuffix('s').replace('_', '-')}"] = read.get(key, ())
    for key in ("net", "pid", "restart", "user"):
        if key in read:
            flags[f"--{key}"] = (read[key],)
    if "privileged" in read:
        flags["--privileged"] = (str(read["privileged"]).lower(),)
    return flags


def _unknown(key: str, action: str) -> str:
    if key in _KEYS["run"]:
        return f"this is for action: run, and not for {action}"
    import difflib  # noqa: PLC0415  # only for who has mistyped

    close = difflib.get_close_matches(key, _KEYS[action], n=1)
    return f"there is no such key; {f'did you mean {close[0]}?' if close else f'there are {_listed(_KEYS[action])}'}"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _text(value: object, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise HookError(f"expected text, not {value!r}", path)
    text = str(value)
    if "\0" in text or text.encode("utf-8", "replace").decode() != text:
        raise HookError("it has a character in it that no command line can have", path)
    return text


def _word(value: object, path: str) -> str:
    text = _text(value, path)
    if text.startswith("-"):
        raise HookError(f"{text!r} would be taken for an option", path)
    return text


def _restart(value: object, path: str) -> str:
    return "no" if value is False else _text(value, path)  # YAML takes a bare no for false


def _texts(value: object, path: str) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(_text(each, f"{path}[{index}]") for index, each in enumerate(items) if each not in (None, ""))


def _pairs(value: object, path: str) -> tuple[str, ...]:
    """Return `KEY:VALUE` texts, given as such or as a map."""
    if not isinstance(value, Mapping):
        return _texts(value, path)
    pairs = {_text(key, path): item for key, item in value.items()}
    return tuple(key if item in (None, "") else f"{key}:{_text(item, f'{path}.{key}')}" for key, item in pairs.items())


def _command(value: object, path: str) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(_text(protocol.as_text(each), f"{path}[{index}]") for index, each in enumerate(value))
    try:
        return tuple(shlex.split(_text(value, path)))
    except ValueError as error:
        raise HookError(f"it cannot be split into words as a shell does it: {error}", path) from error


def _environment(value: object, path: str) -> dict[str, str | None]:
    if isinstance(value, Mapping):
        items = [(_text(name, path), item) for name, item in value.items()]
    else:
        split = [each.partition("=") for each in _texts(value, path)]
        items = [(name, item if equals else None) for name, equals, item in split]
    for name, _ in items:
        if not name or "=" in name or any(each.isspace() for each in name):
            raise HookError(f"{name!r} is no name of a variable", path)
    return {name: None if item is None else _text(protocol.as_text(item), f"{path}.{name}") for name, item in items}


def _exit_codes(value: object, path: str) -> tuple[int, ...]:
    codes = value if isinstance(value, list) else [value]
    if not codes:
        raise HookError("expected at least one exit code", path)
    try:
        return tuple(int(_text(each, f"{path}[{index}]")) for index, each in enumerate(codes))
    except ValueError:
        raise HookError(f"expected exit codes, e.g. [0, 3], not {value!r}", path) from None


def _number(value: object, path: str) -> float:
    try:
        number = float(_text(value, path))
    except (ValueError, HookError):
        number = math.nan
    if not math.isfinite(number):
        raise HookError(f"expected a number, not {value!r}", path)
    return number


def _flag(value: object, path: str) -> bool:
    found = {"true": True, "false": False}.get(str(value).lower()) if isinstance(value, bool | str) else None
    if found is None:
        raise HookError(f"expected true or false, not {value!r}", path)
    return found


_READ: Mapping[str, Callable[[object, str], Any]] = {
    "command": _command,
    "detach": _flag,
    "env_file": _texts,
    "environment": _environment,
    "exit_codes": _exit_codes,
    "image": _word,
    "net": _text,
    "pid": _text,
    "privileged": _flag,
    "restart": _restart,
    "start_order": _number,
    "user": _text,
    "volumes": _pairs,
    "volumes_from": _pairs,
}

_KEYS = {
    "run": {"action", *_READ},
    "exec": {"action", "command", "env_file", "environment", "exit_codes", "privileged", "start_order", "user"},
}


# What is done.


@dataclass(frozen=True, kw_only=True)
class _Found:
    """A container that there is."""

    id: str
    name: str
    labels: Mapping[str, str]
    created: str
    running: bool


class _Engine:
    """Docker or podman."""

    def __init__(self, program: tuple[str, ...]) -> None:
        self.program = program

    def found(self) -> list[_Found]:
        """Return all containers, whoever made them, the newest first."""
        code, ids = steps.ask([*self.program, "ps", "--all", "--quiet", "--no-trunc"])
        if code:
            raise HookError(f"{shlex.join(self.program)} cannot list the containers (exit code {code})")
        if not ids.split():
            return []
        # What goes away in between is complained of, and the others are there all the same.
        _, text = steps.ask([*self.program, "container", "inspect", *ids.split()])
        try:
            items = [_read(each) for each in json.loads(text)]
        except (ValueError, TypeError, KeyError) as error:
            raise HookError(f"{shlex.join(self.program)} does not say which containers there are: {error}") from error
        return sorted(items, key=lambda each: each.created, reverse=True)

    def remove(self, containers: Sequence[_Found]) -> int:
        """Stop and remove containers: what was made later first, as others may depend on what was made before."""
        running = [each.id for each in containers if each.running]
        if running:
            steps.ask([*self.program, "stop", *running])  # all at once: each may take its time to end
        worst = 0
        for each in containers:
            code, _ = steps.ask([*self.program, "rm", "--force", each.id])
            if code:
                steps.say(f"{each.name} cannot be removed", error=True)
                worst = worst or code
            else:
                steps.say(f"{each.name} of the config {each.labels.get('config_id')} was removed", error=True)
        return worst

    def rename(self) -> None:
        """Give containers the names that they were meant to have, where those have become free."""
        containers = self.found()
        taken = {each.name for each in containers}
        for each in reversed(containers):
            wanted = each.labels.get("container_name", "")
            ours = each.labels.get("managed_by") == _MANAGED and _NAME.fullmatch(wanted)
            if ours and wanted not in taken and steps.run([*self.program, "rename", each.id, wanted]) == 0:
                taken.add(wanted)
                steps.say(f"{each.name} is {wanted} now", error=True)


def _read(item: Mapping[str, Any]) -> _Found:
    return _Found(
        id=item["Id"],
        name=item["Name"].removeprefix("/"),
        labels=item["Config"]["Labels"] or {},
        created=item["Created"],
        running=item["State"]["Running"],
    )


def _run_all(engine: _Engine, request: protocol.Request, place: protocol.Workplace) -> int:
    """Run the containers up to the first that fails; return 0, or the exit code of that one."""
    containers = _containers(request.config)
    taken = {each.name for each in engine.found()}
    actual: dict[str, str] = {}
    failed = 0
    for index, container in enumerate(containers):
        if container.action == "run":
            name = container.name
            while name in taken:
                name = f"{container.name}-{secrets.token_hex(4)}"
            taken.add(name)
            actual[container.name] = name
            code = _run(engine, container, [f"--name={name}", *_labels(container, request)], actual, place)
        else:
            code = _run(engine, container, [], actual, place)
        if code in container.exit_codes:
            continue
        failed = failed or code or 1
        rest = [each.name for each in containers[index + 1 :]]
        steps.say(f"{container.name} failed: its exit code is {code}, and not {_or(container.exit_codes)}", error=True)
        if rest and not request.options["continue_on_failure"]:
            steps.say(f"not run after that: {', '.join(rest)}", error=True)
            break
    return failed


def _or(codes: Sequence[int]) -> str:
    return " or ".join(map(str, codes))


def _labels(container: _Container, request: protocol.Request) -> list[str]:
    labels = {
        **_resource(request),
        "config_id": request.id,
        "container_name": container.name,
        "managed_by": _MANAGED,
    }
    return [f"--label={name}={value}" for name, value in labels.items()]


def _run(
    engine: _Engine,
    container: _Container,
    begin: Sequence[str],
    actual: Mapping[str, str],
    place: protocol.Workplace,
) -> int:
    """Run a container, or a command in one; return the exit code.

    `actual` are the names of this config's containers: where it speaks of one, that is meant.
    """
    flags = [f"{flag}={_meant(flag, each, actual)}" for flag, values in container.flags.items() for each in values]
    argv = [*engine.program, container.action, *begin, *flags]
    variables = {name: value for name, value in container.environment.items() if value is not None}
    plain = {name: value for name, value in variables.items() if _PLAIN.fullmatch(value)}
    if plain:  # in a file, as command lines can be read by all on the machine
        path = place.run / "variables.env"
        files.replace(path, "".join(f"{name}={value}\n" for name, value in plain.items()).encode())
        argv.append(f"--env-file={path}")
    argv += [f"--env={name}" for name in container.environment if name not in plain]
    own = {**os.environ, **{name: value for name, value in variables.items() if name not in plain}}
    if container.action == "exec":
        target, *words = container.command
        return steps.run([*argv, actual.get(target, target), *words], environment=own)
    try:
        return steps.run([*argv, container.image, *container.command], environment=own)
    except (SystemExit, KeyboardInterrupt):  # the run is ended, and docker would let the container go on
        name = actual[container.name]
        steps.say(f"{name} was being run, and is removed", error=True)
        for words in (["kill", name], ["rm", "--force", name]):
            steps.ask([*engine.program, *words])
        raise


def _meant(flag: str, value: str, actual: Mapping[str, str]) -> str:
    """Return a flag's value, with the name that a container has in the place of the one that it was meant to have."""
    begin = "container:" if value.startswith("container:") else ""
    if flag not in ("--net", "--pid", "--volumes-from") or (flag != "--volumes-from" and not begin):
        return value
    name, colon, rest = value.removeprefix(begin).partition(":")
    return f"{begin}{actual.get(name, name)}{colon}{rest}"

"""The `docker-cmd` hook: runs containers one after the other with docker or podman.

The config is a map of containers, in the form of heat-agents' hook of the same name.
In the order of `start_order`, it runs each container, or a command in a container.
The containers get the labels `deploy_stack_id`, `deploy_resource_name`, `config_id`, `container_name` and `managed_by`.
The hook recognises its containers by these labels alone.
If the name of a container is in use, the container gets a suffix; it is renamed as soon as the name is free.
Containers of an earlier config are removed before new ones run; DELETE removes all containers of the deployment.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from heat_config_hooks import files, protocol, steps
from heat_config_hooks.errors import HookError
from heat_config_hooks.needs import CONTAINERS, NEEDS
from heat_config_hooks.options import Kind, Option
from heat_config_hooks.reply import Reply, nothing_done
from heat_config_hooks.tools import container_config, container_output, engines
from heat_config_hooks.tools.container_config import ContainerConfig
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.verdict import Verdict  # few runs verify

ABOUT = protocol.About(
    config="a map of containers, or its YAML text",
    options={
        "continue_on_failure": Option(
            Kind.FLAG, "run the next container even if one has failed", False
        ),
    },
    needs=NEEDS["docker-cmd"],
    variables=("HEAT_DOCKER_CMD",),
    cleans="config",
    files=(),
    undoes=True,
    tested="real podman",
)

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=-]{0,4096}")
"""A value that docker and podman read alike from a file of variables: some strip quotes, none reads newlines."""

_LITERAL = re.compile(r"[^\0\n\r\"'\\#$`]*")
"""A value that they also read alike, if it neither begins nor ends with a space."""

_OF_ENGINES = frozenset(
    {
        "shells",
        "homes and folders of settings",
        "the loader and the C library",
        "OpenSSL",
        "other libraries of cryptography",
        "Go and Rust",
        "clients of containers",
        "less, ssh and sudo, which start other programs",
    }
)
"""The owners of variables that would affect the engine itself, see `heat_config_hooks.reserved`."""

_ID = re.compile(r"^[0-9a-f]{12,64}$", re.MULTILINE)
"""The id of a container, on a line of its own."""

_MANAGED = "docker-cmd"


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Check all containers before any of them runs, and return the command."""
    if not request.removes and not container_config.read(request.config):
        return nothing_done()
    return steps.command(__name__, request, place)


finish = protocol.collect


def verify(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Verdict:
    """Return the command that looks at the containers."""
    if not container_config.read(request.config):
        from heat_config_hooks import verdict  # noqa: PLC0415  # few runs verify

        return verdict.in_effect()
    return steps.looking(__name__, request, place)


verdict = steps.seen


def look(request: protocol.Request, place: protocol.Workplace) -> Verdict:
    """Return whether the containers of the config exist, and run or have ended as they should.

    A command in a container leaves nothing that could be looked at.
    Neither does a container that has ended, and was removed as they often are.
    """
    from heat_config_hooks.tools import container_state  # noqa: PLC0415  # few runs verify
    from heat_config_hooks.verdict import Change, drifted, together, unknown  # noqa: PLC0415

    program = engines.choose(CONTAINERS, place, removes=True, notes=False)
    entries = container_config.read(request.config)
    present: dict[object, Mapping[str, Any]] = {}
    for container in container_state.every(program, "config_id", request.id):
        given = container_state.labels(container)
        if given.get("managed_by") == _MANAGED:
            present.setdefault(given.get("container_name"), container)
    volumes = {
        value.partition(":")[0]
        for entry in entries
        for value in entry.flags.get("--volumes-from", ())
    }
    parts, images = [], []
    for entry in entries:
        item = present.get(entry.name) if entry.action == "run" else None
        lasts = entry.action == "run" and "--detach" in entry.flags
        if item is not None:
            ends = not lasts or entry.name in volumes
            codes = (0,) if lasts else entry.exit_codes
            parts.append(container_state.running(item, ends=ends, codes=codes))
            images.append((item, entry.image))
        elif lasts:
            change = Change(what=entry.name, how="the container does not exist")
            parts.append(drifted([change]))
    if not parts:
        return unknown("none of its containers has to run on, and none is left")
    return together([*parts, *container_state.same_images(program, images)])


def carry_out(request: protocol.Request, place: protocol.Workplace) -> int:
    """Remove the containers of earlier configs, and run those of this one unless the deployment has to be removed."""
    engine = _Engine(engines.choose(CONTAINERS, place, removes=request.removes))
    containers = engine.containers()
    earlier = [
        container for container in containers if _is_earlier(container.labels, request)
    ]
    others = [container for container in containers if container not in earlier]
    if request.removes and not earlier:
        steps.say("the deployment has no containers: nothing was removed", error=True)
    code = engine.remove(earlier)
    names: dict[str, str] = {}
    if code == 0 and not request.removes:
        code = _run_all(
            engine,
            request,
            place,
            taken={container.name for container in others},
            names=names,
        )
    if any(container.waits for container in others) or any(
        name != real for name, real in names.items()
    ):
        engine.rename()
    return code


def _is_earlier(labels: Mapping[str, str], request: protocol.Request) -> bool:
    """Return whether any config of this deployment has made the container with these labels."""
    if labels.get("managed_by") != _MANAGED:
        return False
    if request.leaves or labels.get("config_id") == request.id:
        return labels.get("config_id") == (request.leaves or request.id)
    resource = _resource(request)
    return all(resource.values()) and resource == {
        name: labels.get(name) for name in resource
    }


def _resource(request: protocol.Request) -> dict[str, str]:
    """Return the inputs that identify a deployment resource through all its actions."""
    names = ("deploy_stack_id", "deploy_resource_name")
    return {name: protocol.as_text(request.inputs.get(name)) for name in names}


@dataclass(frozen=True, kw_only=True)
class _Container:
    """A container that exists."""

    id: str
    name: str
    labels: Mapping[str, str]
    created: str
    running: bool

    @property
    def waits(self) -> bool:
        """True if it is one of ours that has a suffix, until the name in its config is free."""
        name = self.labels.get("container_name", "")
        managed = self.labels.get("managed_by") == _MANAGED
        return (
            managed
            and name != self.name
            and container_config.NAME.fullmatch(name) is not None
        )


class _Engine:
    """Docker or podman."""

    def __init__(self, program: tuple[str, ...]) -> None:
        self.program = program

    def containers(self) -> list[_Container]:
        """Return all containers of this machine, the newest first. Raises HookError."""
        code, text = steps.ask([*self.program, "ps", "--all", "--quiet", "--no-trunc"])
        if code:
            raise HookError(
                f"{shlex.join(self.program)} cannot list the containers (exit code {code})"
            )
        ids = _ID.findall(text)
        if not ids:
            return []
        # A container may be removed meanwhile: the engine reports an error, and returns the others.
        _, text = steps.ask([*self.program, "container", "inspect", *ids])
        try:
            containers = [_container(item) for item in json.loads(text)]
        except (ValueError, TypeError, KeyError) as error:
            problem = f"the output of «{shlex.join(self.program)} container inspect» cannot be read: {error}"
            raise HookError(problem) from error
        return sorted(containers, key=lambda container: container.created, reverse=True)

    def remove(self, containers: Sequence[_Container]) -> int:
        """Stop and remove containers, and return an exit code.

        The newest goes first, as it may depend on older ones.
        """
        running = [container.id for container in containers if container.running]
        if running:
            # all at once, as each may take long to stop
            steps.ask([*self.program, "stop", *running])
        worst = 0
        for container in containers:
            code, _ = steps.ask([*self.program, "rm", "--force", container.id])
            if code:
                steps.say(f"{container.name} cannot be removed", error=True)
                worst = worst or code
            else:
                config = container.labels.get("config_id")
                steps.say(
                    f"{container.name} of the config {config} was removed", error=True
                )
        return worst

    def rename(self) -> None:
        """Rename containers that have a suffix, where their own names have become free."""
        containers = self.containers()
        taken = {container.name for container in containers}
        for container in reversed(containers):
            name = container.labels.get("container_name", "")
            free = container.waits and name not in taken
            if free and steps.run([*self.program, "rename", container.id, name]) == 0:
                taken.add(name)
                steps.say(f"{container.name} was renamed to {name}", error=True)


def _container(item: Mapping[str, Any]) -> _Container:
    """Return a container from its part of `container inspect`."""
    return _Container(
        id=item["Id"],
        name=item["Name"].removeprefix("/"),
        labels=item["Config"]["Labels"] or {},
        created=item["Created"],
        running=item["State"]["Running"],
    )


def _run_all(
    engine: _Engine,
    request: protocol.Request,
    place: protocol.Workplace,
    *,
    taken: set[str],
    names: dict[str, str],
) -> int:
    """Run the entries up to the first that fails; return 0, or the exit code of that entry.

    Containers whose names are `taken` get a suffix. `names` is filled: names in the config → real names.
    """
    entries = container_config.read(request.config)
    for sentence in (sentence for entry in entries for sentence in entry.ignored):
        steps.say(f"warning: {sentence}", error=True)
    failed = 0
    for index, entry in enumerate(entries):
        if entry.action == "run":
            name = entry.name
            while name in taken:
                name = f"{entry.name}-{secrets.token_hex(4)}"
            taken.add(name)
            names[entry.name] = name
            code = _run(
                engine,
                entry,
                [f"--name={name}", *_labels(entry, request)],
                names,
                place,
            )
        else:
            code = _run(engine, entry, [], names, place)
        if code in entry.exit_codes:
            continue
        failed = failed or code or 1
        expected = " or ".join(map(str, entry.exit_codes))
        steps.say(
            f"{entry.name} failed: its exit code is {code}, expected {expected}",
            error=True,
        )
        rest = [entry.name for entry in entries[index + 1 :]]
        if rest and not request.options["continue_on_failure"]:
            steps.say(f"not run because of that: {', '.join(rest)}", error=True)
            break
    return failed


def _labels(entry: ContainerConfig, request: protocol.Request) -> list[str]:
    labels = {
        **_resource(request),
        "config_id": request.id,
        "container_name": entry.name,
        "managed_by": _MANAGED,
    }
    return [f"--label={name}={value}" for name, value in labels.items()]


def _run(
    engine: _Engine,
    entry: ContainerConfig,
    arguments: Sequence[str],
    names: Mapping[str, str],
    place: protocol.Workplace,
) -> int:
    """Run a container, or a command in a container, and return the exit code.

    `names` maps the names in the config to the names that its containers really have.
    """
    flags = [
        f"{flag}={_resolved(flag, value, names)}"
        for flag, values in entry.flags.items()
        for value in values
    ]
    argv = [*engine.program, entry.action, *arguments, *flags]
    variables = {
        name: value for name, value in entry.environment.items() if value is not None
    }
    plain = {
        name: value
        for name, value in variables.items()
        if _PLAIN.fullmatch(value) or _is_kept_away(entry, name, value)
    }
    if plain:  # in a file, because every user of the machine can read command lines
        path = place.run / "variables.env"
        files.replace(
            path, "".join(f"{name}={value}\n" for name, value in plain.items()).encode()
        )
        argv.append(f"--env-file={path}")
    argv += [f"--env={name}" for name in entry.environment if name not in plain]
    environment = {
        **os.environ,
        **{name: value for name, value in variables.items() if name not in plain},
    }
    if entry.action == "exec":
        target, *words = entry.command
        return steps.run(
            [*argv, names.get(target, target), *words], environment=environment
        )
    progress = container_output.Progress()
    try:
        code = steps.run([*argv, entry.image, *entry.command], environment=environment)
    except (SystemExit, KeyboardInterrupt):
        # the run is ended, but docker would keep the container
        name = names[entry.name]
        steps.say(
            f"the run was ended while {name} was starting or running: {name} is removed",
            error=True,
        )
        for words in (["kill", name], ["rm", "--force", name]):
            steps.ask([*engine.program, *words])
        raise
    if "--detach" in entry.flags:
        return code
    progress.complete(engine.program, names[entry.name])
    return container_output.exit_code(engine.program, names[entry.name], code)


def _is_kept_away(entry: ContainerConfig, name: str, value: str) -> bool:
    """Return whether a variable must not be in the environment of the engine, which it would affect.

    Raises HookError if its value cannot be in a file.
    """
    chooses = re.match(r"DOCKER_|CONTAINERS?_|PODMAN_|TMPDIR$", name)
    if not chooses and protocol.reserved(name, value) not in _OF_ENGINES:
        return False
    if not _LITERAL.fullmatch(value) or value != value.strip():
        problem = "the variable would also affect the container engine: give it a value without quotes and newlines"
        raise HookError(problem, f"config.{entry.name}.environment.{name}")
    return True


def _resolved(flag: str, value: str, names: Mapping[str, str]) -> str:
    """Return the value of a flag, with the real name of a container in place of the name in the config."""
    prefix = "container:" if value.startswith("container:") else ""
    if flag not in ("--net", "--pid", "--volumes-from") or (
        flag != "--volumes-from" and not prefix
    ):
        return value
    name, colon, rest = value.removeprefix(prefix).partition(":")
    return f"{prefix}{names.get(name, name)}{colon}{rest}"

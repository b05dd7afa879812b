"""The verdict about a compose project, from its file and from what the engine reports. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from heat_config_hooks.tools import container_state
from heat_config_hooks.values import dataclass
from heat_config_hooks.verdict import Change, Verdict, drifted, in_effect
from heat_config_hooks.written import difference

_SERVICE = ("com.docker.compose.service", "io.podman.compose.service")
"""The labels with the service of a container."""

_ONE_OFF = "com.docker.compose.oneoff"
"""The label of a container that someone has started with `docker compose run`."""


@dataclass(frozen=True)
class Service:
    """A service of a compose file."""

    starts: bool = True
    """False for a service with profiles, or without replicas: `up` does not start it."""
    ends: bool = False
    """True if another service waits for its end."""


def of_files(contents: Mapping[Path, bytes]) -> Verdict:
    """Return whether the files of a project are as they were written. Raises OSError."""
    changes = (difference(path, text, None) for path, text in contents.items())
    every = [change for change in changes if change is not None]
    return drifted(every) if every else in_effect()


def services(text: str) -> dict[str, Service]:
    """Return the services of a compose file by name.

    The nodes of the file are not turned into values, because compose files have tags of their own, such as `!reset`.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    nodes = _items(_child(root, "services"))
    ending = {
        name
        for node in nodes.values()
        for name, condition in _items(_child(node, "depends_on")).items()
        if _text(condition, "condition") == "service_completed_successfully"
    }
    return {
        name: Service(starts=_starts(node), ends=name in ending)
        for name, node in nodes.items()
    }


def _starts(node: yaml.Node) -> bool:
    profiles = _child(node, "profiles")
    replicas = _text(_child(node, "deploy"), "replicas") or _text(node, "scale")
    return not (isinstance(profiles, yaml.SequenceNode) and profiles.value) and (
        replicas != "0"
    )


def of_services(
    wanted: Mapping[str, Service], items: Sequence[Mapping[str, Any]]
) -> list[Verdict]:
    """Return the verdict of each service: that of all its containers."""
    containers: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        labels = container_state.labels(item)
        if str(labels.get(_ONE_OFF)).lower() != "true":
            name = next((str(labels[key]) for key in _SERVICE if key in labels), "")
            containers.setdefault(name, []).append(item)
    verdicts = []
    for name, service in wanted.items():
        if not service.starts:
            continue
        if not (present := containers.get(name)):
            change = Change(what=name, how="the service has no container")
            verdicts.append(drifted([change]))
            continue
        verdicts += [
            container_state.running(item, ends=service.ends) for item in present
        ]
    return verdicts


def _items(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """Return the items of a map, also those that it merges (`<<`); none for another node."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    own, merged = dict[str, yaml.Node](), dict[str, yaml.Node]()
    for key, value in node.value:
        if key.value != "<<":
            own[str(key.value)] = value
            continue
        parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for part in reversed(parts):
            merged |= _items(part)
    return merged | own


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    return _items(node).get(name)


def _text(node: yaml.Node | None, name: str) -> str:
    child = _child(node, name)
    return str(child.value) if isinstance(child, yaml.ScalarNode) else ""

"""The verdict about containers, from what docker or podman reports of them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from heat_config_hooks import steps
from heat_config_hooks.errors import HookError
from heat_config_hooks.protocol import as_map
from heat_config_hooks.verdict import Change, Verdict, drifted, in_effect, unknown

_ID = re.compile(r"^[0-9a-f]{12,64}$", re.MULTILINE)
"""The id of a container, on a line of its own."""

_LASTING = ("always", "unless-stopped")
"""Restart policies that say that a container has to run, whatever its exit code was."""

_NEVER_STARTED = ("created", "configured", "initialized")

_OUTPUT = 200
"""The most characters of the output of a health check that are shown."""


def every(program: Sequence[str], label: str, value: str) -> list[Mapping[str, Any]]:
    """Return what an engine reports of the containers with this label, the newest first. Raises HookError."""
    name = shlex.join(program)
    code, text = steps.ask(
        [
            *program,
            "ps",
            "--all",
            "--quiet",
            "--no-trunc",
            f"--filter=label={label}={value}",
        ]
    )
    if code:
        raise HookError(f"{name} cannot list the containers (exit code {code})")
    ids = _ID.findall(text)
    if not ids:
        return []
    # A container may be removed meanwhile: the engine reports an error, and returns the others.
    _, text = steps.ask([*program, "container", "inspect", *ids])
    try:
        items = json.loads(text)
    except ValueError as error:
        problem = f"the output of «{name} container inspect» cannot be read: {error}"
        raise HookError(problem) from None
    return sorted(
        (item for item in items if isinstance(item, Mapping)),
        key=lambda item: str(item.get("Created", "")),
        reverse=True,
    )


def labels(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the labels of a container."""
    return as_map(as_map(item.get("Config")).get("Labels"))


def name_of(item: Mapping[str, Any]) -> str:
    """Return the name of a container."""
    return str(item.get("Name", "")).removeprefix("/")


def running(
    item: Mapping[str, Any], *, ends: bool = False, codes: Collection[int] = (0,)
) -> Verdict:
    """Return whether a container runs; or has ended with one of the exit `codes`, if it is one that `ends`."""
    name, state = name_of(item), as_map(item.get("State"))
    status, code = str(state.get("Status", "")), state.get("ExitCode")
    how = ""
    if state.get("Paused"):
        how = "it is paused"
    elif state.get("Restarting") or status == "restarting":
        how = f"it does not stay up: it is about to be started again after exit code {code}"
    elif state.get("Running"):
        return _health(name, state)
    elif status in _NEVER_STARTED:
        how = "it was never started"
    elif code not in codes:
        how = f"it does not run: it has ended with exit code {code}"
    elif ends:
        return in_effect()
    elif _policy(item) in _LASTING:
        how = f"it does not run: it has ended with exit code {code}"
    if how:
        return drifted([Change(what=name, how=how)])
    return unknown(
        f"{name} has ended with exit code {code}, and it has no restart policy that says whether it should run"
    )


def _policy(item: Mapping[str, Any]) -> str:
    host = as_map(item.get("HostConfig"))
    return str(as_map(host.get("RestartPolicy")).get("Name") or "no")


def _health(name: str, state: Mapping[str, Any]) -> Verdict:
    """Return the verdict of the health check of a container that runs; good if it has none."""
    health = as_map(state.get("Health") or state.get("Healthcheck"))
    status = health.get("Status")
    if status == "starting":
        return unknown(f"the health check of {name} has not succeeded yet")
    if status != "unhealthy":
        return in_effect()
    log = health.get("Log")
    last = as_map(log[-1]).get("Output") if isinstance(log, list) and log else ""
    output = " ".join(str(last or "").split())[:_OUTPUT]
    how = f"its health check fails{f': {output}' if output else ''}"
    return drifted([Change(what=name, how=how)])


def same_images(
    program: Sequence[str], named: Iterable[tuple[Mapping[str, Any], str]]
) -> list[Verdict]:
    """Return a verdict for each container that has another image than that which has the name now.

    An image that is no longer there, or that has no name, tells nothing.
    """
    verdicts, ids = [], dict[str, str]()
    for item, image in named:
        if not image or image.startswith(("-", "sha256:")):
            continue
        if image not in ids:
            code, text = steps.ask(
                [*program, "image", "inspect", "--format={{.Id}}", image]
            )
            ids[image] = "" if code else text.strip()
        wanted, present = _plain(ids[image]), _plain(str(item.get("Image", "")))
        if wanted and present and wanted != present:
            how = f"it has another image than {image} is now ({present[:12]} instead of {wanted[:12]})"
            verdicts.append(drifted([Change(what=name_of(item), how=how)]))
    return verdicts


def _plain(identity: str) -> str:
    return identity.removeprefix("sha256:")


def of_services(
    services: Sequence[str], environment: Mapping[str, str]
) -> list[Verdict]:
    """Return the verdicts of the health checks of containers that run as services of systemd, made by quadlet."""
    podman = shutil.which("podman", path=environment.get("PATH"))
    if podman is None:
        return []
    return [
        _health(name_of(item), as_map(item.get("State")))
        for service in services
        for item in every((podman,), "PODMAN_SYSTEMD_UNIT", service)
        if as_map(item.get("State")).get("Running")
    ]

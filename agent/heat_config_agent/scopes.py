"""Each run as a scope of systemd's, where systemd runs: a control group of its own, with a name, in one slice.

So all that a run has started can be listed, limited and killed, whatever it has done to get away, and it is no part of
the agent's own service or of somebody's login. systemd-run registers itself as the scope and becomes the run's
supervisor then: process id and descriptors stay. What the run starts and leaves behind stays in its scope.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
from collections.abc import Mapping

from heat_config_hooks import files
from heat_config_hooks.values import dataclass

SLICE = "heat.slice"
"""All runs are in it: what is set there (`systemctl set-property heat.slice MemoryMax=2G`) bounds them all together."""

PROGRAM = "/usr/bin/systemd-run"

SECONDS = 10.0
"""How long systemd may take to make a scope."""

LIMITS: Mapping[str, tuple[str, str, str]] = {
    "memory_max": ("MemoryMax", "", "memory"),
    "cpu_quota": ("CPUQuota", "%", "cpu"),
    "tasks_max": ("TasksMax", "", "pids"),
}
"""The options that bound a run: systemd's property, the unit of its value, and the kernel's controller behind it."""

_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
"""Where systemd's own hierarchy is mounted: alone, beside those of version 1, or as one of those."""


class ScopeError(OSError):
    """There is no scope for a run, and nothing was run."""

    def __init__(self, why: str) -> None:
        """Say why."""
        super().__init__(errno.ENOTSUP, why)


@dataclass(frozen=True)
class Scope:
    """What is wanted of the scope of a run."""

    what: str
    """What systemd shows people of it."""
    limits: Mapping[str, int]
    """Values of `LIMITS`."""


@functools.cache
def missing() -> str:
    """Return why runs cannot be scopes here; empty where they can."""
    if not os.path.isdir("/run/systemd/system"):  # noqa: PTH112  # as sd_booted(3) has it
        return "systemd does not run here"
    if os.geteuid():
        return "only root can make scopes"
    return "" if os.access(PROGRAM, os.X_OK) else f"there is no {PROGRAM}"


def name(mark: str) -> str:
    """Return the name of the unit of a run, which its mark makes its own."""
    return f"heat-{re.sub('[^A-Za-z0-9_.-]', '_', mark)[-200:]}.scope"


def words(mark: str, scope: Scope) -> list[str]:
    """Return what to put before a command, so that it runs in a scope."""
    properties = [
        # Of a run that takes too much memory what takes it is killed, not all of it: so it is known how it ended.
        "OOMPolicy=continue",
        # Containers may make groups of their own in it.
        "Delegate=yes",
        # When the machine goes down the agent does so first: it shall not take that for how the run ended.
        "Before=heat-config-agent.service",
        # Nor shall file systems go while it still ends.
        "After=local-fs.target",
        *(f"{LIMITS[each][0]}={value}{LIMITS[each][1]}" for each, value in scope.limits.items()),
    ]
    description = re.sub(r"[^ -~]", "?", scope.what)[:200]
    return [
        *(PROGRAM, "--scope", "--quiet", "--collect", "--no-ask-password"),
        *(f"--slice={SLICE}", f"--unit={name(mark)}", f"--description={description}"),
        *(f"--property={each}" for each in properties),
        "--",
    ]


def folder(pid: int, mark: str) -> str:
    """Return the folder of the scope in which a process is; empty where it is not in that of this run."""
    for _, path in _groups(pid):
        if path.endswith(f"/{name(mark)}"):
            for root in _ROOTS:
                if os.path.exists(f"{root}{path}/cgroup.procs"):  # noqa: PTH110
                    return f"{root}{path}"
    return ""


def unheld(pid: int, mark: str, limits: Mapping[str, int]) -> list[str]:
    """Return of what systemd has no control in the scope of a process, though it took the limits: kernels differ."""
    held = {
        controller
        for controllers, path in _groups(pid)
        if path.endswith(f"/{name(mark)}")
        for controller in controllers
    }
    with contextlib.suppress(OSError):
        held.update(files.read(f"{folder(pid, mark)}/cgroup.controllers").decode().split())
    return [LIMITS[each][2] for each in limits if LIMITS[each][2] not in held]


def held() -> list[str]:
    """Return those of the limits of which the kernel gives systemd control."""
    controllers: set[str] = set()
    with contextlib.suppress(OSError):  # version 1: a folder for each
        controllers.update(os.listdir("/sys/fs/cgroup"))
        controllers.update(files.read("/sys/fs/cgroup/cgroup.controllers").decode().split())
    return [each for each in LIMITS if LIMITS[each][2] in controllers]


def members(scope: str, mark: str) -> list[int]:
    """Return the ids of all processes in the folder of a scope, or in groups below it; none where it is gone."""
    found: list[int] = []
    if os.path.basename(scope) != name(mark):  # noqa: PTH119  # whatever a damaged journal says
        return found
    for group, _, _ in os.walk(scope):
        with contextlib.suppress(OSError):  # it is gone meanwhile
            found += map(int, files.read(f"{group}/cgroup.procs").split())
    return found


def _groups(pid: int) -> list[tuple[list[str], str]]:
    """Return the control groups of a process: the controllers of version 1 that each is for, and its path."""
    try:
        lines = files.read(f"/proc/{pid}/cgroup").decode(errors="replace").splitlines()
    except OSError:  # it has ended
        return []
    return [(fields[1].split(","), fields[2]) for fields in (each.split(":", 2) for each in lines) if len(fields) == 3]

"""Runs as scopes of systemd: each run has a control group of its own, in one slice, where systemd is running.

So all processes of a run can be listed, limited and killed, even if they try to escape, and a run is not part of the
agent's own service or of a login session. systemd-run registers itself as the scope and then becomes the run's
supervisor, with the same process id and descriptors. Processes that the run leaves behind stay in its scope.
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
"""The slice of all runs. A limit on it (`systemctl set-property heat.slice MemoryMax=2G`) applies to their sum."""

PROGRAM = "/usr/bin/systemd-run"

SECONDS = 10.0
"""Seconds that systemd may take to make a scope."""

LIMITS: Mapping[str, tuple[str, str, str]] = {
    "memory_max": ("MemoryMax", "", "memory"),
    "cpu_quota": ("CPUQuota", "%", "cpu"),
    "tasks_max": ("TasksMax", "", "pids"),
}
"""The options that limit a run: systemd's property, the unit of its value, and the kernel's controller for it."""

_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
"""The mount points of systemd's hierarchy: with cgroup v2 alone, next to those of version 1, or as one of these."""


class ScopeError(OSError):
    """There is no scope for a run, and nothing was run."""

    def __init__(self, reason: str) -> None:
        """Give the reason, without the name of the run."""
        super().__init__(errno.ENOTSUP, reason)


@dataclass(frozen=True)
class Scope:
    """The properties of a run's scope."""

    description: str
    """The text that systemd shows to people."""
    limits: Mapping[str, int]
    """Values of `LIMITS`."""


@functools.cache
def missing() -> str:
    """Return why runs cannot be scopes on this machine; empty if they can."""
    if not os.path.isdir("/run/systemd/system"):  # noqa: PTH112  # as sd_booted(3) has it
        return "systemd does not run here"
    if os.geteuid():
        return "only root can make scopes"
    return "" if os.access(PROGRAM, os.X_OK) else f"there is no {PROGRAM}"


def name(mark: str) -> str:
    """Return the name of the unit of the run with this mark."""
    return f"heat-{re.sub('[^A-Za-z0-9_.-]', '_', mark)[-200:]}.scope"


def words(mark: str, scope: Scope) -> list[str]:
    """Return the words to put before a command to run it in a scope."""
    properties = [
        # If a run uses too much memory, the kernel kills one process, not all: so the supervisor can record the end.
        "OOMPolicy=continue",
        # Containers may make control groups of their own in it.
        "Delegate=yes",
        # When the machine shuts down, the agent ends first, so it does not see the runs end.
        "Before=heat-config-agent.service",
        # File systems stay mounted until the run has ended.
        "After=local-fs.target",
        *(
            f"{LIMITS[option][0]}={value}{LIMITS[option][1]}"
            for option, value in scope.limits.items()
        ),
    ]
    description = re.sub(r"[^ -~]", "?", scope.description)[:200]
    return [
        *(PROGRAM, "--scope", "--quiet", "--collect", "--no-ask-password"),
        *(f"--slice={SLICE}", f"--unit={name(mark)}", f"--description={description}"),
        *(f"--property={text}" for text in properties),
        "--",
    ]


def folder(pid: int, mark: str) -> str:
    """Return the control group folder of a process; empty if it is not in the scope of the run with this mark."""
    for _, path in _groups(pid):
        if path.endswith(f"/{name(mark)}"):
            for root in _ROOTS:
                if os.path.exists(f"{root}{path}/cgroup.procs"):  # noqa: PTH110
                    return f"{root}{path}"
    return ""


def unenforced(pid: int, mark: str, limits: Mapping[str, int]) -> list[str]:
    """Return the kernel's controllers that are missing for limits in the scope of a process.

    systemd accepts limits that the kernel does not let it enforce.
    """
    controllers = {
        controller
        for names, path in _groups(pid)
        if path.endswith(f"/{name(mark)}")
        for controller in names
    }
    with contextlib.suppress(OSError):
        controllers.update(
            files.read(f"{folder(pid, mark)}/cgroup.controllers").decode().split()
        )
    return [
        LIMITS[option][2] for option in limits if LIMITS[option][2] not in controllers
    ]


def enforceable() -> list[str]:
    """Return the options of `LIMITS` that the kernel lets systemd enforce."""
    controllers: set[str] = set()
    with contextlib.suppress(OSError):  # version 1: a folder for each controller
        controllers.update(os.listdir("/sys/fs/cgroup"))
        controllers.update(
            files.read("/sys/fs/cgroup/cgroup.controllers").decode().split()
        )
    return [option for option in LIMITS if LIMITS[option][2] in controllers]


def members(scope: str, mark: str) -> list[int]:
    """Return the ids of all processes in the folder of a scope, or in groups below it; none if it is gone."""
    processes: list[int] = []
    if os.path.basename(scope) != name(mark):  # noqa: PTH119  # a damaged journal may say anything
        return processes
    for group, _, _ in os.walk(scope):
        with contextlib.suppress(OSError):  # the group is gone
            processes += map(int, files.read(f"{group}/cgroup.procs").split())
    return processes


def _groups(pid: int) -> list[tuple[list[str], str]]:
    """Return the control groups of a process: the controllers of each (with version 1), and its path."""
    try:
        lines = files.read(f"/proc/{pid}/cgroup").decode(errors="replace").splitlines()
    except OSError:  # it has ended
        return []
    return [
        (fields[1].split(","), fields[2])
        for fields in (line.split(":", 2) for line in lines)
        if len(fields) == 3
    ]

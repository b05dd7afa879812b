"""The facts of this machine, as a service template describes a machine: CPUs, memory, disk and operating system."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

_MIB = 1024**2


def machine_facts(root: Path = Path("/")) -> Mapping[str, Mapping[str, object]]:
    """Return the properties of the capabilities `host` and `os` of this machine; what is not known is left out."""
    host: dict[str, object] = {}
    with contextlib.suppress(AttributeError, OSError):
        host["num_cpus"] = len(os.sched_getaffinity(0))
    with contextlib.suppress(ValueError, OSError):
        host["mem_size"] = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // _MIB} MiB"
    with contextlib.suppress(OSError):
        host["disk_size"] = f"{shutil.disk_usage(root).total // _MIB} MiB"
    frequency = _frequency(root)
    if frequency:
        host["cpu_frequency"] = f"{frequency} kHz"
    system: dict[str, object] = {"type": platform.system().lower(), "architecture": platform.machine()}
    release = _release(root)
    if release.get("ID"):
        system["distribution"] = release["ID"]
    version = release.get("VERSION_ID", "")
    if version:
        system["version"] = version if "." in version else f"{version}.0"
    return {"host": host, "os": {name: value for name, value in system.items() if value}}


def _frequency(root: Path) -> int:
    """Return the highest frequency of the first CPU in kHz; 0 where the kernel does not say it."""
    path = root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0


def _release(root: Path) -> dict[str, str]:
    """Return the names and values of /etc/os-release."""
    try:
        lines = (root / "etc/os-release").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}

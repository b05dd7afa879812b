"""Observations in tests of several hooks: results, permissions of files, and processes."""

from __future__ import annotations

import contextlib
import stat
import time
from pathlib import Path
from typing import Any

import psutil


def answer(done: dict[str, Any]) -> tuple[int, str, str]:
    """Return the status code, the standard output and the standard error of a result."""
    return int(done["deploy_status_code"]), done["deploy_stdout"], done["deploy_stderr"]


def held_open(folder: Path) -> list[str]:
    """Return the files and folders from a folder on that this process has open, also those that are deleted."""
    targets = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            # closed meanwhile by another thread
            targets.append(link.readlink())
    return [str(target) for target in targets if f"{target}/".startswith(f"{folder}/")]


def mode(path: Path) -> int:
    """Return the permissions of a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def ended(pid: int) -> bool:
    """Return whether a process ends within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False

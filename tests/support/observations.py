"""What tests of several hooks look at: results, permissions of files, and processes."""

from __future__ import annotations

import gc
import os
import stat
import time
from pathlib import Path
from typing import Any

import psutil


def answer(done: dict[str, Any]) -> tuple[int, str, str]:
    """Return the status code, the standard output and the standard error of a result."""
    return int(done["deploy_status_code"]), done["deploy_stdout"], done["deploy_stderr"]


def descriptors() -> int:
    """Return how many descriptors this process has open, after closing those of values that nothing refers to."""
    gc.collect()  # otherwise what an earlier test has left may be closed between two counts
    return len(os.listdir("/proc/self/fd"))


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

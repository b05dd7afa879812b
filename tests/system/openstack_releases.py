"""Which Heat a cloud has: that of its environment, or another release, named by the variable HEAT_VERSION.

Another release is in an environment of its own, with the Python, the modules and the Keystone of its day. Swift and
Zaqar stay those of the usual environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VERSION = os.environ.get("HEAT_VERSION", "")
"""The release that is asked for; empty for the usual one."""

SERVICES = ("engine", "prepare-heat", "keystone", "prepare-keystone")
"""What is of that release."""

_ROOT = Path(__file__).parents[2]

USUAL = _ROOT / ".venv/heat"
"""The environment of all services."""


@dataclass(frozen=True)
class Release:
    """How a release of Heat is installed."""

    python: str
    """The minor version of Python that it was made for."""
    day: str
    """No module in its environment is newer: releases of that day work with what there was on it."""


RELEASES = {
    "16.0.0": Release("3.8", "2021-05-15"),
    "20.0.0": Release("3.10", "2023-05-01"),
    "24.0.0": Release("3.11", "2025-05-01"),
}
"""Releases that are tried beside the usual one, the oldest first. The lifecycle's template is for 16 and later."""


def environment() -> Path:
    """Return the environment with Heat's engine."""
    return _ROOT / f".venv/heat-{VERSION}" if VERSION else USUAL


def interpreter(version: str) -> str | None:
    """Return an interpreter of a minor version of Python, if there is one that runs."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in (shutil.which(f"python{version}"), *map(str, kept)):
        if path and not subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode:
            return path
    return None

"""The real tools that tests drive: `tests/install-tools` installs them; without one, its tests are skipped."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

SALT = Path(__file__).parents[1] / ".venv/salt/bin"
"""Where salt has an environment of its own."""


def need(name: str, package: str) -> str:
    """Return the path of a program, or skip the test, saying how to get it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: «apt install {package}» (make test does it, as root on Debian)")
    return path


def need_salt() -> Path:
    """Return the folder with salt's programs, or skip the test, saying how to get it."""
    if not (SALT / "salt-call").exists():
        pytest.skip(f"salt is not installed: «pip install salt» in an environment {SALT.parent} (make test does it)")
    return SALT


def need_root() -> None:
    """Skip the test where we are not root."""
    if os.geteuid() != 0:
        pytest.skip("only root can do this: run make test as root")

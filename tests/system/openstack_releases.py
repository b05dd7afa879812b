"""The release of Heat in a test cloud: that of the environment, or the one that the variable HEAT_VERSION names.

Another release is in an environment of its own, with the Python, the modules and the Keystone of its day. Swift and
Zaqar stay those of the usual environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

VERSION = os.environ.get("HEAT_VERSION", "")
"""The release that is asked for; empty for the usual one."""

SERVICES = ("engine", "prepare-heat", "keystone", "prepare-keystone")
"""The services of that release."""

_ROOT = Path(__file__).parents[2]

USUAL = _ROOT / ".venv/heat"
"""The environment of all services."""


@dataclass(frozen=True)
class Release:
    """The installation of a release of Heat."""

    python: str
    """The minor version of Python that it was made for."""
    day: str
    """No module in its environment is newer: releases of that day work with what there was on it."""
    bounds: tuple[str, ...] = ()
    """Upper bounds for packages that were too new for it, even at that time."""


RELEASES = {
    "20.0.0": Release("3.10", "2023-03-25", ("SQLAlchemy<2", "oslo.db<12.3")),
    "24.0.0": Release("3.11", "2025-05-01"),
}
"""Releases that are tried beside the usual one, the oldest first."""


def install(version: str) -> str:
    """Install a release of Heat and its Keystone, if it is not there; return what hinders that, or an empty text."""
    release = RELEASES[version]
    folder = environment(version)
    if (folder / "installed").exists():
        return ""
    python = interpreter(release.python)
    if python is None:
        return f"there is no interpreter python{release.python}"
    uv = str(_ROOT / ".venv/uv")
    requirements = (
        f"openstack-heat=={version}",
        "keystone",
        "waitress",
        "psycopg2-binary",
        "setuptools<70",
        *release.bounds,
    )
    of_the_day = ("--python", f"{folder}/bin/python", "--exclude-newer", release.day)
    commands = (
        (sys.executable, "-m", "venv", uv),
        (f"{uv}/bin/pip", "install", "--quiet", "uv"),
        (
            f"{uv}/bin/uv",
            "venv",
            "--quiet",
            "--allow-existing",
            "--python",
            python,
            str(folder),
        ),
        (f"{uv}/bin/uv", "pip", "install", "--quiet", *of_the_day, *requirements),
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return (
                f"{Path(command[0]).name} fails: {' '.join(done.stderr.split())[-300:]}"
            )
    (folder / "installed").touch()
    return ""


def environment(version: str = VERSION) -> Path:
    """Return the environment with Heat's engine."""
    return _ROOT / f".venv/heat-{version}" if version else USUAL


def interpreter(version: str) -> str | None:
    """Return an interpreter of a minor version of Python, if there is one that runs."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in (shutil.which(f"python{version}"), *map(str, kept)):
        if (
            path
            and not subprocess.run(
                [path, "-c", ""], capture_output=True, check=False
            ).returncode
        ):
            return path
    return None

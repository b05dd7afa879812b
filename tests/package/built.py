"""The packages of this checkout, each built once for the sources as they are."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.tools import need

ROOT = Path(__file__).parents[2]

_PLACE = ROOT / ".venv/packages"
_SOURCES = ("agent", "hooks", "systemd", "packaging", "docs", "examples", "pyproject.toml", "*.md", "LICENSE")
_QUICK = {"DPKG_DEB_COMPRESSOR_LEVEL": "1"}
"""Nothing that is tested depends on how well a package is compressed."""

_OPTIONS = {"deb": "", "rpm": "--nodeps"}
"""Of an RPM, the database of packages knows nothing of what Debian has installed."""


def package(kind: str) -> Path:
    """Return a package, or skip the test, saying what is missing to build it."""
    need(*{"deb": ("dh", "debhelper"), "rpm": ("rpmbuild", "rpm")}[kind])
    if subprocess.run(
        ["/usr/bin/python3", "-c", "import ensurepip, venv"], capture_output=True, check=False
    ).returncode:
        pytest.skip("/usr/bin/python3 cannot make an environment: apt-get install python3-venv")
    folder = _PLACE / kind
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / f"{digest()}.built"
    with (_PLACE / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            shutil.rmtree(folder)
            build(kind, folder)
            stamp.touch()
    [found] = folder.glob(f"heat-config-agent*.{kind}")
    return found


def build(kind: str, folder: Path) -> None:
    """Build a package as the Makefile does."""
    # Not as a part of the make that runs the tests.
    others = {name: value for name, value in os.environ.items() if not re.fullmatch("MAKE.*|MFLAGS|DIST", name)}
    done = subprocess.run(
        ["make", kind, f"DIST={folder}"],
        cwd=ROOT,
        env={**others, **_QUICK, "BUILD_OPTIONS": _OPTIONS[kind]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def digest() -> str:
    """Return what differs when anything does that goes into a package."""
    found = hashlib.sha256()
    for pattern in _SOURCES:
        for top in sorted(ROOT.glob(pattern)):
            for path in [top] if top.is_file() else sorted(top.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    found.update(f"{path.relative_to(ROOT)} {path.stat().st_mode:o}\n".encode())
                    found.update(path.read_bytes())
    return found.hexdigest()[:12]

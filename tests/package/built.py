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

PLACE = ROOT / ".venv/packages"
"""Where packages are that tests have built."""
_SOURCES = (
    "agent",
    "hooks",
    "systemd",
    "packaging",
    "docs",
    "examples",
    "pyproject.toml",
    "*.md",
    "LICENSE",
)
_QUICK = {"DPKG_DEB_COMPRESSOR_LEVEL": "1"}
"""Nothing that is tested depends on how well a package is compressed."""

_MODULES = (
    "psutil, requests, yaml",
    "python3-psutil python3-requests python3-yaml",
)
"""The build requirements of a package on the distribution's modules."""

_RPM = f"--nodeps --load={Path(__file__).with_name('rpm.macros')}"
_OPTIONS = {"deb": "", "deb-bundled": "", "rpm": _RPM, "rpm-bundled": _RPM}
"""RPM's database knows nothing of what Debian has installed."""


_NAMES = {
    "deb": "heat-config-agent_*.deb",
    "deb-bundled": "heat-config-agent-bundled_*.deb",
    "rpm": "heat-config-agent-[0-9]*.rpm",
    "rpm-bundled": "heat-config-agent-bundled-*.rpm",
}
"""The package of each kind."""

COMPAT = "heat-config-agent-compat_*.deb"
"""The package of the hooks for older tools, which is built with `deb`."""


def package(kind: str, name: str = "") -> Path:
    """Return a package, or skip the test, saying what is missing to build it.

    `deb` and `rpm` are on the distribution's Python modules, `deb-bundled` and `rpm-bundled` have them inside.
    `name` is the pattern of another package that is built with it.
    """
    if kind.startswith("rpm"):
        need("rpmbuild", "rpm")
    else:
        need("dh", "debhelper")
        need("dh_python3", "dh-python")
    modules, packages = (
        _MODULES if kind in ("deb", "rpm") else ("ensurepip, venv", "python3-venv")
    )
    if subprocess.run(
        ["/usr/bin/python3", "-c", f"import {modules}"],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip(
            f"/usr/bin/python3 lacks modules to build it: apt-get install {packages}"
        )
    folder = PLACE / kind
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / f"{digest()}.built"
    with (PLACE / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            shutil.rmtree(folder)
            build(kind, folder)
            stamp.touch()
    [found] = folder.glob(name or _NAMES[kind])
    return found


def build(kind: str, folder: Path) -> None:
    """Build a package as the Makefile does."""
    make(kind, folder, BUILD_OPTIONS=_OPTIONS[kind], **_QUICK)


def make(target: str, folder: Path, **environment: str) -> str:
    """Have make build a target into a folder, and return what it says."""
    # Not as a part of the make that runs the tests.
    others = {
        name: value
        for name, value in os.environ.items()
        if not re.fullmatch("MAKE.*|MFLAGS|DIST", name)
    }
    done = subprocess.run(
        ["make", target, f"DIST={folder}"],
        cwd=ROOT,
        env={**others, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def digest() -> str:
    """Return what differs when anything does that goes into a package."""
    found = hashlib.sha256()
    for pattern in _SOURCES:
        for top in sorted(ROOT.glob(pattern)):
            for path in [top] if top.is_file() else sorted(top.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    found.update(
                        f"{path.relative_to(ROOT)} {path.stat().st_mode:o}\n".encode()
                    )
                    found.update(path.read_bytes())
    return found.hexdigest()[:12]

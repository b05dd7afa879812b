"""The lifecycle of a stack, with several releases of Heat: `make tested-on`."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from image.baked import BY_HAND
from package.built import ROOT
from system import openstack_releases as releases
from tested_on.conftest import Found

pytestmark = [BY_HAND, pytest.mark.timeout(3600)]

VERSIONS = """
import importlib.metadata as metadata, platform
versions = [f"{each} {metadata.version(each)}" for each in ("openstack-heat", "keystone")]
print(", ".join(versions), "on Python", platform.python_version())
"""

NEWEST = "27"
"""The versions in the usual environment."""

NAMES = {
    **{version: f"Heat {version.partition('.')[0]}" for version in releases.RELEASES},
    "": f"Heat {NEWEST}",
}
"""Each release, the oldest first."""


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(each, id=name, marks=pytest.mark.tested_on("heat", name))
        for each, name in NAMES.items()
    ],
)
def test_lifecycle_passes_with_every_heat(tell_found: Found, version: str) -> None:
    """The test of the lifecycle passes as it is, with each release."""
    hindered = releases.install(version) if version else ""
    if hindered:
        pytest.skip(f"it cannot be installed: {hindered}")
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/system/test_lifecycle_heat.py",
    ]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "HEAT_VERSION": version},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    passed = re.findall(r"^(\d+) passed in", done.stdout, re.MULTILINE)
    assert passed == ["2"], done.stdout[-1000:]  # none of them was skipped
    python = releases.environment(version) / "bin/python"
    said = subprocess.run(
        [python, "-c", VERSIONS], capture_output=True, text=True, check=True
    ).stdout
    tell_found(said.strip())

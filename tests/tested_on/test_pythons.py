"""The tests of modules, under each version of Python that the project supports: `make tested-on`."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from image.baked import BY_HAND
from package.built import ROOT
from repository.test_pythons import SUPPORTED
from system.openstack_releases import interpreter
from tested_on.conftest import Found

pytestmark = [BY_HAND, pytest.mark.timeout(3600)]

WORKERS = os.environ.get("WORKERS", "2")


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(each, marks=pytest.mark.tested_on("python", f"Python {each}"))
        for each in SUPPORTED
    ],
)
def test_unit_tests_pass_on_every_python(tell_found: Found, version: str) -> None:
    """All tests of modules pass, none is skipped for the sake of the version, and no warning is raised."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no interpreter python{version}")
    folder = ROOT / f".venv/python-{version}"
    pip = [
        str(folder / "bin/pip"),
        "install",
        "--quiet",
        "--constraint",
        f"{ROOT}/packaging/constraints.txt",
    ]
    subprocess.run([python, "-m", "venv", folder], check=True)
    subprocess.run([*pip, "--editable", f"{ROOT}[test]"], check=True)
    words = ["-q", "-n", WORKERS, "-p", "no:cacheprovider", "tests/unit"]
    done = subprocess.run(
        [folder / "bin/pytest", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    passed = re.findall(r"(\d+) passed", done.stdout)[-1]
    exact = subprocess.run(
        [python, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    tell_found(f"{exact}, {passed} tests")

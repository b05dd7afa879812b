"""One process runs all tests of a group: what a file or a mark keeps together, pytest-xdist keeps together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS = """\
import os, pathlib, pytest

@pytest.mark.parametrize("number", range(8))
def test_some(number):
    with open(pathlib.Path(__file__).with_suffix(".processes"), "a") as file:
        print(os.getpid(), file=file)
"""


@pytest.mark.slow
def test_tests_of_a_file_run_in_one_process(tmp_path: Path) -> None:
    """Also where a file has more tests than its share, and the other process has no work."""
    files = [tmp_path / f"test_{name}.py" for name in ("long", "short")]
    for path in files:
        path.write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "conftest",
        "-n",
        "2",
    ]
    command += [
        "--dist",
        "loadgroup",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
    ]
    done = subprocess.run(
        [
            *command,
            "--basetemp",
            str(tmp_path / "inner"),
            *(path.name for path in files),
        ],
        cwd=tmp_path,
        env={
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith("PYTEST_")
            },
            "PYTHONPATH": str(ROOT / "tests"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "16 passed" in done.stdout, done.stdout + done.stderr
    for path in files:
        assert len(set(path.with_suffix(".processes").read_text().split())) == 1

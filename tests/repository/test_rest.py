"""`--rest` leaves out the tests that have passed, and the summary counts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS = """\
import os
import pytest

def test_good(): pass

@pytest.mark.skipif("NEEDED" not in os.environ, reason="the tool is missing")
def test_tool(): pass

def test_bad(): assert "REPAIRED" in os.environ
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_rest_of_a_run_is_all_that_has_not_passed(
    tmp_path: Path, workers: str
) -> None:
    """A test that failed, or was skipped for want of a tool, runs again; the summary is of both runs."""
    (tmp_path / "test_some.py").write_text(TESTS)
    cache = f"cache_dir={tmp_path}/cache"

    def run(*words: str, **variables: str) -> str:
        options = [
            "-p",
            "conftest",
            "-n",
            workers,
            "--dist",
            "loadgroup",
            "-o",
            cache,
            "-v",
            "--rootdir",
            str(tmp_path),
            "--basetemp",
            str(tmp_path / "inner"),
        ]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-c",
                str(ROOT / "pyproject.toml"),
                *options,
                *words,
                "test_some.py",
            ],
            cwd=tmp_path,
            env={**environment, **variables, "PYTHONPATH": str(ROOT / "tests")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    first = run()
    assert "1 failed, 1 passed, 1 skipped" in first, first
    assert "test_bad (call): " in first
    second = run("--rest", NEEDED="1", REPAIRED="1")
    assert "3 passed" in second, second
    assert "test_good" not in second

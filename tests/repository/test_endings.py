"""Processes that tests start are ended and reaped, and a failed test has no other fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from support import endings
from support.loopback import wait_until

ROOT = Path(__file__).parents[2]

TESTS = """\
import subprocess
from pathlib import Path

def test_failing(tmp_path):
    process = subprocess.Popen(["sleep", "600"], stdout=subprocess.PIPE)
    file = open(tmp_path / "open", "w")
    Path({pid!r}).write_text(str(process.pid))
    assert not process

def test_good(): pass

def test_other(): pass
"""


@pytest.mark.slow
def test_failed_test_makes_no_other_fail(tmp_path: Path) -> None:
    """Files that a failed test has left open are closed, and its processes ended, before the next test."""
    pid = tmp_path / "pid"
    (tmp_path / "test_some.py").write_text(TESTS.format(pid=str(pid)))
    words = [
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "--basetemp",
        str(tmp_path / "in"),
    ]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(ROOT / "pyproject.toml"),
            *words,
            "test_some.py",
        ],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(ROOT / "tests")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert endings.pid_has_ended(int(pid.read_text()))


@pytest.mark.parametrize("state", ["ended", "running"])
def test_process_is_ended_with_its_children(tmp_path: Path, state: str) -> None:
    """All processes below it have ended, and it has been reaped, whether it was there or not."""
    last = tmp_path / "last"
    script = f"(sleep 600 & echo $! >{last}.new; mv {last}.new {last}; wait) & wait"
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
    wait_until(last.exists)
    tree = [psutil.Process(process.pid), *endings.children(process.pid, recursive=True)]
    assert int(last.read_text()) in [each.pid for each in tree]
    if state == "ended":
        endings.end(process)
    endings.end(process, None)
    assert process.returncode == -9
    assert process.stdout is not None
    assert process.stdout.closed
    wait_until(lambda: all(map(endings.has_ended, tree)))
    assert not endings.kill(tree[0])
    assert (endings.children(tree[0]), endings.words(tree[0])) == ([], [])

"""A run of the tests that is killed leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import endings, leftovers, pace
from support.loopback import wait_until

ROOT = Path(__file__).parents[2]

LONG = 60.0

STUBBORN = """\
from support.machine import deployment

SCRIPT = "#!/bin/sh\\ntrap '' TERM HUP INT\\nsetsid sleep 600 &\\ntouch {}/there\\nwhile :; do sleep 1; done\\n"


def test_of_a_daemon(daemon, machine):
    daemon.put([deployment("d1", SCRIPT.format(machine.folder))])
    daemon.start()
    daemon.wait()
"""
"""A test whose daemon, run and process of the run do not end by themselves, nor by a gentle signal."""


@pytest.mark.parametrize(
    ("workers", "number"),
    [
        pytest.param(0, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param(0, signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param(1, signal.SIGTERM, marks=pytest.mark.slow),
        (1, signal.SIGKILL),
    ],
    ids=lambda value: (
        signal.Signals(value).name if isinstance(value, signal.Signals) else str(value)
    ),
)
def test_a_killed_run_leaves_no_process(
    tmp_path: Path, number: int, workers: int
) -> None:
    """The daemon, its run, the loaded process and what the run has started end with the process of pytest."""
    test, folder = tmp_path / "test_stubborn.py", tmp_path / "inner"
    test.write_text(STUBBORN)
    words = [
        "-n",
        str(workers),
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "--basetemp",
        str(folder),
        "--timeout",
        "0",
    ]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    run = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(ROOT / "pyproject.toml"),
            *words,
            str(test),
        ],
        env={**environment, "PYTHONPATH": str(ROOT / "tests")},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    os.close(log)
    try:
        wait_until(
            lambda: run.poll() is not None or bool([*folder.rglob("there")]), LONG
        )
        assert run.poll() is None, (tmp_path / "log").read_text()
        left = leftovers.processes(str(folder))
        assert len(left) > 3
        run.send_signal(number)
        assert run.wait(pace.seconds(LONG)) == -number
        wait_until(lambda: not leftovers.processes(str(folder)), LONG)
    finally:
        run.kill()
        run.wait()
    wait_until(lambda: all(map(endings.pid_has_ended, left)), LONG)

"""A run of the tests that is killed leaves no process behind."""

from __future__ import annotations

import os
import shlex
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
import subprocess
from pathlib import Path

from support import leftovers
from support.machine import deployment

SCRIPT = "#!/bin/sh\\ntrap '' TERM HUP INT\\nsetsid sleep 600 &\\ntouch {}/there\\nwhile :; do sleep 1; done\\n"


def test_of_a_daemon(daemon, machine):
    elsewhere = Path(__file__).with_name("elsewhere")
    elsewhere.mkdir()
    leftovers.belongs(elsewhere)
    subprocess.Popen(["env", "-i", "sleep", "600"], cwd=elsewhere)
    daemon.put([deployment("d1", SCRIPT.format(machine.folder))])
    daemon.start()
    daemon.wait()
"""
"""A test whose daemon, run and process of the run do not end by themselves, nor by a gentle signal.

Another process names only a folder that is not below that of the tests.
"""


@pytest.mark.parametrize(
    ("program", "workers", "number"),
    [
        pytest.param("pytest", 0, signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("pytest", 0, signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("pytest", 1, signal.SIGTERM, marks=pytest.mark.slow),
        ("pytest", 1, signal.SIGKILL),
        pytest.param("make", 1, signal.SIGKILL, marks=pytest.mark.slow),
    ],
    ids=lambda value: (
        signal.Signals(value).name if isinstance(value, signal.Signals) else str(value)
    ),
)
def test_a_killed_run_leaves_no_process(
    tmp_path: Path, program: str, number: int, workers: int
) -> None:
    """The daemon, its run, the loaded process and what the run has started end with pytest, and pytest with make."""
    test, folder = tmp_path / "test_stubborn.py", tmp_path / "inner"
    elsewhere = tmp_path / "elsewhere"
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
        if not name.startswith(("PYTEST_", "MAKE"))
    }
    pytest_itself = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    (tmp_path / "Makefile").write_text(
        f"test:\n\t: a shell; {shlex.join([*pytest_itself, *words, str(test)])}\n"
    )
    commands = {
        "pytest": [*pytest_itself, *words, str(test)],
        "make": ["make", "--file", str(tmp_path / "Makefile")],
    }
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    run = subprocess.Popen(
        commands[program],
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
        others = leftovers.processes(str(elsewhere))
        assert others
        left = [*leftovers.processes(str(folder)), *others]
        assert len(left) > 4
        run.send_signal(number)
        assert run.wait(pace.seconds(LONG)) == -number
        wait_until(lambda: not leftovers.processes(str(folder)), LONG)
    finally:
        run.kill()
        run.wait()
    wait_until(lambda: all(map(endings.pid_has_ended, left)), LONG)

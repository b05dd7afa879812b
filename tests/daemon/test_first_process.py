"""The agent as process 1 of a container without an init, in a real namespace of processes."""

from __future__ import annotations

import os
import signal
import subprocess

import psutil
import pytest

from support import endings
from support.daemon import LONG, Daemon, until
from support.loopback import wait_until
from support.machine import BIN, Machine, deployment

pytestmark = pytest.mark.new_process("daemons")

ORPHANS = "#!/bin/sh\nfor _ in 1 2 3 4 5 6 7 8; do (setsid sh -c '{}' >/dev/null 2>&1 &); done\n"
"""A script that leaves processes behind."""


@pytest.fixture
def apart() -> tuple[str, ...]:
    """Return the words before a command that make it process 1 of its own namespace."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    words = ("unshare", *user, "--pid", "--fork", "--kill-child", "--mount-proc")
    if subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip(
            "this machine gives no namespaces of processes: run the tests where «unshare --pid --fork» works"
        )
    return words


def first(daemon: Daemon) -> psutil.Process:
    """Return process 1 of the daemon's namespace."""
    wait_until(lambda: bool(endings.children(daemon.pid)), LONG)
    [process] = endings.children(daemon.pid)
    return process


def zombies(process: psutil.Process) -> list[int]:
    """Return the children that the process has not reaped."""
    return [
        child.pid
        for child in process.children()
        if child.status() == psutil.STATUS_ZOMBIE
    ]


@pytest.mark.fault(
    3,
    "the daemon is process 1 of a container, and its runs leave processes behind",
    "the daemon reaps them, so that the table of processes does not fill up",
)
def test_orphans_of_runs_are_reaped(
    daemon: Daemon, machine: Machine, apart: tuple[str, ...]
) -> None:
    """Processes that a run has left behind are reaped as soon as they end, and the run has its own exit status."""
    go = machine.folder / "go"
    script = ORPHANS.format(until(go)) + "exit 3\n"
    daemon.put([deployment("d1", script)])
    daemon.start(*apart, wait=False)
    daemon.wait_state("d1", "unasked")
    assert "exit code 3" in daemon.log
    process = first(daemon)
    left = [child for child in process.children() if child.name() == "sh"]
    assert len(left) == 8
    go.touch()
    wait_until(lambda: not any(child.is_running() for child in left), LONG)
    assert zombies(process) == []
    process.terminate()
    assert daemon.wait() == 0, daemon.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_daemon(
    daemon: Daemon, apart: tuple[str, ...], number: int
) -> None:
    """Signals to process 1 are passed on, and its exit code is that of the daemon."""
    daemon.put([])
    daemon.start(*apart, wait=False)
    process = first(daemon)
    wait_until(lambda: daemon.source().get("working") is True, LONG)
    process.send_signal(signal.SIGHUP)
    daemon.wait_said("the settings were read again")
    process.send_signal(number)
    assert daemon.wait() == 0, daemon.log


def test_killed_daemon_ends_its_container(
    daemon: Daemon, apart: tuple[str, ...]
) -> None:
    """The exit code says that the daemon was killed, as that of a shell does."""
    daemon.put([])
    daemon.start(*apart, wait=False)
    process = first(daemon)
    wait_until(lambda: daemon.source().get("working") is True, LONG)
    [child] = process.children()
    child.kill()
    assert daemon.wait() == 128 + signal.SIGKILL


def test_apply_command_as_process_1_has_its_output_and_exit_code(
    machine: Machine, apart: tuple[str, ...]
) -> None:
    """The output and the exit code of heat-config-apply are as elsewhere."""
    document = machine.write([deployment("d1", "#!/bin/sh\nexit 7\n")])
    command = [
        *apart,
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(machine.state),
        str(document),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=machine.environment
    )
    assert (done.returncode, "exit code 7" in done.stdout) == (1, True), done.stderr

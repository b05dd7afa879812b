"""`make heat` and the page about it: docs/playground.md."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from docs.console import ROOT, Command, File, sections
from support import pace
from support.machine import BIN
from system.openstack import need_cloud

pytestmark = pytest.mark.takes(300)

PAGE = "docs/playground.md"
SECONDS = 30.0
"""The seconds for which the daemon's commands are repeated until they show the expected output."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder in which `make heat` can be run, with the environment of the tests."""
    need_cloud()
    for name in ("Makefile", "agent", "hooks", "packaging", "pyproject.toml", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = tmp_path / ".venv"
    environment.mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (environment / name).symlink_to(BIN.parent / name)
    (environment / "heat").symlink_to(ROOT / ".venv/heat")
    for name in ("installed", "tested"):
        (environment / name).touch()
    return tmp_path


@pytest.fixture
def playground(checkout: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the playground with `make heat`, and wait until it is ready."""
    command = ["make", "--silent", "heat"]
    with subprocess.Popen(
        command, cwd=checkout, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "Ctrl-C ends" in line:
                    break
            else:
                pytest.fail("it has ended by itself")
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(pace.seconds(60))


@pytest.mark.timeout(
    900
)  # a dozen commands of OpenStack, on a machine with much else to do
def test_the_page_is_true(playground: subprocess.Popen[str], checkout: Path) -> None:
    """Each command of the page prints what it shows; at the end nothing is left of the playground."""
    for section in sections(PAGE):
        for item in section.items:
            if isinstance(item, File):
                (checkout / item.path).write_text(item.text)
            elif item.line != "make heat":
                run(item, checkout)
    started = psutil.Process(playground.pid).children(recursive=True)
    os.killpg(playground.pid, signal.SIGINT)  # as a terminal does
    assert playground.stdout is not None
    assert "have ended" in playground.stdout.read()
    playground.wait(pace.seconds(30))
    assert list(checkout.glob(".heat*")) == []
    assert started
    assert [process for process in started if process.is_running()] == []


def run(command: Command, folder: Path) -> None:
    """Run a command; fail unless it ends well and prints what the page shows."""
    deadline = time.monotonic() + pace.seconds(SECONDS)
    while True:
        done = subprocess.run(
            ["sh", "-c", f"exec 2>&1; {command.line}"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        is_well = done.returncode == 0 and command.shows(done.stdout)
        if (
            is_well
            or not command.line.startswith(".heat/agent")
            or time.monotonic() > deadline
        ):
            break
        time.sleep(0.2)
    shown = "\n".join(command.printed)
    assert is_well, (
        f"{command.where}: {command.line}\n{done.stdout}\nThe page shows:\n{shown}"
    )

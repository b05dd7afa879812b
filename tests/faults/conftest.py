"""The fixtures of the tests of faults."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import leftovers
from support.daemon import Daemon
from support.machine import BIN, Machine
from support.result_servers import Servers
from support.stacking import Stacks
from support.unprivileged import NOBODY, Unprivileged


@pytest.fixture
def unprivileged() -> Iterator[Unprivileged]:
    """A machine of which the agent's user is not root. Its folder is beside pytest's, which are root's alone."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip(
            "only root can become another user: run the tests as root, with setpriv (apt install util-linux)"
        )
    with tempfile.TemporaryDirectory(prefix="heat-config-agent-") as name:
        leftovers.belongs(Path(name))
        folder = Path(name) / "machine"
        folder.mkdir()
        machine = Unprivileged(folder)
        for each in (Path(name), folder, machine.temporary):
            os.chown(each, NOBODY, NOBODY)
        able = subprocess.run(
            [*machine.before, str(BIN / "heat-config-apply"), "--version"],
            check=False,
            cwd=folder,
        )
        if able.returncode:
            pytest.skip(
                f"{BIN} cannot be used by others than root: put the checkout where they can"
            )
        yield machine
        machine.end()


@pytest.fixture
def stacks(machine: Machine) -> Stacks:
    """The commands about stacks."""
    return Stacks(machine)


@pytest.fixture
def servers(daemon: Daemon, machine: Machine) -> Iterator[Servers]:
    """Servers, and an agent that is not started yet."""
    servers = Servers(daemon, machine)
    yield servers
    servers.close()

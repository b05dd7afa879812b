"""What tests of faults share."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from machine import BIN
from unprivileged import NOBODY, Unprivileged


@pytest.fixture
def unprivileged() -> Iterator[Unprivileged]:
    """A machine of which the agent's user is not root. Its folder is beside pytest's, which are root's alone."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user: run the tests as root, with setpriv (apt install util-linux)")
    with tempfile.TemporaryDirectory(prefix="heat-config-agent-") as name:
        folder = Path(name) / "machine"
        folder.mkdir()
        machine = Unprivileged(folder)
        for each in (Path(name), folder, machine.temporary):
            os.chown(each, NOBODY, NOBODY)
        able = subprocess.run([*machine.before, str(BIN / "heat-config-apply"), "--version"], check=False, cwd=folder)
        if able.returncode:
            pytest.skip(f"{BIN} cannot be used by others than root: put the checkout where they can")
        yield machine
        machine.end()

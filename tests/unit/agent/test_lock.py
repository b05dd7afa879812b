from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from heat_config_agent import lock
from heat_config_agent.errors import LockedError, StateError

HOLD = """
import sys
from pathlib import Path
from heat_config_agent import lock
with lock.held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_state_directory_is_made_for_nobody_else(tmp_path: Path) -> None:
    """With its parents where they are missing."""
    state = tmp_path / "a" / "b"
    with lock.held(state):
        assert stat.S_IMODE(state.stat().st_mode) == stat.S_IMODE(state.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE((state / "lock").stat().st_mode) == 0o600


def test_only_one_holds_it_and_the_other_is_told_who(tmp_path: Path) -> None:
    """The process that has it is named."""
    with (
        lock.held(tmp_path),
        pytest.raises(LockedError, match=f"another agent works on .* \\(process {os.getpid()}\\) \\(.*--state-dir"),
        lock.held(tmp_path),
    ):
        pytest.fail("held twice")


def test_it_is_free_again_afterwards(tmp_path: Path) -> None:
    """However what was done under it ended."""
    with pytest.raises(ZeroDivisionError), lock.held(tmp_path):
        _ = 1 / 0
    with lock.held(tmp_path):
        pass


def test_a_killed_holder_lets_go_of_it(tmp_path: Path) -> None:
    """The kernel sees to that; what the file says of the holder does not matter."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(LockedError, match=f"process {process.pid}"), lock.held(tmp_path):
            pytest.fail("held twice")
        process.kill()
    with lock.held(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_no_run_inherits_it(tmp_path: Path) -> None:
    """What goes on after the agent does not keep the next one out."""
    with lock.held(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        with lock.held(tmp_path):
            pass
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("name", ["", "/below"])
def test_a_state_directory_that_cannot_be_used_is_an_error_of_its_own(tmp_path: Path, name: str) -> None:
    """It says which, and what to do about it."""
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"cannot use the state directory .*--state-dir"):  # noqa: SIM117
        with lock.held(Path(f"{tmp_path}/file{name}")):
            pytest.fail("held")

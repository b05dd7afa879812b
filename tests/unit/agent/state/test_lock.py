from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from heat_config_agent.model.errors import LockedError, StateError
from heat_config_agent.state import lock
from support import endings

HOLD = """
import sys
from pathlib import Path
from heat_config_agent.state import lock
with lock.held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_state_directory_is_made_for_nobody_else(tmp_path: Path) -> None:
    """With its parents where they are missing."""
    state = tmp_path / "a" / "b"
    with lock.held(state):
        assert (
            stat.S_IMODE(state.stat().st_mode)
            == stat.S_IMODE(state.parent.stat().st_mode)
            == 0o700
        )
        assert stat.S_IMODE((state / "lock").stat().st_mode) == 0o600


def test_second_holder_of_the_lock_is_refused(tmp_path: Path) -> None:
    """The process that has it is named."""
    with (
        lock.held(tmp_path),
        pytest.raises(
            LockedError,
            match=f"another command works on .* \\(process {os.getpid()}\\) \\(wait .*--state-dir",
        ),
        lock.held(tmp_path),
    ):
        pytest.fail("held twice")


def test_lock_is_released_after_the_work(tmp_path: Path) -> None:
    """The lock is released, however the work under it ended."""
    with pytest.raises(ZeroDivisionError), lock.held(tmp_path):
        _ = 1 / 0
    with lock.held(tmp_path):
        pass


def test_a_killed_holder_lets_go_of_it(tmp_path: Path) -> None:
    """The kernel sees to that; what the file says of the holder does not matter."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with endings.ended(process):
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(LockedError, match=f"process {process.pid}"),
            lock.held(tmp_path),
        ):
            pytest.fail("held twice")
    with lock.held(tmp_path):
        assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"


def test_runs_do_not_inherit_the_lock(tmp_path: Path) -> None:
    """A run that outlives the agent does not hold its lock."""
    with lock.held(tmp_path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    with endings.ended(child), lock.held(tmp_path):
        pass


@pytest.mark.parametrize("name", ["", "/below"])
def test_a_state_directory_that_cannot_be_used_is_an_error_of_its_own(
    tmp_path: Path, name: str
) -> None:
    """The error names the directory and says what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(  # noqa: SIM117
        StateError, match=r"cannot use the state directory .*--state-dir"
    ):
        with lock.held(Path(f"{tmp_path}/file{name}")):
            pytest.fail("held")


# A folder that others can get at

OTHER = 54321
"""A user of no name."""


def mode(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("given", [0o755, 0o750, 0o711, 0o777, 0o2775])
@pytest.mark.parametrize("inside", [(), ("lost+found",)])
def test_an_empty_folder_is_made_private(
    tmp_path: Path, given: int, inside: tuple[str, ...]
) -> None:
    """An empty folder with open permissions, such as a new file system, is made private."""
    state = tmp_path / "state"
    state.mkdir()
    for each in inside:
        (state / each).mkdir()
    state.chmod(given)
    with lock.held(state):
        assert mode(state) & 0o777 == 0o700


@pytest.mark.fault(
    4,
    "a state directory that others may read: they could hold its lock",
    "it is made private, or refused with what to do",
)
def test_readable_state_directory_is_made_private(tmp_path: Path) -> None:
    """A used folder that others may only read is made private, because they could hold its lock."""
    (tmp_path / "journal").write_text("")
    tmp_path.chmod(0o755)
    with lock.held(tmp_path):
        assert mode(tmp_path) == 0o700
    assert (tmp_path / "journal").exists()


@pytest.mark.fault(
    4,
    "a state directory that others may write to, or that belongs to another user",
    "it is refused with what to do, and nothing is changed or run",
)
@pytest.mark.parametrize("given", [0o777, 0o775, 0o1777, 0o722])
def test_nonempty_world_writable_state_directory_is_refused(
    tmp_path: Path, given: int
) -> None:
    """A used folder that others may write to is refused, because its content may be theirs."""
    (tmp_path / "journal").write_text("")
    tmp_path.chmod(given)
    with pytest.raises(
        StateError, match=f"others may write to it.*its mode is {given:04o}.*chmod 700"
    ):
        _hold(tmp_path)
    assert mode(tmp_path) == given
    assert sorted(each.name for each in tmp_path.iterdir()) == ["journal"]


def test_a_folder_of_something_else_is_not_made_private(tmp_path: Path) -> None:
    """Others may need it: a home, /var/lib."""
    (tmp_path / "important").write_text("")
    tmp_path.chmod(0o755)
    with pytest.raises(
        StateError,
        match=r"others may read it, and could hold its lock.*chmod 700.*--state-dir",
    ):
        _hold(tmp_path)
    assert mode(tmp_path) == 0o755


def test_a_shared_folder_is_refused_though_it_is_empty(tmp_path: Path) -> None:
    """As /tmp is."""
    tmp_path.chmod(0o1777)
    with pytest.raises(StateError, match="others may write to it"):
        _hold(tmp_path)
    assert mode(tmp_path) == 0o1777


def test_linked_state_directory_is_not_changed(tmp_path: Path) -> None:
    """Private it will do, anything else is somebody's decision."""
    (tmp_path / "real").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to("real")
    with lock.held(link):
        pass
    (tmp_path / "real").chmod(0o755)
    with pytest.raises(StateError, match="others may read it"):
        _hold(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_state_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    """A folder of another user is refused, however private it is."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, OTHER, OTHER)
    with pytest.raises(
        StateError, match=f"belongs to another user \\(uid {OTHER}\\).*chown -R 0"
    ):
        _hold(state)
    assert list(state.iterdir()) == []


def _hold(state: Path) -> None:
    with lock.held(state):
        pytest.fail("it is held")


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("stacks/web", "the stack web"),
        ("follow/web", "the source web"),
        ("follow/web/document", "the source web"),
    ],
)
def test_hint_about_a_lock_inside_names_the_state_directory(
    tmp_path: Path, folder: str, place: str
) -> None:
    """A person knows the state directory and the stack or source, and not the folders of the agent's own."""
    with (
        lock.held(tmp_path / folder),
        pytest.raises(LockedError) as refused,
        lock.held(tmp_path / folder),
    ):
        pass
    assert (
        refused.value.brief
        == f"another command works on {place} (process {os.getpid()})"
    )
    assert f"--state-dir {tmp_path}`" in refused.value.hint

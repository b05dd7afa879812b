from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from heat_config_hooks import processes
from support import endings
from support.loopback import wait_until

RUN = f"test.{os.getpid()}"
"""Named after the process, because other tests may run on this machine, and each kills its own."""

MARK = f"HEAT_RUN={RUN}"


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A session with a child, a grandchild in another session, and a process that has left both."""
    script = "sleep 60 & setsid sleep 60 & (setsid sh -c 'echo $$ >daemon; exec sleep 60' &) & touch ready; wait"
    environment = {"PATH": os.environ["PATH"], "HEAT_RUN": RUN}
    process = subprocess.Popen(
        ["sh", "-c", script], cwd=tmp_path, env=environment, start_new_session=True
    )
    try:
        wait_until(
            lambda: bool(
                (tmp_path / "daemon").exists() and (tmp_path / "daemon").read_text()
            )
        )
        wait_until(
            lambda: len(processes.tree(process.pid, ticks(process.pid), MARK)) >= 4
        )
        yield process
    finally:
        for each in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if each.environ().get("HEAT_RUN") == RUN:
                    each.kill()
        endings.end(process)


def ticks(pid: int) -> int:
    """Return the start of a process that is there."""
    found = processes.ticks(pid)
    assert found is not None
    return found


def test_the_boot_has_an_id_and_a_clock() -> None:
    """The id is constant while the machine runs, and the clock advances."""
    assert processes.boot_id() == processes.boot_id() != ""
    assert 0 < processes.since_boot() < processes.since_boot() + 1


def test_each_start_of_a_container_is_a_boot() -> None:
    """The kernel may reuse the number of the process namespace, so the number alone is not an id."""
    command = ["unshare", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces are not allowed: run the tests as root")
    ask = [
        *command,
        sys.executable,
        "-c",
        "from heat_config_hooks import processes; print(processes.boot_id())",
    ]
    found = [
        subprocess.run(ask, check=True, capture_output=True, text=True).stdout
        for _ in range(4)
    ]
    assert len(set(found)) == 4


def test_a_process_is_known_by_its_id_and_its_start() -> None:
    """A process with the same id and another start time is another process."""
    own = ticks(os.getpid())
    assert processes.alive(os.getpid(), own)
    assert not processes.alive(os.getpid(), own + 1)
    since = processes.since_boot() - own / os.sysconf("SC_CLK_TCK")
    assert 0 < since < time.time() - psutil.Process().create_time() + 60


@pytest.mark.parametrize("name", ["a) R 1 (b", "two words", "(((", "\n"])
def test_a_process_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The kernel writes the name between brackets, without escaping."""
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "", program)
    with endings.ended(subprocess.Popen([program, "60"])) as process:
        wait_until(
            lambda: (
                Path(f"/proc/{process.pid}/comm").read_bytes() == f"{name}\n".encode()
            )
        )
        assert ticks(process.pid) >= ticks(os.getpid())


def test_a_process_that_has_ended_has_no_start() -> None:
    """A process that has ended has no start time, even before its parent has read its exit code."""
    with endings.ended(subprocess.Popen(["true"])) as process:
        wait_until(lambda: processes.ticks(process.pid) is None)
    assert processes.ticks(process.pid) is None


def test_all_processes_of_a_run_are_listed(
    leader: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The session, its descendants in other sessions, and processes with the mark."""
    found = {each.pid for each in processes.tree(leader.pid, ticks(leader.pid), MARK)}
    assert {leader.pid, int((tmp_path / "daemon").read_text())} < found
    assert os.getpid() not in found


def test_processes_of_a_reused_id_are_not_listed(
    leader: subprocess.Popen[bytes],
) -> None:
    """If the id belongs to another process now, its session is not part of the run."""
    found = {
        each.pid
        for each in processes.tree(
            leader.pid, ticks(leader.pid) + 1, "HEAT_RUN=other.1"
        )
    }
    assert found == set()


@pytest.mark.parametrize(
    "pid",
    [0, 1, 2, os.getpid(), os.getppid()],
    ids=["0", "1", "2", "ourselves", "our parent"],
)
def test_the_systems_own_processes_are_part_of_no_run(pid: int) -> None:
    """Neither system processes nor the agent and its parents belong to a run, whatever a damaged journal says."""
    spared = {1, 2, *(each.pid for each in psutil.Process().parents()), os.getpid()}
    found = processes.tree(pid, processes.ticks(pid) or 0, MARK)
    assert not spared & {each.pid for each in found}


def test_a_run_is_found_without_its_leader(
    leader: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """The mark identifies the remaining processes."""
    started = ticks(leader.pid)
    leader.kill()
    leader.wait()
    found = {each.pid for each in processes.tree(leader.pid, started, MARK)}
    assert int((tmp_path / "daemon").read_text()) in found
    assert len(found) >= 3


def test_signals_reach_what_is_there_and_pass_over_what_is_not() -> None:
    """Processes may end at any moment."""
    with (
        endings.ended(subprocess.Popen(["sleep", "60"])) as first,
        endings.ended(subprocess.Popen(["sleep", "60"])) as second,
    ):
        found = [psutil.Process(first.pid), psutil.Process(second.pid)]
        first.kill()
        first.wait()
        processes.send(found, signal.SIGTERM)
        assert second.wait() == -signal.SIGTERM


def test_a_process_of_somebody_else_is_passed_over() -> None:
    """The other processes of the run are ended nevertheless."""
    with endings.ended(
        subprocess.Popen(["sleep", "60"], user=65534 if os.geteuid() == 0 else None)
    ) as process:
        found = [psutil.Process(1), psutil.Process(process.pid)]
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 0)
        try:
            processes.send(found, signal.SIGCONT)
            processes.send(found[1:], signal.SIGTERM)
        finally:
            if os.getresuid()[2] == 0:
                os.setresuid(0, 0, 0)

"""Work that cannot begin: the daemon says so everywhere, and goes on when the cause has gone."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from support.daemon import LONG, Daemon, counting, ran
from support.disks import Disk
from support.governed import Governed
from support.loopback import SignalServer, wait_until
from support.machine import Machine, deployment, small_disk
from support.service_manager import Systemd

fault = pytest.mark.fault
SHOWN = "it is shown by status, --check, wait, systemd's status line and the metrics, and ends when its cause has gone"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    """A socket at `$NOTIFY_SOCKET`, as systemd has it."""
    manager = Systemd(tmp_path / "notify")
    yield manager
    manager.close()


def start(daemon: Daemon, systemd: Systemd, *before: str) -> Path:
    """Start the daemon after a first deployment, and return the path of its metrics."""
    daemon.machine.have_quick_tools()
    metrics = daemon.machine.folder / "metrics.prom"
    daemon.configure(metrics_file=str(metrics))
    daemon.put([deployment("d1", counting(daemon.machine))])
    daemon.start(*before, NOTIFY_SOCKET=str(systemd.path))
    daemon.wait_state("d1", "unasked")
    return metrics


def expect(daemon: Daemon, systemd: Systemd, metrics: Path, cause: str) -> None:
    """Put a second deployment, and expect that all that tells about health says why it cannot begin."""
    daemon.put([deployment("d2", counting(daemon.machine, "d2"))], "more")
    line = f"blocked: {cause}"
    told = systemd.until(f"STATUS={line}")[-1]
    assert "; next try at " in told
    wait_until(lambda: "d2" in daemon.command("status").out, LONG)
    wait_until(lambda: "next try at " in daemon.command("status", "--check").out, LONG)

    shown = daemon.command("status").out
    assert f"agent: {line}" in shown
    [row] = [each for each in shown.splitlines() if each.startswith("d2")]
    assert "cannot begin: " in row
    assert "next try at " in row
    checked = daemon.command("status", "--check")
    assert checked.code == 1
    assert line in checked.out
    assert "next try at " in checked.out
    said = daemon.command("status", "--json").data
    assert not said["healthy"]
    assert [cause in each["cause"] for each in said["agent"]["blocked"]] == [True]
    for words in (["d2"], []):
        # while the agent tries again, it is not blocked
        wait_until(partial(_waits, daemon, words, line), LONG)
    doctor = daemon.command("doctor")
    assert doctor.code == 1
    assert cause in doctor.out.lower()
    wait_until(lambda: "heat_config_agent_blocked 1.0" in metrics.read_text(), LONG)
    assert "heat_config_agent_next_try_time_seconds " in metrics.read_text()
    assert ran(daemon.machine) == ["d1"]


def _waits(daemon: Daemon, words: list[str], line: str) -> bool:
    """Return whether `wait` says why the agent is blocked; it is never done."""
    waited = daemon.command("wait", *words, "--wait-for", "0.1")
    assert waited.code == 7
    return line in waited.err


def expect_end(
    daemon: Daemon, systemd: Systemd, metrics: Path, *, poke: bool = True
) -> None:
    """Expect that the deployment is carried out once, and that nothing is blocked any more.

    Without a poke the daemon tries it again by itself, which takes 10 s.
    """
    if poke:
        daemon.send(signal.SIGUSR1)
    daemon.wait_state("d2", "unasked")
    systemd.until("STATUS=idle")
    wait_until(
        lambda: daemon.command("status", "--check").out == "the agent is well: idle\n",
        LONG,
    )
    wait_until(lambda: "heat_config_agent_blocked 0.0" in metrics.read_text(), LONG)
    assert daemon.command("wait", "--wait-for", "60").code == 0
    assert ran(daemon.machine) == ["d1", "d2"]
    assert "Traceback" not in daemon.log
    assert len(daemon.said("d2", "cannot start")) <= 2
    assert daemon.stop() == 0


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Have all that opens files of a mount from now on see it read-only."""
    subprocess.run(["mount", "--bind", path, path], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", path], check=True)
        yield
    finally:
        subprocess.run(["umount", path], check=True)


@contextlib.contextmanager
def folder_of_scripts(machine: Machine) -> Iterator[Disk]:
    """Have scripts work in a folder that is a small file system of its own."""
    path = machine.folder / "working"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k,mode=0700", "tmpfs", str(path)]
    done = subprocess.run(mount, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(
            f"tmpfs cannot be mounted here (run the tests as root): {done.stderr.strip()}"
        )
    machine.environment["HEAT_SCRIPT_WORKING"] = str(path / "scripts")
    try:
        yield Disk(path)
    finally:
        machine.end()
        subprocess.run(["umount", "--lazy", path], check=True)


@fault(3, "a daemon on a full disk", SHOWN)
def test_a_full_disk_blocks(machine: Machine, daemon: Daemon, systemd: Systemd) -> None:
    """A full disk of the state directory is shown, though the health file cannot be written."""
    with small_disk(machine, "600k") as path:
        metrics, disk = start(daemon, systemd), Disk(path)
        disk.fill()
        expect(daemon, systemd, metrics, "no space left on device")
        disk.free()
        expect_end(daemon, systemd, metrics, poke=False)


@fault(3, "a daemon on a disk without inodes", SHOWN)
def test_a_disk_without_inodes_blocks(
    machine: Machine, daemon: Daemon, systemd: Systemd
) -> None:
    """A disk without inodes is shown."""
    with small_disk(machine, "600k") as path:
        metrics, disk = start(daemon, systemd), Disk(path)
        disk.take_all_inodes()
        expect(daemon, systemd, metrics, "no space left on device")
        disk.limit_inodes(10_000)
        expect_end(daemon, systemd, metrics)


@fault(3, "a daemon on a read-only disk", SHOWN)
def test_a_read_only_disk_blocks(
    machine: Machine, daemon: Daemon, systemd: Systemd
) -> None:
    """A read-only state directory is shown."""
    with small_disk(machine, "600k") as path:
        metrics = start(daemon, systemd)
        with read_only(path):
            expect(daemon, systemd, metrics, "read-only file system")
        expect_end(daemon, systemd, metrics)


@fault(3, "a daemon whose folder of scripts is full or read-only", SHOWN)
@pytest.mark.parametrize("kind", ["full", "read-only"])
def test_the_folder_of_scripts_blocks(
    machine: Machine, daemon: Daemon, systemd: Systemd, kind: str
) -> None:
    """A full or read-only folder of scripts is shown."""
    with folder_of_scripts(machine) as disk:
        metrics = start(daemon, systemd)
        if kind == "full":
            disk.fill()
            expect(daemon, systemd, metrics, "no space left on device")
            disk.free()
        else:
            with read_only(disk.path):
                expect(daemon, systemd, metrics, "read-only file system")
        expect_end(daemon, systemd, metrics)


@fault(3, "a file in the place of a folder that runs need", SHOWN)
@pytest.mark.parametrize("place", ["runs", "heat-config-script"])
def test_a_file_in_the_place_of_a_folder_blocks(
    machine: Machine, daemon: Daemon, systemd: Systemd, place: str
) -> None:
    """A file in the place of the folder of runs or of scripts is shown."""
    metrics = start(daemon, systemd)
    folder = machine.state / place
    folder.rename(machine.state / "elsewhere")
    folder.write_text("a file")
    expect(daemon, systemd, metrics, "")
    folder.unlink()
    (machine.state / "elsewhere").rename(folder)
    expect_end(daemon, systemd, metrics)


@fault(3, "a mistake in the policy of a running daemon", SHOWN)
def test_a_mistake_in_the_policy_blocks(
    machine: Machine, daemon: Daemon, systemd: Systemd
) -> None:
    """A mistake in the policy is shown."""
    governed = Governed(machine)
    governed.policy("tools = script")
    metrics = start(daemon, systemd, *governed.before)
    governed.policy("tools = scrpt")
    expect(
        daemon, systemd, metrics, "cannot use the policy /etc/heat-config-agent/policy"
    )
    governed.policy("tools = script")
    expect_end(daemon, systemd, metrics)


def kept_open(daemon: Daemon, systemd: Systemd) -> set[int]:
    """Return the descriptors that an idle daemon keeps open, without those of its looks at the source."""
    systemd.until("STATUS=idle")
    folder = f"/proc/{daemon.pid}/fd"
    kept = set(map(int, os.listdir(folder)))
    for _ in range(100):
        time.sleep(0.01)
        kept &= set(map(int, os.listdir(folder)))
    return kept


@fault(3, "a daemon that may open no more files", SHOWN)
def test_too_many_open_files_block(daemon: Daemon, systemd: Systemd) -> None:
    """A limit on open files is shown: the document can be read, and its deployment cannot begin."""
    metrics = start(daemon, systemd)
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    kept = kept_open(daemon, systemd)
    free = (number for number in itertools.count() if number not in kept)
    _, limit = next(free), next(free)  # one file at a time: a document, but no run
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    daemon.put([deployment("d2", counting(daemon.machine, "d2"))], "more")
    wait_until(
        lambda: (
            "blocked: too many open files" in daemon.command("status", "--check").out
        ),
        LONG,
    )
    assert daemon.command("status", "--check").code == 1
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    expect_end(daemon, systemd, metrics)


@contextlib.contextmanager
def mount(path: Path, options: str) -> Iterator[None]:
    """Have a folder be a small file system with these options."""
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(
            f"tmpfs cannot be mounted here (run the tests as root): {done.stderr.strip()}"
        )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@fault(
    2,
    "a full disk takes the output of a script",
    "the result says that the disk is full, and where",
)
def test_an_output_that_is_lost_is_the_fault_of_the_disk(
    machine: Machine, heat: SignalServer
) -> None:
    """The result of a script that could not write its output names the full disk."""
    place = machine.folder / "outputs"
    script = f"#!/bin/sh\ncat /dev/zero >{place}/ballast 2>/dev/null\necho value >$heat_outputs_path.it 2>/dev/null\n"
    given = [deployment("d1", script, outputs=["it"], signal=heat.url())]
    with mount(place, "size=64k"):
        done = machine.apply(given, HEAT_SCRIPT_OUTPUTS=str(place / "scripts"))
    why = f"No space left on device: {place}/scripts, so its output may be incomplete"
    assert why in done.out
    assert heat.values()[0]["deploy_stderr"] == f"{why}\n"
    assert machine.status()["d1"]["reason"].endswith(why)


@fault(2, "scripts in a folder that is mounted with noexec", "the result says so")
def test_a_folder_without_exec_is_named(machine: Machine) -> None:
    """The reason of a failure with code 126 says that nothing can be run in the folder."""
    place = machine.folder / "working"
    with mount(place, "size=64k,noexec"):
        done = machine.apply(
            [deployment("d1", "#!/bin/sh\n")],
            HEAT_SCRIPT_WORKING=str(place / "scripts"),
        )
    assert (
        f"nothing can be run in {place}/scripts: its file system is mounted with noexec"
        in done.out
    )

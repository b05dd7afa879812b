"""The daemon when servers, disks and its own files fail it: it goes on, says so, and loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from support.daemon import LONG, Daemon, counting, ran, until
from support.disks import Disk
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment, small_disk

pytestmark = [pytest.mark.takes(20), pytest.mark.new_process("daemons")]


@pytest.fixture
def disk(machine: Machine, daemon: Daemon) -> Iterator[Disk]:
    """A disk of 512 KiB."""
    with small_disk(machine, "512k") as path:
        yield Disk(path)
        daemon.end()


# Servers.


@pytest.mark.fault(
    1,
    "the server that takes results down for a while",
    "each result is delivered when the server is back, or at once with `retry --signal`; nothing is run for that",
)
def test_result_is_delivered_after_an_outage_of_the_server(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The result is delivered once it is back, at once when somebody says so, and nothing is run for that."""
    heat.refuse()
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    daemon.start()
    daemon.wait_said("d1", "could not be delivered yet")
    wait_until(lambda: "1 result to deliver" in daemon.health()["doing"], LONG)
    checked = daemon.command("status", "--check")
    assert (checked.code, "1 result could not be delivered yet" in checked.out) == (
        1,
        True,
    )
    wait_until(lambda: machine.status()["d1"]["tries"] >= 2, LONG)

    heat.start()
    assert daemon.command("poll").code == 0
    heat.wait_for(1, LONG)
    daemon.wait_state("d1", "signalled")
    assert daemon.command("status", "--check").code == 0
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    1,
    "the daemon killed while the server is down, while it delivers, again and again",
    "each runs once, and its one result is delivered",
)
def test_killed_while_the_signal_server_is_down(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The next agent delivers each undelivered result once, unchanged."""
    heat.refuse()
    daemon.put(
        [deployment("d1", counting(machine, then="date +%N"), signal=heat.url())]
    )
    daemon.start()
    daemon.wait_said("could not be delivered yet")
    daemon.stop(signal.SIGKILL)
    heat.start()
    daemon.start()
    heat.wait_for(1, LONG)
    daemon.wait_state("d1", "signalled")
    daemon.stop(signal.SIGKILL)
    daemon.start()
    daemon.put([deployment("d2", counting(machine, "d2"))])
    wait_until(lambda: ran(machine) == ["d1", "d2"], LONG)
    assert len(heat.signals) == 1


@pytest.mark.fault(
    1,
    "the daemon killed while the server is down, while it delivers, again and again",
    "each runs once, and its one result is delivered",
)
def test_daemon_killed_while_delivering_sends_the_same_result(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """A result of which nobody knows whether it arrived is sent again, the same."""
    heat.answers.append(Answer(delay=30))
    daemon.put(
        [deployment("d1", counting(machine, then="date +%N"), signal=heat.url())]
    )
    daemon.start()
    heat.wait_for(1, LONG)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    heat.wait_for(2, LONG)
    daemon.wait_state("d1", "signalled")
    assert heat.signals[0].body == heat.signals[1].body
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    1,
    "the daemon killed while the server is down, while it delivers, again and again",
    "each runs once, and its one result is delivered",
)
def test_daemon_killed_repeatedly_runs_each_deployment_once(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """After kills at any moment each deployment runs once, and its result is delivered."""
    ids = [f"d{number}" for number in range(6)]
    daemon.configure(parallel=2)
    daemon.put(
        [
            deployment(
                each, counting(machine, each, "sleep 0.2"), signal=heat.url(each)
            )
            for each in ids
        ]
    )
    for _ in range(6):
        daemon.start(wait=False)
        count = len(ran(machine))
        wait_until(
            lambda: len(ran(machine)) > count or len(ran(machine)) == len(ids),  # noqa: B023
            LONG,
        )
        daemon.stop(signal.SIGKILL)
    daemon.start()
    wait_until(lambda: all(heat.values(each) for each in ids), LONG)
    assert sorted(ran(machine)) == ids
    assert all(
        each["deploy_status_code"] == 0
        for each in (signal.value for signal in heat.signals)
    )


# The disk.


@pytest.mark.fault(
    1,
    "a disk that is full while the daemon works, or when it starts",
    "it goes on, says so a few times at most, and does each once when there is room",
)
def test_daemon_continues_on_a_full_disk(
    daemon: Daemon, machine: Machine, heat: SignalServer, disk: Disk
) -> None:
    """On a full disk the daemon continues with a message, and does pending work once when there is room."""
    go = machine.folder / "go"
    given = [
        deployment(
            "d1", counting(machine, "d1", f"{until(go)}; exit 3"), signal=heat.url("d1")
        )
    ]
    daemon.put(given)
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    disk.fill()
    go.touch()
    given.append(
        deployment("d2", counting(machine, "d2"), signal=heat.url("d2"), pad="x" * 8192)
    )
    daemon.put(given)
    daemon.wait_said("No space left on device")
    assert not daemon.ended
    assert ran(machine) == ["d1"]

    disk.free()
    daemon.send(signal.SIGUSR1)
    wait_until(lambda: len(heat.values("d1")) == len(heat.values("d2")) == 1, LONG)
    assert ran(machine) == ["d1", "d2"]
    assert heat.values("d1")[0]["deploy_status_code"] == 3
    kept = machine.state / "documents" / "local.json"
    wait_until(lambda: '"d2"' in kept.read_text(), LONG)
    expected = "1 failed: d1\n"  # and no problem of the agent
    wait_until(lambda: daemon.command("status", "--check").out == expected, LONG)
    assert len(daemon.said("No space left on device")) <= 4, daemon.log
    assert "Traceback" not in daemon.log
    assert not list(machine.state.rglob("*.new"))
    assert daemon.stop() == 0


@pytest.mark.fault(
    1,
    "a disk that is full while the daemon works, or when it starts",
    "it goes on, says so a few times at most, and does each once when there is room",
)
def test_daemon_starts_on_a_full_disk_or_says_why_not(
    daemon: Daemon, machine: Machine, disk: Disk
) -> None:
    """On a full disk the daemon starts or says why not, and all is well once there is room."""
    daemon.put([deployment("d1", counting(machine))])
    disk.fill()
    daemon.start(wait=False)
    daemon.wait_said("No space left on device")
    disk.free()
    if daemon.ended:
        daemon.start()
    else:
        daemon.send(signal.SIGUSR1)
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    assert "Traceback" not in daemon.log


@pytest.mark.fault(
    1,
    "a file system that has no inodes left while the daemon works",
    "it goes on, says so, begins nothing that it cannot record, and does each once when it can",
)
def test_without_inodes_a_run_is_reported_truly(
    daemon: Daemon, machine: Machine, heat: SignalServer, disk: Disk
) -> None:
    """A run that goes on meanwhile is reported with what it really came to."""
    go = machine.folder / "go"
    given = [
        deployment(
            "d1", counting(machine, "d1", f"{until(go)}; exit 3"), signal=heat.url("d1")
        )
    ]
    daemon.put(given)
    daemon.start()
    wait_until(lambda: ran(machine) == ["d1"], LONG)
    disk.take_all_inodes()
    go.touch()
    given.append(deployment("d2", counting(machine, "d2"), signal=heat.url("d2")))
    daemon.put(given)
    daemon.wait_said("No space left on device")
    assert not daemon.ended
    assert ran(machine) == ["d1"]

    disk.limit_inodes(100_000)
    wait_until(
        lambda: _poked(daemon, len(heat.values("d1")) == len(heat.values("d2")) == 1),
        LONG,
    )
    daemon.wait_state("d2", "signalled")
    assert heat.values("d1")[0]["deploy_status_code"] == 3
    assert ran(machine) == ["d1", "d2"]
    assert "Traceback" not in daemon.log
    assert daemon.stop() == 0


def _poked(daemon: Daemon, done: bool) -> bool:
    """Have the daemon look again unless all is done."""
    if not done:
        daemon.send(signal.SIGUSR1)
    return done


# What it keeps for itself.


@pytest.mark.fault(
    3,
    "every file of the daemon's state but the journal damaged",
    "it starts, goes on, says what it has set aside, and runs nothing twice",
)
@pytest.mark.parametrize(
    "name",
    [
        "documents",
        "learned.json",
        "health.json",
        "documents/local.json",
        "asked",
        "paused",
    ],
)
def test_daemon_copes_with_folders_in_the_place_of_files(
    daemon: Daemon, machine: Machine, name: str
) -> None:
    """With folders in the place of files, and files in that of folders, work continues or the error says why not."""
    path = machine.state / name
    path.parent.mkdir(parents=True, mode=0o700)
    if name in ("documents", "asked"):
        path.write_text("")
    else:
        path.mkdir()
        (path / "x").touch()
    daemon.put([deployment("d1", counting(machine))])
    daemon.start(wait=False)
    if name == "paused":
        daemon.wait_said("paused: for a reason that cannot be read")
    else:
        wait_until(lambda: ran(machine) == ["d1"], LONG)
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.log


@pytest.mark.fault(
    1,
    "a source that cannot be read any more",
    "its last document stays in force, and a sentence says so; it is read when it is back",
)
def test_unreadable_folder_keeps_its_last_content(
    daemon: Daemon, machine: Machine, heat: SignalServer
) -> None:
    """The last content of an unreadable folder stays in force with a warning; the folder is read when it is back."""
    heat.refuse()
    daemon.put([deployment("d1", counting(machine), signal=heat.url())])
    daemon.start()
    daemon.wait_state("d1", "finished")
    aside = daemon.local.with_name("aside")
    daemon.local.rename(aside)
    daemon.local.write_text("a file")
    daemon.wait_said("local", "Not a directory")
    heat.start()
    daemon.send(signal.SIGUSR1)
    heat.wait_for(1, LONG)
    daemon.local.unlink()
    aside.rename(daemon.local)
    wait_until(lambda: daemon.command("status", "--check").code == 0, LONG)
    assert ran(machine) == ["d1"]

"""Disks that are full or read-only: nothing is lost, nothing false is told, and work goes on afterwards."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import psutil
import pytest

from heat_config_agent.state.journal import Journal
from support import endings, pace
from support.disks import ONCE, PAGE, Disk, counting, ran
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Done, Machine, deployment, small_disk

pytestmark = pytest.mark.takes(20)

USAGE, LACKING = 2, 10


@pytest.fixture
def disk(machine: Machine) -> Iterator[Disk]:
    """The state directory of the machine, on a file system of 256 KiB."""
    with small_disk(machine, "256k") as path:
        yield Disk(path)


def no_room(done: Done) -> bool:
    """Return whether a run ended with one sentence because there was no room for its state."""
    return (
        done.code == LACKING
        and "No space left on device" in done.err
        and "Traceback" not in done.err
    )


@pytest.mark.fault(
    1,
    "a full disk: before anything, before a run, during it, after it, with and without an agent",
    "nothing is begun without room; what ran is reported with its own exit code; nothing is run twice",
)
def test_full_disk_begins_nothing(
    machine: Machine, heat: SignalServer, disk: Disk
) -> None:
    """On a full disk nothing is begun; once there is room everything is done, once."""
    given = [counting(machine, each, signal=heat.url(each)) for each in ("d1", "d2")]
    disk.fill()

    assert no_room(machine.apply(given))
    assert ran(machine) == []
    assert not heat.signals
    disk.free()

    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1", "d2"]
    assert [
        each["deploy_status_code"] for each in heat.values("d1") + heat.values("d2")
    ] == [0, 0]


@pytest.mark.fault(
    1,
    "a full disk: before anything, before a run, during it, after it, with and without an agent",
    "nothing is begun without room; what ran is reported with its own exit code; nothing is run twice",
)
def test_full_before_a_run(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """A deployment that was accepted and has no room for its run is said not to have run, and run once there is."""
    given = [counting(machine, signal=heat.url())]
    assert machine.apply([deployment("before")]).code == 0
    disk.fill()

    done = machine.apply(given, seconds=10)

    assert done.code in (1, LACKING)
    assert "No space left on device" in done.out + done.err
    assert "Traceback" not in done.err
    assert ran(machine) == []
    assert not heat.signals
    disk.free()
    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1"]
    assert [each["deploy_status_code"] for each in heat.values()] == [0]


@pytest.mark.fault(
    1,
    "a full disk: before anything, before a run, during it, after it, with and without an agent",
    "nothing is begun without room; what ran is reported with its own exit code; nothing is run twice",
)
def test_full_during_a_run(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """A script that fills the disk is reported with its own exit code and output as soon as there is room again."""
    then = f"head -c 12000 /dev/zero | tr '\\0' x; cat /dev/zero >{disk.path}/ballast 2>/dev/null; exit 3"
    given = [counting(machine, then=then, signal=heat.url())]

    assert no_room(machine.apply(given))
    assert not heat.signals
    disk.free()

    assert machine.apply(given).code == 1
    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1"]
    assert heat.values() == [
        {"deploy_stdout": "x" * 12000, "deploy_stderr": "", "deploy_status_code": 3}
    ]


@pytest.mark.fault(
    1,
    "a full disk: before anything, before a run, during it, after it, with and without an agent",
    "nothing is begun without room; what ran is reported with its own exit code; nothing is run twice",
)
def test_full_while_the_agent_is_killed(
    machine: Machine, heat: SignalServer, disk: Disk
) -> None:
    """The end of a run is known even if the disk was full and no agent was there."""
    go = machine.folder / "go"
    given = [
        counting(
            machine,
            then=f"until [ -e {go} ]; do sleep 0.02; done; exit 9",
            signal=heat.url(),
        )
    ]
    agent = machine.start_apply(given)
    wait_until(lambda: bool(ran(machine)))
    agent.kill()
    agent.communicate()
    supervisor = psutil.Process(machine.status()["d1"]["process"])
    disk.fill()
    go.touch()
    wait_until(lambda: endings.has_ended(supervisor))
    disk.free()

    assert machine.apply(given).code == 1
    assert [each["deploy_status_code"] for each in heat.values()] == [9]
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    1,
    "a full disk: before anything, before a run, during it, after it, with and without an agent",
    "nothing is begun without room; what ran is reported with its own exit code; nothing is run twice",
)
def test_full_after_a_run(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """A delivery that cannot be noted is made again once there is room, with the same result."""
    given = [counting(machine, then="date +%N", signal=heat.url())]
    heat.refuse()
    machine.apply(given, *ONCE)
    fill_page(machine)
    disk.fill()
    heat.start()

    assert no_room(machine.apply(given, *ONCE))
    disk.free()
    assert machine.apply(given).code == 0

    assert ran(machine) == ["d1"]
    assert heat.signals
    assert len({each.body for each in heat.signals}) == 1
    assert machine.status()["d1"]["state"] == "signalled"


def fill_page(machine: Machine) -> None:
    """Lengthen the journal to the end of its last page, as vain tries would, so that it cannot grow on a full disk."""
    path = machine.state / "journal"
    book = Journal(machine.state)
    before = path.stat().st_size
    book.tried("d1", "x")
    after = path.stat().st_size
    book.tried("d1", "x" * (-after % PAGE + PAGE - (after - before) + 1))
    book.close()
    assert path.stat().st_size % PAGE == 0


@pytest.mark.fault(
    3,
    "a script that fills the disk and hangs",
    "it is ended at its time limit, and reported once there is room",
)
def test_time_limit_holds_on_a_full_disk(
    machine: Machine, heat: SignalServer, disk: Disk
) -> None:
    """A script that fills the disk and hangs is ended at its time limit, even if that cannot be noted."""
    fill = f"cat /dev/zero >{disk.path}/ballast 2>/dev/null; sleep 60"
    path = machine.state / "journal"
    assert (
        machine.apply(
            [
                counting(
                    machine,
                    "d0",
                    then=fill.replace("cat", "true"),
                    options={"timeout": 0.1},
                )
            ]
        ).code
        == 1
    )
    lines = path.read_bytes().splitlines(keepends=True)
    # what is noted until a run begins
    length = len(b"".join(lines[:2])) + len(json.dumps(heat.url())) * 2 + 200
    pad = (PAGE - 150 - path.stat().st_size - length) % PAGE
    given = [
        counting(
            machine, then=fill, options={"timeout": 1}, signal=heat.url(), pad="x" * pad
        )
    ]

    done = machine.apply(given, seconds=20)
    left = [each for each in machine.processes() if each.name() in ("sleep", "sh")]
    disk.free()

    assert not left, f"the run goes on: {done.err}"
    machine.apply(given)
    assert [each["deploy_status_code"] for each in heat.values()] == [124]
    assert ran(machine) == ["d0", "d1"]


@pytest.mark.fault(
    1,
    "a file system that has no inodes left: before anything, before a run, after it",
    "nothing is begun without them; all is done once there are some; nothing is run twice",
)
@pytest.mark.parametrize("left", [0, 1, 2, 4, 7, 10, 14])
def test_lack_of_inodes_leaves_truthful_results(
    machine: Machine, heat: SignalServer, disk: Disk, left: int
) -> None:
    """With few inodes left, results of begun runs are true, and the rest is done later."""
    given = [counting(machine, each, signal=heat.url(each)) for each in ("d1", "d2")]
    spare = disk.path / "spare"
    spare.mkdir(mode=0o700)
    disk.limit_inodes(len([disk.path, *disk.path.rglob("*")]) + left)

    done = machine.apply(given, *ONCE)

    assert done.code in (0, 1, LACKING)
    assert "Traceback" not in done.err
    if len(ran(machine)) < 2:
        assert "No space left on device" in done.out + done.err
    disk.limit_inodes(100_000)
    machine.apply(given)
    assert machine.apply(given).code == 0
    assert sorted(ran(machine)) == ["d1", "d2"]
    for each in ("d1", "d2"):  # one that was not answered in time is sent again
        assert {one["deploy_status_code"] for one in heat.values(each)} == {0}


@pytest.mark.fault(
    1,
    "a state directory that is read-only for a while",
    "nothing is begun or sent; what is known can be seen; nothing is lost",
)
def test_a_read_only_disk_begins_and_loses_nothing(
    machine: Machine, heat: SignalServer, disk: Disk
) -> None:
    """On a read-only disk nothing is begun or sent, what is known can be seen, and nothing is lost."""
    given = [counting(machine, signal=heat.url())]
    heat.refuse()
    machine.apply(given, *ONCE)
    heat.start()
    disk.remount("ro")

    done = machine.apply([*given, counting(machine, "d2")])
    assert done.code == LACKING
    assert "Read-only file system" in done.err
    assert "Traceback" not in done.err
    assert machine.status()["d1"]["state"] == "finished"
    assert not heat.signals
    disk.remount("rw")

    assert machine.apply(given).code == 0
    assert len(heat.signals) == 1
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    5,
    "a state directory, journal or lock that cannot be used",
    "one sentence names it, and nothing is run without it",
)
@pytest.mark.parametrize(("beneath", "code"), [("", USAGE), ("deeper/state", LACKING)])
def test_unusable_state_directory_runs_nothing(
    machine: Machine, heat: SignalServer, beneath: str, code: int
) -> None:
    """A state directory that cannot be used is named in one sentence, and nothing is run without one."""
    (machine.folder / "state").write_text("a file\n")
    machine.state = machine.folder / "state" / beneath

    done = machine.apply([counting(machine, signal=heat.url())])

    assert done.code == code
    assert done.err.startswith("error: ")
    assert str(machine.state) in done.err
    assert len(done.err.splitlines()) == 1
    assert ran(machine) == []
    assert not heat.signals


@pytest.mark.fault(
    5,
    "a state directory, journal or lock that cannot be used",
    "one sentence names it, and nothing is run without it",
)
@pytest.mark.parametrize("name", ["journal", "lock"])
def test_unreadable_journal_or_lock_runs_nothing(
    machine: Machine, heat: SignalServer, name: str
) -> None:
    """A journal or a lock that cannot be opened is named in one sentence, and nothing is run without it."""
    machine.state.mkdir(mode=0o700)
    (machine.state / name).mkdir(mode=0o700)

    done = machine.apply([counting(machine, signal=heat.url())])

    assert done.code == LACKING
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) == 1
    assert ran(machine) == []


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "a sentence says so; each deployment is carried out once",
)
def test_full_disk_of_deployed_is_a_warning(
    machine: Machine, heat: SignalServer, disk: Disk
) -> None:
    """If heat-agents' files cannot be written, that is a warning, and has no other effect."""
    (machine.folder / "elsewhere").mkdir()
    elsewhere = Machine(machine.folder / "elsewhere")
    deployed = disk.path / "deployed"
    deployed.mkdir(mode=0o700)
    disk.fill()

    done = elsewhere.apply(
        [counting(machine, signal=heat.url())], HEAT_CONFIG_DEPLOYED=str(deployed)
    )

    assert done.code == 0
    assert str(deployed) in done.err
    assert [each["deploy_status_code"] for each in heat.values()] == [0]
    assert list(deployed.iterdir()) == []
    assert (
        elsewhere.apply(
            [counting(machine, signal=heat.url())], HEAT_CONFIG_DEPLOYED=str(deployed)
        ).code
        == 0
    )
    assert ran(machine) == ["d1"]
    elsewhere.end()


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "a sentence says so; each deployment is carried out once",
)
@pytest.mark.parametrize("place", ["a-file", "a-file/deployed"])
def test_unusable_deployed_folder_is_a_warning(
    machine: Machine, heat: SignalServer, place: str
) -> None:
    """Where `deployed/` cannot be a folder, that is said and the deployments are carried out."""
    (machine.folder / "a-file").touch()
    given = [counting(machine, signal=heat.url())]

    done = machine.apply(given, HEAT_CONFIG_DEPLOYED=str(machine.folder / place))

    assert done.code == 0, done.err
    assert "warning" in done.err
    assert len(heat.signals) == 1
    assert (
        machine.apply(given, HEAT_CONFIG_DEPLOYED=str(machine.folder / place)).code == 0
    )
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "a sentence says so; each deployment is carried out once",
)
def test_a_mark_that_is_not_on_disk_for_sure_is_not_relied_on(
    machine: Machine, heat: SignalServer
) -> None:
    """Where `deployed/` cannot be flushed, a file that a power cut takes from it is not one that somebody removed."""
    code = """if True:
        import os, sys
        from heat_config_agent.cli import main
        from heat_config_agent.state.deployed import Deployed
        def sync(self): raise OSError(5, os.strerror(5))
        Deployed.sync = sync
        sys.exit(main.apply())
    """
    path = machine.write([counting(machine, signal=heat.url())])
    process = machine.start(
        sys.executable, "-c", code, "--state-dir", str(machine.state), str(path)
    )
    _, err = process.communicate(timeout=pace.seconds(20))
    assert process.returncode == 0
    assert "Input/output error" in err
    (machine.state / "deployed" / "d1.json").unlink()

    assert machine.apply(path).code == 0
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "a sentence says so; each deployment is carried out once",
)
def test_deployed_removed_by_a_script_is_a_warning(
    machine: Machine, heat: SignalServer
) -> None:
    """A script may remove `deployed/`: that is said, its result is delivered, and it is not run again."""
    remove = (
        f"until rm -rf {machine.state}/deployed; do :; done"  # while it is written to
    )
    given = [counting(machine, then=remove, signal=heat.url())]

    done = machine.apply(given)

    assert (done.code, len(heat.signals)) == (0, 1), done.err
    assert "Traceback" not in done.err


@pytest.mark.fault(
    3,
    "the agent's own output on a disk that is full",
    "all is carried out and delivered",
)
@pytest.mark.parametrize("stream", [1, 2])
def test_full_disk_of_the_log_stops_no_deployment(
    machine: Machine, heat: SignalServer, stream: int
) -> None:
    """Where the agent's own output cannot be written, all deployments are carried out and delivered all the same."""
    bad = deployment("d0", group="missing", signal=heat.url("d0"))
    path = machine.write(
        [
            bad,
            *(counting(machine, each, signal=heat.url(each)) for each in ("d1", "d2")),
        ]
    )
    command = [
        str(BIN / "heat-config-apply"),
        "--state-dir",
        str(machine.state),
        str(path),
    ]

    agent = machine.start(
        "/bin/sh", "-c", f'exec "$@" {stream}>/dev/full', "sh", *command
    )
    out, err = agent.communicate(timeout=pace.seconds(20))

    assert ran(machine) == ["d1", "d2"]
    assert len(heat.signals) == 3
    assert "Traceback" not in out + err

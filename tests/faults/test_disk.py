"""Disks that are full, read-only or damaged: nothing is lost, nothing false is told, and work goes on afterwards."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from heat_config_agent.journal import Journal
from loopback import SignalServer, wait_until
from machine import BIN, Done, Machine, deployment, small_disk

USAGE = 2
PAGE = 4096
ONCE = ("--deliver-for", "0")


class Disk:
    """A small file system of its own on which the state directory is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Take all the room that is left."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while file.write(bytes(PAGE)):
                    pass
            except OSError:
                return

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink()

    def limit_inodes(self, number: int) -> None:
        """Have room for so many files in all."""
        subprocess.run(["mount", "-o", f"remount,nr_inodes={number}", self.path], check=True)

    def remount(self, mode: str) -> None:
        """Make it read-only (ro) or writable (rw)."""
        subprocess.run(["mount", "-o", f"remount,{mode}", self.path], check=True)


@pytest.fixture
def disk(machine: Machine) -> Iterator[Disk]:
    """The state directory of the machine, on a file system of 256 KiB."""
    with small_disk(machine, "256k") as path:
        yield Disk(path)


def counting(machine: Machine, identity: str = "d1", then: str = "", **fields: Any) -> dict[str, Any]:
    """Return a deployment whose script counts its runs."""
    return deployment(identity, f"#!/bin/sh\necho {identity} >>{machine.folder}/ran\n{then}\n", **fields)


def ran(machine: Machine) -> list[str]:
    """Return the ids of the scripts that ran, once for each time."""
    path = machine.folder / "ran"
    return path.read_text().split() if path.exists() else []


def no_room(done: Done) -> bool:
    """Whether a run ended because there was no room for its state, and said so in a sentence."""
    return done.code == USAGE and "No space left on device" in done.err and "Traceback" not in done.err


# Full.


@pytest.mark.fault(
    1,
    "a full disk: before anything, before a run, during it, after it, with and without an agent",
    "nothing is begun without room; what ran is reported with its own exit code; nothing is run twice",
)
def test_full_before_anything(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """On a full disk nothing is begun; once there is room everything is done, once."""
    given = [counting(machine, each, signal=heat.url(each)) for each in ("d1", "d2")]
    disk.fill()

    assert no_room(machine.apply(given))
    assert ran(machine) == []
    assert not heat.signals
    disk.free()

    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1", "d2"]
    assert [each["deploy_status_code"] for each in heat.values("d1") + heat.values("d2")] == [0, 0]


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

    assert done.code in (1, USAGE)
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
    assert heat.values() == [{"deploy_stdout": "x" * 12000, "deploy_stderr": "", "deploy_status_code": 3}]


@pytest.mark.fault(
    1,
    "a full disk: before anything, before a run, during it, after it, with and without an agent",
    "nothing is begun without room; what ran is reported with its own exit code; nothing is run twice",
)
def test_full_while_the_agent_is_killed(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """How a run ended is known even if the disk was full and no agent was there."""
    go = machine.folder / "go"
    given = [counting(machine, then=f"until [ -e {go} ]; do sleep 0.02; done; exit 9", signal=heat.url())]
    agent = machine.start_apply(given)
    wait_until(lambda: bool(ran(machine)))
    agent.kill()
    agent.communicate()
    supervisor = psutil.Process(machine.status()["d1"]["process"])
    disk.fill()
    go.touch()
    wait_until(lambda: not supervisor.is_running() or supervisor.status() == psutil.STATUS_ZOMBIE)
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
def test_a_time_limit_on_a_full_disk(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """A script that fills the disk and hangs is ended at its time limit, even if that cannot be noted."""
    fill = f"cat /dev/zero >{disk.path}/ballast 2>/dev/null; sleep 60"
    path = machine.state / "journal"
    assert (
        machine.apply([counting(machine, "d0", then=fill.replace("cat", "true"), options={"timeout": 0.1})]).code == 1
    )
    lines = path.read_bytes().splitlines(keepends=True)
    length = len(b"".join(lines[:2])) + len(json.dumps(heat.url())) * 2 + 200  # what is noted until a run begins
    pad = (PAGE - 150 - path.stat().st_size - length) % PAGE
    given = [counting(machine, then=fill, options={"timeout": 1}, signal=heat.url(), pad="x" * pad)]

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
def test_no_inodes(machine: Machine, heat: SignalServer, disk: Disk, left: int) -> None:
    """However many files can still be made, what is begun is reported truly, and what is not is done later."""
    given = [counting(machine, each, signal=heat.url(each)) for each in ("d1", "d2")]
    spare = disk.path / "spare"
    spare.mkdir(mode=0o700)
    disk.limit_inodes(len([disk.path, *disk.path.rglob("*")]) + left)

    done = machine.apply(given, *ONCE)

    assert done.code in (0, 1, USAGE)
    assert "Traceback" not in done.err
    if len(ran(machine)) < 2:
        assert "No space left on device" in done.out + done.err
    disk.limit_inodes(100_000)
    machine.apply(given)
    assert machine.apply(given).code == 0
    assert sorted(ran(machine)) == ["d1", "d2"]
    for each in ("d1", "d2"):  # one that was not answered in time is sent again
        assert {one["deploy_status_code"] for one in heat.values(each)} == {0}


# Read-only and not usable.


@pytest.mark.fault(
    1,
    "a state directory that is read-only for a while",
    "nothing is begun or sent; what is known can be seen; nothing is lost",
)
def test_read_only(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """On a read-only disk nothing is begun or sent, what is known can be seen, and nothing is lost."""
    given = [counting(machine, signal=heat.url())]
    heat.refuse()
    machine.apply(given, *ONCE)
    heat.start()
    disk.remount("ro")

    done = machine.apply([*given, counting(machine, "d2")])
    assert done.code == USAGE
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
@pytest.mark.parametrize("beneath", ["", "deeper/state"])
def test_a_state_directory_that_cannot_be_one(machine: Machine, heat: SignalServer, beneath: str) -> None:
    """A state directory that cannot be used is named in one sentence, and nothing is run without one."""
    (machine.folder / "state").write_text("a file\n")
    machine.state = machine.folder / "state" / beneath

    done = machine.apply([counting(machine, signal=heat.url())])

    assert done.code == USAGE
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
def test_a_file_of_ours_that_cannot_be_read(machine: Machine, heat: SignalServer, name: str) -> None:
    """A journal or a lock that cannot be opened is named in one sentence, and nothing is run without it."""
    machine.state.mkdir(mode=0o700)
    (machine.state / name).mkdir(mode=0o700)

    done = machine.apply([counting(machine, signal=heat.url())])

    assert done.code == USAGE
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) == 1
    assert ran(machine) == []


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "that is said; deployments are carried out, once",
)
def test_deployed_on_a_disk_that_is_full(machine: Machine, heat: SignalServer, disk: Disk) -> None:
    """What heat-agents' readers look at is only a view: if it cannot be written that is said, and nothing else."""
    (machine.folder / "elsewhere").mkdir()
    elsewhere = Machine(machine.folder / "elsewhere")
    deployed = disk.path / "deployed"
    deployed.mkdir(mode=0o700)
    disk.fill()

    done = elsewhere.apply([counting(machine, signal=heat.url())], HEAT_CONFIG_DEPLOYED=str(deployed))

    assert done.code == 0
    assert str(deployed) in done.err
    assert [each["deploy_status_code"] for each in heat.values()] == [0]
    assert list(deployed.iterdir()) == []
    assert elsewhere.apply([counting(machine, signal=heat.url())], HEAT_CONFIG_DEPLOYED=str(deployed)).code == 0
    assert ran(machine) == ["d1"]
    elsewhere.end()


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "that is said; deployments are carried out, once",
)
@pytest.mark.parametrize("place", ["a-file", "a-file/deployed"])
def test_deployed_that_cannot_be_a_folder(machine: Machine, heat: SignalServer, place: str) -> None:
    """Where `deployed/` cannot be a folder, that is said and the deployments are carried out."""
    (machine.folder / "a-file").touch()
    given = [counting(machine, signal=heat.url())]

    done = machine.apply(given, HEAT_CONFIG_DEPLOYED=str(machine.folder / place))

    assert done.code == 0, done.err
    assert "warning" in done.err
    assert len(heat.signals) == 1
    assert machine.apply(given, HEAT_CONFIG_DEPLOYED=str(machine.folder / place)).code == 0
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "that is said; deployments are carried out, once",
)
def test_a_mark_that_is_not_on_disk_for_sure_is_not_relied_on(machine: Machine, heat: SignalServer) -> None:
    """Where `deployed/` cannot be flushed, a file that a power cut takes from it is not one that somebody removed."""
    code = """if True:
        import os, sys
        from heat_config_agent.cli import main
        from heat_config_agent.deployed import Deployed
        def sync(self): raise OSError(5, os.strerror(5))
        Deployed.sync = sync
        sys.exit(main.apply())
    """
    path = machine.write([counting(machine, signal=heat.url())])
    process = machine.start(sys.executable, "-c", code, "--state-dir", str(machine.state), str(path))
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Input/output error" in err
    (machine.state / "deployed" / "d1.json").unlink()

    assert machine.apply(path).code == 0
    assert ran(machine) == ["d1"]


@pytest.mark.fault(
    1,
    "heat-agents' folder deployed/ full, not flushed, removed, or no folder",
    "that is said; deployments are carried out, once",
)
def test_deployed_that_a_script_removes(machine: Machine, heat: SignalServer) -> None:
    """A script may remove `deployed/`: that is said, its result is delivered, and it is not run again."""
    remove = f"until rm -rf {machine.state}/deployed; do :; done"  # while it is written to
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
def test_a_log_on_a_disk_that_is_full(machine: Machine, heat: SignalServer, stream: int) -> None:
    """Where the agent's own output cannot be written, all deployments are carried out and delivered all the same."""
    bad = deployment("d0", group="missing", signal=heat.url("d0"))
    path = machine.write([bad, *(counting(machine, each, signal=heat.url(each)) for each in ("d1", "d2"))])
    command = [str(BIN / "heat-config-apply"), "--state-dir", str(machine.state), str(path)]

    agent = machine.start("/bin/sh", "-c", f'exec "$@" {stream}>/dev/full', "sh", *command)
    out, err = agent.communicate(timeout=20)

    assert ran(machine) == ["d1", "d2"]
    assert len(heat.signals) == 3
    assert "Traceback" not in out + err


# Damaged.


@pytest.mark.fault(
    1,
    "a line of the journal damaged, or all of them",
    "the file is set aside and that is said; it costs at most its own deployment; nothing is run twice",
)
def test_a_damaged_line(machine: Machine, heat: SignalServer) -> None:
    """A damaged line of the journal costs at most its own deployment; the file is set aside, and that is said."""
    ids = ("d1", "d2", "d3")
    given = [counting(machine, each, signal=heat.url(each)) for each in ids]
    heat.refuse()
    machine.apply(given, *ONCE)
    heat.start()
    path = machine.state / "journal"
    lines = path.read_bytes().splitlines(keepends=True)
    hurt = next(number for number, line in enumerate(lines) if b'"key":"d2"' in line and b'"state":"finished"' in line)
    lines[hurt] = lines[hurt].replace(b"deploy", b"d\xff\0loy", 1)
    damaged = b"".join(lines)
    path.write_bytes(damaged)

    done = machine.apply(given)

    [aside] = machine.state.glob("journal.damaged-*")
    assert aside.read_bytes() == damaged
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert "1 damaged line" in done.err
    assert str(aside) in done.err
    assert ran(machine) == ["d1", "d2", "d3"]
    assert [[one["deploy_status_code"] for one in heat.values(each)] for each in ids] == [[0], [0], [0]]
    assert machine.apply(given).err == ""


@pytest.mark.fault(
    1,
    "a line of the journal damaged, or all of them",
    "the file is set aside and that is said; it costs at most its own deployment; nothing is run twice",
)
@pytest.mark.parametrize("state", ["accepted", "running", "finished", "signalled"])
def test_a_known_id_runs_once_whatever_line_is_damaged(machine: Machine, heat: SignalServer, state: str) -> None:
    """Whichever line of a deployment is damaged, it is not run a second time."""
    given = [counting(machine, signal=heat.url())]
    machine.apply(given)
    path = machine.state / "journal"
    lines = path.read_bytes().splitlines(keepends=True)
    [hurt] = [number for number, line in enumerate(lines) if f'"state":"{state}"'.encode() in line]
    lines[hurt] = lines[hurt].replace(b'"', b"#", 1)
    path.write_bytes(b"".join(lines))

    machine.apply(given)

    assert ran(machine) == ["d1"]
    assert len({each.body for each in heat.signals}) == 1


@pytest.mark.fault(
    1,
    "a line of the journal damaged, or all of them",
    "the file is set aside and that is said; it costs at most its own deployment; nothing is run twice",
)
@pytest.mark.parametrize("content", [b"\0" * 8192, b"\xff\xfe garbage\n" * 50, b"{}\n[]\n\n", b"00000000 {}\n"])
def test_a_journal_that_is_none(machine: Machine, heat: SignalServer, content: bytes) -> None:
    """A journal without one readable line is set aside or cut off, and work begins anew."""
    machine.state.mkdir(mode=0o700)
    (machine.state / "journal").write_bytes(content)
    (machine.state / "journal").chmod(0o600)

    assert machine.apply([counting(machine, signal=heat.url())]).code == 0
    assert machine.status()["d1"]["state"] == "signalled"
    assert len(heat.signals) == 1


@pytest.mark.fault(
    1,
    "the last line of the journal torn by a power cut",
    "it is cut off: nobody had relied on it",
)
@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_last_line(machine: Machine, heat: SignalServer, cut: int) -> None:
    """A last line that a power cut tore is cut off without a word: nobody had relied on it."""
    given = [counting(machine, signal=heat.url())]
    machine.apply(given)
    path = machine.state / "journal"
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole + last[:-cut])
    assert machine.status()["d1"]["state"] == "signalled"

    given.append(counting(machine, "d2", signal=heat.url()))
    first, second = machine.apply(given), machine.apply(given)

    assert (first.code, first.err) == (0, "")
    assert (second.code, second.err) == (0, ""), "what was written after it is intact"
    assert ran(machine) == ["d1", "d2"]
    assert len(heat.signals) == 2


@pytest.mark.fault(
    2,
    "a script or a hook that removes the files of its run",
    "a result, and no success where nothing says so",
)
@pytest.mark.parametrize("hurt", ["status", "stdout", "everything"])
@pytest.mark.parametrize("tool", ["script", "own"])
def test_files_of_a_run_that_are_not_there(machine: Machine, heat: SignalServer, hurt: str, tool: str) -> None:
    """A run whose files were taken away ends in a result, and holds up no other deployment."""
    folder = machine.state / "runs" / "d1"
    damage = {
        "status": f"name=$(echo {folder}/status.*); rm $name; mkdir $name",
        "stdout": f"rm {folder}/stdout; mkdir -m 700 {folder}/stdout",
        "everything": f"rm -r {folder}",
    }[hurt]
    script = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\necho '{{\"deploy_status_code\": 0}}'\n{damage}\n"
    machine.hook("own", script)
    given = [deployment(config=script, group=tool, signal=heat.url("d1")), deployment("d2", signal=heat.url("d2"))]

    done = machine.apply(given)

    assert "Traceback" not in done.err
    assert len(heat.values("d1")) == 1
    assert len(heat.values("d2")) == 1
    machine.apply(given)
    assert ran(machine) == ["d1"]
    if hurt != "stdout" or tool == "own":
        assert heat.values("d1")[0]["deploy_status_code"] != 0, "nothing is known of how it ended"


@pytest.mark.fault(
    2,
    "a disk that does not give how a run ended (EIO)",
    "it has failed, and what is said is that this cannot be read",
)
def test_a_status_that_the_disk_does_not_give(machine: Machine, heat: SignalServer) -> None:
    """Nothing else is made of it: nobody has killed what watched over the run."""
    unreadable = f"for each in {machine.state}/runs/d1/status.*; do ln -sf /proc/self/mem $each; done"
    given = [counting(machine, then=unreadable, signal=heat.url())]

    assert machine.apply(given).code == 1

    value = heat.values()[0]
    assert value["deploy_status_code"] == 125
    assert "nobody knows how it ended, as that cannot be read: Input/output error: " in value["deploy_stderr"]
    assert "interrupted" not in value["deploy_stderr"]
    assert machine.apply(given).code == 0
    assert ran(machine) == ["d1"]
    assert len(heat.signals) == 1


# Whose eyes they are for.


@pytest.mark.fault(
    4,
    "an agent with a umask that lets everybody read",
    "files are 0600 and folders 0700, while a run goes on and after it",
)
@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_nobody_else_can_read(machine: Machine, heat: SignalServer, umask: str) -> None:
    """Whatever the umask is, our files are 0600, scripts 0700 and folders 0700, while a run goes on and after it."""
    machine.hook("own", "#!/bin/sh\necho '{\"deploy_status_code\": 0}'\n")
    seen = machine.folder / "seen"
    look = f"#!/bin/sh\nfind {machine.state} -printf '%y %m %P\\n' >{seen}\n"
    heat.refuse()
    given = [
        deployment("a", group="own", inputs={"password": "p"}, signal=heat.url()),
        deployment("b", look, inputs={"password": "p"}, signal=heat.url()),
    ]
    command = [str(BIN / "heat-config-apply"), "--state-dir", str(machine.state), "--hooks-dir", str(machine.hooks)]
    shell = f'umask {umask}; exec "$@"'
    machine.start("/bin/sh", "-c", shell, "sh", *command, *ONCE, str(machine.write(given))).communicate(timeout=20)

    found = [
        f"{'d' if path.is_dir() else 'f'} {stat.S_IMODE(path.stat().st_mode):o} {path.relative_to(machine.state)}"
        for path in [machine.state, *machine.state.rglob("*")]
    ]
    lines = [*seen.read_text().splitlines(), *found]
    assert len(lines) > 20
    wrong = [
        line
        for kind, mode, name, line in ((*line.split(" ", 2), line) for line in lines)
        if mode != ("700" if kind == "d" or name.startswith("heat-config-script/") else "600")
    ]
    assert wrong == []

"""Tidying is killed, has no room, meets a wrong clock and broken files: nothing is lost by it, and nothing stays."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heat_config_agent.cli.apply import shortcut
from heat_config_agent.model.entry import Removed, State
from heat_config_agent.state import journal
from support import pace
from support.daemon import Daemon, counting, ran
from support.loopback import SignalServer, wait_until
from support.machine import BIN, Machine, deployment, small_disk
from support.promises import KINDS, World
from support.stories import Traps

pytestmark = pytest.mark.takes(20)

DAY = 86400
YEAR = 365 * DAY
SECRET = "kept-77c1-secret"
MEBI = 1024 * 1024
Tried = Callable[[int], None]

STEPS = (
    *("retention.masked", "retention.hidden", "retention.emptied"),
    *("journal.anew.before", "journal.anew.written", "journal.anew.after"),
    *("retention.remembered", "retention.removed"),
)
"""The kill points that are passed when something is removed, in their order: each look comes one further."""


def remembered(machine: Machine) -> dict[str, Any]:
    """Return what is remembered from one look to the next."""
    found = json.loads((machine.state / "retention.json").read_bytes())
    assert isinstance(found, dict)
    return found


def remember(machine: Machine, **values: object) -> None:
    """Change it."""
    (machine.state / "retention.json").write_text(
        json.dumps({**remembered(machine), **values})
    )


def old(machine: Machine, days: float) -> None:
    """Have time pass, by the clock that ages are told by."""
    remember(machine, lived=remembered(machine)["lived"] + days * DAY)
    # it goes by the kernel's clock, which has not moved
    (machine.state / shortcut.FILE).unlink(missing_ok=True)


def holds(machine: Machine, *texts: str) -> set[str]:
    """Return the files of the state directory that hold any of these texts."""
    return {
        str(path.relative_to(machine.state))
        for path in machine.state.rglob("*")
        if path.is_file() and any(text.encode() in path.read_bytes() for text in texts)
    }


def secret(
    machine: Machine, identity: str, then: str = "", **fields: Any
) -> dict[str, Any]:
    """Return a deployment whose secret is in its inputs, its config and its output."""
    script = (
        f'{counting(machine, identity)}\n# {SECRET}\necho "it is $api_token"\n{then}\n'
    )
    inputs = [{"name": "api_token", "type": "String", "value": SECRET}]
    return deployment(identity, script, inputs=inputs, **fields)


def settings(machine: Machine, **values: object) -> str:
    """Write a file of settings."""
    path = machine.folder / "kept.conf"
    path.write_text(
        "[agent]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
    )
    return str(path)


# Killed.


@pytest.mark.fault(
    1,
    "the agent is killed at each step of removing what is kept no longer",
    "nothing runs again or is lost",
)
def test_killed_while_it_removes(
    machine: Machine, heat: SignalServer, tried: Tried
) -> None:
    """The next look goes on: what was to go goes, nothing else does, no id runs twice, and no result is sent again."""
    world = World(machine, heat, 11)
    stays, goes = world.batch((KINDS[0], KINDS[2])), world.batch((KINDS[3], KINDS[6]))
    waits = world.batch(KINDS[:1])
    world.finish([*stays, *goes])
    world.apply(stays)  # the others have left
    heat.refuse()
    world.apply([*stays, *waits], "--deliver-for", "0")
    old(machine, 31)

    for point in STEPS:
        traps = Traps(machine.folder, (point, 1))
        killed = machine.agent("prune", **traps.environment)
        assert killed.code == -signal.SIGKILL, (
            f"{point} was not passed: {killed.out}{killed.err}"
        )
        known = journal.read(machine.state)
        assert all(each["id"] in known for each in (*stays, *goes, *waits))
    assert machine.agent("prune").code == 0
    tried(len(STEPS))

    entries = journal.read(machine.state)
    assert {
        each["id"]: entries[each["id"]].removed for each in (*stays, *goes, *waits)
    } == {
        **{each["id"]: Removed.SECRETS for each in stays},
        **{each["id"]: Removed.ALL for each in goes},
        **{each["id"]: Removed.NOTHING for each in waits},
    }
    done = [world.handed[each["id"]] for each in (*stays, *goes)]
    assert holds(machine, *(each for one in done for each in one.secrets)) == set()
    for each in goes:
        assert not list(machine.state.rglob(f"*{each['id']}*"))
    for each in stays:
        assert (machine.state / f"deployed/{each['id']}.json").is_file()
    heat.start()
    world.finish([*stays, *goes, *waits])
    world.check()


@pytest.mark.fault(
    4,
    "the agent is killed at random while it removes secrets",
    "the next look removes the rest",
)
def test_removal_survives_random_kills(machine: Machine, tried: Tried) -> None:
    """After any number of kills nothing is left to remove, and all ids are known."""
    given = [secret(machine, f"d{number}") for number in range(8)]
    machine.apply(given)
    conf = settings(machine, keep_secrets=0)
    kills = 0
    for number in range(4):
        point = f"retention.{'hidden' if number % 2 else 'masked'}"
        traps = Traps(machine.folder, (point, number + 2))
        done = machine.agent("prune", "--config", conf, **traps.environment)
        kills += done.code == -signal.SIGKILL
    assert kills
    assert machine.agent("prune", "--config", conf).code == 0
    assert holds(machine, SECRET) == set()
    machine.apply(given)
    assert ran(machine) == [f"d{number}" for number in range(8)]
    tried(kills)


# The clock.


@pytest.mark.fault(
    1,
    "the clock is years ahead, or behind, after a reboot",
    "nothing that is young is removed for its age",
)
@pytest.mark.parametrize("jump", [10 * YEAR, -10 * YEAR])
def test_the_clock_jumps_at_a_reboot(machine: Machine, jump: float) -> None:
    """Files of yesterday are kept like files of yesterday, although the clock has jumped."""
    machine.apply([secret(machine, "gone"), secret(machine, "kept")])
    machine.apply([secret(machine, "kept")])
    before = holds(machine, SECRET)
    said = remembered(machine)
    remember(machine, boot="another", wall=said["wall"] - jump, since_boot=9e6)

    done = machine.agent(
        "prune", "--json", "--config", settings(machine, keep_secrets=2 * DAY)
    )

    assert done.data["changes"] == []
    assert holds(machine, SECRET) == before
    assert remembered(machine)["lived"] - said["lived"] < 2 * DAY


@pytest.mark.fault(
    4,
    "the clock was wrong when a deployment ended",
    "its secrets go after their time all the same",
)
@pytest.mark.parametrize("jump", [10 * YEAR, -10 * YEAR])
def test_the_clock_was_wrong(machine: Machine, jump: float) -> None:
    """No time on record is from the machine's clock where it is about how long something is kept."""
    machine.apply([secret(machine, "d1")])
    path = machine.state / "journal"
    book = journal.Journal(machine.state)
    entry = book.entries["d1"]
    moved = {
        name: getattr(entry, name) + jump
        for name in ("at", "accepted", "started", "ended")
    }
    assert book.reduce({"d1": type(entry)(**{**entry.__dict__, **moved})})
    book.close()
    assert path.stat().st_size
    old(machine, 1.5)

    assert machine.agent("prune").code == 0

    assert holds(machine, SECRET) == set()


# The disk.


@pytest.fixture
def disk(machine: Machine) -> Iterator[Path]:
    """The state directory, on a file system of 16 MiB."""
    with small_disk(machine, "16m") as path:
        yield path


def fill(disk: Path) -> None:
    """Take all the room that is left."""
    with (disk / "ballast").open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


@pytest.mark.fault(
    3,
    "the disk is full, and there is output of what has left the metadata",
    "that goes, and work goes on",
)
def test_room_is_made_on_a_full_disk(machine: Machine, disk: Path) -> None:
    """A single run makes room by itself."""
    large = deployment("large", "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\n")
    assert machine.apply([large]).code == 0
    machine.apply([])
    fill(disk)

    done = machine.apply([deployment("next", counting(machine, "next"))])

    assert done.code == 0, done.err
    assert ran(machine) == ["next"]
    assert "output of 1 deployment" in done.err
    assert machine.status()["large"]["state"] == "unasked"


@pytest.mark.fault(
    3,
    "the disk fills up under a daemon, with output of what has left the metadata",
    "that goes, and work goes on",
)
def test_a_daemon_makes_room(machine: Machine, daemon: Daemon, disk: Path) -> None:
    """A daemon makes room as soon as a write fails."""
    daemon.put(
        [deployment("large", "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\n")]
    )
    daemon.start()
    daemon.wait_state("large", "unasked")
    daemon.put([])
    wait_until(lambda: journal.read(machine.state)["large"].left_at is not None, 30)
    fill(disk)

    daemon.put([deployment("next", counting(machine, "next"))])

    daemon.wait_state("next", "unasked")
    assert ran(machine) == ["next"]
    assert not (disk / "runs/large").exists()


@pytest.mark.fault(
    3,
    "a run prints twice what the disk holds",
    "it ends by itself, and its result has both ends",
)
def test_a_flood_does_not_fill_the_disk(
    machine: Machine, heat: SignalServer, disk: Path
) -> None:
    """Output is bounded while it is written."""
    body = "i=0\nwhile [ $i -lt 36 ]; do head -c 1000000 /dev/zero | tr '\\0' x || exit 9; i=$((i+1)); sleep 0.15; done"
    given = [
        deployment(
            "d1",
            f"#!/bin/sh\necho begins\n{body}\necho\necho ends\n",
            signal=heat.url(),
        )
    ]
    most: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            most.append(shutil.disk_usage(disk).used)

    watch = threading.Thread(target=look)
    watch.start()
    done = machine.apply(
        given, "--config", settings(machine, output_limit="4M"), seconds=120
    )
    over.set()
    watch.join()

    assert done.code == 0, done.out + done.err
    (value,) = heat.values()
    assert value["deploy_status_code"] == 0
    assert value["deploy_stdout"].startswith("begins\nx")
    assert value["deploy_stdout"].endswith("x\nends\n")
    assert max(most) < 16 * MEBI


@pytest.mark.fault(
    4, "secrets in output cannot be written over", "the output is removed instead"
)
def test_output_that_cannot_be_written_over_goes(machine: Machine) -> None:
    """Output that cannot be overwritten is removed, as on a full disk that copies on write."""
    if not shutil.which("strace"):
        pytest.skip("strace is not on this machine: tests/install-tools installs it")
    machine.apply([secret(machine, "d1")])
    command = [
        str(BIN / "heat-config-agent"),
        "prune",
        "--state-dir",
        str(machine.state),
    ]
    words = [
        "strace",
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "trace=pwrite64",
        "-e",
        "inject=pwrite64:error=ENOSPC",
    ]
    conf = ["--config", settings(machine, keep_secrets=0)]
    done = subprocess.run(
        [*words, *command, *conf],
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=pace.seconds(120),
    )
    assert done.returncode == 0, done.stderr
    assert holds(machine, SECRET) == set()
    assert not (machine.state / "runs/d1/stdout").exists()


@pytest.mark.fault(
    3,
    "the journal cannot be rewritten without the secrets",
    "a warning says so, and the next look tries again",
)
def test_the_journal_cannot_be_written_anew(machine: Machine) -> None:
    """If the journal cannot be rewritten, its content stays."""
    given = [secret(machine, "d1")]
    machine.apply(given)
    (machine.state / "journal.new").mkdir(mode=0o700)
    conf = settings(machine, keep_secrets=0)

    failed = machine.agent("prune", "--config", conf)
    (machine.state / "journal.new").rmdir()
    done = machine.agent("prune", "--config", conf)

    assert failed.code == 1
    assert "cannot rewrite the journal" in failed.err
    assert "Traceback" not in failed.err
    assert done.code == 0
    assert holds(machine, SECRET) == set()
    machine.apply(given)
    assert ran(machine) == ["d1"]


# Files that are not what they should be.


@pytest.mark.fault(
    5,
    "the record of the last cleanup is damaged or cannot be written",
    "the work continues, and files are kept longer",
)
@pytest.mark.parametrize(
    "content", ["", "{", "[1]", '{"lived": 1e999}', "\0" * 100, None], ids=range(6)
)
def test_damaged_memory_of_retention_neither_removes_nor_keeps(
    machine: Machine, content: str | None
) -> None:
    """Nothing is removed for it, and nothing stays for ever."""
    given = [secret(machine, "d1")]
    machine.apply(given)
    path = machine.state / "retention.json"
    path.unlink()
    if content is None:
        path.mkdir(mode=0o700)
    else:
        path.write_text(content)
        path.chmod(0o600)

    done = machine.apply(given)

    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    assert "runs/d1/stdout" in holds(machine, SECRET)
    assert ran(machine) == ["d1"]
    if content is not None:
        old(machine, 2)
        machine.apply(given)
        assert holds(machine, SECRET) == set()


@pytest.mark.fault(
    1,
    "a command has put links and folders in the place of its output",
    "nothing outside the folder of the run is touched",
)
def test_pruning_does_not_follow_links_in_the_place_of_output(machine: Machine) -> None:
    """Their targets stay."""
    outside = machine.folder / "outside"
    outside.mkdir()
    (outside / "file").write_text(f"{SECRET} is mine")
    folder = machine.state / "runs/d1"
    then = (
        f"cd {folder}; rm -f stdout stderr; ln -s {outside}/file stdout; "
        f"mkdir -m 700 stderr; ln -s {outside} stderr/x"
    )
    machine.apply([secret(machine, "d1", then)])

    assert (
        machine.agent("prune", "--config", settings(machine, keep_secrets=0)).code == 0
    )
    assert (outside / "file").read_text() == f"{SECRET} is mine"
    machine.apply([])
    assert machine.agent("prune", "--config", settings(machine, keep_for=0)).code == 0

    assert (outside / "file").read_text() == f"{SECRET} is mine"
    assert not folder.exists()


@pytest.mark.fault(
    1,
    "a deployment comes back, is run again or retried while things are removed",
    "what it needs stays",
)
def test_deployment_with_a_pending_request_is_kept(
    machine: Machine, heat: SignalServer
) -> None:
    """A request of a person counts for more than its age."""
    given = [secret(machine, "d1", signal=heat.url())]
    machine.apply(given)
    assert machine.agent("retry", "d1").code == 0
    machine.apply([])
    old(machine, 40)
    assert machine.agent("prune", "--json").data["changes"] == []
    assert journal.read(machine.state)["d1"].removed is Removed.NOTHING

    machine.apply(given)

    assert ran(machine) == ["d1", "d1"]
    assert len(heat.values()) == 2
    entry = journal.read(machine.state)["d1"]
    assert (entry.state, entry.left_at) == (State.SIGNALLED, None)

"""Each file that the agent keeps, damaged in each way: it is set aside and said, and nothing hangs or is run twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.daemon import LONG, Daemon, counting, ran
from support.loopback import Answer, SignalServer, wait_until
from support.machine import Machine, deployment
from support.promises import KINDS, World
from support.unprivileged import Unprivileged

pytestmark = pytest.mark.takes(20)

LACKING = 10
SECONDS = 30.0
"""Within which a command has to end, whatever is in the place of its files."""


def _half(path: Path) -> None:
    content = path.read_bytes() if path.is_file() else b""
    path.write_bytes(content[: len(content) // 2])


def _instead(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        make(path)

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: path.write_bytes(b""),
    "half": _half,
    "garbage": lambda path: path.write_bytes(b"\xff\xfe{]garbage\n" * 40),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "NUL": lambda path: path.write_bytes(bytes(4096)),
    "numbers": lambda path: path.write_bytes(
        b'{"at": 1e999, "since": NaN, "reason": 5, "content": -1e400}'
    ),
    "folder": _instead(lambda path: path.mkdir(mode=0o700)),
    "dangling": _instead(
        lambda path: path.symlink_to(path.parent / "nowhere" / "at all")
    ),
    "pipe": _instead(lambda path: os.mkfifo(path, 0o600)),
}
"""Damages of a file, by name."""

OTHER_JSON: dict[str, Callable[[Path], object]] = {
    "list": lambda path: path.write_bytes(b"[]"),
    "types": lambda path: path.write_bytes(
        b'{"identity": 5, "under": [], "content": 7}'
    ),
}
"""Damages of a file with JSON, which leave it JSON."""

fault = pytest.mark.fault


def damage(path: Path, how: str) -> None:
    """Damage a file, whether it is there or not."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    {**DAMAGES, **OTHER_JSON}[how](path)
    if path.is_file() and not path.is_symlink():
        path.chmod(0o600)


def undelivered(world: World, heat: SignalServer) -> list[dict[str, object]]:
    """Have deployments carried out whose results cannot be delivered for now."""
    batch = world.batch(KINDS[:3])
    heat.always = Answer(503)
    assert world.apply(batch, "--deliver-for", "0") in (1, 5)
    heat.signals.clear()
    heat.always = Answer()
    return batch


# With heat-config-apply.


@fault(
    1,
    "every file of the state but the journal damaged: empty, cut in half, garbage, NUL bytes, a folder, a dangling "
    "link, a pipe",
    "what was to be delivered is delivered, nothing is run twice, nothing hangs",
)
@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_file_other_than_the_journal_delays_no_delivery(
    machine: Machine, heat: SignalServer, how: str, tried: Callable[[int], None]
) -> None:
    """A damaged file other than the journal delays no delivery and makes nothing run twice."""
    world = World(machine, heat, 7)
    batch = undelivered(world, heat)
    first = str(batch[0]["id"])
    runs = machine.state / "runs" / first
    paths = [
        *(
            machine.state / name
            for name in (
                "instance.json",
                "health.json",
                "learned.json",
                f"asked/{first}.send",
            )
        ),
        *(machine.state / "documents" / name for name in ("local.json", "heat.json")),
        *(machine.state / "deployed").iterdir(),
        *runs.iterdir(),
        *([] if how in ("folder", "dangling") else [machine.state / "lock"]),
    ]
    for path in paths:
        damage(path, how)
    tried(len(paths))
    world.may_be_damaged = True

    world.finish(batch)

    world.check()


@fault(
    1,
    "the journal empty, cut in half, garbage or NUL bytes, after all was run",
    "a sentence says so, no deployment is run twice, and each has one result",
)
@pytest.mark.parametrize(
    "how", ["nothing", "half", "garbage", "nested", "NUL", "numbers"]
)
def test_a_journal_that_says_less(
    machine: Machine, heat: SignalServer, how: str
) -> None:
    """A deployment that the journal has lost is not run again, because the folder of its run is there."""
    world = World(machine, heat, 7)
    batch = undelivered(world, heat)
    damage(machine.state / "journal", how)

    world.apply(batch)
    world.apply(batch)

    for each in world.handed.values():
        assert len(world.evidence(each.id)) == 2, "it was begun, and ended, once"
        [told] = {json.dumps(one.value, sort_keys=True) for one in world.heard(each.id)}
        assert json.loads(told)["deploy_status_code"] in (each.kind.code, 125)
    assert "Traceback" not in world.said()
    if how not in ("nothing", "half"):
        assert "damaged" in world.said()
        assert list(machine.state.glob("journal.damaged-*"))


@fault(
    5,
    "a folder, a pipe or a dangling link in the place of the journal or the lock",
    "one sentence names it, nothing is run without it; the work continues when it is back",
)
@pytest.mark.parametrize("name", ["journal", "lock"])
@pytest.mark.parametrize("how", ["folder", "pipe", "dangling"])
def test_without_a_journal_or_a_lock_nothing_is_run(
    machine: Machine, heat: SignalServer, name: str, how: str
) -> None:
    """Without a journal or a lock nothing is run, and it is said why; nobody waits for a pipe."""
    world = World(machine, heat, 7)
    batch = undelivered(world, heat)
    path = machine.state / name
    path.rename(machine.folder / "aside")
    damage(path, how)
    more = world.batch(KINDS[:1])

    done = machine.apply([*batch, *more], seconds=SECONDS)

    if (name, how) == ("lock", "pipe"):  # only a note is missing
        assert done.code in (0, 1), done.err
    else:
        assert done.code == LACKING, done.out
        assert done.err.startswith("error: ")
        assert str(machine.state) in done.err
        assert len(done.err.splitlines()) == 1
        assert not heat.signals
        assert world.evidence(str(more[0]["id"])) == []
    assert machine.agent("status").code in (0, LACKING)
    DAMAGES["folder"](path)
    path.rmdir()
    (machine.folder / "aside").rename(path)
    world.finish([*batch, *more])
    world.check()


@fault(
    2,
    "the record of how a run ended damaged while no agent was there",
    "it is reported as interrupted or with its true exit code, never as a success",
)
@pytest.mark.parametrize(
    "how", [each for each in DAMAGES if each not in ("nested", "numbers")]
)
def test_the_record_of_an_end(machine: Machine, heat: SignalServer, how: str) -> None:
    """A run with an unreadable exit code is not reported with any."""
    go = machine.folder / "go"
    script = f"#!/bin/sh\necho d1 >>{machine.folder}/ran\nuntil [ -e {go} ]; do sleep 0.02; done; exit 3\n"
    given = [
        deployment("d1", script, signal=heat.url()),
        deployment("d2", signal=heat.url("d2")),
    ]
    agent = machine.start_apply(given)
    wait_until(lambda: bool(ran(machine)), LONG)
    agent.kill()
    agent.communicate()
    process = machine.status()["d1"]["process"]
    go.touch()
    wait_until(
        lambda: not Path(f"/proc/{process}").exists() or _is_zombie(process), LONG
    )
    [status] = (machine.state / "runs" / "d1").glob("status.*")
    damage(status, how)

    done = machine.apply(given, seconds=SECONDS)

    assert "Traceback" not in done.err
    [told] = heat.values()
    assert told["deploy_status_code"] == (3 if how == "half" else 125)
    assert [each["deploy_status_code"] for each in heat.values("d2")] == [0]
    assert machine.apply(given, seconds=SECONDS).code == 0
    assert ran(machine) == ["d1"]


def _is_zombie(process: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True


@fault(
    3,
    "the pause damaged: empty, garbage, a folder, a pipe",
    "it still counts as a pause, a sentence says so, and `resume` ends it",
)
@pytest.mark.parametrize("how", [each for each in DAMAGES if each != "dangling"])
def test_a_pause_that_cannot_be_read(machine: Machine, how: str) -> None:
    """An unreadable pause still pauses the agent, and `resume` removes it in any form."""
    machine.state.mkdir(mode=0o700)
    damage(machine.state / "paused", how)
    given = [deployment("d1", counting(machine))]

    paused = machine.apply(given, seconds=SECONDS)
    assert "paused" in paused.err
    assert "Traceback" not in paused.err + machine.agent("status").err
    assert ran(machine) == []
    assert machine.agent("resume").code == 0
    assert machine.apply(given, seconds=SECONDS).code == 0
    assert ran(machine) == ["d1"]


@fault(
    5,
    "files of the state that the agent's user may not read",
    "a sentence names the file; without the journal nothing is run",
)
@pytest.mark.parametrize(
    "name", ["journal", "lock", "instance.json", "paused", "deployed", "runs", "asked"]
)
def test_unreadable_files_of_another_user_are_reported(
    unprivileged: Unprivileged, name: str
) -> None:
    """An agent that is not root says what it may not read, and guesses nothing."""
    machine = unprivileged
    given = [
        deployment("d1", counting(machine)),
        deployment("d2", counting(machine, "d2")),
    ]
    assert machine.run(machine.write(given[:1])).returncode == 0
    path = machine.state / name
    if not path.exists():
        path.mkdir() if name == "asked" else path.write_text("{}")
    os.chown(path, 0, 0)
    path.chmod(0o700 if path.is_dir() else 0o600)

    done = machine.run(machine.write(given))

    assert "Traceback" not in done.stderr
    assert name in done.stdout + done.stderr
    assert ran(machine).count("d1") == 1
    if name in ("journal", "lock", "deployed"):
        assert done.returncode == LACKING
        assert ran(machine) == ["d1"]


@fault(
    5,
    "what a run was given cannot be removed when it ends",
    "a sentence says so, every later run tries again, and the result is delivered",
)
def test_inputs_of_a_run_are_removed_later(
    unprivileged: Unprivileged, heat: SignalServer
) -> None:
    """Inputs of a run, which may be secret, are removed later; folders that are tidy are not read again."""
    machine = unprivileged
    folder = machine.state / "runs" / "d1"
    document = machine.write(
        [
            deployment(
                "d1",
                f"#!/bin/sh\nchmod 500 {folder}\n",
                inputs={"a": "b"},
                signal=heat.url(),
            )
        ]
    )
    left = folder / "inputs.json"
    for _ in range(2):
        done = machine.run(document)
        assert "cannot remove the inputs of d1" in done.stderr
        assert left.exists()
    assert [each["deploy_status_code"] for each in heat.values()] == [0]

    folder.chmod(0o700)

    assert machine.run(document).stderr == ""
    assert not left.exists()


# With the daemon.


@fault(
    3,
    "every file of the daemon's state but the journal damaged",
    "it starts, goes on, says what it has set aside, and runs nothing twice",
)
@pytest.mark.parametrize("how", [*DAMAGES, *OTHER_JSON])
def test_no_broken_file_keeps_the_daemon_from_its_work(
    daemon: Daemon, machine: Machine, heat: SignalServer, how: str
) -> None:
    """No file of its own keeps the daemon from its work."""
    daemon.put([deployment("d1", counting(machine), signal=heat.url("d1"))])
    daemon.start()
    daemon.wait_state("d1", "signalled")
    assert daemon.stop() == 0
    names = (
        "instance.json",
        "learned.json",
        "health.json",
        "documents/local.json",
        "documents/heat.json",
    )
    paths = [
        *(machine.state / name for name in names),
        *(machine.state / "runs" / "d1").iterdir(),
    ]
    for path in [*paths, machine.state / "asked" / "d1.again"]:
        damage(path, how)
    if how != "folder":  # that is a request, whatever is in it
        (machine.state / "asked" / "d1.again").unlink()
    aside = [machine.state / name for name in ("learned.json", "instance.json")]
    contents = {path: path.read_bytes() for path in aside if path.is_file()}
    assert daemon.command("status").code == 0
    assert daemon.command("status", "--json").code == 0
    daemon.put(
        [deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))], "more"
    )

    daemon.start(wait=how != "folder")
    daemon.wait_state("d2", "signalled")
    assert ran(machine) == ["d1", "d2"]
    if how != "folder":
        assert daemon.health()["process"] == daemon.pid
        document = json.loads((machine.state / "documents/local.json").read_bytes())
        assert document["source"] == "local"
        wait_until(lambda: daemon.command("status", "--check").code == 0, LONG)
    assert "Traceback" not in daemon.log
    for path in aside if how not in ("dangling", "types") else ():
        [kept] = machine.state.glob(f"{path.name}.corrupt-*")
        assert path not in contents or kept.read_bytes() == contents[path]
        assert len(daemon.said(path.name, kept.name)) == 1, daemon.log
    assert daemon.stop() == 0


@fault(
    5,
    "a folder, a pipe or a dangling link in the place of the journal when the daemon starts",
    "it ends with a sentence that names it, and runs nothing; the work continues when it is back",
)
@pytest.mark.parametrize("how", ["folder", "pipe", "dangling"])
def test_daemon_without_a_journal_begins_nothing(
    daemon: Daemon, machine: Machine, how: str
) -> None:
    """The daemon begins nothing that it cannot record."""
    machine.state.mkdir(mode=0o700)
    path = machine.state / "journal"
    damage(path, how)
    daemon.put([deployment("d1", counting(machine))])
    daemon.start(wait=False)
    assert daemon.wait() == LACKING
    [line] = daemon.said("error: ")
    assert str(path) in line
    assert ran(machine) == []

    DAMAGES["folder"](path)
    path.rmdir()
    daemon.start()
    daemon.wait_state("d1", "unasked")
    assert ran(machine) == ["d1"]


@fault(
    1,
    "the journal removed, or another put in its place, while the daemon works",
    "it is written again from memory, or nothing more is begun until it is back; nothing is run twice",
)
@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_the_journal_goes_while_the_daemon_works(
    daemon: Daemon, machine: Machine, heat: SignalServer, what: str
) -> None:
    """The daemon writes a removed journal again, and never into a file without a name."""
    given = [deployment("d1", counting(machine), signal=heat.url("d1"))]
    daemon.put(given)
    daemon.start()
    daemon.wait_state("d1", "signalled")
    journal = machine.state / "journal"
    journal.rename(machine.folder / "aside")
    if what == "replaced":
        journal.touch(mode=0o600)

    daemon.put(
        [*given, deployment("d2", counting(machine, "d2"), signal=heat.url("d2"))]
    )
    daemon.wait_said(str(journal))
    if what == "replaced":
        assert "d2" not in ran(machine)
        (machine.folder / "aside").rename(journal)
        daemon.send(signal.SIGUSR1)
    wait_until(lambda: len(heat.values("d2")) == 1, LONG)
    daemon.wait_state("d2", "signalled")
    assert daemon.stop() == 0
    daemon.start()
    daemon.wait_state("d1", "signalled")
    assert ran(machine) == ["d1", "d2"]
    assert len(heat.signals) == 2
    assert "Traceback" not in daemon.log

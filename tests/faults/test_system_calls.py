"""A disk that fails at each system call that changes the state in turn; and a kill at each of them.

strace has the kernel answer one call with an error; the agent is killed by what kills it at points
(`support.kill_points`), of which it is shown here that it sees all the calls that strace sees. What the calls are is
found out first, by a run that nothing disturbs.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import kill_points, pace, shares
from support.daemon import LONG, Daemon
from support.loopback import SignalServer, wait_until
from support.machine import Machine
from support.promises import KINDS, Kind, World, seed
from support.stories import Traps

CALLS = ",".join(sorted(kill_points.CHANGES.values()))
"""The calls that change the disk; of `openat`, those that may create a file."""

LACKING = 10
"""The exit code of an agent whose machine lacks something, or that cannot use its state directory."""

WORDS = {"ENOSPC": "No space left on device", "EIO": "Input/output error"}

SILENT = (
    "lock",
    "health.json",
    ".health.json.new",
    "retention.json",
    ".retention.json.new",
    "journal.new",
    "run/heat-config-script/ID.identity",
)
"""Files that only other programs or later passes read: a failed write needs no message.

An output of a script is only made 0600 by the agent, in a folder that is already private.
"""

KIND = {each.name: each for each in KINDS}
BATCH = (KIND["quick"], KIND["own"], KIND["hangs"])

PARTS = 2
"""Into how many tests the calls are divided, so that several processes share them."""

_LINE = re.compile(r"^(?:\d+ +)?([a-z0-9]+)\((.*)")
_PATH = re.compile(r'<([^<>]+)>|"((?:[^"\\]|\\.)*)"')

pytestmark = [
    pytest.mark.takes(60),
    pytest.mark.apart,
    pytest.mark.skipif(
        shutil.which("strace") is None,
        reason="strace is not installed: tests/install-tools installs it",
    ),
    pytest.mark.timeout(400),  # on a machine with much else to do
]


@dataclass(frozen=True)
class Call:
    """A call of a run: the so-manieth of its name; by strace of all, by `kill_points` of those about the state."""

    name: str
    number: int
    file: str
    """The file in the state directory that it is about, with ID for ids and N for numbers."""

    @property
    def kind(self) -> tuple[str, str]:
        """Return the kind of a call, of which each is tried at least once."""
        return self.name, self.file


def calls(trace: Path, world: World) -> list[Call]:
    """Return the calls of a trace that changed the state directory."""
    counted: dict[str, int] = {}
    recorded = []
    for line in trace.read_text(errors="replace").splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        name, rest = match.groups()
        counted[name] = counted.get(name, 0) + 1
        file = about(rest, world)
        if file and changes(line):
            recorded.append(Call(name, counted[name], file))
    return recorded


def about(arguments: str, world: World) -> str:
    """Return the file in the state directory that a call is about; empty where it is about none."""
    for in_brackets, quoted in _PATH.findall(arguments):
        path = in_brackets or quoted
        if path.startswith(f"{world.machine.state}"):
            name = path.removeprefix(str(world.machine.state)).strip("/") or "."
            return re.sub(r"\d{9,}", "N", re.sub(rf"w{world.seed}-\d+", "ID", name))
    return ""


def changes(line: str) -> bool:
    """Return whether a call in a trace changes the state; one that only opens a file to read it does not."""
    return "openat(" not in line or "O_CREAT" in line


def strace(trace: Path, *options: str) -> list[str]:
    """Return the command that traces the agent itself, and nothing that it starts."""
    return [
        "strace",
        "-D",
        "-y",
        "-o",
        str(trace),
        "-e",
        f"trace={CALLS}",
        *options,
        "--",
    ]


STEADY = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


class Torn:
    """A world in which one call fails at each try."""

    def __init__(self, world: World, first: bool) -> None:
        """Find out which calls there are: of the first run on a state directory, or of a later one."""
        self.world = world
        self.trace = world.machine.folder / "trace"
        if not first:
            world.finish(world.batch(BATCH))
        batch = world.batch(BATCH)
        assert world.apply(batch, before=strace(self.trace), **STEADY) == 1
        self.calls = calls(self.trace, world)
        world.finish(batch)

    def injected(self) -> tuple[str, bool]:
        """Return the file about which the call was that failed, and whether that call would have changed the state.

        It need not be the call that was meant: what else the machine does decides the order of some. Without a file
        it was about none in the state directory.
        """
        lines = [
            line
            for line in self.trace.read_text(errors="replace").splitlines()
            if "INJECTED" in line
        ]
        line = lines[0] if lines else ""
        return about(line, self.world), changes(line)

    def fail(self, call: Call, error: str) -> bool:
        """Have a call fail, continue undisturbed, and check the promises; return whether it failed."""
        batch = self.world.batch(BATCH)
        before = len(self.world.said())
        options = ("-e", f"inject={call.name}:error={error}:when={call.number}")
        code = self.world.apply(batch, before=strace(self.trace, *options), **STEADY)
        said = self.world.said()[before:]
        file, changed = self.injected()
        where = f"{error} at {call}, which was {file}: "
        assert code in (0, 1, 5, LACKING), f"{where}exit code {code}; {said}"
        assert "Traceback" not in said, f"{where}{said}"
        self.world.finish(batch)
        assert len(self.world.heard(str(batch[0]["id"]))) >= 1, (
            f"{where}nothing was heard; {said}"
        )
        if file and changed and file not in SILENT:
            assert WORDS[error] in said, f"{where}nothing was said; {said}"
        if not file:
            withdraw(self.world, batch)
        return bool(file)

    def watched(self, *before: str) -> list[Call]:
        """Return the calls of a run that changed the state directory, as `kill_points` names them."""
        batch = self.world.batch(BATCH)
        file = self.world.machine.folder / "calls"
        file.unlink(missing_ok=True)
        code = self.world.apply(
            batch, before=before, **STEADY, **kill_points.environment("??", 0, file)
        )
        assert code == 1
        self.world.finish(batch)
        counted: dict[str, int] = {}
        found = []
        for line in file.read_text().splitlines():
            _, name, path = (
                line.split(maxsplit=2) if line.count(" ") > 1 else ("", "", "")
            )
            if path.startswith(f"{self.world.machine.state}/"):
                counted[name] = counted.get(name, 0) + 1
                found.append(Call(name, counted[name], about(f'"{path}"', self.world)))
        return found

    def kill(self, call: Call) -> bool:
        """Kill the agent at a call, go on undisturbed, and return whether it was killed there."""
        batch = self.world.batch(BATCH)
        machine, aim = self.world.machine, (f"{call.name}@", call.number)
        traps = Traps(machine.folder, aim, root=machine.state)
        code = self.world.apply(batch, **STEADY, **traps.environment)
        assert code in (0, 1, -9), f"KILL at {call}: exit code {code}"
        self.world.finish(batch)
        return code == -9


def withdraw(world: World, batch: list[dict[str, Any]]) -> None:
    """Promise nothing of a batch during which another call failed than one about the state.

    Threads decide the order of some calls. One that cannot list the folder with the hooks, for example, makes a
    deployment fail whose hook is in it.
    """
    for each in batch:
        del world.handed[str(each["id"])]


def chosen(found: list[Call], chance: random.Random, number: int) -> list[Call]:
    """Return so many calls: of each kind one, chance says which, before there are two of any."""
    mixed = chance.sample(found, len(found))
    kinds = list({each.kind: each for each in mixed}.values())
    return [*kinds, *(each for each in mixed if each not in kinds)][:number]


@pytest.fixture
def torn(machine: Machine, heat: SignalServer) -> Torn:
    """A world in which calls can be made to fail."""
    return Torn(World(machine, heat, seed("SYSTEM_CALL_SEED")), first=False)


@pytest.mark.fault(
    1,
    "a disk that is full, or fails, at a system call that changes the state: one of each kind and file",
    "nothing is lost, run twice or reported falsely; a sentence says what could not be written",
)
@pytest.mark.parametrize("part", range(PARTS))
def test_failed_system_call_loses_nothing(
    torn: Torn, tried: Callable[[int], None], part: int
) -> None:
    """Whichever call fails, and with whichever error: nothing is lost, and it is said."""
    chance = torn.world.chance
    sample = sorted(
        chosen(torn.calls, random.Random(torn.world.seed), 1000),  # noqa: S311
        key=lambda each: each.kind,
    )
    kinds = list({each.kind: each for each in sample}.values())[part::PARTS]
    done = sum(torn.fail(each, chance.choice(["ENOSPC", "EIO"])) for each in kinds)
    torn.world.check()
    tried(done)
    assert done >= len(kinds) * 0.6, (
        f"only {done} of {len(kinds)} calls were made to fail"
    )


@pytest.mark.fault(
    1,
    "a disk that is full, or fails, at the first calls on a new state directory",
    "nothing is lost, run twice or reported falsely; a sentence says what could not be written",
)
def test_missing_folders_are_created_by_the_next_run(
    machine: Machine, heat: SignalServer, tried: Callable[[int], None]
) -> None:
    """Folders that could not be created in the first run are created in the next one."""
    world = World(machine, heat, seed("SYSTEM_CALL_SEED"))
    made = [each for each in Torn(world, first=True).calls if each.name == "mkdir"]
    done = 0
    for each in made[:: 1 if shares.FOR else 3]:
        shutil.rmtree(machine.state)
        torn = Torn.__new__(Torn)
        torn.world, torn.trace = world, machine.folder / "trace"
        done += torn.fail(each, world.chance.choice(["ENOSPC", "EIO"]))
        for handed in world.handed.values():  # their state went with the directory
            handed.forgotten = True
    tried(done)
    assert done
    assert "Traceback" not in world.said()


@pytest.mark.fault(
    1,
    "the agent killed at a system call that changes the state",
    "nothing is lost, run twice or reported falsely",
)
def test_kill_at_a_system_call_loses_nothing(
    torn: Torn, tried: Callable[[int], None]
) -> None:
    """After a kill at any system call, accepted work is done once and reported truly."""
    sample = chosen(torn.watched(), torn.world.chance, 10)
    done = sum(torn.kill(each) for each in sample)
    torn.world.check()
    tried(done)
    assert done >= len(sample) / 2


def test_a_kill_can_come_before_each_system_call(torn: Torn) -> None:
    """The tracer that kills the agent sees each call that changes the state."""
    watched = {
        (kill_points.CHANGES[each.name], each.file)
        for each in torn.watched(*strace(torn.trace))
    }
    positions = {
        each.kind if each.name != "rename" else ("rename", _renamed(each.file))
        for each in calls(torn.trace, torn.world)
    }
    assert {name for name, _ in positions} >= {
        "openat",
        "write",
        "fdatasync",
        "rename",
        "unlink",
    }
    in_state = {each for each in positions if each[1] != "."}
    assert in_state <= watched


def _renamed(file: str) -> str:
    """Return the new name of a file that is renamed, as the agent does it, by the old one."""
    return re.sub(r"(^|/)\.?([^/]+)\.new$", r"\1\2", file)


@pytest.mark.torture
@pytest.mark.skipif(
    not shares.FOR, reason="`make torture` runs it: all calls take long"
)
@pytest.mark.parametrize("error", ["ENOSPC", "EIO", "KILL"])
def test_every_system_call_survives_errors_and_kills(
    torn: Torn, error: str, seconds: float
) -> None:
    """Every call, with every error, and a kill at each, for as long as asked."""
    end = time.monotonic() + pace.seconds(seconds)
    found = torn.watched() if error == "KILL" else torn.calls
    print(f"SYSTEM_CALL_SEED={torn.world.seed}: {len(found)} calls")
    done = 0
    for each in chosen(found, torn.world.chance, len(found)):
        done += torn.kill(each) if error == "KILL" else torn.fail(each, error)
        if time.monotonic() > end:
            break
    torn.world.check()
    print(f"{error} at {done} calls")


@pytest.mark.fault(
    1,
    "only a part of a record of the journal can be written",
    "the part is taken back, and the record written when it can be; nothing is lost or run twice",
)
def test_short_writes(torn: Torn, tried: Callable[[int], None]) -> None:
    """A write of which the kernel takes only a part (here: says so) leaves nothing half done.

    As the kernel only says so, the part that it has not taken is missed at the next write: there has to be one.
    """
    writes = [
        each for each in torn.calls if each.name == "write" and each.file == "journal"
    ][:-2]
    done = 0
    for each in torn.world.chance.sample(writes, 3):
        batch = torn.world.batch(BATCH)
        options = ("-e", f"inject={each.name}:retval=5:when={each.number}")
        assert torn.world.apply(
            batch, before=strace(torn.trace, *options), **STEADY
        ) in (0, 1, LACKING)
        torn.world.finish(batch)
        done += bool(torn.injected()[0])
    assert done
    tried(done)
    torn.world.check()


@pytest.mark.fault(
    3,
    "signals that interrupt the agent's waiting (EINTR)",
    "it goes on to wait",
)
@pytest.mark.parametrize("call", ["poll", "wait4"])
def test_interrupted_system_call_is_repeated(torn: Torn, call: str) -> None:
    """A call that a signal interrupts is made again."""
    batch = torn.world.batch(BATCH)
    options = ["strace", "-D", "-y", "-o", str(torn.trace), "-e", f"trace={call}"]
    options += ["-e", f"inject={call}:error=EINTR:when=1..5+2", "--"]
    assert torn.world.apply(batch, before=options, **STEADY) == 1
    assert "INJECTED" in torn.trace.read_text()
    torn.world.finish(batch)
    torn.world.check()


# The daemon.


@pytest.fixture
def world(machine: Machine, heat: SignalServer, daemon: Daemon) -> Iterator[World]:
    """A world with a daemon that looks where it hands out."""
    world = World(machine, heat, seed("SYSTEM_CALL_SEED"))
    daemon.configure(hooks_dir=str(machine.hooks), grace=0.2)
    yield world
    daemon.end()


def _life(
    daemon: Daemon, world: World, kinds: tuple[Kind, ...], *before: str
) -> list[dict[str, Any]]:
    """Let a daemon live until it has had something to do; return what that was."""
    batch = world.batch(kinds)
    daemon.put(batch)
    earlier = len(daemon.log)
    daemon.start(*before, wait=False, **STEADY)
    deadline = time.monotonic() + pace.seconds(LONG)
    while not daemon.ended and not all(world.heard(str(each["id"])) for each in batch):
        assert time.monotonic() < deadline, daemon.log
        if "tried again every" in daemon.log[earlier:]:  # it heeds signals by then
            _poke(daemon)  # there is room again
        time.sleep(0.05)
    return batch


def _poke(daemon: Daemon) -> None:
    subprocess.run(["kill", "-USR1", str(daemon.pid)], check=False, capture_output=True)


@pytest.mark.fault(
    1,
    "a disk that is full, or fails, at a system call of the daemon that changes the state",
    "it goes on or is started again; nothing is lost, run twice or reported falsely",
)
def test_failed_write_of_the_daemon_is_repeated(
    daemon: Daemon, world: World, tried: Callable[[int], None]
) -> None:
    """A write of the daemon that failed is repeated later, by itself or after a restart."""
    trace = world.machine.folder / "trace"
    kinds = BATCH[:2]
    batch = _life(daemon, world, kinds, *strace(trace))
    wait_until(lambda: all(entry.settled for entry in world.entries().values()), LONG)
    daemon.stop()
    found = [each for each in calls(trace, world) if "health" not in each.file]
    whole = bool(shares.FOR)
    done = 0
    for each in chosen(found, world.chance, 40 if whole else 5):
        error = world.chance.choice(["ENOSPC", "EIO"])
        batch = _life(
            daemon,
            world,
            kinds,
            *strace(
                trace, "-e", f"inject={each.name}:error={error}:when={each.number}"
            ),
        )
        if daemon.ended:
            assert daemon.process
            assert daemon.process.returncode == LACKING, daemon.log
            assert WORDS[error] in daemon.log
            daemon.start(wait=False)
        wait_until(lambda: all(world.heard(str(one["id"])) for one in batch), LONG)  # noqa: B023
        _poke(daemon)
        wait_until(
            lambda: all(entry.settled for entry in world.entries().values()), LONG
        )
        daemon.stop()
        lines = [
            line
            for line in trace.read_text(errors="replace").splitlines()
            if "INJECTED" in line
        ]
        if lines and not about(lines[0], world):
            withdraw(world, batch)
        done += bool(lines and about(lines[0], world))
    assert done
    tried(done)
    world.note(daemon.log)
    world.check()

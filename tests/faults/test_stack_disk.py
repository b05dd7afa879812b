"""A disk that is full, read-only or failing under a stack: it is named, and all goes on when there is room."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.test_system_calls import STEADY, WORDS, changes, strace
from support import pace
from support.disks import PAGE, Disk
from support.machine import BIN, Done, Machine, small_disk
from support.promises import seed
from support.stacking import Stacks

pytestmark = pytest.mark.takes(20)

fault = pytest.mark.fault
LACKING = 10

full = fault(
    1,
    "a disk that is full under a stack, with so much room that it is full sooner or later; no inodes; read-only",
    "what could not be written is named, with its path; once there is room the work "
    "continues, and nothing is run twice",
)


@pytest.fixture
def disk(machine: Machine) -> Iterator[Disk]:
    """The state directory of the machine, on a file system of 1 MiB."""
    with small_disk(machine, "1m") as path:
        yield Disk(path)


def two(stacks: Stacks) -> Path:
    """Return a template with a deployment that needs another one, and a wait condition's handle."""
    second = stacks.script("second", "", "CREATE", "DELETE", depends_on="first")
    handle = {"handle": {"type": "OS::Heat::WaitConditionHandle"}}
    return stacks.template(
        {**stacks.script("first", "", "CREATE", "DELETE"), **second, **handle}
    )


def told(done: Done, words: str = "No space left on device") -> bool:
    """Return whether a command succeeded, or failed with only the expected message."""
    if done.code == 0:
        return True
    return (
        done.code == LACKING
        and words in done.err
        and "nobody" not in done.err
        and "/" in done.err
    )


@full
def test_stack_continues_after_a_full_disk(
    stacks: Stacks, disk: Disk, tried: Callable[[int], None]
) -> None:
    """On a full disk a stack is created, or the error names the disk and the stack continues once there is room."""
    path = two(stacks)
    levels = (0, 2, 5, 7, 9, 16)
    failed = 0
    for pages in levels:
        disk.fill()
        ballast = disk.path / "ballast"
        with ballast.open("r+b") as file:
            file.truncate(ballast.stat().st_size - pages * PAGE)
        done = stacks.apply(path, code=None)
        assert told(done), f"{pages}: {done.err}"
        failed += done.code != 0
        disk.free()
        assert "CREATE_COMPLETE" in stacks.apply(path).out or done.code == 0, pages
        assert sorted(stacks.ran) == ["first CREATE", "second CREATE"], pages
        stacks("delete", "t", "--yes")
        assert not stacks.folder.exists()
        stacks.log.unlink()
    assert failed >= 2
    tried(len(levels))


@full
def test_a_file_system_without_inodes_is_named(stacks: Stacks, disk: Disk) -> None:
    """A file system that has no room for one more file is said to have none."""
    path = two(stacks)
    stacks.apply(stacks.template(stacks.script("other"), "other"))
    used = sum(1 for _ in disk.path.rglob("*")) + 1
    for left in (0, 4, 9, 14):
        disk.limit_inodes(used + left)
        assert told(stacks.apply(path, code=None)), left
    disk.limit_inodes(10_000)
    stacks.apply(path)
    assert sorted(stacks.ran) == ["first CREATE", "other CREATE", "second CREATE"]


@full
def test_a_read_only_disk_begins_and_loses_nothing(stacks: Stacks, disk: Disk) -> None:
    """Nothing can be begun, all can be looked at, and nothing is lost."""
    path = two(stacks)
    stacks.apply(path)
    disk.remount("ro")
    done = stacks.apply(path, code=LACKING)
    assert "Read-only file system" in done.err
    assert "  ok     CREATE " in stacks("list").out
    disk.remount("rw")
    stacks("delete", "t", "--yes")
    assert sorted(stacks.ran) == [
        f"{name} {action}"
        for name in ("first", "second")
        for action in ("CREATE", "DELETE")
    ]


# Each call that changes what is kept.

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None,
    reason="strace is not installed: tests/install-tools installs it",
)
_OF_RECORDS = ("stack", "stack.new", "stack.lock")


class Torn:
    """Commands on a stack in which one system call fails, or is the last."""

    def __init__(self, stacks: Stacks) -> None:
        self.stacks, self.trace = stacks, stacks.machine.folder / "trace"

    def traced(self, command: Callable[[tuple[str, ...]], Done], *options: str) -> Done:
        """Run a command under strace."""
        return command(tuple(strace(self.trace, *options)))

    def calls(self) -> list[tuple[str, int, str]]:
        """Return the calls of the last command that changed the stack's folder: name, number, file."""
        counted: dict[str, int] = {}
        recorded = []
        for line in self.trace.read_text(errors="replace").splitlines():
            if match := re.match(r"^(?:\d+ +)?([a-z0-9]+)\(", line):
                name = match[1]
                counted[name] = counted.get(name, 0) + 1
                file = re.search(
                    rf"{re.escape(str(self.stacks.folder))}/?([^\">]*)", line
                )
                if file and changes(line):
                    recorded.append((name, counted[name], file[1]))
        return recorded

    def hit(self) -> bool:
        """Return whether a call of the last command was made to fail, or to kill it."""
        return (
            "INJECTED" in self.trace.read_text(errors="replace")
            or "killed by SIGKILL" in self.trace.read_text()
        )


def applied(stacks: Stacks, path: Path) -> Callable[[tuple[str, ...]], Done]:
    """Return what applies a template under another command."""

    def run(before: tuple[str, ...]) -> Done:
        words = (
            "heat-config-apply",
            "--state-dir",
            str(stacks.machine.state),
            str(path),
        )
        return under(stacks.machine, before, *words)

    return run


def under(machine: Machine, before: tuple[str, ...], program: str, *words: str) -> Done:
    """Run one of the installed commands under another one."""
    if before:
        words = (*before[1:], str(BIN / program), *words)
    process = machine.start(
        shutil.which(before[0]) or before[0] if before else program,
        *words,
        stdin=None,
        **STEADY,
    )
    out, err = process.communicate(timeout=pace.seconds(60))
    return Done(process.returncode, out, err)


def of_records(found: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Return of each kind of call on the records the first and the last one."""
    kinds: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
    for each in found:
        if each[2] in _OF_RECORDS and each[0] != "unlink":
            kinds.setdefault((each[0], each[2]), []).append(each)
    return [
        each
        for calls in kinds.values()
        for each in dict.fromkeys((calls[0], calls[-1]))
    ]


@needs_strace
@fault(
    1,
    "a disk that is full, or fails, at a system call that changes the records of a stack: one of each kind and file",
    "nothing is lost, run twice or reported falsely; a sentence says what could not be written",
)
@pytest.mark.parametrize("error", WORDS)
def test_failed_call_on_the_records_is_reported_with_its_path(
    stacks: Stacks, error: str, tried: Callable[[int], None]
) -> None:
    """Whichever call fails: it is said with the path, and the same command goes on afterwards."""
    path, torn = two(stacks), Torn(stacks)
    assert torn.traced(applied(stacks, path)).code == 0
    found = of_records(torn.calls())
    assert len(found) >= 5, found
    chosen = random.Random(seed("STACK_CALLS_SEED")).sample(found, 4)  # noqa: S311
    done = 0
    for name, number, file in chosen:
        shutil.rmtree(stacks.folder, ignore_errors=True)
        stacks.log.unlink(missing_ok=True)
        ended = torn.traced(
            applied(stacks, path), "-e", f"inject={name}:error={error}:when={number}"
        )
        where = f"{error} at {name} {number} of {file}: {ended.out}{ended.err}"
        assert "Traceback" not in ended.err, where
        assert told(ended, WORDS[error]), where
        done += torn.hit()
        stacks.apply(path)
        assert sorted(stacks.ran) == ["first CREATE", "second CREATE"], where
        assert stacks.state() in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), (
            "the latter where all was done already"
        )
    assert done
    tried(done)


@needs_strace
@fault(
    1,
    "kill -9 at a system call that changes the records of a stack, while it is made, changed, rolled back, suspended "
    "or deleted",
    "the same command goes on to the same end; nothing is run twice; never a stack that cannot be used",
)
@pytest.mark.parametrize(
    "operation", ["create", "update", "rollback", "suspend", "delete"]
)
def test_kill_at_any_call_on_the_records_loses_nothing(
    stacks: Stacks, operation: str, tried: Callable[[int], None]
) -> None:
    """Killed at any of them, also at the very first: the next command ends as if nothing had been."""
    torn, every = Torn(stacks), ("CREATE", "UPDATE", "SUSPEND", "DELETE")
    before = {
        **stacks.script("one", "", *every),
        **stacks.script("two", "", *every, depends_on="one"),
    }
    after = stacks.script(
        "two", "exit 1" if operation == "rollback" else ":", *every, depends_on="one"
    )

    def run(before_: tuple[str, ...]) -> Done:
        if operation in ("suspend", "delete"):
            words = (
                "stack",
                operation,
                "t",
                *(["--yes"] if operation == "delete" else []),
            )
            return under(
                stacks.machine,
                before_,
                "heat-config-agent",
                *words,
                "--state-dir",
                str(stacks.machine.state),
            )
        changed = before if operation == "create" else {**before, **after}
        words = ("--rollback",) if operation == "rollback" else ()
        path = stacks.template(changed)
        place = ("--state-dir", str(stacks.machine.state))
        return under(
            stacks.machine, before_, "heat-config-apply", *place, str(path), *words
        )

    def prepared() -> None:
        shutil.rmtree(stacks.machine.state, ignore_errors=True)
        if operation != "create":
            stacks.apply(stacks.template(before))
        stacks.log.write_text("")

    prepared()
    whole = torn.traced(run)
    ran, state = sorted(stacks.ran), stacks.state()
    assert ran
    found = of_records(torn.calls())
    first = [each for each in found if each[0] in ("rename", "openat")][:2]
    chosen = {*first, *random.Random(seed("STACK_CALLS_SEED")).sample(found, 2)}  # noqa: S311
    done = 0
    for name, number, file in sorted(chosen):
        prepared()
        killed = torn.traced(run, "-e", f"inject={name}:signal=KILL:when={number}")
        where = f"{operation}, {name} {number} of {file}: {killed.out}{killed.err}"
        done += killed.code == -9
        # the same command again would try the update again
        back = stacks.state().startswith("ROLLBACK")
        if back:
            stacks("check", "t")
        elif operation != "delete" or stacks.record.exists():
            again = run(())
            assert again.code in (whole.code, 0), f"{where}, {again.out}{again.err}"
            assert "Traceback" not in again.err, where
        assert sorted(stacks.ran) == ran, where
        if not back:
            assert stacks.state().partition("_")[2] == state.partition("_")[2], where
    assert done
    tried(done)

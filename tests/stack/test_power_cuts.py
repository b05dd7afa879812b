"""The power goes while a stack is worked on: at each flush, with every combination of what the two files have kept."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from heat_config_agent.model.entry import State
from heat_config_agent.state import journal, record_file
from heat_config_agent.state.records import Reader
from heat_config_hooks import processes
from heat_config_stack.definition import Definition
from stack.made import deployment, made, script
from stack.working import Working

FILES = ("stack", "journal")

NODES = ("a", "b", "c")


class Moment(NamedTuple):
    """The files at a moment of a flush."""

    before: dict[str, bytes | None]
    """Content that is on disk for certain, by file."""
    after: dict[str, bytes | None]
    """Content after a flush of all files, by file."""
    folder: Path
    """A copy of all files."""


class Disk:
    """Keeps what a power cut may leave at each flush."""

    def __init__(
        self, working: Working, copies: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.working, self.copies = working, copies
        self.moments: list[Moment] = []
        self.safe: dict[str, bytes | None] = dict.fromkeys(FILES)
        self._together = False
        both = record_file.flush_both

        def flush_both(flush: Callable[[], None], other: Callable[[], None]) -> None:
            self._keep()
            self._together = True
            both(flush, other)
            self._together = False

        monkeypatch.setattr(record_file, "flush_both", flush_both)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._flush)

    def _flush(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        name = path.name.removesuffix(".new")  # a file that is about to replace another
        if name in FILES:
            if not self._together:
                self._keep()
            self.safe[name] = path.read_bytes()

    def _keep(self) -> None:
        stack = self.working.stack
        after = {
            name: (stack / name).read_bytes() if (stack / name).exists() else None
            for name in FILES
        }
        copy = self.copies / str(len(self.moments))
        shutil.copytree(self.working.folder, copy, symlinks=True)
        self.moments.append(Moment(dict(self.safe), after, copy))

    def cuts(self) -> Iterator[dict[str, bytes | None]]:
        """Make the folder what each power cut may leave; yield what the files have kept."""
        for moment in self.moments:
            kept = [
                (s, j)
                for s in (moment.before, moment.after)
                for j in (moment.before, moment.after)
            ]
            for stack, entries in {(s["stack"], j["journal"]) for s, j in kept}:
                self._restore(moment, {"stack": stack, "journal": entries})
                yield {"stack": stack, "journal": entries}

    def _restore(self, moment: Moment, files: dict[str, bytes | None]) -> None:
        shutil.rmtree(self.working.folder)
        shutil.copytree(moment.folder, self.working.folder, symlinks=True)
        for name, content in files.items():
            path = self.working.stack / name
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)


def definition(log: Path, word: str, *, in_a_row: bool) -> Definition:
    """Return a stack whose scripts say which action of which deployment they run for."""
    say = f'echo "$deploy_resource_name $deploy_action" >>{log}\n'
    say += (
        'printf "$deploy_resource_name after $deploy_action" >$heat_outputs_path.said'
    )
    resources: dict[str, Any] = {"config": script(say, "said", inputs=["word"])}
    for before, name in zip([None, *NODES], NODES, strict=False):
        resources[name] = deployment(
            "config", "CREATE", "UPDATE", "DELETE", input_values={"word": word}
        )
        if before and in_a_row:
            resources[name]["depends_on"] = [before]
    return made(resources)


class Life:
    """A stack, and the power cuts during one operation on it."""

    def __init__(self, working: Working, *, in_a_row: bool) -> None:
        self.working, self.in_a_row, self.log = (
            working,
            in_a_row,
            working.folder / "log",
        )

    def carry_out(self, operation: str) -> None:
        """Carry an operation out, or go on with it."""
        session = self.working.session
        if session.interrupted:
            session.go_on()
        elif operation == "create":
            session.create(definition(self.log, "old", in_a_row=self.in_a_row))
        elif session.root is not None and operation == "update":
            source = definition(self.log, "new", in_a_row=self.in_a_row).source
            session.update(self.working.again(source))
        elif session.root is not None:
            session.delete()

    @property
    def lines(self) -> list[str]:
        """The lines that the scripts have written."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def check(self, kept: dict[str, bytes | None], expected: list[str]) -> None:
        """Go on after a power cut, and hold what comes of it against the promises."""
        action = expected[0].split()[1]
        before = Reader(kept["journal"] or b"").entries
        session = self.working.session
        over = (
            session.root is not None
            and not session.interrupted
            and session.root.record.action == action
        )
        if not over:
            self.carry_out(action.lower())
        store, status = (
            session.store,
            session.root.record.status if session.root is not None else "COMPLETE",
        )
        names = {
            each.config: store.resources[each.resource].name
            for each in store.deployments.values()
        }
        failed = {
            each.config
            for each in store.deployments.values()
            if each.status == "FAILED"
        }
        self.working.close()
        assert max(Counter(self.lines).values(), default=0) <= 1, (
            "a script has run twice"
        )
        for each in failed:  # those that may have been interrupted, and no others
            result = f'"{names[each]} after {action}"'.encode()
            assert before[each].state is State.RUNNING, (
                f"{names[each]} has failed, and had not begun"
            )
            assert not any(result in (content or b"") for content in kept.values()), (
                f"{result!r} was on disk"
            )
        assert status == ("FAILED" if failed else "COMPLETE")
        assert failed or sorted(self.lines) == sorted(expected), "a script has not run"
        for entry in (
            journal.read(self.working.stack).values() if names and not over else ()
        ):
            assert entry.settled, f"{entry.name} is {entry.state}"
            assert entry.id not in names or entry.failed == (entry.id in failed), (
                f"the journal tells of {entry.name}"
            )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.fault(
    1,
    "the power goes at each flush while a stack is created, updated or deleted, and takes from its records, from the "
    "journal, from both or from neither what was not flushed",
    "the same command goes on; no script runs twice, and no result is lost that either of the files has",
)
@pytest.mark.parametrize("in_a_row", [True, False], ids=["in a row", "independent"])
@pytest.mark.parametrize("operation", ["create", "update", "delete"])
def test_the_power_goes_at_each_flush(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    in_a_row: bool,
    tried: Callable[[int], None],
) -> None:
    """The next boot goes on with what both files have, and it does not matter which of them has more."""
    folder = tmp_path / "machine"
    folder.mkdir()
    working = Working(folder)
    life = Life(working, in_a_row=in_a_row)
    if operation != "create":
        life.carry_out("create")
        working.close()
        life.log.unlink()
    boot = processes.boot_id()
    with monkeypatch.context() as patch:
        disk = Disk(working, tmp_path / "copies", patch)
        for name in FILES if operation != "create" else ():
            disk.safe[name] = (working.stack / name).read_bytes()
        life.carry_out(operation)
        working.close()
    expected = life.lines
    assert sorted(expected) == [f"{name} {operation.upper()}" for name in NODES]
    cuts = 0
    for cuts, kept in enumerate(disk.cuts(), 1):
        monkeypatch.setattr(
            processes, "boot_id", lambda number=cuts: f"{number}-{boot}"
        )
        life.check(kept, expected)
    assert cuts > 2 * len(NODES)
    tried(cuts)

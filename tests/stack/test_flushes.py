"""A stack waits for the disk as rarely as its promises allow, and nothing relies on what is not on disk."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from heat_config_agent.model.entry import Run, State
from heat_config_agent.state.journal import Journal
from stack.made import deployment, made, script
from stack.working import Working

FEW, MANY = 3, 9


class Disk:
    """The content that each file would have after a power cut, by the flushes so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flushes: Counter[str] = Counter()
        self.safe: dict[str, str] = {}
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._flush)

    def _flush(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        self.flushes[path.name] += 1
        if path.is_file():
            self.safe[path.name] = path.read_text(errors="replace")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Return the disk, whose flushes are counted from now on."""
    return Disk(monkeypatch)


def create(working: Working, number: int) -> None:
    """Create a stack of so many deployments, each of which prints what the one before it has printed, and more."""
    resources = {
        "c": script(
            'printf "${word}x" | tee $heat_outputs_path.said', "said", inputs=["word"]
        )
    }
    resources["d0"] = deployment("c", input_values={"word": "begin"})
    for each in range(1, number):
        resources[f"d{each}"] = deployment(
            "c", input_values={"word": {"attr": [f"d{each - 1}", "said"]}}
        )
    last = {"attr": [f"d{number - 1}", "said"]}
    working.session.create(made(resources, {"said": last}))
    assert working.state() == ("CREATE", "COMPLETE")
    assert working.root.output("said") == "begin" + number * "x"
    working.close()


def test_additional_deployment_costs_two_flushes(disk: Disk, tmp_path: Path) -> None:
    """A deployment costs one flush of the stack and one of the journal, both before it begins."""
    counts = []
    for number in (FEW, MANY):
        disk.flushes.clear()
        folder = tmp_path / str(number) / "machine"
        folder.mkdir(parents=True)
        create(Working(folder), number)
        counts.append(Counter(disk.flushes))
    more = {
        name: (counts[1][name] - counts[0][name]) / (MANY - FEW)
        for name in counts[1] | counts[0]
    }
    assert {name: number for name, number in more.items() if number} == {
        "journal": 1,
        "stack": 1,
    }
    assert counts[1]["deployed"] > 0, "its files were never made safe"


def test_each_step_is_on_disk_before_the_next(
    disk: Disk, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deployment begins, and a result counts as delivered, once the stack and the journal have it on disk."""
    begun, delivered = [], []
    running, settled = Journal.running, Journal.settled

    def begin(journal: Journal, key: str, run: Run) -> None:
        # when it returns, the supervisor gets the word to begin
        running(journal, key, run)
        begun.append(key)
        word = "begin" + (len(begun) - 1) * "x"
        assert f'"{word}"' in disk.safe["stack"], (
            "it begins before its input is on disk"
        )
        assert key in disk.safe["stack"], (
            "it begins before the stack knows for certain what it has begun"
        )
        assert f'"{run.mark}"' in disk.safe["journal"], (
            "it begins before the journal says so"
        )
        assert len(begun) == 1 or f'"{word}"' in disk.safe["journal"], (
            "the result before it is not on disk"
        )

    def settle(
        journal: Journal,
        key: str,
        state: State,
        trouble: str = "",
        *,
        untidy: bool = False,
    ) -> None:
        delivered.append(key)
        word = "begin" + len(delivered) * "x"
        assert f'"{word}"' in disk.safe["stack"], "the stack may lose the result"
        assert f'"{word}"' in disk.safe["journal"], "the journal may lose the result"
        settled(journal, key, state, trouble, untidy=untidy)

    monkeypatch.setattr(Journal, "running", begin)
    monkeypatch.setattr(Journal, "settled", settle)
    create(working, FEW)
    assert len(begun) == FEW
    assert delivered == begun

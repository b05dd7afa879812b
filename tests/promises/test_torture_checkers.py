"""The checkers of stacks and long runs find violations: a check that cannot fail shows nothing."""
# ruff: noqa: D103  # the names of the lies say it

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support import growth, shares
from support.growth import MIB, Sample
from support.stack_stories import (
    CREATE,
    DELETE,
    NAME,
    UPDATE,
    Come,
    Plot,
    Shape,
    StackStory,
    Step,
)

FIRST = Shape("v0", extras=frozenset("x"))
SECOND = replace(FIRST, text="v1", extras=frozenset())
FOLDERS = ("state", "made")
FILES = ("log", "said", "tokens")


class Played:
    """A stack that was made and changed, and what it came to; how it was is kept."""

    def __init__(self, folder: Path) -> None:
        steps = (Step(CREATE, FIRST), Step(UPDATE, SECOND))
        plot = Plot(1, "planted-pin-4711", 0.0, steps)
        self.story = StackStory(folder, plot, curious=1.0)
        for step in steps:
            self.come = self._taken(step)
        self.kept = folder.with_name("kept")
        shutil.copytree(folder, self.kept)

    def _taken(self, step: Step) -> Come:
        assert self.story.take(step) == 0, self.story.said()
        assert not self.story.broken()
        return self.story.come_to()

    def wrong(self, *, deleted: bool = False) -> list[str]:
        """Return all that is found to be wrong; `deleted`, where the stack is said to be gone."""
        if deleted:
            shutil.rmtree(self.story.folder)
        return [*self.story.broken(), *self.story.too_often(Step(UPDATE, SECOND))]

    def note(self, line: str) -> None:
        """Add to what scripts have written down."""
        with (self.story.machine.folder / "log").open("a") as file:
            file.write(f"{line}\n")

    def restore(self) -> None:
        """Have all be as it was."""
        folder = self.story.machine.folder
        for name in FOLDERS:
            shutil.rmtree(folder / name)
            shutil.copytree(self.kept / name, folder / name)
        for name in FILES:
            shutil.copy(self.kept / name, folder / name)


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """A story in which all went well, up to a certain step."""
    folder = tmp_path_factory.mktemp("played") / "story"
    folder.mkdir()
    played = Played(folder)
    yield played
    played.story.machine.end()


@pytest.fixture
def played(once: Played) -> Iterator[Played]:
    """The same, and as it was again after the test."""
    yield once
    once.restore()


# Each is a way in which a promise could be broken, done by hand.


def ran_twice(played: Played) -> list[str]:
    for _ in range(2):
        played.note("begun first.0 UPDATE v2 abc 1.0")
    played.note("ended first.0 UPDATE v2 0 1.0")
    return played.wrong()


def complete_though_cut_short(played: Played) -> list[str]:
    played.note("begun first.0 UPDATE v2 abc 1.0")
    return played.wrong()


def complete_though_failed(played: Played) -> list[str]:
    played.note("ended first.0 UPDATE v2 7 1.0")
    return played.wrong()


def deleted_and_not_undone(played: Played) -> list[str]:
    return played.wrong(deleted=True)


def deleted_and_files_left(played: Played) -> list[str]:
    (played.story.machine.state / "stacks" / "other").mkdir()
    return played.wrong(deleted=True)


def traceback(played: Played) -> list[str]:
    (played.story.machine.folder / "said").write_text(
        "Traceback (most recent call last):\n"
    )
    return played.wrong()


def readable_state(played: Played) -> list[str]:
    (played.story.folder / "stack").chmod(0o644)
    return played.wrong()


def secret_that_was_said(played: Played) -> list[str]:
    return played.story.leaks({"what was said": f"it is {played.story.plot.pin}"})


def token_in_a_listing(played: Played) -> list[str]:
    return played.story.leaks(
        {"a listing": (played.story.machine.folder / "tokens").read_text()}
    )


def another_output(played: Played) -> list[str]:
    return replace(played.come, outputs={**played.come.outputs, "last": "odd"}).differs(
        played.come, loosely=True
    )


def another_state(played: Played) -> list[str]:
    return replace(played.come, state="UPDATE_FAILED").differs(
        played.come, loosely=True
    )


def another_resource(played: Played) -> list[str]:
    return replace(played.come, resources=played.come.resources[1:]).differs(
        played.come, loosely=True
    )


def failed_resource(played: Played) -> list[str]:
    odd = tuple((name, "CREATE_FAILED") for name, _ in played.come.resources)
    return replace(played.come, resources=odd).differs(played.come, loosely=False)


def run_too_often(played: Played) -> list[str]:
    return replace(played.come, ran=played.come.ran + played.come.ran).differs(
        played.come, loosely=False
    )


def run_lost(played: Played) -> list[str]:
    return replace(played.come, ran=played.come.ran - played.come.ran).differs(
        played.come, loosely=False
    )


def another_random_value(played: Played) -> list[str]:
    one, other = (
        StackStory(_folder(played, name), played.story.plot, curious=0.0)
        for name in ("one", "other")
    )
    for story, values in ((one, ("abc", "abc")), (other, ("abc", "xyz"))):
        lines = [
            f"begun {where}.0 UPDATE v1 {value} 1.0"
            for where, value in zip(("a", "b"), values, strict=True)
        ]
        (story.machine.folder / "log").write_text(
            "".join(f"{line}\n" for line in lines)
        )
    return other.come_to().differs(one.come_to(), loosely=False)


def _folder(played: Played, name: str) -> Path:
    folder = played.story.machine.folder / name
    folder.mkdir()
    return folder


def something_left(played: Played) -> list[str]:
    return replace(played.come, made=()).differs(played.come, loosely=False)


LIES: dict[Callable[[Played], list[str]], str] = {
    ran_twice: "first.0 UPDATE v2 ran 2 times",
    complete_though_cut_short: "the stack is said to be well, and this came last: begun",
    complete_though_failed: "the stack is said to be well, and this came last: ended first.0 UPDATE v2 7",
    deleted_and_not_undone: "was not undone",
    deleted_and_files_left: "this is left of a deleted stack",
    traceback: "a traceback was shown",
    readable_state: "others may read",
    secret_that_was_said: "the hidden parameter is in what was said",
    token_in_a_listing: "is in a listing",
    another_output: "its outputs are",
    another_state: "the stack is UPDATE_FAILED",
    another_resource: "its resources are",
    failed_resource: "differ",
    run_too_often: "times too often",
    run_lost: "this was not done",
    another_random_value: "times too often: begun b.0 UPDATE v1 RANDOM1",
    something_left: "scripts have left",
}


@pytest.mark.slow
def test_checkers_accept_an_undisturbed_stack(played: Played) -> None:
    """A stack with which all went well is not found fault with, nor is its end."""
    assert not played.wrong()
    assert not played.come.differs(played.come, loosely=False)
    assert not played.story.leaks({"the log": played.story.said()})
    assert played.story.take(Step(DELETE, SECOND)) == 0, played.story.said()
    assert not played.wrong()
    assert played.story.state() == ("", "", "")


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__.replace("_", " "))
def test_a_lie_is_found(played: Played, lie: Callable[[Played], list[str]]) -> None:
    """Each way in which a promise can be broken is seen, and named."""
    assert any(LIES[lie] in each for each in lie(played))


# What grows.

USUAL: Sample = {
    "memory": 28.0 * MIB,
    "descriptors": 15,
    "threads": 4,
    "files": 400,
    "journal": MIB / 2,
    "state": 5 * MIB,
}


def test_fluctuation_does_not_count_as_growth() -> None:
    """A daemon may take more now and then, and much at its start; and a few samples say nothing."""
    usual: list[Sample] = [
        {**USUAL, "files": 400 + number % 150, "threads": 3 + number % 4}
        for number in range(300)
    ]
    assert not growth.unbounded(usual)
    assert not growth.unbounded([{**USUAL, "memory": 0}, *usual])
    assert not growth.unbounded([])


@pytest.mark.parametrize("what", USUAL)
def test_growth_is_detected(what: str) -> None:
    """The checker finds everything that grows, and everything that is too large at any moment."""
    most = growth.LIMITS[what] * 0.9
    grown: list[Sample] = [
        {**USUAL, what: most * (number / 300) ** 3} for number in range(300)
    ]
    assert any(each.startswith(f"{what} grows") for each in growth.unbounded(grown))
    peak: list[Sample] = [USUAL, {**USUAL, what: growth.LIMITS[what] + 1}, USUAL]
    assert any(each.startswith(what) for each in growth.unbounded(peak))


# The time.


def test_the_time_is_divided() -> None:
    """Files have their shares, tests of a file the same of it; who needs less leaves it to the others."""
    given = [("a1", "a", 2.0), ("a2", "a", 2.0), ("b", "b", 1.0), ("c", "c", 1.0)]
    found = shares.Shares(100.0, given)
    taken = [round(found.take(each)) for each in ("a1", "a2", "b", "c")]
    assert taken == [25, 33, 50, 100]  # as none of them has needed any of it
    assert shares.Shares(0.0, given).take("a1") == shares.LEAST
    late = shares.Shares(0.01, given)
    time.sleep(0.02)
    assert late.take("b") == shares.LEAST


def test_plots_follow_from_seeds() -> None:
    """The same seed, the same plot; and plots are of all kinds."""
    assert Plot.of(7, 3) == Plot.of(7, 3)
    steps = [step for seed in range(40) for step in Plot.of(seed, 3).steps]
    assert {step.what for step in steps} == {
        "create",
        "update",
        "suspend",
        "resume",
        "delete",
    }
    assert {(step.fails, step.rollback) for step in steps} == {
        (a, b) for a in (True, False) for b in (True, False)
    }
    assert NAME
    assert json.dumps([str(step) for step in steps])

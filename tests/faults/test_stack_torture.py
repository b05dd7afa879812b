"""`kill -9` at random moments, of whatever carries out stacks; and what comes of them is what would have come anyway.

`make torture FOR=600 SEED=… ARGS=tests/faults/test_stack_torture.py`. In a round, a stack takes the steps of its plot
twice: where nobody disturbs it, and where what works on it is killed again and again, and begun again until it is
done. After each step, both have to have come to the same. All choices of round N follow from the seed plus N; the
moments are shares of how long a step takes where nobody disturbs it.
"""

from __future__ import annotations

import collections
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from support import killing, promises, shares
from support.killing import AGENT, EVERYTHING, MACHINE, Boot
from support.stack_stories import (
    CREATE,
    DELETE,
    FAILS,
    MAKES,
    PATIENCE,
    RESUME,
    SUSPEND,
    UPDATE,
    Plot,
    StackStory,
    Step,
)
from support.stories import Rounds

pytestmark = pytest.mark.takes(60)

ROUNDS = 2
"""Rounds of the short form, in which stacks are changed once."""

AT_ONCE = 3
STUBBORN = 8
"""The most repetitions of a step whose runs were killed."""

OTHERS = {
    "a supervisor": 2,
    "a tool": 2,
    "a whole run": 2,
    "the agent and a supervisor": 2,
    "the agent and a whole run": 2,
    EVERYTHING: 2,
}
"""The processes that are killed next to the agent, with their number; only in some rounds, as runs then differ."""


@dataclass
class Counts:
    """The counts of all rounds."""

    kills: Counter[str]
    steps: Counter[str]
    stacks: int = 0
    scripts: int = 0


class Round:
    """A stack that is left alone, and another one that is tortured."""

    def __init__(
        self, folder: Path, seed: int, counts: Counts, *, long: bool = True
    ) -> None:
        """Make all choices by the seed. A plot that is not long is short."""
        self._counts = counts
        self._chance = random.Random(seed)  # noqa: S311  # it is to be repeatable
        length = self._chance.randint(2, 4)
        self.plot = Plot.of(seed, length if long else 1)
        folder.mkdir()
        self._quiet, self._tortured = (
            self._place(folder / "quiet", 0.0),
            self._place(folder / "tortured", 0.3),
        )
        self._hard = self._chance.random() < 0.4
        if self._hard:  # else there is seldom something to kill
            self.plot = replace(self.plot, pause=0.4)
        self._reboots = (
            self._hard and self._chance.random() < 0.5 and not Boot.trouble()
        )
        self._boot: Boot | None = None
        self.step: Step | None = None

    def _place(self, folder: Path, curious: float) -> StackStory:
        folder.mkdir()
        return StackStory(folder, self.plot, curious)

    def run(self, is_enough: Callable[[], bool]) -> None:
        """Take the steps, as far as there is time, and hold what comes of it against what would have come of it."""
        if self._reboots:
            self._boot = Boot()
        try:
            for step in self.plot.steps:
                self.step = step
                self._take(step)
                self._counts.steps[step.what] += 1
                if is_enough():
                    break
            self._counts.stacks += 1
            self._counts.scripts += sum(
                line[0] == "begun" for line in self._tortured.lines()
            )
        finally:
            if self._boot:
                self._boot.end()
            for each in (self._quiet, self._tortured):
                each.machine.end()

    def _take(self, step: Step) -> None:
        began = time.monotonic()
        code = self._quiet.take(step)
        took = time.monotonic() - began
        assert code == int(step.fails), (
            f"undisturbed, {step} ended with {code}:\n{self._quiet.said()[-3000:]}"
        )
        self._disturb(step, took)
        self._bring_about(step)
        wrong = [*self._tortured.broken(), *self._tortured.too_often(step)]
        assert not wrong, self._story(wrong)
        theirs, mine = self._quiet.come_to(), self._tortured.come_to()
        assert not (quiet := self._quiet.broken()), quiet
        if step.fails and step.rollback and not mine.state and not theirs.resources:
            # The way back from a first creation failed as runs were killed, and was completed by a deletion. That takes
            # the record of the stack along, which a way back leaves.
            theirs = replace(theirs, state="", outputs=mine.outputs)
        wrong = mine.differs(theirs, loosely=self._tortured.loose)
        assert not wrong, self._story(wrong)

    def _story(self, wrong: list[str]) -> str:
        return "\n".join(
            [
                f"{wrong[0]}; step: {self.step}",
                *wrong[1:],
                f"what was said last:\n{self._tortured.said()[-3000:]}",
                "what scripts did last:",
                *(" ".join(line) for line in self._tortured.lines()[-40:]),
            ]
        )

    # Torture.

    def _disturb(self, step: Step, took: float) -> None:
        """Take a step, and kill what works on it; until it is done, or it has been enough."""
        story = self._tortured
        story.hits, before = 0, story.state()
        for _ in range(self._chance.choice((1, 2, 2, 3, 4))):
            process = self._started(step)
            if not self._strike(process, took):
                self._ended(step, process.wait(PATIENCE))
                return
            if self._is_over(before):
                return
        self._ended(step, self._started(step).wait(PATIENCE))

    def _started(self, step: Step) -> subprocess.Popen[bytes]:
        return self._tortured.start(step, self._boot.before if self._boot else ())

    def _ended(self, step: Step, code: int) -> None:
        """Look at the exit code of a command that was not killed."""
        story = self._tortured
        action, status, _ = story.state()
        allowed = {0, 1} if story.loose or step.fails else {0}
        if step.what == CREATE and status == "COMPLETE" and action == "CREATE":
            allowed.add(2)  # it was made before, and only nobody was told
        if step.what == DELETE and not action:
            allowed.add(8)  # the same: there is no such stack any more
        assert code in allowed, self._story([f"it ended with {code}"])

    def _is_over(self, before: tuple[str, str, str]) -> bool:
        """Return whether a step has come to an end since it began, even if its command was killed."""
        _, status, attempt = self._tortured.state()
        return status in ("COMPLETE", "FAILED") and attempt != before[2]

    def _strike(self, process: subprocess.Popen[bytes], took: float) -> bool:
        """Kill something while a command works; return whether the command was killed."""
        story, chance = self._tortured, self._chance
        [victim] = (
            chance.choices(list(OTHERS), list(OTHERS.values()))
            if self._hard
            else [AGENT]
        )
        if chance.random() < 0.5:
            victim = MACHINE if self._boot else AGENT
        moment, which, later = (
            chance.uniform(0, took * 1.1),
            chance.random(),
            chance.uniform(0, 0.1),
        )
        if killing.ends_within(process, moment):
            return False
        if victim != AGENT:
            killing.wait_for_a_run(lambda: killing.runs(story.machine), process, took)
            time.sleep(later)
        hit, killed = killing.strike(victim, which, story.machine, process, self._boot)
        # with the machine goes whatever ran then, if anything did
        story.hits += hit if victim == MACHINE else len(killed)
        story.loose = story.loose or story.hits > 0
        if hit:
            self._counts.kills[victim] += 1
        return killing.is_fatal(victim)

    def _bring_about(self, step: Step) -> None:
        """Have the stack be what the step was to make of it, where runs were killed that it needed."""
        story = self._tortured
        for _ in range(STUBBORN):
            action, status, _ = story.state()
            if not story.loose or _is_as_wanted(
                step, action, status, story.reason("last")
            ):
                return
            code = self._started(self._again(step)).wait(PATIENCE)
            assert code in (0, 1), self._story([f"taken again, it ended with {code}"])
        raise AssertionError(
            self._story(
                [f"it does not become what it was to be: it is {story.state()}"]
            )
        )

    def _again(self, step: Step) -> Step:
        """Return what brings about what a step was to bring about, and has failed."""
        if step.what not in MAKES:
            return step
        if step.fails and step.rollback:  # to go back has failed
            former = [
                each
                for each in self.plot.steps[: self.plot.steps.index(step)]
                if not each.fails
            ]
            made = [each for each in former if each.what in MAKES]
            return (
                Step(UPDATE, made[-1].shape, apply=True)
                if made
                else Step(DELETE, step.shape)
            )
        return Step(UPDATE, step.shape, apply=True)


def _is_as_wanted(step: Step, action: str, status: str, reason: str) -> bool:
    """Return whether a stack is in the state that a step should lead to, after runs were killed; the action may differ.

    A stack that should fail has to fail for its own `reason`, that of the last script: a killed run makes it fail
    earlier.
    """
    if step.what == DELETE:
        return not action
    if step.what in (SUSPEND, RESUME):
        return (action, status) == (step.what.upper(), "COMPLETE")
    if step.fails and step.rollback:
        return status == "COMPLETE" or not action
    if step.fails and not reason.endswith(f"status code: {FAILS}"):
        return False
    return status == ("FAILED" if step.fails else "COMPLETE") and action != "ROLLBACK"


class Torture(Rounds):
    """Rounds until there were enough or the time is over."""

    def __init__(self, folder: Path, seed: int, seconds: float) -> None:
        most = float("inf") if seconds else ROUNDS
        super().__init__(folder, seed, at_once=AT_ONCE, most=most)
        self._for = seconds
        self.counts = Counts(collections.Counter(), collections.Counter())

    def is_enough(self) -> bool:
        return 0 < self._for < self.seconds

    def __str__(self) -> str:
        """Return how far it has come."""
        kills, steps = (
            ", ".join(f"{number} {what}" for what, number in each.most_common())
            for each in (self.counts.kills, self.counts.steps)
        )
        return (
            f"{self.seconds:.0f} s: {self.counts.kills.total()} kills ({kills}); "
            f"{self.counts.stacks} stacks ({steps}), {self.counts.scripts} scripts ran"
        )

    def play(self, folder: Path, seed: int) -> None:
        Round(folder, seed, self.counts, long=self._for > 0).run(self.over.is_set)


@pytest.mark.torture(share=6)
@pytest.mark.timeout(0 if shares.FOR else 600)
@pytest.mark.fault(
    1,
    "`kill -9` at random moments, of a command that works on a stack, a supervisor, a script, a whole run, all of "
    "these, or the machine, while stacks are made, changed, rolled back, suspended and deleted",
    "the same command goes on to the same end; no script is run twice or lost, no failure is reported as complete, "
    "and nothing of a deleted stack is left",
)
def test_random_kills_leave_stacks_as_undisturbed_ones(
    tmp_path: Path, seconds: float, counted: Counter[str], tried: Callable[[int], None]
) -> None:
    """Whenever what is killed: a stack that is worked on again comes to what it would have come to."""
    seed = promises.seed("TORTURE_SEED")
    print(f"\nTORTURE_SEED={seed}")
    torture = Torture(tmp_path, seed, seconds)
    torture.run()
    counts = torture.counts
    counted.update(
        kills=counts.kills.total(), stacks=counts.stacks, scripts=counts.scripts
    )
    tried(counts.kills.total())

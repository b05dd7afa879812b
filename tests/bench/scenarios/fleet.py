"""A fleet that asks one server: simulated, as nobody has twenty thousand machines to try it on."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from bench import fleet, measure
from bench.fleet import Agent, Client, Course, Replaced
from bench.scenario import OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

_FIGURES = (
    Figure("answers", "answers in time per second", ""),
    Figure("unused", "capacity that became no answer in time", "%"),
    Figure("wasted", "asked of it by who gave up", "%"),
    Figure("unanswered", "requests without an answer in time", "%"),
    Figure("half", "longest without an answer: 50 % of the agents at most", "s"),
    Figure("most", "99 % of the agents at most", "s"),
)
_REACHED = Figure("reached", "99 % had an answer after", "s")

_ABOUT = (
    f"The scenarios of fleets are simulated (`tests/bench/fleet.py`): {fleet.NUMBER:,} agents ask as often as the"
    " daemon's own code says, and one server works off requests in their order, also those whose sender has given up"
    f" (after {Agent.patience:.0f} s here, after {Replaced.patience:.0f} s there)."
)
_NOTE = (
    "The fleet, idle, needs {needed:.0f} answers per second; the server gives {rate:.0f}. "
    "Measured for {time:.0f} s."
)


def _sample(course: Course, make: Callable[[], Client]) -> Sample:
    simulated = fleet.simulate(course, make)
    sample = {
        "answers": simulated.per_second,
        "unused": max(1 - simulated.useful, 0.0),
        "wasted": simulated.lost,
        "unanswered": 1 - simulated.in_time,
        "half": simulated.gap(0.5),
        "most": simulated.gap(0.99),
        "reached": simulated.reach(0.99),
    }
    # What never came is left out; less than so little is nothing.
    return {
        name: round(value, 4) for name, value in sample.items() if math.isfinite(value)
    }


@contextlib.contextmanager
def _subjects(
    course: Course, _folder: Path, *, theirs: bool
) -> Iterator[list[Subject]]:
    runs = {OURS: partial(_sample, course, Agent)}
    if theirs:
        runs[THEIRS] = partial(_sample, course, Replaced)
    with ProcessPoolExecutor(
        len(runs)
    ) as pool:  # no time is measured but that of their own clock
        yield measure.at_once(runs, pool)


def _scenario(
    name: str,
    title: str,
    course: Course,
    *,
    most: dict[str, float],
    theirs: bool = True,
    note: str = "",
) -> Scenario:
    """Return the scenario of a course, of which these figures are to be at most so much."""
    needed = fleet.NEEDED * fleet.NUMBER
    reached = (_REACHED,) if "reached" in most else ()
    return Scenario(
        name=f"fleet-{name}",
        title=title,
        figures=(*_FIGURES, *reached),
        subjects=partial(_subjects, course, theirs=theirs),
        goals=tuple(Goal(figure, "", value) for figure, value in most.items()),
        rounds=1,
        seconds=4,
        warm_up=False,
        note=f"{_NOTE.format(needed=needed, rate=needed * course.capacity, time=course.measured)} {note}".rstrip(),
    )


_COLLAPSED = "The agent that is replaced gets no answers at this capacity as it is."

SCENARIOS: tuple[Scenario, ...] = (
    _scenario(
        "enough",
        "A fleet, and a server that is silent for 300 s; from then on measured",
        fleet.ENOUGH,
        most={"reached": 180.0},
        note=f"In the outage the server takes requests, and works them off after it. {_ABOUT}",
    ),
    _scenario(
        "third",
        "A fleet that asks a server with a third of the capacity",
        fleet.THIRD,
        most={"unused": 0.1},
    ),
    _scenario(
        "third-short-queue",
        "The same, where no more than 4096 requests may wait",
        fleet.SHORT,
        most={"unused": 0.1},
        note="That is how long Heat's queue is by default. Where it is full, no connection is made for 10 s.",
    ),
    _scenario(
        "outage",
        "A fleet, a third of the capacity, and a server that refuses connections for 300 s; from then on measured",
        fleet.REFUSED,
        most={"unused": 0.1, "reached": 180.0},
        theirs=False,
        note=_COLLAPSED,
    ),
    _scenario(
        "outage-silent",
        "The same, where the server takes requests meanwhile, and works them off after that",
        fleet.SILENT,
        most={"reached": 600.0},
        theirs=False,
        note=f"Most of those have given up by then. {_COLLAPSED}",
    ),
    _scenario(
        "power-cut",
        "A fleet that is started all at once, with a third of the capacity",
        fleet.STARTED,
        most={"unused": 0.1, "reached": 300.0},
    ),
    _scenario(
        "change",
        "A fleet, a third of the capacity, and a change for every agent at once",
        fleet.CHANGED,
        most={"unused": 0.1, "reached": 300.0},
        theirs=False,
        note=f"What 99 % had is an answer with the change. {_COLLAPSED}",
    ),
)

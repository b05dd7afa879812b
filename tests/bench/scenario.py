"""The values that scenarios, measuring and the report share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

OURS, THEIRS, LIMIT = "ours", "theirs", "limit"
"""The subjects: this project; os-collect-config and heat-agents; the minimum that any program could do."""

Sample = Mapping[str, float]
"""The figures of one run: figure → value, in the unit that the scenario's `Figure` names."""


LEAST = 3
"""Rounds that a scenario is given also where its time is over before."""


class LackingError(Exception):
    """Something that is needed is not here: the sentence says what, and how to get it."""


@dataclass(frozen=True)
class Figure:
    """Something that is measured in a scenario."""

    name: str
    """As in samples, for example "wall"."""
    title: str
    """For example "wall time"."""
    unit: str
    """One of "s", "B", "%" (a share of one), "" (a count): `report` knows how to show these."""


@dataclass(frozen=True)
class Goal:
    """A goal: ours is at most `ratio` times theirs (for 0.5, at most half), or at most a value."""

    figure: str
    against: str
    """THEIRS, LIMIT, another subject's name, or "" where `at_most` is a value in the figure's unit."""
    at_most: float
    because: str = ""
    """Where it is not met: what stands in the way, in a sentence."""


@dataclass(frozen=True)
class Subject:
    """A subject of a comparison."""

    name: str
    """OURS, THEIRS, LIMIT, or another word, for example "55-heat-config"."""
    run: Callable[[], Sample]
    """Do it once. What it takes to get ready and to clear away is not to be in the sample."""
    rounds: int = 0
    """The most rounds, if it takes too long for as many as the others; 0 for no limit of its own."""
    warm_up: bool = True
    """True if it is run once before the measurement."""


@dataclass(frozen=True)
class Scenario:
    """A scenario of the benchmarks: commands that are run and measured."""

    name: str
    """A word or two, as on the command line: "one-shot-idle"."""
    title: str
    """A sentence without full stop: what is done."""
    figures: tuple[Figure, ...]
    subjects: Callable[[Path], AbstractContextManager[list[Subject]]]
    """Set up what is compared, in a folder of its own. Raises LackingError."""
    goals: tuple[Goal, ...] = ()
    rounds: int = 11
    seconds: float = 20.0
    """Its share of the total time, with preparation; after that, no more than `LEAST` rounds are run."""
    warm_up: bool = True
    """True if it is run once before the measurement."""
    long: bool = False
    """True if it takes so long that it is measured only if its full name is given."""
    note: str = ""
    """Notes about the measurement for the reader; markdown."""
    needs: Callable[[], None] | None = None
    """Have here what it needs; that is not of its time. Raises LackingError."""


@dataclass(frozen=True)
class Spread:
    """Some values, summed up."""

    median: float
    least: float
    most: float
    runs: int

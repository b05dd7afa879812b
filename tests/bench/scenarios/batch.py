"""Many deployments at once: all of them, and what each one more costs."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import measure, peers, server, work
from bench.scenario import LIMIT, OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

Batch = Callable[[int], measure.Took]
"""Applies so many new deployments in one run."""


@contextlib.contextmanager
def _batches(folder: Path) -> Iterator[dict[str, Batch]]:
    """Set up who applies batches. Nobody has anything from an earlier run; each signal is waited for and counted."""
    limit = work.Limit(folder / "limit")
    numbers = itertools.count()
    with server.running(folder / "documents") as heat:

        def by_ours(count: int) -> measure.Took:
            ours = work.Ours(folder / f"ours{next(numbers)}")
            ours.write(work.deployments(count, heat))
            with heat.expecting(count):
                return ours.apply()

        def by_theirs(count: int) -> measure.Took:
            image = peers.Image(folder / f"image{next(numbers)}")
            image.write(work.deployments(count, heat))
            with heat.expecting(count):
                return measure.run(image.heat_config, env=image.environment)

        def by_limit(count: int) -> measure.Took:
            with heat.expecting(count):
                return limit.apply(folder / f"limit{next(numbers)}", count, heat)

        by_theirs(1)  # warmed up here, as more of it takes long
        yield {OURS: by_ours, THEIRS: by_theirs, LIMIT: by_limit}


@contextlib.contextmanager
def _whole(folder: Path, *, count: int, theirs: int) -> Iterator[list[Subject]]:
    """Apply `count`; those that are replaced do so at most `theirs` times."""
    with _batches(folder) as batches:

        def subject(name: str, batch: Batch) -> Subject:
            rounds = theirs if name == THEIRS else 0
            return Subject(
                name, lambda: batch(count).sample, rounds=rounds, warm_up=name != THEIRS
            )

        yield [
            subject(name, batch)
            for name, batch in batches.items()
            if name != THEIRS or theirs
        ]


_FEW, _MANY = 10, 210
_THEIR_FEW, _THEIR_MANY = 1, 6


@contextlib.contextmanager
def _marginal(folder: Path) -> Iterator[list[Subject]]:
    with _batches(folder) as batches:

        def sample(batch: Batch, few: int, many: int) -> Sample:
            less, more = batch(few), batch(many)
            return {
                "wall": (more.wall - less.wall) / (many - few),
                "cpu": (more.cpu - less.cpu) / (many - few),
            }

        yield [
            Subject(OURS, lambda: sample(batches[OURS], _FEW, _MANY)),
            Subject(
                THEIRS,
                lambda: sample(batches[THEIRS], _THEIR_FEW, _THEIR_MANY),
                rounds=5,
                warm_up=False,
            ),
            Subject(LIMIT, lambda: sample(batches[LIMIT], _FEW, _MANY)),
        ]


_FIGURES = (Figure("wall", "wall time", "s"), Figure("cpu", "processor time", "s"))
_MORE = (
    "The limit hardly reaches that itself. Each run has a supervisor beside its script, a process by which it goes on "
    "without the agent, and the disk is waited for before it is started."
)
_THEIRS = "Theirs is 55-heat-config with its hook-script and heat-config-notify."


def _batch(
    count: int,
    *,
    theirs: int,
    rounds: int,
    seconds: float,
    note: str,
    warm_up: bool = True,
) -> Scenario:
    return Scenario(
        f"batch-{count}",
        f"{count} new deployments, scripts that print a word, are applied in one run, and their results signalled",
        _FIGURES,
        functools.partial(_whole, count=count, theirs=theirs),
        rounds=rounds,
        seconds=seconds,
        warm_up=warm_up,
        needs=peers.ready,
        note=note,
    )


SCENARIOS: tuple[Scenario, ...] = (
    _batch(
        10,
        theirs=1,
        rounds=7,
        seconds=15,
        note=f"{_THEIRS} It is run once, as it takes long.",
    ),
    _batch(
        100,
        theirs=0,
        rounds=5,
        seconds=10,
        note="Theirs is not run: it would take more than a minute.",
    ),
    _batch(
        1000,
        theirs=0,
        rounds=3,
        seconds=45,
        warm_up=False,
        note="Theirs is not run: it would take a quarter of an hour.",
    ),
    Scenario(
        "batch-marginal",
        "What one deployment more costs in a batch: a script that prints a word, journalled and signalled",
        _FIGURES,
        _marginal,
        (
            Goal("wall", THEIRS, 1 / 80, _MORE),
            Goal("wall", LIMIT, 3.0, _MORE),
        ),
        rounds=5,
        seconds=40,
        needs=peers.ready,
        note=(
            f"The time for {_MANY} deployments less that for {_FEW}, divided by {_MANY - _FEW}; of theirs, which is "
            f"55-heat-config with its hook-script and heat-config-notify, for {_THEIR_MANY} and {_THEIR_FEW}."
        ),
    ),
)

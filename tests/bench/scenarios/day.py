"""A day of polling."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from bench import heat, idle, work
from bench.scenario import OURS, Figure, Goal, Sample, Scenario, Subject

COMPRESSED = 10_000.0
"""How many times faster time passes, as far as it can: the daemon polls as fast as it is able to."""

POLLS, FIRST = 2880, 100
"""Polls of a day, one each 30 seconds; and those after which memory has its size."""

CHANGES = 24
"""In a day: each is a deployment in the place of the one before."""


class _Day:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._days = 0

    def run(self) -> Sample:
        """Poll for a day, from a start on; return the memory that is in use after the first polls, and at the end."""
        self._days += 1
        place = self._folder / f"day-{self._days}"
        place.mkdir()
        with heat.running() as server:
            server.put({"deployments": work.deployments(1)})
            command = idle.ours(place, server, COMPRESSED, [heat.HEAT])
            with contextlib.closing(idle.Daemon(command, idle.environment(place), place)) as daemon:
                idle.wait(lambda: daemon.said("done after") > 0, daemon)
                idle.polled(FIRST, server, heat.HEAT, daemon)
                first = daemon.used()
                for change in range(CHANGES):
                    server.put({"deployments": work.deployments(1, mark=f"change-{change}")})
                    idle.polled((POLLS - FIRST) // CHANGES, server, heat.HEAT, daemon)
                last = daemon.used()
        return {
            "first": first.resident,
            "last": last.resident,
            "growth": last.anonymous - first.anonymous,
        }


@contextlib.contextmanager
def _subjects(folder: Path) -> Iterator[list[Subject]]:
    yield [Subject(OURS, _Day(folder).run)]


SCENARIOS = (
    Scenario(
        name="day",
        title=f"A day of polling: {POLLS} polls over heat, and {CHANGES} changes",
        figures=(
            Figure("first", f"memory after {FIRST} polls", "B"),
            Figure("last", "memory at the end", "B"),
            Figure("growth", "growth of what is not on disk", "B"),
        ),
        subjects=_subjects,
        goals=(Goal("growth", "", 1024 * 1024),),
        rounds=1,
        seconds=1.0,
        warm_up=False,
        note="""\
The agent polls as fast as it can, and all else that it does now and then comes as much faster. Memory is what the
process has resident. Python's own comes in arenas of 1 MiB: a part of one is no growth.""",
    ),
)

"""A day of polling."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import heat, idle, measure, peers, work
from bench.scenario import OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

COMPRESSED = 10_000.0
"""The factor by which time passes faster; the daemon polls no faster than it can."""

POLLS, FIRST = 2880, 100
"""Polls of a day, one each 30 seconds; and those after which memory has its size."""

THEIR_POLLS = 200
"""Polls of os-collect-config: each takes it many times longer."""

CHANGES = 24
"""In a day: each is a deployment in the place of the one before."""


def _ours(folder: Path) -> Sample:
    """Poll for a day after a start; return the memory in use after the first polls, and at the end."""
    folder.mkdir()
    with heat.running() as server:
        server.put({"deployments": work.deployments(1)})
        command = idle.ours(folder, server, COMPRESSED, [heat.HEAT])
        with contextlib.closing(
            idle.Daemon(command, idle.environment(folder), folder)
        ) as daemon:
            idle.wait(lambda: daemon.said("done after") > 0, daemon)
            idle.polled(FIRST, server, heat.HEAT, daemon)
            first = daemon.used()
            for change in range(CHANGES):
                server.put(
                    {"deployments": work.deployments(1, mark=f"change-{change}")}
                )
                idle.polled((POLLS - FIRST) // CHANGES, server, heat.HEAT, daemon)
            last = daemon.used()
    return _sample(first, last)


def _theirs(folder: Path) -> Sample:
    """Poll for a part of one, without changes."""
    image = peers.Image(folder)
    settings = {
        "command": "true",
        "polling_interval": idle.INTERVAL / COMPRESSED,
        "min_polling_interval": 0.0,
    }
    with heat.running() as server:
        server.put({"deployments": work.deployments(1)})
        sections = {heat.HEAT: server.sections()[heat.HEAT]}
        command = image.collect([heat.HEAT], settings=settings, sections=sections)
        with contextlib.closing(
            idle.Daemon(command, image.environment, folder)
        ) as daemon:
            idle.polled(FIRST, server, heat.HEAT, daemon)
            first = daemon.used()
            idle.polled(THEIR_POLLS - FIRST, server, heat.HEAT, daemon)
            return _sample(first, daemon.used())


def _sample(first: idle.Used, last: idle.Used) -> Sample:
    return {
        "first": first.resident,
        "last": last.resident,
        "growth": last.anonymous - first.anonymous,
    }


@contextlib.contextmanager
def _subjects(folder: Path) -> Iterator[list[Subject]]:
    with ThreadPoolExecutor(2) as pool:  # no time is measured
        yield measure.at_once(
            {
                OURS: lambda: _ours(folder / "ours"),
                THEIRS: lambda: _theirs(folder / "theirs"),
            },
            pool,
        )


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
        goals=(
            Goal(
                "last",
                THEIRS,
                1 / 1.5,
                "Most of it is Python with what speaks HTTP and TLS, which both load.",
            ),
            Goal("growth", "", 1024 * 1024),
        ),
        rounds=1,
        seconds=25,
        needs=peers.ready,
        warm_up=False,
        note=f"""\
The agent polls as fast as it can, and all else that it does now and then comes as much faster. os-collect-config polls
{THEIR_POLLS} times only, at the same time, and nothing changes, as each poll takes it longer. Memory is what the
process has resident. Python's own comes in arenas of 1 MiB: a part of one is no growth. What another
process of the agent takes for a login, for some seconds an hour, does not count.""",
    ),
)

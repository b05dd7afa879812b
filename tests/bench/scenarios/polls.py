"""Polls that find nothing new, over each transport."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import heat, idle, measure, peers, work
from bench.scenario import OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

COMPRESSED = 1000.0
"""The factor by which time passes faster: 30 seconds become 30 ms, as far as possible."""

POLLS, FEWER = 12, 2
"""In each round; of what takes long for each."""

_SIZES = {"10kB": 10_000, "1MB": 1_000_000, "10MB": 10_000_000}
_SECONDS = {"10kB": 4.0, "1MB": 5.0, "10MB": 7.0}
_FIGURES = (
    Figure("cpu", "processor time per poll", "s"),
    Figure("requests", "requests per poll", ""),
    Figure("resident", "memory", "B"),
)
_NOTE = f"""\
Both are left to poll what does not change, with the intervals that they have by default and all else that they do now
and then (the agent: looking at everything once a minute, and writing how it is) made {COMPRESSED:g} times shorter. The
time is that of the daemon's process, from the scheduler's counters. Who is not measured is stopped."""
_REQUEST = """ The agent asks for what is newer, which the server answers with 304. os-collect-config asks for the date
first, remembers none from one poll to the next, and fetches all of it."""


_MEMORY = "Most of it is Python with what speaks HTTP and TLS, which both load."
_ASKING = (
    "a request costs Python what it does, whatever is answered; and each poll bears a part of looking at everything "
    "once a minute."
)


def document(size: int) -> dict[str, object]:
    """Return metadata of about that size: deployments of 5 kB, or 100 larger ones."""
    count = max(1, min(100, size // 5000))
    bare = len(json.dumps(work.deployments(1)))
    line = "# what a longer script would say in each of its lines\n"
    filling = line * ((size // count - bare) // (len(line) + 1))
    return {"deployments": work.deployments(count, config=work.SCRIPT + filling)}


def _scenario(transport: str, size: str) -> Scenario:
    goals = [Goal("requests", "", 1.0)]
    if transport == "heat":
        goals.append(Goal("requests", THEIRS, 1 / 3))
    if size == "10kB":
        goals.append(Goal("resident", THEIRS, 1 / 1.5, _MEMORY))
    if size == "1MB" and transport in ("heat", "cfn"):
        goals.append(
            Goal(
                "cpu",
                THEIRS,
                1 / 15,
                f"The answer is only compared with the last one, but {_ASKING}",
            )
        )
    if size == "1MB" and transport == "request":
        goals.append(Goal("cpu", THEIRS, 1 / 50, f"No document is read, but {_ASKING}"))

    @contextlib.contextmanager
    def subjects(folder: Path) -> Iterator[list[Subject]]:
        with contextlib.ExitStack() as stack:
            given = document(_SIZES[size])
            found = [
                Subject(OURS, stack.enter_context(_ours(folder, transport, given)))
            ]
            found.append(
                Subject(
                    THEIRS,
                    stack.enter_context(_theirs(folder / "theirs", transport, given)),
                )
            )
            yield found

    return Scenario(
        name=f"polls-{transport}-{size}",
        title=f"Polling over {transport}, {size} of metadata that do not change",
        figures=_FIGURES,
        subjects=subjects,
        goals=tuple(goals),
        rounds=5,
        seconds=_SECONDS[size],
        needs=peers.ready,
        warm_up=False,
        note=_NOTE + (_REQUEST if transport == "request" else ""),
    )


Measure = Callable[[], Sample]


@contextlib.contextmanager
def _ours(folder: Path, transport: str, given: dict[str, object]) -> Iterator[Measure]:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(heat.running())
        server.put(given)
        place = folder / "ours"
        place.mkdir()
        command = idle.ours(place, server, COMPRESSED, [transport])
        document = place / "document.json"
        document.write_text(json.dumps(given))
        apply = (
            Path(sys.executable).with_name("heat-config-apply"),
            "--config",
            command[-1],
            document,
        )
        measure.run(apply, env=idle.environment(place))
        daemon = stack.enter_context(
            contextlib.closing(idle.Daemon(command, idle.environment(place), place))
        )
        yield _measure(server, transport, daemon, given)


@contextlib.contextmanager
def _theirs(
    folder: Path, transport: str, given: dict[str, object]
) -> Iterator[Measure]:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(heat.running())
        server.put(given)
        image = peers.Image(folder)
        settings = {
            "command": "true",  # what is done with the metadata is not what is measured
            "polling_interval": idle.INTERVAL / COMPRESSED,
            "min_polling_interval": idle.LEAST / COMPRESSED,
        }
        sections = {transport: server.sections()[transport]}
        command = image.collect([transport], settings=settings, sections=sections)
        daemon = stack.enter_context(
            contextlib.closing(idle.Daemon(command, image.environment, folder))
        )
        yield _measure(server, transport, daemon, given)


def _measure(
    server: heat.Heat, transport: str, daemon: idle.Daemon, given: dict[str, object]
) -> Measure:
    polls = POLLS if len(str(given)) < _SIZES["10MB"] // 2 else FEWER
    kind = heat.SWIFT if transport == "request" else transport
    idle.polled(FEWER, server, kind, daemon)
    os.kill(daemon.pid, signal.SIGSTOP)
    return lambda: idle.measured(polls, server, kind, daemon)


SCENARIOS = tuple(
    _scenario(transport, size)
    for transport in ("heat", "cfn", "request", "zaqar")
    for size in _SIZES
)

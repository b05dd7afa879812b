"""From a change of the metadata to the hook that it is for."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench import heat, idle, work
from bench.peers import Image
from bench.scenario import OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

COMPRESSED = 10.0
"""How many times shorter the intervals are."""

PERIOD = 550.0
"""Seconds that are looked at, before they are compressed: nothing happens, then a group of changes, then nothing."""

IDLE, CHANGES, WITHIN = 150.0, 4, (1.0, 5.0)
"""Seconds at most before the group; the changes in it; and seconds between a hook and the next change. The moments are
random, and the same for both."""

SEED = 1

_NOTE = f"""\
Over heat. Both ask as often as they do by default (between {idle.LEAST:g} and {idle.INTERVAL:g} seconds), made
{COMPRESSED:g} times shorter; what either does once it knows of a change takes as long as it takes. In the period of
{PERIOD:g} seconds, before that is made shorter, there is one group of {CHANGES} changes, as deployments come that
depend on each other: each a few seconds after the hook before. Requests are all that the server gets in that period,
those to Keystone too. Both are measured at once, each with a server of its own: nearly all of it is waiting.
While os-refresh-config runs, os-collect-config asks nobody, which here is a larger part of the period than it is."""


class _Changing:
    """A daemon whose metadata change."""

    def __init__(self, server: heat.Heat, daemon: idle.Daemon, ran: Path) -> None:
        """`ran` is the file to which hooks write when they ran."""
        self._server = server
        self._daemon = daemon
        self._ran = ran
        self._moments = random.Random(SEED)  # noqa: S311  # the same for both
        self._count = 0

    def run(self) -> Sample:
        """Change them some times; return the median time to the hook, and the requests."""
        took: list[float] = []
        with self._daemon.going():
            counted, end = self._server.counts().total(), time.monotonic() + PERIOD / COMPRESSED
            time.sleep(self._moments.uniform(0, IDLE) / COMPRESSED)
            for _ in range(CHANGES):
                time.sleep(self._moments.uniform(*WITHIN) / COMPRESSED)
                took.append(self._change())
            time.sleep(max(end - time.monotonic(), 0))
            requests = self._server.counts().total() - counted
        return {"latency": statistics.median(took), "requests": requests}

    def _change(self) -> float:
        self._count += 1
        script = f"#!/bin/sh\ndate +%s.%N >>{self._ran}\n"
        self._server.put({"deployments": work.deployments(self._count, config=script)})
        changed = time.time()
        idle.wait(lambda: self._ran.exists() and len(self._ran.read_text().split()) >= self._count, self._daemon)
        return float(self._ran.read_text().split()[self._count - 1]) - changed


@contextlib.contextmanager
def _subjects(folder: Path) -> Iterator[list[Subject]]:
    with contextlib.ExitStack() as stack:
        subjects: dict[str, _Changing] = {}
        for name, start in ((OURS, _ours), (THEIRS, _theirs)):
            server = stack.enter_context(heat.running())
            server.put({"deployments": []})
            place = folder / name
            place.mkdir()
            daemon = stack.enter_context(contextlib.closing(start(place, server)))
            idle.polled(6, server, heat.HEAT, daemon)  # by then it polls as seldom as it does
            subjects[name] = _Changing(server, daemon, place / "ran")
        samples: dict[str, Sample] = {}
        yield [Subject(name, partial(_sample, name, subjects, samples)) for name in subjects]


def _sample(name: str, subjects: Mapping[str, _Changing], found: dict[str, Sample]) -> Sample:
    """Return what was measured of one of them: of all at once, with the first of them."""
    if name not in found:
        with ThreadPoolExecutor(len(subjects)) as pool:
            running = {each: pool.submit(subject.run) for each, subject in subjects.items()}
            found.update({each: future.result() for each, future in running.items()})
    return found.pop(name)


Start = Callable[[Path, heat.Heat], idle.Daemon]


def _ours(place: Path, server: heat.Heat) -> idle.Daemon:
    return idle.Daemon(idle.ours(place, server, COMPRESSED, [heat.HEAT]), idle.environment(place), place)


def _theirs(place: Path, server: heat.Heat) -> idle.Daemon:
    image = Image(place)
    settings = {
        "polling_interval": idle.INTERVAL / COMPRESSED,
        "min_polling_interval": idle.LEAST / COMPRESSED,
    }
    command = image.collect([heat.HEAT], settings=settings, sections={heat.HEAT: server.sections()[heat.HEAT]})
    return idle.Daemon(command, image.environment, place)


SCENARIOS = (
    Scenario(
        name="change-to-hook",
        title="From a change of the metadata, at any moment, to the hook that it is for",
        figures=(
            Figure("latency", "median from change to hook", "s"),
            Figure("requests", "requests in the period", ""),
        ),
        subjects=_subjects,
        goals=(Goal("latency", THEIRS, 1 / 5), Goal("requests", THEIRS, 1.0)),
        rounds=1,
        seconds=1.0,
        warm_up=False,
        note=_NOTE,
    ),
)

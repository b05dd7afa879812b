"""From a change of the metadata to the hook that it is for."""

from __future__ import annotations

import contextlib
import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import heat, idle, measure, peers, work
from bench.scenario import OURS, THEIRS, Figure, Goal, Sample, Scenario, Subject

COMPRESSED = 25.0
"""The factor by which the intervals are shorter."""

PERIOD = 550.0
"""Seconds that are looked at, before they are compressed: nothing happens, then a group of changes, then nothing."""

IDLE, CHANGES, WITHIN = 150.0, 4, (1.0, 5.0)
"""Seconds at most before the group; the changes in it; and seconds from the end of one to the next. The moments are
random, and the same for both."""

SEED = 1

_NOTE = f"""\
Over heat. Both ask as often as they do by default (between {idle.LEAST:g} and {idle.INTERVAL:g} seconds). These pauses
are made {COMPRESSED:g} times shorter, and what is shown is put right for that: the time until the server was asked
counts {COMPRESSED:g} times, the time from then to the hook as it is. In the period of {PERIOD:g} seconds there is one
group of {CHANGES} changes, as deployments come that depend on each other: each a few seconds after the one before was
done. The load on the server is all that it is asked in that period, Keystone too, but for the moments in which a change
is carried out, which no compression makes shorter: that heat-config-agent asks no more is a goal, too. Both are
measured at once, each with a server of its own: nearly all of it is waiting."""


class _Changing:
    """A daemon whose metadata change."""

    def __init__(
        self, server: heat.Heat, daemon: idle.Daemon, place: Path, *, tells: bool
    ) -> None:
        """Have it in this folder. If it `tells`, there is a line in the file `done` when a change is done."""
        self._server = server
        self._daemon = daemon
        self._ran, self._done = (
            place / "ran",
            place / "done" if tells else place / "ran",
        )
        self._before = 0
        """Lines of `done` that are of no change."""
        self._moments = random.Random(SEED)  # noqa: S311  # the same for both
        self._count = 0
        self._busy, self._busily = 0.0, 0
        """Seconds in which changes were carried out, and the requests in these."""

    def run(self) -> Sample:
        """Change them some times; return the median time to the hook, and the requests."""
        took: list[float] = []
        with self._daemon.going():
            self._before = _lines(self._done)
            counted, begun = self._server.counts().total(), time.monotonic()
            time.sleep(self._moments.uniform(0, IDLE) / COMPRESSED)
            for _ in range(CHANGES):
                time.sleep(self._moments.uniform(*WITHIN) / COMPRESSED)
                took.append(self._change())
            time.sleep(
                max(begun + PERIOD / COMPRESSED + self._busy - time.monotonic(), 0)
            )
            requests = self._server.counts().total() - counted - self._busily
        return {"latency": statistics.median(took), "requests": requests}

    def _change(self) -> float:
        """Change them once; return the seconds to the hook."""
        self._count += 1
        script = f"#!/bin/sh\ndate +%s.%N >>{self._ran}\n"
        self._server.put({"deployments": work.deployments(self._count, config=script)})
        changed = time.time()
        idle.wait(
            lambda: _lines(self._done) >= self._before + self._count, self._daemon
        )
        over, requests = time.time(), self._server.counts().total()
        asked, before = self._server.handed()
        self._busy += over - asked
        self._busily += requests - before
        ran = float(self._ran.read_text().split()[self._count - 1])
        return (asked - changed) * COMPRESSED + ran - asked


def _lines(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


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
            # by then it polls as seldom as it does
            idle.polled(6, server, heat.HEAT, daemon)
            subjects[name] = _Changing(server, daemon, place, tells=name == THEIRS)
        pool = stack.enter_context(ThreadPoolExecutor(len(subjects)))
        yield measure.at_once({name: each.run for name, each in subjects.items()}, pool)


Start = Callable[[Path, heat.Heat], idle.Daemon]


def _ours(place: Path, server: heat.Heat) -> idle.Daemon:
    return idle.Daemon(
        idle.ours(place, server, COMPRESSED, [heat.HEAT]),
        idle.environment(place),
        place,
    )


def _theirs(place: Path, server: heat.Heat) -> idle.Daemon:
    image = peers.Image(place)
    settings = {
        "command": f"{image.refresh} && echo >>{place}/done",  # while it runs, os-collect-config asks nobody
        "polling_interval": idle.INTERVAL / COMPRESSED,
        "min_polling_interval": idle.LEAST / COMPRESSED,
    }
    command = image.collect(
        [heat.HEAT],
        settings=settings,
        sections={heat.HEAT: server.sections()[heat.HEAT]},
    )
    return idle.Daemon(command, image.environment, place)


SCENARIOS = (
    Scenario(
        name="change-to-hook",
        title="From a change of the metadata, at any moment, to the hook that it is for, at no more load on the server",
        figures=(
            Figure("latency", "median from change to hook", "s"),
            Figure("requests", "requests in the period", ""),
        ),
        subjects=_subjects,
        goals=(Goal("latency", THEIRS, 1 / 5), Goal("requests", THEIRS, 1.0)),
        rounds=1,
        seconds=35,
        needs=peers.ready,
        warm_up=False,
        note=_NOTE,
    ),
)

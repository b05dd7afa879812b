"""What goes on side by side: generators that yield what they wait for, in one thread.

A task yields the key of what it waits for, which somebody `wake`s, or None to be asked again after a while, which is
short at first and grows. So a thousand that wait for something to happen cost nothing until it does.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import TypeAlias

Task: TypeAlias = Generator[Hashable | None, None, None]

FIRST, LAST, GROWTH = 0.01, 1.0, 1.5
"""Seconds until something is asked for again: at first, at most; and by how much longer each time."""


@dataclass(slots=True)
class _Running:
    task: Task
    ended: Callable[[], None]
    pause: float = FIRST


class Scheduler:
    """Runs tasks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Tell the time by `clock`, in seconds."""
        self._clock = clock
        self._ready: deque[_Running] = deque()
        self._parked: dict[Hashable, list[_Running]] = {}
        self._timed: list[tuple[float, int, _Running]] = []
        self._count = itertools.count()

    def add(self, task: Task, ended: Callable[[], None] = lambda: None) -> None:
        """Run a task, and call `ended` when it has come to its end."""
        self._ready.append(_Running(task, ended))

    def wake(self, key: Hashable) -> None:
        """Go on with those that wait for this."""
        self._ready.extend(self._parked.pop(key, ()))

    @property
    def busy(self) -> bool:
        """Whether there are tasks."""
        return bool(self._ready or self._parked or self._timed)

    @property
    def due(self) -> float | None:
        """Seconds until there is something to do that nobody announces; None where there is nothing of the kind."""
        if self._ready:
            return 0.0
        return max(self._timed[0][0] - self._clock(), 0.0) if self._timed else None

    def turn(self) -> None:
        """Run all that can go on, until nothing can."""
        now = self._clock()
        while self._timed and self._timed[0][0] <= now:
            self._ready.append(heapq.heappop(self._timed)[2])
        while self._ready:
            self._step(self._ready.popleft())

    def _step(self, running: _Running) -> None:
        try:
            key = next(running.task)
        except StopIteration:
            running.ended()
            return
        if key is None:
            heapq.heappush(self._timed, (self._clock() + running.pause, next(self._count), running))
            running.pause = min(running.pause * GROWTH, LAST)
        else:
            running.pause = FIRST
            self._parked.setdefault(key, []).append(running)

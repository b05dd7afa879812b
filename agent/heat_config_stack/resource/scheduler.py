"""A scheduler for concurrent tasks: generators that yield the event that they wait for, in one thread.

A task yields a key, and continues after `wake` is called with that key. Or it yields None, and continues after a pause,
which is short at first and grows. So thousands of waiting tasks cost nothing.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

Task: TypeAlias = Generator[Hashable | None, None, None]

FIRST, LAST, GROWTH = 0.01, 1.0, 1.5
"""The first pause in seconds, the longest, and the factor between two."""


@dataclass(slots=True)
class _Running:
    task: Task
    ended: Callable[[], None]
    pause: float = FIRST


class Pause(NamedTuple):
    """A wait of a fixed length, which a task may yield."""

    seconds: float


class Scheduler:
    """Runs tasks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take a clock that returns seconds."""
        self._clock = clock
        self._ready: deque[_Running] = deque()
        self._parked: dict[Hashable, list[_Running]] = {}
        self._timed: list[tuple[float, int, _Running]] = []
        self._count = itertools.count()

    def add(self, task: Task, at_end: Callable[[], None] = lambda: None) -> None:
        """Add a task, and call `at_end` after it."""
        self._ready.append(_Running(task, at_end))

    def wake(self, key: Hashable) -> None:
        """Continue the tasks that wait for a key."""
        self._ready.extend(self._parked.pop(key, ()))

    @property
    def busy(self) -> bool:
        """True if there are tasks."""
        return bool(self._ready or self._parked or self._timed)

    @property
    def due(self) -> float | None:
        """The seconds until a task continues by itself; None if none will."""
        if self._ready:
            return 0.0
        return max(self._timed[0][0] - self._clock(), 0.0) if self._timed else None

    def turn(self) -> None:
        """Run all tasks until each of them waits."""
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
        if isinstance(key, Pause):
            heapq.heappush(
                self._timed, (self._clock() + key.seconds, next(self._count), running)
            )
        elif key is None:
            heapq.heappush(
                self._timed, (self._clock() + running.pause, next(self._count), running)
            )
            running.pause = min(running.pause * GROWTH, LAST)
        else:
            running.pause = FIRST
            self._parked.setdefault(key, []).append(running)

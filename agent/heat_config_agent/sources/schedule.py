"""Decides when a source is due: often while there are changes, rarely without them, and more rarely if it fails.

Pure: the caller passes the time, in seconds of a clock that only moves forward. Every interval is jittered, so that a
fleet does not poll at the same moment, and it is longer for a slow server, so that a fleet does not overload it: see
`tests/bench/fleet.py`.
"""

from __future__ import annotations

import math
import random

from heat_config_hooks.values import dataclass, replace

ERRORS_LIMIT = 120.0
"""The longest interval in seconds between two polls of a source that fails."""

ERRORS_FACTOR = 4.0
"""The factor by which that interval can exceed the longest usual one. While a stack is suspended, Heat refuses its
servers."""

PAUSE = 3.0
"""After a poll, a source is left alone for this multiple of the time that it took to answer or to fail. So it is being
polled a quarter of the time at most, and every agent gets its turn at an overloaded server."""

PATIENCE = 4
"""The number of answers without news after which a source is polled less often. After a result, Heat needs some seconds
to put the next deployment into the metadata."""

EASE = 0.75
"""The factor by which an interval shrinks again that errors or a slow server had made longer than the longest usual
one. If all agents came back at once, the next queue would be as long as the last."""

_NOW = -math.inf
"""A moment in the past."""


@dataclass(frozen=True)
class Schedule:
    """The polling schedule of sources."""

    least: float
    """The shortest interval, in seconds."""
    most: float
    """The longest usual interval, in seconds."""
    splay: float
    """The longest delay of the first poll, in seconds."""

    @property
    def longest(self) -> float:
        """The longest interval of all, in seconds."""
        return max(min(max(self.most, 1.0) * ERRORS_FACTOR, ERRORS_LIMIT), self.least)

    @property
    def seldom(self) -> Schedule:
        """The schedule of a source that is polled only from time to time, to see if Heat has moved the metadata."""
        return replace(self, least=self.longest, most=self.longest / ERRORS_FACTOR)

    def after_error(self, failures: int) -> float:
        """Return the interval in seconds after this number of failures in a row."""
        return min(max(self.least, 1.0) * 2.0 ** min(failures, 16), self.longest)

    def delay(self) -> float:
        """Return the delay of the first poll in seconds."""
        return random.uniform(0, self.splay)  # noqa: S311  # to spread, not to hide


@dataclass
class Pace:
    """The moment at which one source is due, from the outcomes of its polls. Each call may pass another schedule."""

    at: float = math.inf
    """The moment at which it is due; infinite during a poll, unless there is news that this poll may have missed."""
    asked: float = -math.inf
    """The moment of the last poll."""
    interval: float = 0.0
    """The last interval, before jitter; an error does not shorten it."""
    failures: int = 0
    """The number of failures in a row."""
    quiet: int = PATIENCE
    """The number of answers without news in a row. An error sets it to `PATIENCE`."""

    def begin(self, schedule: Schedule, at: float) -> None:
        """Begin to poll at `at`; later if the source was in use before and its interval is not over."""
        pause = schedule.after_error(self.failures) if self.failures else schedule.least
        self.at, self.interval = max(at, self.asked + pause), 0.0

    def ask(self, now: float) -> None:
        """Record the beginning of a poll."""
        self.at, self.asked = math.inf, now

    def answered(self, schedule: Schedule, now: float, *, changed: bool) -> None:
        """Record an answer."""
        least, most = schedule.least, schedule.most
        self.failures, self.quiet = 0, 0 if changed else self.quiet + 1
        grown = min(
            max(self.interval, least / 2) * 2, max(most, least, self.interval * EASE)
        )
        self.interval = max(
            least if self.quiet <= PATIENCE else grown, self._pause(schedule, now)
        )
        self.at = min(self.at, now + _jittered(self.interval))

    def failed(self, schedule: Schedule, now: float) -> None:
        """Record an error, or a timeout."""
        self.failures, self.quiet = self.failures + 1, PATIENCE
        wait = max(schedule.after_error(self.failures), self._pause(schedule, now))
        self.interval = max(self.interval, wait)
        if self.at != _NOW:
            self.at = now + _jittered(wait)

    def _pause(self, schedule: Schedule, now: float) -> float:
        """Return the pause in seconds for the duration of the last poll."""
        return min((now - self.asked) * PAUSE, schedule.longest)

    def stir(self, schedule: Schedule, now: float) -> None:
        """Return to the shortest interval, because there may be changes soon. A failing source keeps its interval."""
        self.interval, self.quiet = schedule.least, 0
        if not self.failures:
            self.at = min(self.at, now + schedule.least)

    def hope(self, schedule: Schedule) -> None:
        """Make a failing source due again soon after its last poll, because its server may be back."""
        if self.failures:
            self.at = min(self.at, self.asked + schedule.after_error(0))

    def ring(self) -> None:
        """Make it due now, because it has news."""
        self.at = _NOW

    def hurry(self, schedule: Schedule) -> None:
        """Make it due now, because someone asks for it."""
        self.at, self.interval, self.quiet = _NOW, schedule.least, 0


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.0)  # noqa: S311  # to spread, not to hide

"""When a source is due: often while things happen, less and less while nothing does, and still less while it fails.

Pure: whoever uses it says what time it is, in seconds of a clock that only goes forward. Every interval is jittered, so
that a fleet does not ask in step, and is longer where the server is slow, so that a fleet does not bury it: see
`tests/bench/fleet.py`.
"""

from __future__ import annotations

import math
import random

from heat_config_hooks.values import dataclass, replace

ERRORS_LIMIT = 120.0
"""Seconds at most between two questions to a source that fails."""

ERRORS_FACTOR = 4.0
"""How much longer than the longest interval that may be: while a stack is suspended, Heat refuses its servers."""

PAUSE = 3.0
"""How much longer than a source took, to answer or to fail, it is left alone: it is being asked a quarter of the time
at most, and of those who ask a server that cannot answer all of them nobody takes another's turn."""

PATIENCE = 4
"""Answers without news after which a source is asked less often: Heat needs some seconds until what depends on a result
is in the metadata."""

EASE = 0.75
"""How fast an interval shrinks again that errors or a slow server had made longer than the longest.

Where everybody came back at once, the next queue would be as long as the last."""

_NOW = -math.inf
"""A moment that is over."""


@dataclass(frozen=True)
class Schedule:
    """How often sources are asked, in seconds."""

    least: float
    most: float
    splay: float

    @property
    def longest(self) -> float:
        """How long to wait at most, whatever happens."""
        return max(min(max(self.most, 1.0) * ERRORS_FACTOR, ERRORS_LIMIT), self.least)

    @property
    def seldom(self) -> Schedule:
        """How often a source is asked that is only to be asked now and then whether there is news, or fails."""
        return replace(self, least=self.longest, most=self.longest / ERRORS_FACTOR)

    def after_error(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row."""
        return min(max(self.least, 1.0) * 2.0 ** min(failures, 16), self.longest)

    def delay(self) -> float:
        """Return how long to wait before the first question."""
        return random.uniform(0, self.splay)  # noqa: S311  # to spread, not to hide


@dataclass
class Pace:
    """When one source is due, by what has come of asking it. The schedule may be another one each time."""

    at: float = math.inf
    """When it is due; never while it is being asked, unless there is news that it may not have seen yet."""
    asked: float = -math.inf
    """When it was asked last."""
    interval: float = 0.0
    """What the last one was, before jitter; after an error, no less than what it was before."""
    failures: int = 0
    """In a row."""
    quiet: int = PATIENCE
    """Answers in a row since something happened that had no news; after an error, so many that it is over."""

    def begin(self, schedule: Schedule, at: float) -> None:
        """It is in use from then on: if it was before, it is not asked more often for that."""
        pause = schedule.after_error(self.failures) if self.failures else schedule.least
        self.at, self.interval = max(at, self.asked + pause), 0.0

    def ask(self, now: float) -> None:
        """It is being asked."""
        self.at, self.asked = math.inf, now

    def answered(self, schedule: Schedule, now: float, *, changed: bool) -> None:
        """It has answered."""
        least, most = schedule.least, schedule.most
        self.failures, self.quiet = 0, 0 if changed else self.quiet + 1
        grown = min(max(self.interval, least / 2) * 2, max(most, least, self.interval * EASE))
        self.interval = max(least if self.quiet <= PATIENCE else grown, self._pause(schedule, now))
        self.at = min(self.at, now + _jittered(self.interval))

    def failed(self, schedule: Schedule, now: float) -> None:
        """It has not answered, or with an error."""
        self.failures, self.quiet = self.failures + 1, PATIENCE
        wait = max(schedule.after_error(self.failures), self._pause(schedule, now))
        self.interval = max(self.interval, wait)
        if self.at != _NOW:
            self.at = now + _jittered(wait)

    def _pause(self, schedule: Schedule, now: float) -> float:
        """Return how long to leave it alone for how long it took."""
        return min((now - self.asked) * PAUSE, schedule.longest)

    def stir(self, schedule: Schedule, now: float) -> None:
        """Something happens: from here on, ask again as often as may be, if it does not fail."""
        self.interval, self.quiet = schedule.least, 0
        if not self.failures:
            self.at = min(self.at, now + schedule.least)

    def ring(self) -> None:
        """It has news."""
        self.at = _NOW

    def hurry(self, schedule: Schedule) -> None:
        """Somebody wants it asked now."""
        self.at, self.interval, self.quiet = _NOW, schedule.least, 0


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.0)  # noqa: S311  # to spread, not to hide

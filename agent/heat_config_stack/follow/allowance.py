"""The time that all requests for one revision may take together: a server that trickles does not hold up its follower.

Each request has the timeout of the settings. Many of them, as the layers of an artifact are, would add up.
"""

from __future__ import annotations

import math
import time

from heat_config_agent.model.errors import SourceError

TIMES = 10
"""The time for all requests of one revision, as a multiple of the timeout of one request."""


class Allowance:
    """The time that is left for the requests of one revision."""

    def __init__(self, seconds: float) -> None:
        """Take the timeout of one request."""
        self._seconds, self._end = seconds, math.inf

    def begin(self) -> None:
        """Count from now on."""
        self._end = time.monotonic() + self._seconds * TIMES

    @property
    def seconds(self) -> float:
        """The seconds that the next request may take. Raises SourceError if none are left."""
        left = self._end - time.monotonic()
        if left <= 0:
            problem = f"the revision did not arrive within {self._seconds * TIMES:g} s"
            raise SourceError(
                problem,
                hint=f"all requests of a revision may take {TIMES} times the setting timeout",
            )
        return min(self._seconds, left)

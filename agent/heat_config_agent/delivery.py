"""When which result is sent: at once, again after a while, or not any more in this run."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

from heat_config_agent.model import Target
from heat_config_agent.signals import Fate, Outcome, back_off
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

LEAST = 3.0
"""Seconds that a request gets in any case."""

LOOK = 1.0
"""Seconds between two looks at requests that are under way."""


class Outgoing(Protocol):
    """What takes results to where they go: an `Outbox`, or whoever stands in the place of its servers."""

    def trust(self, ca_file: str | None) -> None:
        """Trust these certificates from here on."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""

    def expect(self, target: Target) -> None:
        """Get ready to send to a target."""

    def post(self, key: str, target: Target, body: bytes) -> None:
        """Send a result. What becomes of it is one of the `outcomes`."""

    def withdraw(self, key: str) -> None:
        """Send a result no more."""

    def outcomes(self) -> list[Outcome]:
        """Return what has become of results since the last call."""


@dataclass(eq=False)
class _Result:
    target: Target
    body: bytes
    first: float
    """When it was sent for the first time; this and the next two in monotonic seconds."""
    last: float = 0.0
    again: float | None = None
    """When to send it again; None while it is under way."""
    tries: int = 0


class Delivery:
    """The results that are to be delivered now."""

    def __init__(self, outbox: Outgoing, patience: float | None) -> None:
        """Go on trying to deliver a result for `patience` seconds; None for as long as it takes."""
        self._outbox = outbox
        self._patience = patience
        self._results: dict[str, _Result] = {}

    def __contains__(self, key: object) -> bool:
        """Whether a result is on its way, or waits for its next try."""
        return key in self._results

    def trust(self, ca_file: str | None) -> None:
        """Trust these certificates from here on."""
        self._outbox.trust(ca_file)

    def hurry(self) -> None:
        """Try again now whatever waits for its next try."""
        for each in self._results.values():
            each.again = None if each.again is None else 0.0

    @property
    def busy(self) -> bool:
        """Whether there is something to wait for. A try that is under way is always given a few seconds."""
        return any(each.again is not None or self._patient(each) for each in self._results.values())

    @property
    def due(self) -> float | None:
        """Seconds until something is to be done that nothing else announces; None where there is nothing."""
        if not self._results:
            return None
        again = [each.again for each in self._results.values() if each.again is not None]
        now = time.monotonic()
        return min([max(each - now, 0) for each in again] + ([LOOK] if len(again) < len(self._results) else []))

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""
        return self._outbox.fileno()

    def expect(self, target: Target) -> None:
        """Get ready to send to a target."""
        if target.wanted:
            self._outbox.expect(target)

    def send(self, key: str, target: Target, values: Mapping[str, object]) -> None:
        """Send a result. What becomes of it is one of the `outcomes`."""
        self._results[key] = _Result(target, json.dumps(values).encode(), first=time.monotonic())
        self._post(key)

    def drop(self, key: str) -> None:
        """Send a result no more."""
        self._outbox.withdraw(key)
        self._results.pop(key, None)

    def outcomes(self) -> list[Outcome]:
        """Return what has become of results since the last call, and send those again whose time has come."""
        found = [outcome for outcome in self._outbox.outcomes() if outcome.key in self._results]
        for outcome in found:
            if outcome.fate is not Fate.RETRY or not self._schedule(self._results[outcome.key], outcome):
                del self._results[outcome.key]
        now = time.monotonic()
        for key in [key for key, each in self._results.items() if each.again is not None and each.again <= now]:
            self._post(key)
        return found

    def _post(self, key: str) -> None:
        found = self._results[key]
        found.last, found.again = time.monotonic(), None
        found.tries += 1
        self._outbox.post(key, found.target, found.body)

    def _schedule(self, found: _Result, outcome: Outcome) -> bool:
        """Have a result sent again, if there is still patience for it then; else the next run will."""
        again = time.monotonic() + max(back_off(found.tries), outcome.wait)
        if self._patience is not None and again > found.first + self._patience:
            return False
        found.again = again
        return True

    def _patient(self, found: _Result) -> bool:
        return self._patience is None or time.monotonic() < max(found.first + self._patience, found.last + LEAST)

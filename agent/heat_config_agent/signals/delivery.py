"""The schedule of results: when each is sent, when it is retried, and when that is left to the next agent."""

from __future__ import annotations

import enum
import time
from collections.abc import Mapping

from heat_config_agent.model.deployment import Target
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object

LEAST = 3.0
"""Seconds that a request always gets."""

LOOK = 1.0
"""Seconds between two looks at requests that have no answer yet."""

DENIED_SECONDS = 3600.0
"""Seconds after the end of a run within which no denial of its result is final: as long as Heat waits for a stack by
default."""

DENIALS = 7
"""The number of times that an older result is denied before that is final: an agent that was away for a day must not
give a result up because of one answer.

With the growing delays between the tries, that takes half a minute to a minute."""


class Fate(enum.Enum):
    """The outcome of one attempt to deliver a result."""

    SENT = "sent"
    REFUSED = "refused"
    RETRY = "retry"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one try to deliver a result."""

    key: str
    fate: Fate
    trouble: str = ""
    wait: float = 0.0
    """Seconds that the server asked us to wait."""
    is_denial: bool = False
    """True for a refusal that may pass, because the server has denied access: the result is sent again for a while."""


REPLACED = "is not sent: the deployment has been replaced"
DELIVERED = "is delivered"


def in_words(outcome: Outcome | None) -> str:
    """Return the fate of a result as the rest of a sentence; None means that the result is not sent."""
    if outcome is None:
        return REPLACED
    if outcome.fate is Fate.SENT:
        return DELIVERED
    if outcome.fate is Fate.REFUSED:
        return f"was refused for good, and is not sent again: {outcome.trouble}"
    return f"could not be delivered yet: {outcome.trouble}"


class Outgoing(Protocol):
    """Sends results: an `Outbox`, or a replacement for it and its servers."""

    is_stored: bool
    """True if the receiver has each result on disk before it counts as delivered."""

    def trust(self, ca_file: str | None) -> None:
        """Trust the certificates in this file from now on."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""

    def expect(self, target: Target) -> None:
        """Get ready to send to a target."""

    def post(self, key: str, target: Target, values: Mapping[str, object]) -> None:
        """Begin to send a result; `outcomes` returns its outcome later."""

    def withdraw(self, key: str) -> None:
        """Do not send a result, if that has not begun; it has no outcome."""

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes since the last call."""


@dataclass(eq=False)
class _Result:
    target: Target
    values: Mapping[str, object]
    ended: float
    """When its run ended, in seconds since the epoch."""
    earlier: int
    """The number of tries of earlier agents."""
    first: float
    """When it was sent for the first time; this and the next two in monotonic seconds."""
    last: float = 0.0
    """When it was sent last."""
    again: float | None = None
    """When to send it again; None while a try has no outcome yet."""
    tries: int = 0
    is_asked_to_wait: bool = False
    """True if the server has said when it wants the next try."""

    @property
    def is_old(self) -> bool:
        """True if a denial of the result may be final, by the clock of the machine or by the time that has passed."""
        return (
            max(time.time() - self.ended, time.monotonic() - self.first)
            >= DENIED_SECONDS
        )


class Delivery:
    """The results that this process has to deliver."""

    def __init__(self, outbox: Outgoing, patience: float | None) -> None:
        """Retry each result for `patience` seconds; None for no limit."""
        self._outbox = outbox
        self._patience = patience
        self._results: dict[str, _Result] = {}
        self.answered = 0
        """The number of results that servers have accepted, or refused for good."""

    def __contains__(self, key: object) -> bool:
        """Return whether a result is being sent, or waits for its next try."""
        return key in self._results

    @property
    def is_stored(self) -> bool:
        """True if the receiver has each result on disk before it counts as delivered."""
        return self._outbox.is_stored

    def trust(self, ca_file: str | None) -> None:
        """Trust the certificates in this file from now on."""
        self._outbox.trust(ca_file)

    def hurry(self) -> None:
        """Retry now every result that waits for its next try."""
        for result in self._results.values():
            result.again = None if result.again is None else 0.0

    def hope(self) -> None:
        """Retry now the results that wait for their next try, unless their server has asked to wait."""
        for result in self._results.values():
            if result.again is not None and not result.is_asked_to_wait:
                result.again = 0.0

    @property
    def busy(self) -> bool:
        """True if a result is still to be delivered. Each attempt gets at least a few seconds."""
        return any(
            result.again is not None or self._is_patient(result)
            for result in self._results.values()
        )

    @property
    def due(self) -> float | None:
        """Seconds until `outcomes` has to be called, even if the descriptor is not readable; None if nothing is due."""
        if not self._results:
            return None
        moments = [
            result.again
            for result in self._results.values()
            if result.again is not None
        ]
        now = time.monotonic()
        delays = [max(moment - now, 0) for moment in moments]
        return min([*delays, LOOK] if len(delays) < len(self._results) else delays)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are outcomes."""
        return self._outbox.fileno()

    def expect(self, target: Target) -> None:
        """Get ready to send to a target."""
        if target.wanted:
            self._outbox.expect(target)

    def send(
        self,
        key: str,
        target: Target,
        values: Mapping[str, object],
        *,
        ended: float | None = None,
        earlier: int = 0,
    ) -> None:
        """Begin to send a result; `outcomes` returns the outcome of each try.

        `ended` is when the run ended, in seconds since the epoch; None for now. `earlier` is the number of tries of
        earlier agents.
        """
        ended = time.time() if ended is None else ended
        self._results[key] = _Result(
            target, values, ended, earlier, first=time.monotonic()
        )
        self._post(key)

    def drop(self, key: str) -> None:
        """Do not send a result any more."""
        self._outbox.withdraw(key)
        self._results.pop(key, None)

    def outcomes(self) -> list[Outcome]:
        """Return the outcomes since the last call, and send the results again whose time has come."""
        outcomes = [
            self._settled(outcome)
            for outcome in self._outbox.outcomes()
            if outcome.key in self._results
        ]
        self.answered += sum(outcome.fate is not Fate.RETRY for outcome in outcomes)
        now = time.monotonic()
        for key in [
            key
            for key, result in self._results.items()
            if result.again is not None and result.again <= now
        ]:
            self._post(key)
        return outcomes

    def _post(self, key: str) -> None:
        result = self._results[key]
        result.last, result.again = time.monotonic(), None
        result.tries += 1
        self._outbox.post(key, result.target, result.values)

    def _settled(self, outcome: Outcome) -> Outcome:
        """Schedule the next try if there is one; return the outcome, which is a refusal only if it is final."""
        result = self._results[outcome.key]
        may_pass = outcome.is_denial and not (result.is_old and result.tries >= DENIALS)
        if outcome.fate is not Fate.RETRY and not may_pass:
            del self._results[outcome.key]
            return outcome
        if self._schedule(result, outcome):
            return replace(outcome, fate=Fate.RETRY)
        # the next agent goes on, unless that would change nothing
        del self._results[outcome.key]
        is_over = result.is_old and result.earlier + result.tries >= DENIALS
        return outcome if is_over else replace(outcome, fate=Fate.RETRY)

    def _schedule(self, result: _Result, outcome: Outcome) -> bool:
        """Schedule the next try; return False if it would be too late, so that the next agent has to make it."""
        from heat_config_agent.model.backoff import back_off  # noqa: PLC0415  # most results arrive at the first attempt

        again = time.monotonic() + max(back_off(result.tries), outcome.wait)
        if self._patience is not None and again > result.first + self._patience:
            return False
        result.again, result.is_asked_to_wait = again, outcome.wait > 0
        return True

    def _is_patient(self, result: _Result) -> bool:
        return self._patience is None or time.monotonic() < max(
            result.first + self._patience, result.last + LEAST
        )

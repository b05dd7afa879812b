"""The work in hand: what runs, what waits for its turn, and what has to be delivered."""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping

from heat_config_agent.deployments.plan import Step
from heat_config_agent.engine.launch import Launcher
from heat_config_agent.engine.queue import Blocked, Queue
from heat_config_agent.model.entry import Entry
from heat_config_agent.signals.delivery import Delivery
from heat_config_agent.state.journal import Journal


class Workload:
    """Answers what an applier has in hand, and holds up what has not begun."""

    def __init__(self, journal: Journal, queue: Queue, launcher: Launcher, delivery: Delivery) -> None:
        self._journal, self._queue, self._launcher, self._delivery = journal, queue, launcher, delivery

    @property
    def hold(self) -> str:
        """The reason why nothing new begins; empty if it does."""
        return self._queue.hold

    @hold.setter
    def hold(self, reason: str) -> None:
        self._queue.hold = reason

    @property
    def printed(self) -> int:
        """Bytes of output that runs have left on disk since the caller set this to 0."""
        return self._launcher.printed

    @printed.setter
    def printed(self, number: int) -> None:
        self._launcher.printed = number

    @property
    def answered(self) -> int:
        """The number of results so far that servers have accepted, or refused for good."""
        return self._delivery.answered

    @property
    def at_rest(self) -> bool:
        """True if nothing runs, waits for its turn or for a reboot, or has to be delivered."""
        return not (self._launcher.active or self._queue or self._queue.rebooting) and self._delivery.due is None

    @property
    def busy(self) -> bool:
        """True if anything is left to do now."""
        return bool(self._launcher.active or self._queue.has_retry or self.next()) or self._delivery.busy

    @property
    def reboots(self) -> list[Entry]:
        """The deployments that wait for a reboot of the machine."""
        return [self._journal.entries[key] for key in self._queue.rebooting if key in self._journal.entries]

    @property
    def running(self) -> list[Entry]:
        """The deployments whose commands run, in the order in which they began."""
        return [self._journal.entries[key] for key in self._launcher.active]

    @property
    def output_due(self) -> float | None:
        """Seconds until output has to be shortened; None if none is written."""
        return self._launcher.due

    @property
    def waiting(self) -> int:
        """The number of deployments that wait for their turn."""
        return len(self._queue)

    @property
    def blocked(self) -> Mapping[str, Blocked]:
        """The steps that could not begin at the last try, by the keys of their deployments."""
        return self._queue.blocked

    @property
    def unbegun(self) -> int:
        """The number of deployments that wait for their turn, or could not begin in it."""
        waiting = len(self._queue)
        if self._queue.blocked:
            waiting = len(self._queue.blocked.keys() | {step.deployment.key for step in self._queue})
        return waiting

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is news of a result that was sent."""
        return self._delivery.fileno()

    def next(self) -> Step | None:
        """Return the waiting step that begins now; None if there is none."""
        return self._queue.next(self._launcher.active.values(), self._launcher.settings.parallel)

    def wait(self, timeout: float, also: Iterable[int] = ()) -> None:
        """Wait until something happens or is due, at most `timeout` seconds; not at all if a step begins now.

        The wait also ends when one of the descriptors in `also` is readable.
        """
        poll = select.poll()
        for descriptor in (*also, self._delivery.fileno(), *self._launcher.descriptors):
            poll.register(descriptor, select.POLLIN)
        delays = (0 if self.next() else timeout, self._queue.due, self._launcher.due, self._delivery.due)
        poll.poll(min(delay for delay in delays if delay is not None) * 1000)

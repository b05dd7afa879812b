"""The state of the engine: the deployments of the sources, the queue, the runs, the journal and the delivery.

The functions of `launch`, `records` and `results` share this one value.
"""

from __future__ import annotations

import select
from collections.abc import Collection, Iterable, Mapping

from heat_config_agent.deployments import plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.events import Report
from heat_config_agent.engine.queue import Active, Queue
from heat_config_agent.engine.survey import Ground
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs.output_limit import OutputLimit
from heat_config_agent.signals.delivery import Delivery
from heat_config_agent.state.attempts import Attempts
from heat_config_agent.state.journal import Journal
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass, field

_TICK = 0.02
"""Seconds between two looks at a run on a kernel that cannot announce its end."""

_LOOK = 2.0
"""Seconds between two looks for requests of people while a deployment waits to be run again."""


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The deployments that the sources have at the moment, as far as the sources have answered."""

    deployments: Mapping[str, Deployment] = field(default_factory=dict)
    """The deployments in force, by key. Only their results are sent."""
    sources: frozenset[str] = frozenset()
    """The sources that answered."""
    unconfirmed: Collection[str] = ()
    """Sources whose documents are from an earlier life of the agent, and that have not answered since."""
    only: Collection[str] = ()
    """Names or ids of the deployments that may run; empty if all may."""

    def confirmed(self, step: Step) -> Step:
        """Return the step, or a step that waits if the source of the deployment is unconfirmed."""
        source = step.deployment.source
        if source not in self.unconfirmed or step.verb not in (
            Verb.RUN,
            Verb.ANSWER,
            Verb.RESEND,
        ):
            return step
        reason = (
            f"waits until {source} has answered: it may no longer have the deployment"
        )
        return Step(verb=Verb.WAIT, deployment=step.deployment, reason=reason)

    def supersedes(self, entry: Entry) -> bool:
        """Return whether the result of this entry must not be sent any more, see `plan.superseded`."""
        return bool(
            plan.superseded(self.deployments.values(), self.sources, {entry.key: entry})
        )


@dataclass(kw_only=True, eq=False)
class Work:
    """The parts that the engine works with, and the work in hand."""

    journal: Journal
    delivery: Delivery
    ground: Ground
    """The parts of the machine on which plans depend."""
    settings: RunSettings
    """The limits for new runs, and those of the runs that have not ended."""
    report: Report
    attempts: Attempts
    output: OutputLimit
    """The limit on the output of runs."""
    offer: Offer = field(default_factory=Offer)
    queue: Queue = field(default_factory=Queue)
    active: dict[str, Active] = field(default_factory=dict)
    """The runs that have not ended, by the keys of their deployments, in the order in which they began."""
    finished: list[Step] = field(default_factory=list)
    """Steps that have ended in this turn, and whose results may not be on disk yet. Empty between turns."""
    unsecured: list[Step] = field(default_factory=list)
    """Steps whose results the receiver has got before they are on disk."""
    untidy: set[str] = field(default_factory=set)
    """Keys of the deployments whose run folders may still have the inputs of their runs, among them secrets."""
    printed: int = 0
    """Bytes of output that runs have left on disk since a caller set this to 0."""

    @property
    def at_rest(self) -> bool:
        """True if nothing runs, waits for its turn or for a reboot, or has to be delivered."""
        return (
            not (self.active or self.queue or self.queue.rebooting)
            and self.delivery.due is None
        )

    @property
    def busy(self) -> bool:
        """True if anything is left to do now."""
        return (
            bool(self.active or self.queue.has_retry or self.next())
            or self.delivery.busy
        )

    @property
    def reboots(self) -> list[Entry]:
        """The deployments that wait for a reboot of the machine."""
        return [
            self.journal.entries[key]
            for key in self.queue.rebooting
            if key in self.journal.entries
        ]

    @property
    def running(self) -> list[Entry]:
        """The deployments whose commands run, in the order in which they began."""
        return [self.journal.entries[key] for key in self.active]

    @property
    def unbegun(self) -> int:
        """The number of deployments that wait for their turn, or could not begin in it."""
        if self.queue.blocked:
            return len(
                self.queue.blocked.keys() | {step.deployment.key for step in self.queue}
            )
        return len(self.queue)

    @property
    def output_due(self) -> float | None:
        """Seconds until a run or its output has to be looked at; None if nothing runs."""
        if not self.active:
            return None
        runs = [active.running for active in self.active.values()]
        now = processes.since_boot()
        delays = [
            max(running.due - now, 0.0) for running in runs if running.due is not None
        ]
        delays += [_TICK for running in runs if running.fileno() < 0]
        return min([*delays, self.output.due])

    def next(self) -> Step | None:
        """Return the waiting step that begins now; None if there is none."""
        return self.queue.next(self.active.values(), self.settings.parallel)

    def wait(self, timeout: float, also: Iterable[int] = ()) -> None:
        """Wait until something happens or is due, at most `timeout` seconds; not at all if a step begins now.

        The wait also ends when one of the descriptors in `also` is readable.
        """
        # readable when the run has ended
        runs = [active.running.fileno() for active in self.active.values()]
        poll = select.poll()
        for descriptor in (
            *also,
            self.delivery.fileno(),
            *(number for number in runs if number >= 0),
        ):
            poll.register(descriptor, select.POLLIN)
        delays = (
            0 if self.next() else timeout,
            self.queue.due,
            _LOOK if self.queue.has_retry else None,
            self.output_due,
            self.delivery.due,
        )
        poll.poll(min(delay for delay in delays if delay is not None) * 1000)

"""Results: put on record, reported to people, and sent for as long as the server waits for them.

A result is on disk before it is sent, with one exception: a receiver that has each result on disk itself before it
counts as delivered. That receiver gets it at once, so that one flush secures it together with the record of the run
that the receiver begins next. People hear of it after that flush. A power cut before the flush may take the result from
the journal alone; `recall` puts it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from heat_config_agent.deployments.plan import Step
from heat_config_agent.engine.mirror import DeployedMirror
from heat_config_agent.engine.offer import Offer
from heat_config_agent.engine.report import Report
from heat_config_agent.engine.run_inputs import RunInputs
from heat_config_agent.model.deployment import Result
from heat_config_agent.model.entry import State
from heat_config_agent.signals.delivery import Delivery, Fate, Outcome
from heat_config_agent.state.journal import Journal


class Mailroom:
    """Hands results to the delivery once they are on disk, and records the outcomes."""

    def __init__(
        self,
        journal: Journal,
        delivery: Delivery,
        run_inputs: RunInputs,
        mirror: DeployedMirror,
        report: Report,
        *,
        alive: Callable[[], None],
    ) -> None:
        """Begin with no results. `alive` feeds the watchdog."""
        self._journal = journal
        self._delivery = delivery
        self._run_inputs = run_inputs
        self._mirror = mirror
        self._report = report
        self._alive = alive
        self._finished: list[Step] = []
        """Steps that have ended in this turn, and whose results may not be on disk yet. Empty between turns."""
        self._unsecured: list[Step] = []
        """Steps whose results the receiver has got before they are on disk."""

    def finish(self, step: Step, result: Result, ended: float | None) -> None:
        """Write a result to the journal; `publish` sends it.

        `ended` is when the run ended, in seconds since the epoch; None for now.
        """
        self._journal.finished(step.deployment.key, result, ended)
        self._finished.append(step)

    def publish(self, offer: Offer) -> list[str]:
        """Flush the results of this turn to disk, report them, and send those that are still waited for.

        Returns the keys of the deployments that are superseded. The flush also secures the record of the next run, so
        a batch waits for the disk once for each deployment. If the flush fails, the results are sent later, like those
        of an earlier agent. Results that the receiver stores are sent here, and secured by `secure`. Raises StateError.
        """
        finished, self._finished = self._finished, []
        stored = [step for step in finished if self._is_stored(step)]
        self._unsecured += stored
        if len(stored) < len(finished):
            self._journal.secure()
        superseded = []
        for step in finished:
            self._alive()
            if not self._is_stored(step):
                self._announce(step)
            if self._send(step.deployment.key, offer):
                superseded.append(step.deployment.key)
        return superseded

    def _is_stored(self, step: Step) -> bool:
        """Return whether the receiver stores the result of a step; one without a signal reaches no receiver."""
        return self._delivery.is_stored and step.deployment.target.wanted

    @property
    def owes(self) -> bool:
        """True if the receiver has got results that are not on disk yet."""
        return bool(self._unsecured)

    def secure(self) -> None:
        """Flush the results that the receiver has got, if the record of a run has not done so, and report them.

        Raises StateError.
        """
        if self._unsecured:
            self._journal.secure()
            unsecured, self._unsecured = self._unsecured, []
            for step in unsecured:
                self._announce(step)

    def recall(self, key: str, result: Result | None, ended: float | None) -> None:
        """Settle a deployment whose run has ended, as `Applier.recall` says."""
        if result is not None and self._journal.entries[key].state is not State.FINISHED:
            self._journal.finished(key, result, ended)
        self._run_inputs.tidy(key)
        self._settle(key, State.SUPERSEDED if result is None else State.SIGNALLED)

    def resend(self, step: Step, offer: Offer) -> bool:
        """Send a result of an earlier run. Returns True if it is superseded, and must never be sent."""
        key = step.deployment.key
        self._journal.sync()  # a result is on disk before it is sent; the flush after the run may have failed
        self._report.resent(step, self._journal.entries[key])
        self._run_inputs.tidy(key)  # the agent that had the result may have been killed before it could
        if self._journal.entries[key].state is not State.FINISHED:
            self._journal.send_again(key)
        return self._send(key, offer)

    def is_sending(self, key: str) -> bool:
        """Return whether the result of a deployment is being delivered."""
        return key in self._delivery

    def stop_sending(self, key: str) -> None:
        """Send the result of a deployment no more."""
        self._delivery.drop(key)

    def withdraw(self, key: str) -> None:
        """Send the result of a deployment no more, and remove the inputs of its run if that has ended."""
        self._delivery.drop(key)
        if self._journal.entries[key].state is not State.RUNNING:
            self._run_inputs.tidy(key)  # an earlier agent may have been killed before it could

    def supersede(self, key: str) -> None:
        """Put on record that the result of a deployment must not be sent."""
        self._settle(key, State.SUPERSEDED)
        self._report.delivered(self._journal.entries[key], None)

    def take_outcomes(self) -> None:
        """Record the outcomes of the results that were sent."""
        for outcome in self._delivery.outcomes():
            self._alive()
            self._record(outcome)

    def _announce(self, step: Step) -> None:
        """Report a result that is on disk, and remove what its run does not need any more."""
        key = step.deployment.key
        self._mirror.write_result(step, self._journal.entries[key].values)
        self._run_inputs.tidy(key)  # of an answer too: an agent may have been killed before it could record a run
        self._report.ended(step, self._journal.entries[key])

    def _send(self, key: str, offer: Offer) -> bool:
        """Send a result, if it is waited for. Returns True if it is superseded, and must never be sent."""
        entry = self._journal.entries[key]
        deployment = offer.deployments.get(key)
        if deployment is None:  # if its source has not answered this time, the next answer decides
            return offer.supersedes(entry)
        if deployment.source in offer.unconfirmed:
            return False  # it is on record, and sent once its source has confirmed that it is waited for
        if not deployment.target.wanted:
            self._settle(key, State.UNASKED)
        else:
            target, values = deployment.target, entry.values or {}
            self._delivery.send(key, target, values, ended=entry.ended, earlier=entry.tries)
        return False

    def _record(self, outcome: Outcome) -> None:
        entry = self._journal.entries.get(outcome.key)
        if entry is None or entry.state is not State.FINISHED:
            return  # it was superseded while it was being sent
        if outcome.fate is Fate.SENT:
            self._settle(entry.key, State.SIGNALLED)
        elif outcome.fate is Fate.REFUSED:
            self._settle(entry.key, State.REFUSED, outcome.trouble)
        else:
            self._journal.tried(entry.key, outcome.trouble, time.time() + outcome.wait if outcome.wait else 0)
        self._report.delivered(self._journal.entries[entry.key], outcome)

    def _settle(self, key: str, state: State, trouble: str = "") -> None:
        """Put on record that nothing more will be done, and whether inputs of the run are left to be removed."""
        self._journal.settled(key, state, trouble, untidy=key in self._run_inputs)

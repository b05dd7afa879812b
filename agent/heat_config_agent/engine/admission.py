"""The deployments that the agent takes on, and those that it lets go of. All of it is put on record."""

from __future__ import annotations

from heat_config_agent.deployments import cleanup
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.launch import Launcher
from heat_config_agent.engine.mailroom import Mailroom
from heat_config_agent.engine.offer import Offer
from heat_config_agent.engine.queue import Queue
from heat_config_agent.engine.report import Report
from heat_config_agent.engine.survey import Survey
from heat_config_agent.masking.redaction import name_of
from heat_config_agent.model.deployment import DELETE
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.state.journal import Journal
from heat_config_hooks import files


class Admission:
    """Takes deployments on, queues them, and lets go of those that have left their sources."""

    def __init__(
        self,
        journal: Journal,
        queue: Queue,
        launcher: Launcher,
        mailroom: Mailroom,
        report: Report,
    ) -> None:
        self._journal = journal
        self._queue = queue
        self._launcher = launcher
        self._mailroom = mailroom
        self._report = report

    def record(self, survey: Survey) -> bool:
        """Put on record which deployments have moved, were replaced, have left or are back.

        Returns False if some of that could not be written; the next pass tries again. Raises StateError.
        """
        for deployment in survey.deployments:
            entry = self._journal.entries.get(deployment.key)
            if entry and entry.source != deployment.source and deployment.action != cleanup.ACTION:
                self._journal.moved(deployment.key, deployment.source)
        for key in survey.superseded:
            self.withdraw(key)
        complete = self._record_departures(survey)
        waiting = [entry for entry in self._concerned(survey) if entry.state is State.REBOOT and entry.run]
        self._queue.rebooting = {entry.key for entry in waiting if entry.run and entry.run.boot == survey.known.boot}
        return complete

    def accept(self, step: Step) -> bool:
        """Record a step, and add it to the queue.

        Returns True for a step that begins now instead: it needs nothing that another deployment could hold up.
        """
        key = step.deployment.key
        if step.verb in (Verb.SKIP, Verb.WAIT):
            self._report.skipped(step)
            return False
        if step.verb in (Verb.RUN, Verb.ANSWER):
            self._mailroom.stop_sending(key)  # the result of an earlier run, which is not waited for now
            if not _is_on_record(step, self._journal.entries.get(key)):
                tool = step.job.config.tool if step.job else step.deployment.group
                self._journal.accepted(step.deployment, tool=name_of(step.deployment, tool))
        if step.verb is Verb.RUN or (step.verb is Verb.ANSWER and self._queue.hold):
            self._queue.add(step)
            return False
        return True

    def make_way(self) -> None:
        """End the runs that a waiting DELETE of the same resource has replaced."""
        for step in () if self._queue.hold else self._queue:
            if step.deployment.action == DELETE:
                self._launcher.make_way(step.deployment)

    def withdraw(self, key: str) -> None:
        """Let go of a deployment that has left its source.

        Its run is followed to the end, unless the settings say otherwise, but its result is not sent.
        """
        entry = self._journal.entries[key]
        self._launcher.cancel(key)
        self._queue.drop(key)
        self._mailroom.withdraw(key)
        if entry.state is State.ACCEPTED and cleanup.is_pending(entry, self._journal.entries):
            return  # an earlier run of it made something, so it stays known until that is cleaned up
        if entry.state is State.ACCEPTED:
            self._drop(key)
        elif entry.state in (State.FINISHED, State.REBOOT, State.RETRY):
            self._mailroom.supersede(key)

    def publish(self, offer: Offer) -> None:
        """Send the results of this turn, and let go of the deployments that no source has any more."""
        for key in self._mailroom.publish(offer):
            self.withdraw(key)

    def _concerned(self, survey: Survey) -> list[Entry]:
        """Return the entries that a survey has looked at, as they are now."""
        entries = self._journal.entries
        return [entries[key] for key in survey.known.entries if key in entries]

    def _drop(self, key: str) -> None:
        """Remove a deployment that was not run, or not again, from the journal.

        Its run folder goes first: alone, it would say that the journal has lost the record of that run.
        """
        try:
            files.remove(self._launcher.folder(key))
        except OSError as error:
            self._report.warn(f"cannot remove the run folder of {key}: {error.strerror}: {error.filename}")
        else:
            self._journal.drop(key)

    def _record_departures(self, survey: Survey) -> bool:
        """Put on record which deployments have left the metadata, and which are back; return whether that succeeded.

        Files of a deployment are kept for a time after it has left.
        """
        current = {deployment.key for deployment in survey.deployments}
        entries = self._concerned(survey)
        gone = [
            entry.key
            for entry in entries
            if entry.left_at is None and entry.key not in current and entry.source in survey.sources
        ]
        back = [entry.key for entry in entries if entry.left_at is not None and entry.key in current]
        try:
            self._journal.left(gone, back)
        except StateError as error:  # a full disk, for example
            self._report.warn(str(error))
            return False
        return True


def _is_on_record(step: Step, entry: Entry | None) -> bool:
    """Return whether the journal's entry may stay as it is when a step is taken on."""
    return entry is not None and (
        entry.state is State.DAMAGED  # it must not look new before it is answered
        or (entry.state is State.SUPERSEDED and step.verb is Verb.ANSWER and entry.values is None)
        or (entry.state is State.RETRY and not entry.again and entry.document == step.deployment.document)
        or (entry.state in (State.ACCEPTED, State.REBOOT) and entry.document == step.deployment.document)
    )

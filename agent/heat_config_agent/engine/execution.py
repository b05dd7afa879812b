"""One step at a time: how it begins, and what follows from the end of its run."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.deployments import metadata
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.admission import Admission
from heat_config_agent.engine.completion import Completion, run_of
from heat_config_agent.engine.launch import Launcher, Obstacle, Started
from heat_config_agent.engine.mailroom import Mailroom
from heat_config_agent.engine.mirror import DeployedMirror
from heat_config_agent.engine.offer import Offer
from heat_config_agent.engine.queue import Blocked, Queue
from heat_config_agent.engine.report import Report
from heat_config_agent.engine.run_inputs import RunInputs
from heat_config_agent.model.deployment import TRACE
from heat_config_agent.model.entry import Entry, Run
from heat_config_agent.model.job import Job
from heat_config_agent.signals.delivery import Delivery
from heat_config_agent.state.journal import Journal
from heat_config_hooks import processes, protocol
from heat_config_hooks.reply import CANNOT_START, Reply, failure


class Execution:
    """Begins the steps of a plan, and concludes their runs."""

    def __init__(
        self,
        *,
        journal: Journal,
        queue: Queue,
        launcher: Launcher,
        mailroom: Mailroom,
        admission: Admission,
        completion: Completion,
        mirror: DeployedMirror,
        run_inputs: RunInputs,
        delivery: Delivery,
        report: Report,
    ) -> None:
        self._journal, self._queue, self._launcher = journal, queue, launcher
        self._mailroom, self._admission, self._completion = mailroom, admission, completion
        self._mirror, self._run_inputs, self._delivery, self._report = mirror, run_inputs, delivery, report

    def begin(self, step: Step, offer: Offer) -> bool:
        """Run, answer or resend a step, whichever it says.

        Returns False if it cannot be begun now, and has to be offered again. Raises StateError.
        """
        if step.verb is Verb.RUN:
            return self._run(step, offer)
        if step.verb is Verb.ANSWER:
            self._completion.answer(step)
        elif step.verb is Verb.RESEND and self._mailroom.resend(step, offer):
            self._admission.withdraw(step.deployment.key)
        return True

    def resume(self, step: Step) -> tuple[str, str] | None:
        """Follow a run that an earlier agent started.

        If it has ended, returns what its supervisor recorded, and why the agent ended it, as `Launcher.close` does.
        """
        key = step.deployment.key
        run = run_of(self._journal.entries[key])
        if self._launcher.adopt(step, run) is None:
            return self._launcher.close_lost(key, run)
        self._report.begun(step, run)
        return None

    def conclude(self, step: Step, recorded: str, ending: str, *, wanted: bool) -> bool:
        """Put on record what follows from the end of a run, as `Completion.conclude` does.

        Returns True if its deployment has to be planned again.
        """
        repeat = self._completion.conclude(step, recorded, ending, wanted=wanted)
        if repeat == "reboot":
            self._wait_for_reboot(step)
        if repeat == "retry":
            self._run_inputs.tidy(step.deployment.key)
            self._report.retry(step, self._journal.entries[step.deployment.key])
        return repeat is not None

    def _run(self, step: Step, offer: Offer) -> bool:
        """Start a deployment's command."""
        if self._completion.give_up(step):
            return True
        key, entries = step.deployment.key, self._journal.entries
        cleaned = _cleaned(step, entries)
        blocked = self._queue.blocked.pop(key, None)
        started = self._launcher.launch(_job(step), entries[key], cleaned, lambda run: self._journal.running(key, run))
        if isinstance(started, Obstacle):
            return self._obstacle(step, started, blocked)
        if isinstance(started, Started):
            self._launcher.follow(step, started.running)
            self._admission.publish(offer)  # the record of this run has flushed the results before it
            self._mailroom.secure()
            self._mirror.write_deployment(step)
            self._report.begun(step, started.running.run)
            for note in started.notes:
                self._report.remarked(step, f"{step.deployment.title}: {note}")
            if not step.deployment.trace and step.deployment.input(TRACE):
                why = f"the input {TRACE} is not passed on: W3C Trace Context has another form"
                self._report.remarked(step, f"{step.deployment.title}: {why}")
            self._delivery.expect(step.deployment.target)
        else:
            self._completion.finish(step, started, _note(started))
        return True

    def _obstacle(self, step: Step, obstacle: Obstacle, before: Blocked | None) -> bool:
        """Postpone a step, and return False; or answer it as failed, and return True.

        `before` says why it could not begin at the last try.
        """
        self._run_inputs.tidy(step.deployment.key)
        if obstacle.passing:
            if self._queue.block(step, obstacle.reason, obstacle.cause or obstacle.reason, before):
                self._report.postponed(step, obstacle.reason)
            return False
        self._completion.finish(step, failure(CANNOT_START, obstacle.reason), obstacle.reason)
        return True

    def _wait_for_reboot(self, step: Step) -> None:
        """Let nothing new begin before the reboot of the machine that a command has asked for."""
        entry = self._journal.entries[step.deployment.key]
        if run_of(entry).boot == processes.boot_id():
            self._queue.rebooting.add(entry.key)
        self._report.reboot(step, entry)


def _job(step: Step) -> Job:
    if step.job is None:
        raise ValueError(f"the step to run {step.deployment.key} has no job")
    return step.job


def _cleaned(step: Step, entries: Mapping[str, Entry]) -> Run | None:
    """Return the run that a cleanup removes the work of; None for other steps."""
    left = step.deployment.document.get(protocol.LEAVES)
    entry = entries.get(metadata.key_of(left)) if isinstance(left, str) else None
    return entry.run if entry else None


def _note(reply: Reply) -> str:
    """Return the sentence of a reply that was made without running anything."""
    stderr = reply.get("deploy_stderr")
    return stderr.strip() if isinstance(stderr, str) else ""

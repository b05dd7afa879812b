"""The order of work: plan, run, conclude, send. Each step is on record before the next relies on it.

A caller offers documents whenever there are new ones (`offer`), and takes turns (`turn`) until nothing is left to do.
The one-shot command offers once; a daemon offers at every pass. A turn never waits for a command or a server longer
than its timeout.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from heat_config_agent.deployments import metadata, plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.admission import Admission
from heat_config_agent.engine.completion import BEGINNING, CONCLUDING, PLANNING, Completion
from heat_config_agent.engine.conclusion import REPLACED
from heat_config_agent.engine.execution import Execution
from heat_config_agent.engine.idle_pass import IdlePass
from heat_config_agent.engine.launch import Launcher
from heat_config_agent.engine.mailroom import Mailroom
from heat_config_agent.engine.mirror import DeployedMirror
from heat_config_agent.engine.offer import Offer
from heat_config_agent.engine.queue import Queue
from heat_config_agent.engine.report import Report
from heat_config_agent.engine.run_inputs import RunInputs
from heat_config_agent.engine.survey import Ground, facts, survey
from heat_config_agent.engine.workload import Workload
from heat_config_agent.model.deployment import Document, Mistake, Result
from heat_config_agent.model.entry import State
from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs.tools import Tools
from heat_config_agent.signals.delivery import Delivery
from heat_config_agent.state.attempts import Attempts
from heat_config_agent.state.deployed import Deployed
from heat_config_agent.state.journal import Journal
from heat_config_hooks import processes
from heat_config_hooks.values import replace

WAITS = "a deployment waits for a reboot of the machine, before which nothing new is begun"


def _keep_descriptors() -> None:
    """Stop runs from inheriting what is open here. Raises AgentError in a chroot that has no /proc."""
    try:
        processes.keep_descriptors()
    except FileNotFoundError as error:
        hint = "in a chroot: mount -t proc proc /proc"
        raise AgentError("/proc is not mounted, and the agent needs it to follow processes", hint=hint) from error


class Applier:
    """Carries out deployments."""

    def __init__(
        self,
        *,
        journal: Journal,
        tools: Tools,
        deployed: Deployed,
        delivery: Delivery,
        run_settings: RunSettings,
        report: Report,
        attempts: Attempts | None = None,
        reader: metadata.Reader | None = None,
    ) -> None:
        """Work on an open journal. `reader` keeps the parsed documents of the last pass."""
        _keep_descriptors()
        self._journal = journal
        self._ground = Ground(tools, deployed, run_settings.state, run_settings.defaults)
        self._delivery, self._report = delivery, report
        self._attempts = attempts or Attempts()
        self._reader = reader or metadata.Reader()
        self._mirror = DeployedMirror(deployed, journal, report)
        self._run_inputs = RunInputs(journal, run_settings, report)
        self._launcher = Launcher(run_settings, report)
        self._queue = Queue()
        alive = self._attempts.alive
        self._mailroom = Mailroom(journal, delivery, self._run_inputs, self._mirror, report, alive=alive)
        self._admission = Admission(journal, self._queue, self._launcher, self._mailroom, report)
        self._completion = Completion(journal, self._launcher, self._mailroom, self._attempts)
        self._execution = Execution(
            journal=journal,
            queue=self._queue,
            launcher=self._launcher,
            mailroom=self._mailroom,
            admission=self._admission,
            completion=self._completion,
            mirror=self._mirror,
            run_inputs=self._run_inputs,
            delivery=delivery,
            report=report,
        )
        self.work = Workload(journal, self._queue, self._launcher, delivery)
        """The work that is under way."""
        self._offer = Offer()
        self.postponed = False
        """True if something could not be begun, and has to be offered again."""
        self.mistakes: list[Mistake] = []
        """The mistakes in the documents that were offered last."""
        self._idle = IdlePass(journal, deployed)

    def hurry(self) -> None:
        """Retry now to send the results that wait for their next try."""
        self._delivery.hurry()

    def hope(self) -> None:
        """Retry to send the results that wait for their next try, because their servers may be back."""
        self._delivery.hope()

    def reconfigure(self, tools: Tools, run_settings: RunSettings, ca_file: str | None) -> None:
        """Use other settings from here on, which name the same state directory. Each run keeps its time limit."""
        self._ground = replace(self._ground, tools=tools, defaults=run_settings.defaults)
        self._launcher.settings = run_settings
        self._delivery.trust(ca_file)

    def secure(self) -> None:
        """Flush and report the results that are not on disk yet. Raises StateError."""
        self._mailroom.secure()

    def settle(self) -> None:
        """Make all work so far survive a power cut. Call this when nothing is left to do, and before ending."""
        self._mailroom.secure()
        self._run_inputs.tidy_all()
        self._mirror.mark()
        self._journal.sync()
        self._journal.compact()

    # A pass: plan what the sources have now.

    def offer(
        self,
        documents: Iterable[Document],
        *,
        only: Collection[str] = (),
        unconfirmed: Collection[str] = (),
        mark: bool = True,
    ) -> list[Step]:
        """Plan the deployments of all documents, and take them on. Raises StateError.

        Offer the documents of every source that has answered, changed or not. `only` names deployments by name or id;
        no others begin. `unconfirmed` are sources whose documents are from an earlier life of the agent, and that are
        about to be asked: until then their runs are followed, but nothing of them is begun or sent. Their deployments
        may have been replaced, and Heat would take the result of the old one for the new one's.

        With `mark` false, only `settle` puts on record which files are in heat-agents' folder, with one flush for all.
        That is for a caller who offers each deployment until it has ended: no one asks for it again by removing a file.
        """
        documents = list(documents)
        self._idle.forget()
        self._offer = replace(self._offer, only=only, unconfirmed=unconfirmed)
        self._run_inputs.tidy_all()
        view = survey(
            self._completed(documents),
            self._journal.entries,
            self._ground,
            only=only,
            parse=self._reader.parse,
            are_few=not mark,
        )
        self.mistakes = view.mistakes
        deployments = {deployment.key: deployment for deployment in view.deployments}
        self._offer = replace(self._offer, deployments=deployments, sources=view.sources)
        complete = mark and self._mirror.mark(view.known.marked)
        complete = self._admission.record(view) and complete
        steps = [self._offer.confirmed(step) for step in view.steps]
        self._take_on_all(steps)
        if complete and not self._run_inputs:
            self._idle.remember(documents, steps)
        return steps

    def _completed(self, documents: list[Document]) -> list[Document]:
        """Return the documents with ids and actions for the deployments that people have written without an id."""
        if not metadata.lacks_ids(documents):
            return documents
        from heat_config_agent.deployments import edition  # noqa: PLC0415  # documents of servers have ids
        from heat_config_agent.state import edition_key  # noqa: PLC0415

        return edition.completed(documents, self._journal.entries, edition_key.read(self._ground.state, make=True))

    def nothing_new(self, documents: list[Document], *, unconfirmed: Collection[str] = ()) -> bool:
        """Return whether to offer these documents would do nothing, as it did the last time."""
        return unconfirmed == self._offer.unconfirmed and self._idle.is_repeated_by(documents)

    def _take_on_all(self, steps: Iterable[Step]) -> None:
        """Take on the steps of a new plan, in the place of the old one."""
        self.postponed = False
        self._queue.clear()  # everything in it is on record, and planned again: the obstacles may be gone
        try:
            for step in steps:
                key = step.deployment.key
                is_sent = step.verb is Verb.RESEND and self._mailroom.is_sending(key)
                if key not in self._launcher.active and not is_sent:
                    with self._attempts.on(PLANNING, key):
                        self._take_on(step)
            for retry in self._queue.replaced():
                self._queue.take(retry)
                self._completion.break_off(retry, REPLACED)
        finally:
            self._admission.publish(self._offer)
        if self._launcher.settings.by_name:
            self._queue.sort_by_name()
        self._admission.make_way()

    def _take_on(self, step: Step) -> None:
        """Put a step on record, and begin it now or in its turn."""
        if self._admission.accept(step):
            self._begin(step)

    def _begin(self, step: Step) -> None:
        """Begin a step, or note that it could not be begun."""
        if step.verb is Verb.RESUME:
            lost = self._execution.resume(step)
            if lost is not None:
                self._conclude(step, *lost)
        elif not self._execution.begin(step, self._offer):
            self.postponed = True

    # A turn: what has ended, and what begins.

    def turn(self, timeout: float, also: Iterable[int] = ()) -> None:
        """Do what can be done, and wait at most `timeout` seconds for something to happen. Raises StateError.

        The wait also ends when one of the descriptors in `also` is readable.
        """
        if self._mailroom.owes and not self.work.next():  # else the record of the next run secures them
            self._mailroom.secure()
        self.work.wait(timeout, also)
        try:
            for active in self._launcher.take_ended():
                self._conclude(active.step, *self._launcher.close(active))
                self._launcher.shorten(active)
            step = self.work.next()
            if step:  # the turn does not wait for its end: the caller may have something to do first
                self._queue.take(step)
                with self._attempts.on(BEGINNING, step.deployment.key):
                    self._begin(step)
        finally:
            self._admission.publish(self._offer)
        self._launcher.limit()
        self._mailroom.take_outcomes()
        self._launcher.limit_output()

    def limit_output(self, *, at_start: bool = False) -> None:
        """Shorten output that has grown too long; look for output of earlier runs that is still written `at_start`."""
        if at_start:
            self._launcher.watch_output(self._journal.entries.values())
        self._launcher.limit_output()

    def _conclude(self, step: Step, recorded: str, ending: str) -> None:
        """Do what follows from the end of a run: record its result, or plan its deployment again."""
        key = step.deployment.key
        with self._attempts.on(CONCLUDING, key):
            if self._execution.conclude(step, recorded, ending, wanted=key in self._offer.deployments):
                self._plan_again(step)

    def _plan_again(self, step: Step) -> None:
        """Plan a deployment again whose run was not the last, if a source still has it."""
        key = step.deployment.key
        deployment = self._offer.deployments.get(key)
        if deployment is None:
            self._admission.withdraw(key)
            return
        known = facts([deployment], self._journal.entries, self._ground, are_few=True)
        for again in plan.make([deployment], known, only=self._offer.only):
            if again.deployment.key == key:
                self._take_on(self._offer.confirmed(again))

    def recall(self, key: str, result: Result | None, ended: float | None) -> None:
        """Settle a deployment whose result its receiver has since an earlier process, which did not record that.

        `result` is None if the receiver does not know the deployment any more. One that has not run is let go of.
        `ended` is when the run ended, in seconds since the epoch.
        """
        if result is None and self._journal.entries[key].state is State.ACCEPTED:
            self._admission.withdraw(key)
        else:
            self._mailroom.recall(key, result, ended)

    def end_runs(self, source: str, reason: str) -> None:
        """Begin to end the runs of the deployments of a source, which are followed until they have ended."""
        self._launcher.end_all_of(source, reason)

    def reboot_failed(self, reason: str) -> None:
        """Answer the deployments that wait for a reboot as failed: the machine cannot be rebooted."""
        waiting, self._queue.rebooting = self.work.reboots, set()
        try:
            for entry in waiting:
                self._completion.reboot_failed(entry, reason)
        finally:
            self._admission.publish(self._offer)

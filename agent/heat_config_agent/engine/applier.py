"""The order of work: plan, run, conclude, send. Each step is on record before the next relies on it.

A caller offers documents whenever there are new ones (`offer`), and takes turns (`turn`) until nothing is left to do.
The one-shot command offers once; a daemon offers at every pass. A turn never waits for a command or a server longer
than its timeout.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Collection, Iterable

from heat_config_agent.deployments import cleanup, metadata, plan
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine import events, launch, records, results
from heat_config_agent.engine.launch import Obstacle, Started
from heat_config_agent.engine.queue import Blocked
from heat_config_agent.engine.results import BEGINNING, CONCLUDING, PLANNING, REPLACED
from heat_config_agent.engine.survey import facts, survey
from heat_config_agent.engine.work import Work
from heat_config_agent.model.deployment import TRACE, Document, Job, Mistake, Result
from heat_config_agent.model.entry import State
from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs.tools import Tools
from heat_config_agent.state import asked
from heat_config_hooks import processes
from heat_config_hooks.reply import CANNOT_START, Reply, failure
from heat_config_hooks.values import replace

WAITS = (
    "a deployment waits for a reboot of the machine, before which nothing new is begun"
)

LOOK = 1.0
"""Seconds for which the caller of `turn` may wait, if it has nothing else to look after."""

_TICK_NS = 1_000_000_000
"""Nanoseconds within which two changes of a folder may have the same time."""


def _keep_descriptors() -> None:
    """Stop runs from inheriting what is open here. Raises AgentError in a chroot that has no /proc."""
    try:
        processes.keep_descriptors()
    except FileNotFoundError as error:
        hint = "in a chroot: mount -t proc proc /proc"
        raise AgentError(
            "/proc is not mounted, and the agent needs it to follow processes",
            hint=hint,
        ) from error


class Applier:
    """Carries out deployments."""

    def __init__(self, work: Work, reader: metadata.Reader) -> None:
        """Work on an open journal. `reader` keeps the parsed documents of the last pass."""
        _keep_descriptors()
        self.work = work
        """The work in hand."""
        self._reader = reader
        self.postponed = ""
        """The reason why something could not be begun, so that it has to be offered again; empty if nothing has."""
        self.mistakes: list[Mistake] = []
        """The mistakes in the documents that were offered last."""
        self._unfinished: frozenset[str] = frozenset()
        """The names of deployments without ids of which an edition had not run to its end at the last offer."""
        self._asked = 0
        """When a request was last left, as far as all requests until then are known; 0 if that is in doubt."""
        self._idle: tuple[list[Document], object] | None = None
        """The documents and the other facts of the last pass, if it left nothing to do."""

    def hurry(self) -> None:
        """Retry now to send the results that wait for their next try."""
        self.work.delivery.hurry()

    def hope(self) -> None:
        """Retry to send the results that wait for their next try, because their servers may be back."""
        self.work.delivery.hope()

    def reconfigure(
        self, tools: Tools, settings: RunSettings, ca_file: str | None
    ) -> None:
        """Use other settings from here on, which name the same state directory. Each run keeps its time limit."""
        self.work.ground = replace(
            self.work.ground, tools=tools, defaults=settings.defaults
        )
        self.work.settings = settings
        self.work.delivery.trust(ca_file)

    def secure(self) -> None:
        """Flush and report the results that are not on disk yet. Raises StateError."""
        results.secure(self.work)

    def settle(self) -> None:
        """Make all work so far survive a power cut. Call this when nothing is left to do, and before ending."""
        results.secure(self.work)
        records.tidy_all(self.work)
        records.mark(self.work)
        self.work.journal.sync()
        self.work.journal.compact()

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
        documents, work = list(documents), self.work
        self._idle = None
        work.offer = replace(work.offer, only=only, unconfirmed=unconfirmed)
        records.tidy_all(work)
        view = survey(
            self._completed(documents),
            work.journal.entries,
            work.ground,
            only=only,
            parse=self._reader.parse,
            are_few=not mark,
        )
        self.mistakes = view.mistakes
        deployments = {deployment.key: deployment for deployment in view.deployments}
        work.offer = replace(work.offer, deployments=deployments, sources=view.sources)
        complete = mark and records.mark(work, view.known.marked)
        complete = records.record(work, view) and complete
        steps = [work.offer.confirmed(step) for step in view.steps]
        self._take_on_all(steps)
        work.report.event(events.Planned(steps, work.journal.entries))
        if complete and not work.untidy and self._is_idle_after(steps):
            self._idle = documents, self._surroundings()
        return steps

    def _completed(self, documents: list[Document]) -> list[Document]:
        """Return the documents with ids and actions for the deployments that people have written without an id."""
        if not metadata.lacks_ids(documents):
            return documents
        from heat_config_agent.deployments import edition  # noqa: PLC0415  # documents of servers have ids
        from heat_config_agent.state import edition_key  # noqa: PLC0415

        entries, state = self.work.journal.entries, self.work.ground.state
        self._unfinished = edition.unfinished(entries.values())
        return edition.completed(documents, entries, edition_key.read(state, make=True))

    def nothing_new(
        self, documents: list[Document], *, unconfirmed: Collection[str] = ()
    ) -> bool:
        """Return whether to offer these documents would do nothing, as it did the last time."""
        if self._idle is None or unconfirmed != self.work.offer.unconfirmed:
            return False
        last, surroundings = self._idle
        same = len(documents) == len(last) and all(map(operator.is_, documents, last))
        return same and self._surroundings() == surroundings

    def _is_idle_after(self, steps: Iterable[Step]) -> bool:
        """Return whether these steps leave nothing to do, and all deployments are settled.

        A failed cleanup is not settled: it is tried again.
        """
        entries = self.work.journal.entries
        return all(
            step.verb is Verb.SKIP and step.deployment.key in entries for step in steps
        ) and all(
            entry.settled
            and not entry.again
            and not (entry.failed and entry.action == cleanup.ACTION)
            for entry in entries.values()
        )

    def _surroundings(self) -> object:
        """Return everything but documents that decides whether there is something to do, once all is settled."""
        return self.work.journal.records, self.work.ground.deployed.keys()

    def _take_on_all(self, steps: Iterable[Step]) -> None:
        """Take on the steps of a new plan, in the place of the old one."""
        work = self.work
        self.postponed = ""
        work.queue.clear()  # everything in it is on record, and planned again: the obstacles may be gone
        try:
            for step in steps:
                key = step.deployment.key
                is_sent = step.verb is Verb.RESEND and key in work.delivery
                if key not in work.active and not is_sent:
                    with work.attempts.on(PLANNING, key):
                        self._take_on(step)
            for retry in work.queue.replaced():
                work.queue.take(retry)
                results.break_off(work, retry, REPLACED)
        finally:
            results.publish(work)
        if work.settings.by_name:
            work.queue.sort_by_name()
        launch.make_way(work)

    def _take_on(self, step: Step) -> None:
        """Put a step on record, and begin it now or in its turn."""
        if records.accept(self.work, step):
            self._begin(step)

    # A turn: what has ended, and what begins.

    def turn(self, timeout: float, also: Iterable[int] = ()) -> None:
        """Carry out what is due, and wait at most `timeout` seconds for an event. Raises StateError.

        The wait also ends when one of the descriptors in `also` is readable.
        """
        work = self.work
        if work.unsecured and not work.next():
            # else the record of the next run secures them
            results.secure(work)
        work.wait(timeout, also)
        self.heed_stops()
        try:
            for active in launch.take_ended(work):
                # its output may be replaced by a masked copy
                launch.watch_left(work, active.step.deployment.key)
                self._conclude(active.step, *launch.close(work, active))
                launch.shorten(work, active)
            step = work.next()
            if step:  # the turn does not wait for its end: the caller may have something to do first
                work.queue.take(step)
                with work.attempts.on(BEGINNING, step.deployment.key):
                    renewed = self._renewed(step)
                    if renewed is not None:
                        self._begin(renewed)
        finally:
            results.publish(work)
        launch.limit(work)
        results.take_outcomes(work)
        launch.limit_output(work)

    def heed_stops(self) -> None:
        """Stop the deployments that people have requested to stop, also waiting ones. Raises StateError."""
        state = self.work.settings.state
        change = asked.last_change(state)
        if change == self._asked:
            return
        # in the same tick of the clock, another request may come
        self._asked = change if time.time_ns() - change > _TICK_NS else 0
        from heat_config_agent.engine import stops  # noqa: PLC0415  # few runs are stopped

        stops.heed(self.work)

    def watch_left_output(self, *, at_start: bool = False) -> None:
        """Have output watched that processes still write after the end of their runs; look for more `at_start`."""
        if at_start:
            launch.watch_earlier(self.work)
        else:
            launch.watch_left(self.work)

    def _begin(self, step: Step) -> None:
        """Begin a step, whichever it says. Raises StateError."""
        if step.verb is Verb.RESUME:
            self._resume(step)
        elif step.verb is Verb.RESEND:
            results.resend(self.work, step)
        elif results.give_up(self.work, step):
            return
        elif step.verb is Verb.ANSWER:
            results.answer(self.work, step, step.reply or {}, step.reason)
        else:
            self._run(step)

    def _renewed(self, step: Step) -> Step | None:
        """Return a step whose turn has come, with the action that follows from the end of its former edition.

        The action was chosen when its document was read, and that edition may have run until now. Returns None if there
        is nothing to do for the other action.
        """
        if step.deployment.given_name not in self._unfinished or step.attempt > 1:
            return step
        from heat_config_agent.deployments import edition  # noqa: PLC0415  # as above
        from heat_config_agent.state import edition_key  # noqa: PLC0415

        work = self.work
        entries, key = work.journal.entries, step.deployment.key
        secret = edition_key.read(work.ground.state, make=True)
        deployment = edition.renewed(step.deployment, entries, secret)
        if deployment is step.deployment or entries[key].state is not State.ACCEPTED:
            return step
        known = facts([deployment], entries, work.ground, are_few=True)
        renewed = plan.renewed(deployment, known)
        if renewed.verb not in (Verb.RUN, Verb.ANSWER):
            records.withdraw(work, key)
            work.report.event(events.Skipped(renewed))
            return None
        records.record_accepted(work, renewed)
        return renewed

    def _resume(self, step: Step) -> None:
        """Follow a run that an earlier agent started, or conclude it if it has ended since."""
        key = step.deployment.key
        run = results.run_of(self.work.journal.entries[key])
        if launch.adopt(self.work, step, run):
            self.work.report.event(events.Begun(step, run))
        else:
            launch.watch_left(self.work, key)
            self._conclude(step, *launch.close_lost(self.work.settings, key, run))

    def _run(self, step: Step) -> None:
        """Start the command of a deployment, answer it if nothing needs to be run, or postpone it."""
        work = self.work
        blocked = work.queue.blocked.pop(step.deployment.key, None)
        started = launch.start(work, step, _job(step))
        if isinstance(started, Started):
            self._begun(step, started)
        elif not isinstance(started, Obstacle):
            results.answer(work, step, started, _note(started), by_tool=True)
        elif started.passing:
            self._postpone(step, started, blocked)
        else:
            records.tidy(work, step.deployment.key)
            results.answer(
                work, step, failure(CANNOT_START, started.reason), started.reason
            )

    def _begun(self, step: Step, started: Started) -> None:
        """Follow a run that has just begun, and report it."""
        work, deployment = self.work, step.deployment
        launch.follow(work, step, started.running)
        # the record of this run has flushed the results before it
        results.publish(work)
        results.secure(work)
        records.write_deployment(work, step)
        work.report.event(events.Begun(step, started.running.run))
        for note in started.notes:
            work.report.warn(f"{deployment.title}: {note}", step)
        if not deployment.trace and deployment.input(TRACE):
            why = f"the input {TRACE} is not passed on: W3C Trace Context has another form"
            work.report.warn(f"{deployment.title}: {why}", step)
        work.delivery.expect(deployment.target)

    def _postpone(self, step: Step, obstacle: Obstacle, before: Blocked | None) -> None:
        """Note that a step could not be begun now. `before` says why it could not begin at the last try."""
        records.tidy(self.work, step.deployment.key)
        if self.work.queue.block(
            step, obstacle.reason, obstacle.cause or obstacle.reason, before
        ):
            self.work.report.event(events.Postponed(step, obstacle.reason))
        self.postponed = obstacle.reason

    def _conclude(self, step: Step, recorded: str, ending: str) -> None:
        """Draw the consequence of the end of a run: record its result, or plan its deployment again."""
        with self.work.attempts.on(CONCLUDING, step.deployment.key):
            if results.conclude(self.work, step, recorded, ending):
                self._plan_again(step)

    def _plan_again(self, step: Step) -> None:
        """Plan a deployment again whose run was not the last, if a source still has it."""
        key, work = step.deployment.key, self.work
        deployment = work.offer.deployments.get(key)
        if deployment is None:
            records.withdraw(work, key)
            return
        known = facts([deployment], work.journal.entries, work.ground, are_few=True)
        for again in plan.make([deployment], known, only=work.offer.only):
            if again.deployment.key == key:
                self._take_on(work.offer.confirmed(again))

    # Requests of callers.

    def recall(self, key: str, result: Result | None, ended: float | None) -> None:
        """Settle a deployment whose result was delivered by an earlier process that did not record the delivery.

        `result` is None if the receiver does not know the deployment any more. One that has not run is let go of.
        `ended` is when the run ended, in seconds since the epoch.
        """
        if result is None and self.work.journal.entries[key].state is State.ACCEPTED:
            records.withdraw(self.work, key)
        else:
            results.recall(self.work, key, result, ended)

    def end_runs(self, source: str, reason: str) -> None:
        """Begin to end the runs of the deployments of a source, which are followed until they have ended."""
        launch.end_all_of(self.work, source, reason)

    def reboot_failed(self, reason: str) -> None:
        """Answer the deployments that wait for a reboot as failed: the machine cannot be rebooted."""
        waiting, self.work.queue.rebooting = self.work.reboots, set()
        try:
            for entry in waiting:
                results.reboot_failed(self.work, entry, reason)
        finally:
            results.publish(self.work)


def _job(step: Step) -> Job:
    if step.job is None:
        raise ValueError(f"the step to run {step.deployment.key} has no job")
    return step.job


def _note(reply: Reply) -> str:
    """Return the sentence of a reply that was made without running anything."""
    stderr = reply.get("deploy_stderr")
    return stderr.strip() if isinstance(stderr, str) else ""

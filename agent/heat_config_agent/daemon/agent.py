"""One agent at work on a state directory: the parts of a turn, which the daemon repeats and `run --once` does once.

A turn takes in the answers of sources (`take_in`), heeds requests of people (`heed`), offers the documents to the
engine if anything about them may have changed (`look`), and has the engine do what can be done (`work`).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

from heat_config_agent.daemon.intake import Intake
from heat_config_agent.daemon.status import Snapshot
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.deployments import replacement
from heat_config_agent.deployments.metadata import Reader
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.events import Report
from heat_config_agent.engine.workplace import open_state
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import StateError
from heat_config_agent.model.log import Warned
from heat_config_agent.model.run_settings import RunSettings
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings.effective import Settings
from heat_config_agent.signals.outbox import Outbox
from heat_config_agent.sources import active
from heat_config_agent.sources.active import Steering
from heat_config_agent.sources.documents import Documents
from heat_config_agent.sources.poller import Answer, Collection
from heat_config_agent.state import asked, instance, requests
from heat_config_agent.state.attempts import Attempts
from heat_config_agent.state.deployed import begun_elsewhere, report_of
from heat_config_hooks import processes
from heat_config_hooks.values import replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.state.followed import Followed

LOOK_INTERVAL = 120.0
"""Seconds after which the agent looks at everything again, even if nothing is known to have changed."""

RETRY_INTERVAL = 10.0
"""Seconds after which the agent retries what it could not write or begin."""

_PRUNING = "pruning"
"""The work of pruning, as `state.attempts` names it."""


class Agent:
    """The sources, the engine and the state directory of one agent, whose lock the caller holds."""

    def __init__(
        self,
        settings: Settings,
        report: Report,
        notifier: Notifier,
        *,
        delivery_seconds: float | None = None,
    ) -> None:
        """Open the journal. Raises StateError.

        `delivery_seconds` limits how long the agent tries to deliver a result; None for no limit.
        """
        self._report = report
        self._warned = Warned()
        set_aside = instance.set_aside(
            settings.state, instance.identity(), settings.deployed
        )
        if set_aside:
            report.warn(set_aside)
        self._documents = Documents(settings.state)
        for warning in settings.warnings:
            report.warn(warning)
        self.collection = Collection(
            active.schedule(settings), settings.number("collect_timeout")
        )
        self._steering = Steering(settings, self._documents, self.collection)
        self._attempts = Attempts(
            settings.state if notifier.watchdog else None, notifier.alive
        )
        if self._attempts.warning:
            report.warn(self._attempts.warning)
        reader = Reader()
        self.intake = Intake(
            self._documents, self._steering, self.collection, reader, self._attempts
        )
        place = open_state(
            settings,
            Outbox(settings.ca_file),
            report,
            run_settings=_run_settings(settings),
            patience=delivery_seconds,
            attempts=self._attempts,
            reader=reader,
        )
        self.journal, self._deployed = place.journal, place.deployed
        self.applier, self.pruning, self._announcer = (
            place.applier,
            place.pruning,
            place.announcer,
        )
        self.applier.watch_left_output(at_start=True)
        if os.path.isdir(f"{settings.state}/verifications"):  # noqa: PTH112  # never raises
            from heat_config_agent.verification import looking  # noqa: PLC0415  # most machines are not verified

            looking.clear(settings.run_settings)
        self.pruning.request()
        self.settings = settings
        self.stale = True
        """True if the documents have to be offered again."""
        self._unsteered = True
        """True if something has changed that decides which sources are used."""
        self._skipped: tuple[Mapping[str, object], ...] = ()
        """The deployments that the last plan skipped and the journal does not have, see `Health.skipped`."""
        self._looked = 0.0
        """When the agent last looked at everything, in monotonic seconds."""
        state = str(settings.state)  # the daemon never changes it
        self._places = (
            f"{state}/{asked.FOLDER}",
            str(settings.deployed),
            f"{state}/{asked.PAUSED}",
        )
        """Files and folders that people change, or have commands change, to ask for something."""
        self._seen: tuple[float, ...] = ()
        """When each of the places had last changed at the last look."""
        self.paused = ""
        """A line that says that the agent is paused, and why; empty if it is not."""
        self._pause_end: float | None = None
        """When the pause ends by itself, in seconds since boot."""

    @property
    def busy(self) -> bool:
        """True if something has not been tried yet: a poll, a look or a deployment."""
        return (
            self._unsteered
            or self.collection.asking
            or self.stale
            or self.applier.work.busy
        )

    @property
    def at_rest(self) -> bool:
        """True if nothing is left to do but to poll sources."""
        return (
            not (self._unsteered or self.stale or self.pruning.busy)
            and self.applier.work.at_rest
        )

    @property
    def is_look_due(self) -> bool:
        """True if the last look at everything was long ago."""
        return time.monotonic() - self._looked > LOOK_INTERVAL

    @property
    def look_delay(self) -> float:
        """Seconds until the agent has to look at everything again."""
        return max(self._looked + LOOK_INTERVAL - time.monotonic(), 0.0)

    @property
    def is_touched(self) -> bool:
        """True if a pause is over, or a person has left a request, paused the agent or removed a file of `deployed`."""
        return self.pause_delay == 0 or self._last_changes() != self._seen

    @property
    def pause_delay(self) -> float:
        """Seconds until the pause ends by itself; infinite if it does not."""
        return (
            float("inf")
            if self._pause_end is None
            else max(self._pause_end - processes.since_boot(), 0.0)
        )

    def pulse(self) -> tuple[object, ...]:
        """Return a value that changes when a run begins or ends, or the journal changes."""
        return (
            tuple(entry.key for entry in self.applier.work.running),
            len(self.applier.work.queue),
            self.journal.changes,
        )

    def take_in(self, answers: Iterable[Answer], *, now: bool = False) -> None:
        """Take in the answers of sources, and decide which sources are used; `now` polls new ones at once."""
        arrivals = self.intake.take(answers)
        if arrivals.is_back:
            self.applier.hope()
        for trouble in arrivals.troubles:
            self._report.warn(trouble)
        for note in arrivals.notes:
            self._report.note(note)
        self.stale = self.stale or arrivals.documents_changed
        self._unsteered = self._unsteered or arrivals.sources_changed
        if self._unsteered or self.is_look_due:
            self._unsteered = False
            self.stale = self._steering.steer(now=now) or self.stale
        for warnings in (
            self._steering.news,
            self.journal.warnings,
            self._documents.warnings,
        ):
            while warnings:
                self._report.warn(warnings.pop(0))
        no_source = (
            "there is no source to poll: nothing on this machine says how to reach Heat"
        )
        self._warn(
            "sources",
            []
            if self.collection.conditions() or self.settings.followed
            else [no_source],
        )

    def heed(self, hold: str = "") -> None:
        """Note requests of people, and whether the agent is paused.

        Nothing new begins while it is paused, or while `hold` is not empty: it says why.
        """
        changes = self._last_changes()
        if changes != self._seen or self.pause_delay == 0:
            self._seen, self.stale = changes, True
            pause = asked.paused(self.settings.state)
            until = pause[2] if pause else None
            self._pause_end = (
                None if until is None else processes.since_boot() + until - time.time()
            )
            paused = f"paused: {pause[0]}" if pause else ""
            if paused != self.paused:
                self.paused = paused
                self._report.note(paused or "resumed")
        self.stale = self.intake.look_for_confirmation() or self.stale
        self.applier.work.queue.hold = self.paused or hold

    def look(self) -> list[Step]:
        """Offer the documents to the engine, if anything about them may have changed; return the plan."""
        if not (self.stale or self.is_look_due):
            return []
        stale, self._looked, self.stale = self.stale, time.monotonic(), False
        self.applier.watch_left_output()
        state = self.settings.state
        self.pruning.request(everything=requests.wants_pruning(state))
        done, troubles = requests.carry_out(state, self.journal, self._deployed)
        for line in done:
            self._report.note(line)
        self._warn("requests", troubles)
        documents = self.intake.in_force()
        documents += self._repaired({document.source for document in documents})
        self.pruning.offered([document.source for document in documents])
        unconfirmed = self.intake.unconfirmed
        if not stale and self.applier.nothing_new(documents, unconfirmed=unconfirmed):
            return []
        documents, troubles = self.intake.without_hopeless(documents)
        for trouble in troubles:
            self._report.warn(trouble)
        with self.intake.reading(documents):
            steps = self.applier.offer(documents, unconfirmed=unconfirmed)
        self._seen = (*self._last_changes()[:2], self._seen[2])
        self._explain(steps)
        replaced = replacement.replacements(self.journal.entries.values())
        self._warn("replaced", [f"{each.sentence} → {each.todo}" for each in replaced])
        # their results say so
        answered = {mistake for step in steps for mistake in step.deployment.mistakes}
        self._warn(
            "mistakes",
            [
                str(mistake)
                for mistake in self.applier.mistakes
                if mistake not in answered
            ],
        )
        return steps

    def _repaired(self, sources: Container[str]) -> list[Document]:
        """Return documents of the deployments to repair that none of the `sources` has."""
        drifted = [
            entry
            for entry in self.journal.entries.values()
            if entry.drift and not entry.over and entry.source not in sources
        ]
        if not drifted:
            return []
        from heat_config_agent.deployments.part import part  # noqa: PLC0415  # few deployments are repaired

        kept = [
            (entry, entry.document or self._deployed.document(entry.key))
            for entry in drifted
            if entry.left_at is None
        ]
        parts = [part(entry, document) for entry, document in kept if document]
        return [each for each in parts if each is not None]

    def _explain(self, steps: Iterable[Step]) -> None:
        """Note which deployments are skipped although no agent has run them, and which another agent has begun."""
        entries = self.journal.entries
        skipped = [
            step
            for step in steps
            if step.verb is Verb.SKIP and step.deployment.key not in entries
        ]
        self._skipped = tuple(
            {
                "key": step.deployment.key,
                "id": step.deployment.id,
                "name": step.deployment.name,
                "title": step.deployment.title,
                "action": step.deployment.action,
                "reason": step.reason,
            }
            for step in skipped
        )
        notes = {
            f"{step.deployment.title}: skipped: {step.reason}": step for step in skipped
        }
        for line in self._warned.update("skipped", list(notes)):
            self._report.note(line, notes[line])
        given = {
            name
            for step in skipped
            for name in (step.deployment.key, step.deployment.id)
        }
        self._warn(
            "begun elsewhere",
            report_of(begun_elsewhere(self.settings.deployed, entries, given)),
        )

    def work(self, timeout: float, wakeup: int, before: tuple[object, ...]) -> None:
        """Carry out what is due, or wait at most `timeout` seconds for an event. Raises StateError.

        `wakeup` is a descriptor that also ends the wait, and `before` is the `pulse` before the look.
        """
        answered = self.applier.work.delivery.answered
        self.applier.turn(timeout, (wakeup, self.collection.fileno()))
        if self.applier.work.delivery.answered != answered:
            self.collection.hope()
        if self.applier.postponed:
            self._looked = min(
                self._looked, time.monotonic() - LOOK_INTERVAL + RETRY_INTERVAL
            )
        if self.pulse() != before:
            self.collection.stir()
            if not self.applier.work.active and not self.applier.work.queue:
                self.applier.settle()
                self.pruning.request()

    def prune(self, seconds: float) -> None:
        """Prune for at most that many seconds, if something is due."""
        self.pruning.has_grown(self.applier.work.printed)
        self.applier.work.printed = 0
        reason = self._attempts.hopeless(_PRUNING, "")
        if reason:
            self._warn("pruning", [f"nothing is pruned: {reason}"])
            return
        self.pruning.begin_requested()
        if self.pruning.busy:
            with self._attempts.on(_PRUNING, ""):
                self.pruning.work(seconds)

    def hurry(self) -> None:
        """Poll every source now, and retry now every result that waits for its next try."""
        self.collection.hurry()
        self.applier.hurry()
        self.stale = True

    def reconfigure(self, settings: Settings) -> None:
        """Use other settings from here on, which name the same state directory."""
        self.settings = settings
        self.pruning.limits = settings.limits
        self.pruning.request()
        self._steering.reload(settings)
        self._announcer.reconfigure(settings)
        self.applier.reconfigure(
            Tools(settings.hooks, self._report.warn),
            _run_settings(settings),
            settings.ca_file,
        )
        self.collection.seconds = settings.number("collect_timeout")
        self.collection.forget()  # every source is made again
        self._unsteered = self.stale = True

    def snapshot(
        self,
        *,
        rebooting: bool = False,
        troubles: Iterable[str] = (),
        followed: tuple[Followed, ...] = (),
    ) -> Snapshot:
        """Return the state of the agent for its health file; `troubles` are those that only the caller knows."""
        return Snapshot(
            running=tuple(entry.title for entry in self.applier.work.running),
            waiting=self.applier.work.unbegun,
            blocked=tuple(self.applier.work.queue.blocked.items()),
            next_try=self._looked + LOOK_INTERVAL,
            reboots=tuple(entry.title for entry in self.applier.work.reboots),
            rebooting=rebooting,
            may_reboot=self.settings.flag("may_reboot"),
            paused=self.paused,
            conditions=self.collection.conditions(),
            next_poll=self.collection.due,
            answered=self.intake.answered,
            current=self.intake.answered and not (self.stale or self._unsteered),
            entries=self.journal.entries,
            changes=self.journal.changes,
            skipped=self._skipped,
            channels=self._announcer.channels,
            troubles=(*troubles, *self.intake.troubles),
            followed=followed,
            metrics_file=self.settings.text("metrics_file"),
        )

    def close(self) -> None:
        """Write everything to disk for the next agent."""
        self.collection.close()
        with contextlib.suppress(StateError):
            # the next agent can go on from what is on record
            self.applier.settle()
        self._announcer.close()

    def _last_changes(self) -> tuple[float, ...]:
        return tuple(map(_last_change, self._places))

    def _warn(self, subject: Hashable, troubles: Sequence[str]) -> None:
        for trouble in self._warned.update(subject, troubles):
            self._report.warn(trouble)


def _last_change(path: str) -> float:
    """Return when a file was last written, or the names in a folder last changed; 0 if there is none."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  # at every turn
    except OSError:
        return 0


def _run_settings(settings: Settings) -> RunSettings:
    return replace(
        settings.run_settings,
        parallel=int(settings.number("parallel")),
        by_name=True,
        cancel=settings.text("replaced") == "cancel",
    )

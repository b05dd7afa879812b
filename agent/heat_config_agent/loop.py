"""The daemon: polls, applies, signals, and never waits for one of them while another has something to do.

One thread owns the journal and everything that is decided; sources and servers are spoken to by threads of their own
(`collection`, `signals`), runs are processes of their own. So the loop sleeps until something happens, or is due.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path

from heat_config_agent import __version__, asked, health, instance, kill_points, metadata, plan, steering
from heat_config_agent.apply import WAITS, Applier
from heat_config_agent.collection import Answer, Collection
from heat_config_agent.configuration import TRANSPORTS
from heat_config_agent.delivery import Delivery
from heat_config_agent.deployed import Deployed
from heat_config_agent.documents import Documents, in_force, refusal
from heat_config_agent.errors import AgentError, StateError, shortage
from heat_config_agent.health import Health
from heat_config_agent.journal import Journal
from heat_config_agent.model import Document, Mistake, State, Where
from heat_config_agent.notify import Notifier
from heat_config_agent.plan import Step, Verb
from heat_config_agent.pruning import LAST_SLICE, SLICE, Pruning
from heat_config_agent.reboot import Reboot
from heat_config_agent.report import Report
from heat_config_agent.settings import Settings
from heat_config_agent.signals import Outbox
from heat_config_agent.sources.document import same
from heat_config_agent.steering import Steering
from heat_config_agent.tools import Tools
from heat_config_agent.transports import Way
from heat_config_hooks import files
from heat_config_hooks.values import replace

LOOK = 120.0
"""Seconds after which everything is looked at again, whether or not anything is known to have changed."""

TELL = 45.0
"""Seconds after which `health` is written again at the next occasion, though nothing in it has changed.

Nobody is woken for it: at the usual interval it is every second poll that it is written at."""

TELL_LEAST = 0.5
"""Seconds between two times that it is written: where much happens, not all of it needs to be told."""

MENDING = 10.0
"""Seconds after which the journal is tried again when it could not be written."""


class Daemon:
    """One agent on one state directory, whose lock the caller holds."""

    def __init__(
        self,
        given: Settings,
        reread: Callable[[], Settings],
        report: Report,
        notifier: Notifier,
        *,
        once: bool = False,
    ) -> None:
        """Open the journal, and get ready. `reread` returns the settings as they are then. Raises StateError.

        With `once`, results are given only so long to be delivered, and what stands in the way of the journal is fatal.
        """
        self._once = once
        self._given = given
        self._reread = reread
        self._report = report
        self._notifier = notifier
        self._started = time.time()
        aside = instance.set_aside(given.state, instance.identity(), given.deployed)
        if aside:
            report.warn(aside)
        self.journal = Journal(given.state)
        self._documents = Documents(given.state)
        for warning in given.warnings:
            report.warn(warning)
        self._collection = Collection(steering.schedule(given), given.number("collect_timeout"))
        self._steering = Steering(given, self._documents, self._collection)
        self._deployed = Deployed(given.deployed, old=given.deployed_old)
        self._applier = Applier(
            journal=self.journal,
            tools=Tools(given.hooks),
            deployed=self._deployed,
            delivery=Delivery(Outbox(given.ca_file), given.delivery if once else None),
            where=_where(given),
            report=report,
        )
        self._reboot = Reboot(self._applier, report)
        self._pruning = Pruning(self.journal, self._deployed, given.state, given.limits, report)
        self._prune_asked = not once
        """Whether all is to be looked through for what is kept no longer, due or not: at the start, and on request."""
        self._prune_due = True
        """Whether something may have come to be kept no longer."""
        self.entries = self.journal.entries
        """With `once`, what the journal said at the end, before anything was removed."""
        self.steps: list[Step] = []
        """With `once`, everything that was planned."""
        self.answered = False
        """Whether any source has."""
        self._news: list[Answer] = []
        """What came in that is yet to be looked at."""
        self._unsteered = True
        """Whether something has changed about which sources are to be asked."""
        self._stale = True
        """Whether what the sources have is to be offered again."""
        self._looked = 0.0
        """When it was, last; this and the next in monotonic seconds."""
        self._told = 0.0
        self._said: object = None
        self._untold = True
        self._signals: set[int] = set()
        state = str(given.state)  # which stays, whatever the settings say later
        self._places = (f"{state}/{asked.FOLDER}", str(given.deployed), f"{state}/{asked.PAUSED}")
        """What people make, change or remove to have something done."""
        self._seen: tuple[float, ...] = ()
        self._late, self._counted = 0, (0, 0)
        """How many results wait to be delivered, and of which journal: its changes and entries."""
        self._mend_at = 0.0
        self._paused = ""
        self._trouble = ""
        self._untaken: dict[str, str] = {}
        """Why documents are not in force, or not safe on disk: by the names of their sources."""
        self._wrong: dict[str, str] = {}
        """What else is not as it should be, by what it is about."""
        self._kept = set(self._documents.held)
        """Sources of whose documents only that from an earlier life is known."""
        self._unconfirmed: set[str] = set()
        """Those of them that have yet to be asked for the first time."""
        self._passed_over: set[Hashable] = set()
        """Sources whose last document was not to be put in force."""
        self._warned: dict[Hashable, set[str]] = {}
        """What was said last about each thing that is not as it should be."""

    def run(self) -> None:
        """Work until told to end by SIGTERM or SIGINT. What runs then goes on, and is followed by the next agent."""
        said = ", ".join(layer.origin for layer in self._given.said[1:]) or "none"
        self._report.note(f"heat-config-agent {__version__} begins on {self._given.state}, settings: {said}")
        with self._listening() as wake:
            self._notifier.ready()
            while not self.interrupted:
                self._heed()
                try:
                    self._turn(wake, patience=None)
                    self._reboot.tend(self._given)
                except StateError as error:
                    self._mend(error)
                except (OSError, MemoryError, ImportError) as error:
                    lack = shortage(error)
                    if lack is None:
                        raise
                    self._mend(lack)
                self._prune(SLICE)
            self._notifier.stopping()
            self._tell(ended=True)
        left = [f"{each.name} (process {each.run.pid})" for each in self._applier.running if each.run]
        self._report.note(f"ends; what runs goes on: {', '.join(left)}" if left else "ends")
        self._end()

    def once(self, refresh: Callable[[], None], interval: float) -> None:
        """Ask every source once, do all there is to do, and return."""
        with self._listening() as wake:
            while self._is_busy:
                self._drain()
                if self.interrupted:
                    break
                self._turn(wake, patience=interval, now=True)
                refresh()
            if self._applier.reboots and self._applier.waiting:
                self._report.warn(WAITS)
            self._tell(ended=True)
        self._end()

    @property
    def _is_busy(self) -> bool:
        """Whether there is something that has not been done for the first time yet."""
        return self._unsteered or self._collection.asking or self._stale or self._applier.busy

    @property
    def unheard(self) -> list[str]:
        """The transports that did not answer, where none did."""
        ways = [each for key, each in self._collection.conditions().items() if isinstance(key, Way) and not each.seldom]
        return [] if any(each.working for each in ways) else [each.name for each in ways]

    @property
    def interrupted(self) -> bool:
        """Whether a signal has asked for the end."""
        return bool(self._signals & {signal.SIGTERM, signal.SIGINT})

    @property
    def mistakes(self) -> list[Mistake]:
        """What is wrong in the documents that were offered last."""
        return self._applier.mistakes

    # One turn.

    def _turn(self, wake: int, *, patience: float | None, now: bool = False) -> None:
        earlier, self._news = self._news, []
        for answer in (*earlier, *self._collection.answers()):
            kill_points.reached("loop.arrived")
            self._arrived(answer)
            self._unsteered = self._unsteered or answer.turned or answer.changed
        if self._unsteered or time.monotonic() - self._looked > LOOK:
            self._unsteered = False
            self._stale = self._steering.steer(now=now) or self._stale
        for news in (self._steering.news, self.journal.warnings, self._documents.warnings):
            while news:
                self._report.warn(news.pop(0))
        asked_nobody = "there is no source to ask: nothing on this machine says how to reach Heat"
        self._warn_of("sources", [] if self._collection.conditions() else [asked_nobody])
        before = self._pulse()
        self._look()
        if not self._once:
            self._tell()  # before the sleep that may follow, not after it
        resting = self._is_at_rest and self._pulse() == before
        if resting:
            self._prune(SLICE)
        if resting and not self._pruning.busy and self._pulse() == before:
            self._rest(wake)
            timeout = 0.0
        else:
            timeout = 0.0 if (self._once and not self._is_busy) or self._pruning.busy else self._sleep(patience)
        self._applier.turn(timeout, (wake, self._collection.fileno()))
        if self._applier.postponed:
            self._looked = min(self._looked, time.monotonic() - LOOK + MENDING)
        if self._pulse() != before:
            self._collection.stir()
            if not self._applier.running and not self._applier.waiting:
                self._applier.settle()
                self._prune_due = True
                kill_points.reached("loop.settled")
        self._trouble = ""

    @property
    def _is_at_rest(self) -> bool:
        """Whether nothing is left to do but to ask sources."""
        left = self._unsteered or self._stale or self._untold or self._trouble or self._reboot.is_under_way
        return not (self._once or left or self._pruning.busy) and self._applier.at_rest

    def _rest(self, wake: int) -> None:
        """Ask sources when they are due, until one of them has something new, or anything else happens or is due.

        That is what a daemon does nearly all the time: so no more is looked at here than has to be.
        """
        poll, answered = select.poll(), self._collection.fileno()
        for descriptor in (wake, answered, self._applier.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = poll.poll(self._sleep(None) * 1000)
            found = self._collection.answers()
            self._news = [each for each in found if self._is_news(each)]
            if self._news or any(descriptor != answered for descriptor, _ in ready):
                return
            now = time.monotonic()
            if now - self._looked > LOOK or (not ready and self._watched() != self._seen):  # at each poll, once
                return
            other = bool(ready) and not found  # that a source could not let go of what it gave, for example
            if other or self._untold or self._notifier.watchdog or now - self._told >= TELL:
                self._tell()

    def _is_news(self, answer: Answer) -> bool:
        """Whether anything follows from what a source answered; mostly it gives what it gave before."""
        key = answer.key
        condition = self._collection.condition(key)
        return (
            answer.turned
            or answer.changed
            or not self.answered
            or key in self._passed_over
            or bool(self._untaken)
            or condition is None
            or bool(condition.trouble)
            or not self._warned.keys().isdisjoint({("no answer", key), ("remark", key)})
        )

    def _arrived(self, answer: Answer) -> None:
        """Take in what a source answered."""
        condition = self._collection.condition(answer.key)
        if condition and condition.seldom and answer.error:
            return
        if answer.error is not None:
            self._warn_of(("no answer", answer.key), [f"{answer.name}: {answer.error}"])
            return
        self.answered = True
        if self._warn_of(("no answer", answer.key), []):
            self._report.note(f"{answer.name} answers again")
        remark = condition.trouble if condition else ""
        self._warn_of(("remark", answer.key), [f"{answer.name}: {remark}"] if remark else [])
        again = answer.key in self._passed_over or (answer.document and answer.document.source in self._untaken)
        if answer.document and (answer.changed or again):
            self._take(answer.key, answer.document)

    def _take(self, key: Hashable, document: Document) -> None:
        """Put a document in force, and have its source let go of it once it is safe on disk."""
        name = document.source
        if self._steering.only_points_on(key, document):
            self._passed_over.add(key)
            self._steering.learn(key, document)
            return
        self._passed_over.discard(key)
        trouble = refusal(document)
        if not trouble:
            held = self._documents.held.get(name)
            new = held is None or not same(held.content, document.content)
            trouble = self._documents.take(document) if new or name in self._untaken else ""
            self._kept.discard(name)
            kill_points.reached("loop.kept")
            if not trouble:
                self._collection.taken(key, document)
                kill_points.reached("loop.let_go")
            if new:
                number = len(metadata.parse(document).deployments)
                self._report.note(f"{name} has {number} deployment{'' if number == 1 else 's'}")
                self._stale = True
                self._collection.stir()
            if name in TRANSPORTS:
                self._steering.learn(key, document)
        self._warn_of(("document", name), [trouble] if trouble else [])
        self._untaken.pop(name, None)
        if trouble:
            self._untaken[name] = trouble

    def _warn_of(self, about: Hashable, troubles: Sequence[str]) -> bool:
        """Warn of what is not as it should be with something, unless that was said before; return whether it was."""
        before = self._warned.pop(about, set())
        for trouble in troubles:
            if trouble not in before:
                self._report.warn(trouble)
        if troubles:
            self._warned[about] = set(troubles)
        return bool(before)

    def _look(self) -> None:
        """Offer what the sources have, if anything may have changed about it."""
        now = time.monotonic()
        seen = self._watched()
        if seen != self._seen:
            self._seen, self._stale = seen, True
            found = asked.paused(self._given.state)
            paused = f"paused: {found[0]}" if found else ""
            if paused != self._paused:
                self._paused = paused
                self._report.note(paused or "resumed")
        asking = {each.name for each in self._collection.conditions().values() if each.working is None}
        if self._kept & asking != self._unconfirmed:
            self._unconfirmed, self._stale = self._kept & asking, True
        self._applier.hold = self._paused or ("the machine is being rebooted" if self._reboot.is_under_way else "")
        if now < self._mend_at or not (self._stale or now - self._looked > LOOK):
            return
        stale, self._looked, self._stale = self._stale, now, False
        self._prune_due = True
        self._prune_asked = self._prune_asked or asked.wants_pruning(self._given.state)
        done, wrong = asked.carry_out(self._given.state, self.journal, self._deployed)
        kill_points.reached("loop.asked")
        for line in done:
            self._report.note(line)
        self._warn_of("asked", wrong)
        documents = in_force(self._documents.held, self._steering.used)
        self._pruning.offered([each.source for each in documents])
        if not stale and self._applier.nothing_new(documents, unconfirmed=self._unconfirmed):
            return
        steps = self._applier.offer(documents, unconfirmed=self._unconfirmed)
        kill_points.reached("loop.offered")
        if self._once:  # what was to be done at first, and not what is left of that when it is looked at again
            begun = {step.deployment.key: step for step in self.steps if step.verb not in (Verb.SKIP, Verb.WAIT)}
            self.steps = list(({step.deployment.key: step for step in (*self.steps, *steps)} | begun).values())
        self._seen = (*self._watched()[:2], self._seen[2])
        answered = {mistake for step in steps for mistake in step.deployment.mistakes}  # in their results
        self._warn_of("mistakes", [str(each) for each in self._applier.mistakes if each not in answered])

    def _watched(self) -> tuple[float, ...]:
        """Return what changes when somebody asks for something, removes what is kept, or has the agent pause."""
        return tuple(map(_changed, self._places))

    def _pulse(self) -> tuple[object, ...]:
        """Return what changes when something runs or ends."""
        return tuple(entry.key for entry in self._applier.running), self._applier.waiting, self.journal.changes

    def _sleep(self, patience: float | None) -> float:
        """Return how long nothing is due."""
        now = time.monotonic()
        times = [self._collection.due, max(self._looked + LOOK - now, self._mend_at - now, 0.0)]
        if patience is not None:
            times.append(patience)
        elif self._untold:
            times.append(max(self._told + TELL_LEAST - now, 0.0))
        if self._mend_at > now or self._stale:
            times.append(max(self._mend_at - now, 0.0))
        if self._notifier.watchdog:
            times.append(self._notifier.watchdog / 2)
        if self._reboot.is_under_way or self._applier.reboots:
            times.append(1.0)
        return min(times)

    def _mend(self, error: StateError) -> None:
        """Go on without the journal for now. All that was not recorded is found again in what it says."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            self._report.warn(f"{error}; it is tried again every {MENDING:g} s")
        self._mend_at, self._stale = time.monotonic() + MENDING, True
        self._prune_due = True  # it may be the disk that is full
        self._tell()
        time.sleep(0.1)

    def _prune(self, seconds: float) -> None:
        """Remove some of what is kept no longer, if it is time for that."""
        self._pruning.has_grown(self._applier.printed)
        self._applier.printed = 0
        if self._prune_due:
            self._pruning.consider(now=self._prune_asked)
            self._prune_due = self._prune_asked = False
        self._pruning.work(seconds)

    # What others want.

    @contextlib.contextmanager
    def _listening(self) -> Iterator[int]:
        """Heed signals; yield a descriptor that is readable when one has come."""
        wake, waker = os.pipe()
        for descriptor in (wake, waker):
            os.set_blocking(descriptor, False)
        before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._wake = wake
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
        handlers = {number: signal.signal(number, lambda found, _: self._signals.add(found)) for number in numbers}
        try:
            yield wake
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(wake)
            os.close(waker)

    def _drain(self) -> None:
        """Be ready to be woken by the next signal. Look for signals after this, or one of them may be missed."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)

    def _heed(self) -> None:
        """Do what signals ask for."""
        self._drain()
        if signal.SIGHUP in self._signals:
            self._signals.discard(signal.SIGHUP)
            self._reload()
        if signal.SIGUSR1 in self._signals:
            self._signals.discard(signal.SIGUSR1)
            self._collection.hurry()
            self._applier.hurry()
            self._mend_at = 0.0
            self._stale = True

    def _reload(self) -> None:
        """Read the settings again. If they cannot be used, those before them stay."""
        self._notifier.reloading()
        try:
            given = self._reread()
        except AgentError as error:
            self._report.warn(f"the settings stay as they were: {error}")
            self._wrong["settings"] = f"the settings stay as they were at {plan.clock(time.time())}: {error}"
        else:
            self._wrong.pop("settings", None)
            if given.state != self._given.state:
                self._report.warn(f"the state directory stays {self._given.state}: another takes a new start")
                given = replace(given, state=self._given.state, root=self._given.root, deployed=self._given.deployed)
            self._given = given
            self._pruning.limits = given.limits
            self._prune_due = True
            kill_points.reached("loop.reload")
            self._steering.reload(given)
            self._applier.reconfigure(Tools(given.hooks), _where(given), given.ca_file)
            self._collection.seconds = given.number("collect_timeout")
            self._collection.forget()  # every source is made anew
            self._unsteered = True
            self._stale = True
            for warning in given.warnings:
                self._report.warn(warning)
            self._report.note("the settings were read again")
        self._notifier.ready()

    # What others are told.

    def _tell(self, *, ended: bool = False) -> None:
        """Say how it is: to systemd, and in files, when it has changed and now and then."""
        self._notifier.alive()
        doing = self._doing()
        self._notifier.status(doing)
        conditions = self._collection.conditions()
        known = tuple((each.name, each.working, each.trouble) for each in conditions.values())
        stable = (doing, known, *self._wrongs, self.journal.changes)
        now = time.monotonic()
        self._untold = stable != self._said
        if not ended and now - self._told < (TELL_LEAST if self._untold else TELL):
            return
        self._said, self._told, self._untold = stable, now, False
        sources = tuple({"from": steering.describe(key), **vars(each)} for key, each in conditions.items())
        current = Health(
            process=os.getpid(),
            version=__version__,
            started=self._started,
            ended=time.time() if ended else None,
            doing=doing,
            next_poll=self._collection.due,
            waiting=self._applier.waiting,
            paused=self._paused.removeprefix("paused: "),
            reboot=tuple(each.name for each in self._applier.reboots),
            sources=sources,
            troubles=self._wrongs,
        )
        with contextlib.suppress(OSError):  # a disk without room: systemd is told all the same
            health.write(self._given.state, current)
            kill_points.reached("loop.told")
        metrics = self._given.text("metrics_file")
        if metrics:
            self._write_metrics(Path(metrics), health.metrics(current, self.journal.entries.values()))

    def _write_metrics(self, path: Path, text: str) -> None:
        self._wrong.pop("metrics", None)
        try:
            files.replace(path, text.encode(), mode=0o644)
        except OSError as error:
            self._wrong["metrics"] = f"cannot write the metrics to {path}: {error.strerror} (metrics_file of [agent])"
        self._warn_of("metrics", [self._wrong["metrics"]] if "metrics" in self._wrong else [])

    @property
    def _wrongs(self) -> tuple[str, ...]:
        """What is not as it should be, beside sources."""
        late = self._reboot.late
        found = (self._trouble, *self._untaken.values(), *self._wrong.values(), late)
        return tuple(each for each in found if each)

    def _doing(self) -> str:
        """Return in one line what is going on."""
        running = [entry.name for entry in self._applier.running]
        parts = [f"running {', '.join(running[:3])}{' …' if len(running) > 3 else ''}"] if running else []
        if self._applier.waiting:
            parts.append(f"{self._applier.waiting} waiting")
        version = (self.journal.changes, len(self.journal.entries))
        if version != self._counted:
            self._counted = version
            self._late = sum(entry.state is State.FINISHED for entry in self.journal.entries.values())
        parts += [f"{self._late} result{'s' if self._late > 1 else ''} to deliver"] if self._late else []
        if self._applier.reboots:
            parts.append("rebooting" if self._reboot.is_under_way else "about to reboot")
        conditions = self._collection.conditions().values()
        away = [each.name for each in conditions if each.working is False and not each.seldom]
        parts += [f"no answer from {', '.join(away)}"] if away else []
        parts += [self._paused] if self._paused else []
        return "; ".join(parts) or ("idle" if self.answered else "waiting for the first document")

    def _end(self) -> None:
        """Leave everything so that the next agent finds it."""
        kill_points.reached("loop.ending")
        self._collection.close()
        with contextlib.suppress(StateError):  # what is on record is on record
            self.entries = self.journal.entries
            self._applier.settle()
        if self._once:
            self._prune(LAST_SLICE)
        kill_points.reached("loop.ended")


def _changed(path: str) -> float:
    """Return when a file was last written, or something in a folder made or removed; 0 where there is none."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  # at every turn
    except OSError:
        return 0


def _where(given: Settings) -> Where:
    return replace(
        given.where,
        parallel=int(given.number("parallel")),
        by_name=True,
        cancel=given.text("replaced") == "cancel",
    )

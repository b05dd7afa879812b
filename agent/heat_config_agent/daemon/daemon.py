"""The loop of the daemon: polls sources, carries out deployments and sends results, none of which holds up the others.

One thread owns the journal and makes every decision. Sources and servers have threads of their own (`sources.poller`,
`signals`), and runs are processes. So the loop sleeps until something happens or is due.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable

from heat_config_agent import __version__
from heat_config_agent.daemon.agent import RETRY_INTERVAL, Agent
from heat_config_agent.daemon.reboot import Reboot
from heat_config_agent.daemon.status import StatusWriter
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.daemon.wakeup import Wakeup
from heat_config_agent.engine.events import Report
from heat_config_agent.engine.queue import REMINDER, Blocked
from heat_config_agent.model.errors import AgentError, StateError, cause, hindrance
from heat_config_agent.model.wording import moment
from heat_config_agent.settings.effective import Settings
from heat_config_agent.sources.poller import Answer
from heat_config_agent.state.removal.pruning import SLICE
from heat_config_hooks import processes
from heat_config_hooks.values import replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.daemon.following import Following
    from heat_config_agent.daemon.verifying import Verifying

_REBOOT_DELAY = 1.0
"""Seconds between two looks at a reboot of the machine that deployments wait for."""

_BREATH = 0.1
"""Seconds that the loop sleeps after it could not write the journal."""


class Daemon:
    """The loop of one agent on one state directory, whose lock the caller holds."""

    def __init__(
        self,
        settings: Settings,
        reread: Callable[[], Settings],
        report: Report,
        notifier: Notifier,
    ) -> None:
        """Open the journal. `reread` reads the settings again and returns them. Raises StateError."""
        self._reread = reread
        self._report = report
        self._notifier = notifier
        self._wakeup = Wakeup()
        self._status = StatusWriter(settings.state, notifier, report)
        self._agent = Agent(settings, report, notifier)
        self._agent.pruning.request(everything=True)
        self._reboot = Reboot(self._agent.applier, report)
        self._following = _following(settings, report)
        self._verifying = self._verifications(settings)
        self._unread: list[Answer] = []
        """Answers that came in while the daemon was resting."""
        self._retry_at = 0.0
        """When the agent retries to write the journal, in monotonic seconds."""
        self._hindrance: Blocked | None = None
        """The reason why the daemon cannot record anything now."""
        self._settings_trouble = ""

    def run(self) -> None:
        """Work until SIGTERM or SIGINT. Runs continue after that, and the next agent follows them."""
        settings = self._agent.settings
        origins = ", ".join(layer.origin for layer in settings.layers[1:]) or "none"
        self._report.note(
            f"heat-config-agent {__version__} begins on {settings.state}, settings: {origins}"
        )
        with self._wakeup.listening() as wakeup:
            self._notifier.ready()
            while not self._wakeup.interrupted:
                self._heed_signals()
                try:
                    is_tried = self._turn(wakeup)
                    records = self._following.records() if self._following else ()
                    self._reboot.tend(self._agent.settings, records)
                    self._agent.prune(SLICE)
                    if is_tried:
                        self._go_on()
                except StateError as error:
                    self._retry_later(error, cause(error))
                except (OSError, MemoryError, ImportError) as error:
                    lack = hindrance(error)
                    if lack is None:
                        raise
                    self._retry_later(lack, cause(error))
            self._notifier.stopping()
            self._write_status(ended=True)
        if self._following:
            self._following.end()
        if self._verifying:
            self._verifying.end()
        left = [
            f"{entry.title} (process {entry.run.pid})"
            for entry in self._agent.applier.work.running
            if entry.run
        ]
        self._report.note(
            f"ends; these runs continue: {', '.join(left)}" if left else "ends"
        )
        self._agent.close()

    def _turn(self, wakeup: int) -> bool:
        """Take in new answers, plan, carry out what is due, and sleep until an event or the next due time.

        Returns False if it is too early to try again what could not be done.
        """
        agent = self._agent
        unread, self._unread = self._unread, []
        agent.take_in([*unread, *agent.collection.answers()])
        before = agent.pulse()
        agent.heed("the machine is being rebooted" if self._reboot.is_under_way else "")
        is_tried = time.monotonic() >= self._retry_at
        if is_tried:
            agent.look()
        if self._following:
            self._following.tend()
        if self._verifying:
            self._verifying.tend()
        self._write_status()  # before the sleep that may follow, not after it
        resting = self._is_at_rest and agent.pulse() == before
        if resting:
            agent.prune(SLICE)
        if resting and not agent.pruning.busy and agent.pulse() == before:
            self._rest(wakeup)
            delay = 0.0
        else:
            delay = 0.0 if agent.pruning.busy else self._delay
        agent.work(delay, wakeup, before)
        return is_tried

    @property
    def _is_at_rest(self) -> bool:
        """True if nothing is left to do but to poll sources."""
        left = self._status.pending or self._hindrance or self._reboot.is_under_way
        return not left and self._agent.at_rest

    def _rest(self, wakeup: int) -> None:
        """Poll sources when they are due, until one of them has something new, or anything else happens or is due.

        A daemon spends nearly all its time here, so this looks at no more than it has to.
        """
        agent = self._agent
        poll, answered = select.poll(), agent.collection.fileno()
        told = self._following.fileno() if self._following else -1
        verified = self._verifying.fileno() if self._verifying else -1
        for descriptor in (
            wakeup,
            answered,
            agent.applier.work.delivery.fileno(),
            *(descriptor for descriptor in (told, verified) if descriptor >= 0),
        ):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = poll.poll(self._delay * 1000)
            answers = agent.collection.answers()
            self._unread = [
                answer for answer in answers if agent.intake.is_news(answer)
            ]
            if self._unread or any(descriptor != answered for descriptor, _ in ready):
                return
            if agent.is_look_due or (not ready and agent.is_touched):
                # at each poll, once
                return
            if self._following and self._following.is_news:
                return
            if self._verifying and self._verifying.is_news:
                return
            # a source could not remove its message from the queue, for example
            silent = bool(ready) and not answers
            if silent or self._status.is_due or (answers and self._status.is_stale):
                self._write_status()

    @property
    def _delay(self) -> float:
        """Seconds until something is due."""
        agent = self._agent
        retry = max(self._retry_at - time.monotonic(), 0.0)
        delays = [agent.collection.due, max(agent.look_delay, retry), agent.pause_delay]
        if self._status.pending:
            delays.append(self._status.delay)
        if retry or agent.stale:
            delays.append(retry)
        if self._following:
            delays.append(self._following.delay)
        if self._verifying:
            delays.append(self._verifying.delay)
        if self._notifier.watchdog:
            delays.append(self._notifier.watchdog / 2)
        if self._reboot.is_wanted:
            delays.append(_REBOOT_DELAY)
        return min(delays)

    def _go_on(self) -> None:
        """Note that everything was done that could not be done before."""
        if self._hindrance is not None:
            self._report.note(
                f"the agent goes on: this has passed: {self._hindrance.cause}"
            )
            self._hindrance = None

    def _retry_later(self, error: StateError, why: str) -> None:
        """Go on without the journal for now. Work that was not recorded is found again from the journal later.

        `why` has the cause in a few words. The same error is reported again only after `REMINDER` seconds.
        """
        before, now, text = self._hindrance, processes.since_boot(), str(error)
        said = before.said if before else 0.0
        if (
            before is None
            or (before.reason != text and before.cause != why)
            or now - said > REMINDER
        ):
            said = now
            self._report.warn(f"{text}; the agent retries every {RETRY_INTERVAL:g} s")
        self._hindrance = Blocked("", text, why, before.since if before else now, said)
        self._retry_at, self._agent.stale = time.monotonic() + RETRY_INTERVAL, True
        self._agent.pruning.request()  # it may be the disk that is full
        self._write_status()
        time.sleep(_BREATH)

    def _heed_signals(self) -> None:
        """Do what signals ask for: SIGHUP reads the settings again, SIGUSR1 polls sources and sends results now."""
        self._wakeup.drain()
        if self._wakeup.take(signal.SIGHUP):
            self._reload()
        if self._wakeup.take(signal.SIGUSR1):
            self._agent.hurry()
            if self._following:
                self._following.hurry()
            self._retry_at = 0.0

    def _reload(self) -> None:
        """Read the settings again. If they cannot be used, the old ones stay."""
        self._notifier.reloading()
        before = self._agent.settings
        try:
            settings = self._reread()
        except AgentError as error:
            self._report.warn(f"the settings stay as they were: {error}")
            self._settings_trouble = (
                f"the settings stay as they were at {moment(time.time())}: {error}"
            )
        else:
            self._settings_trouble = ""
            if settings.state != before.state:
                self._report.warn(
                    f"the state directory stays {before.state}: restart the daemon to use another"
                )
                settings = replace(
                    settings,
                    state=before.state,
                    root=before.root,
                    deployed=before.deployed,
                )
            self._agent.reconfigure(settings)
            if self._following:
                self._following.reconfigure(settings)
            else:
                self._following = _following(settings, self._report)
            if self._verifying:
                self._verifying.reconfigure(settings)
            else:
                self._verifying = self._verifications(settings)
            for warning in settings.warnings:
                self._report.warn(warning)
            self._report.note("the settings were read again")
        self._notifier.ready()

    def _verifications(self, settings: Settings) -> Verifying | None:
        """Return the process that verifies on a schedule; None if the settings have no such schedule."""
        if not _verifies(settings):
            return None
        from heat_config_agent.daemon.verifying import Verifying  # noqa: PLC0415  # few machines verify on a schedule

        return Verifying(settings, self._agent, self._report)

    def _write_status(self, *, ended: bool = False) -> None:
        """Write the health file and tell systemd what is going on, when it has changed and from time to time."""
        following = self._following
        troubles = filter(
            None,
            [
                self._settings_trouble,
                self._reboot.late,
                following.ended if following else "",
            ],
        )
        records = following.records() if following else ()
        snapshot = self._agent.snapshot(
            rebooting=self._reboot.is_under_way, troubles=troubles, followed=records
        )
        if following:
            snapshot = replace(snapshot, unrecorded=dict(following.troubles))
        if self._verifying:
            snapshot = replace(snapshot, verifications=self._verifying.reports)
        if self._hindrance is not None:
            blocked = (("", self._hindrance), *snapshot.blocked)
            snapshot = replace(
                snapshot, blocked=blocked, next_try=max(self._retry_at, 0.0)
            )
        self._status.write(snapshot, ended=ended)


def _verifies(settings: Settings) -> bool:
    """Return whether the settings have a verification on a schedule."""
    sections = ("agent", *(f"follow {name}" for name in settings.followed))
    return any(settings.lookup(each, "verify_interval")[0] for each in sections)


def _following(settings: Settings, report: Report) -> Following | None:
    """Return the process that follows sources; None if the settings name none, and none was followed before."""
    if not settings.followed and not (settings.state / "follow").is_dir():
        return None
    from heat_config_agent.daemon.following import Following  # noqa: PLC0415  # few machines follow a source

    return Following(settings, report.warn)

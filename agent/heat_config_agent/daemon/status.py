"""The reports of a daemon about itself: the health file, the metrics and systemd's status line."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Mapping
from pathlib import Path

from heat_config_agent import __version__
from heat_config_agent.daemon.systemd import Notifier
from heat_config_agent.engine.queue import Blocked
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.log import Log, Warned
from heat_config_agent.sources import active
from heat_config_agent.sources.poller import Condition
from heat_config_agent.state import health
from heat_config_agent.state.health import Health
from heat_config_hooks import files, processes
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.signals.notices.channel import ChannelState
    from heat_config_agent.state.followed import Followed

INTERVAL = 45.0
"""Seconds after which the health file is written again although nothing has changed.

The loop does not wake for it: with the default polling interval, the file is written at every second poll."""

FRESH_INTERVAL = 5.0
"""Seconds after which it is written again if a source has answered, so that `status` shows when that was."""

LEAST_INTERVAL = 0.5
"""Seconds between two writes at least, so that a busy daemon does not write all the time."""

_NAMED = 3
"""The number of running deployments that the status line names."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of a daemon at one moment."""

    running: tuple[str, ...]
    """The names of the deployments that run."""
    waiting: int
    """The number of deployments that wait for their turn."""
    blocked: tuple[tuple[str, Blocked], ...] = ()
    """The deployments that could not begin, with their keys; a key is empty where nothing can be recorded at all."""
    next_try: float = 0.0
    """When blocked work is tried again, in monotonic seconds."""
    reboots: tuple[str, ...]
    """The names of the deployments that wait for a reboot of the machine."""
    rebooting: bool
    """True if the reboot command was started."""
    may_reboot: bool
    """True if the settings let the agent reboot the machine."""
    paused: str
    """A line that says that the agent is paused, and why; empty if it is not."""
    conditions: Mapping[Hashable, Condition]
    """The state of each source in use."""
    next_poll: float
    """Seconds until the next poll."""
    answered: bool
    """True if any source has answered."""
    current: bool
    """See `Health.current`."""
    entries: Mapping[str, Entry]
    """The entries of the journal."""
    changes: int
    """The number of changes to the journal so far."""
    skipped: tuple[Mapping[str, object], ...]
    """The deployments that the last plan skipped and the journal does not have, see `Health.skipped`."""
    channels: tuple[ChannelState, ...] = ()
    """The channels to those outside: see `Health.channels`."""
    verifications: tuple[Mapping[str, object], ...] = ()
    """See `Health.verifications`."""
    troubles: tuple[str, ...]
    """The problems other than those of the sources."""
    followed: tuple[Followed, ...]
    """The records of stacks that follow sources."""
    unrecorded: Mapping[str, str] = field(default_factory=dict)
    """See `Health.followed`."""
    metrics_file: str
    """The path of the metrics file; empty for none."""


class StatusWriter:
    """Writes the health file and the metrics and tells systemd, when something has changed and from time to time."""

    def __init__(self, state: Path, notifier: Notifier, log: Log) -> None:
        """Write the health file in the folder `state`; `log` is warned if the metrics cannot be written."""
        self._state = state
        self._log = log
        self._started = time.time()
        self._identity = os.getpid(), processes.boot_id(), processes.ticks(os.getpid())
        """The process, the boot and the start time: later there may be no open file left to read them."""
        self._written = 0.0
        """When the files were last written, in monotonic seconds."""
        self._answered = 0.0
        """When a source had last answered then, in seconds since the epoch."""
        self._content: object = None
        """The content that was written then, without the times in it."""
        self._warned = Warned()
        self._metrics_trouble = ""
        self._undelivered = 0
        self._failed = 0
        self._counted = (0, 0)
        """The journal for which results were counted: the numbers of its changes and entries."""
        self._next_try = (0.0, 0.0)
        """When blocked work is tried again: in monotonic seconds, and in seconds since the epoch."""
        self._spare = health.Spare(state)
        self.notifier = notifier
        self.pending = True
        """True if something has changed that is not written yet."""

    def write(self, snapshot: Snapshot, *, ended: bool = False) -> None:
        """Feed the watchdog, tell systemd, and write the files if that is due or the daemon has `ended`."""
        self.notifier.alive()
        line = self._line(snapshot)
        self.notifier.status(line)
        troubles = tuple(
            trouble
            for trouble in (*snapshot.troubles, self._metrics_trouble)
            if trouble
        )
        sources = tuple(
            (each.name, each.working, each.trouble)
            for each in snapshot.conditions.values()
        )
        lost = tuple((each.name, each.lost) for each in snapshot.channels)
        journal = (snapshot.skipped, snapshot.changes, snapshot.current)
        seen = (snapshot.followed, lost, snapshot.verifications)
        content = (line, sources, troubles, *journal, *seen)
        now = time.monotonic()
        self.pending = content != self._content
        answered = max(
            (each.answered or 0.0 for each in snapshot.conditions.values()), default=0.0
        )
        usual = FRESH_INTERVAL if answered > self._answered else INTERVAL
        if not ended and now - self._written < (
            LEAST_INTERVAL if self.pending else usual
        ):
            return
        self._answered = answered
        self._content, self._written, self.pending = content, now, False
        current = self._health(snapshot, line, troubles, ended=ended)
        try:
            health.write(self._state, current)
        except OSError:  # a full disk, for example
            self._spare.write(current)
        else:
            self._spare.clear()
        self._metrics_trouble = ""
        if snapshot.metrics_file:
            self._write_metrics(
                Path(snapshot.metrics_file),
                health.metrics(current, snapshot.entries.values(), snapshot.followed),
            )

    @property
    def is_due(self) -> bool:
        """True if `write` should be called now: there is news, a watchdog, or the files are old."""
        old = time.monotonic() - self._written >= INTERVAL
        return self.pending or bool(self.notifier.watchdog) or old

    @property
    def is_stale(self) -> bool:
        """True if `write` should be called after an answer of a source."""
        return time.monotonic() - self._written >= FRESH_INTERVAL

    @property
    def delay(self) -> float:
        """Seconds until the next write is allowed."""
        return max(self._written + LEAST_INTERVAL - time.monotonic(), 0.0)

    def _health(
        self, snapshot: Snapshot, line: str, troubles: tuple[str, ...], *, ended: bool
    ) -> Health:
        conditions = snapshot.conditions.items()
        process, boot, ticks = self._identity
        return Health(
            process=process,
            boot=boot,
            ticks=ticks,
            version=__version__,
            started=self._started,
            ended=time.time() if ended else None,
            doing=line,
            next_poll=snapshot.next_poll,
            waiting=snapshot.waiting,
            blocked=self._blocked(snapshot),
            current=snapshot.current,
            paused=snapshot.paused.removeprefix("paused: "),
            reboot=snapshot.reboots,
            skipped=snapshot.skipped,
            sources=tuple(
                {"from": active.describe(key), **vars(condition)}
                for key, condition in conditions
            ),
            channels=tuple(vars(channel) for channel in snapshot.channels),
            verifications=snapshot.verifications,
            followed=dict(snapshot.unrecorded),
            troubles=troubles,
        )

    def _write_metrics(self, path: Path, text: str) -> None:
        try:
            files.replace(path, text.encode(), mode=0o644)
        except OSError as error:
            self._metrics_trouble = f"cannot write the metrics to {path}: {error.strerror} (metrics_file of [agent])"
        for trouble in self._warned.update(
            "metrics", [self._metrics_trouble] if self._metrics_trouble else []
        ):
            self._log.warn(trouble)

    def _line(self, snapshot: Snapshot) -> str:
        """Return the status line."""
        more = " …" if len(snapshot.running) > _NAMED else ""
        causes = dict.fromkeys(blocked.cause for _, blocked in snapshot.blocked)
        parts = (
            [f"blocked: {'; '.join(causes)}; next try at {self._clock(snapshot)}"]
            if causes
            else []
        )
        parts += (
            [f"running {', '.join(snapshot.running[:_NAMED])}{more}"]
            if snapshot.running
            else []
        )
        if snapshot.waiting:
            parts.append(f"{snapshot.waiting} waiting")
        undelivered = self._count(snapshot)
        if undelivered:
            parts.append(
                f"{undelivered} result{'s' if undelivered > 1 else ''} to deliver"
            )
        names = [
            record.name
            for record in snapshot.followed
            if record.begun and not record.trouble
        ]
        if names:
            parts.append(f"carrying out a revision of {', '.join(names)}")
        if snapshot.reboots:
            waiting = "about to reboot" if snapshot.may_reboot else "waits for a reboot"
            parts.append("rebooting" if snapshot.rebooting else waiting)
        silent = [
            each.name
            for each in snapshot.conditions.values()
            if each.working is False and not each.seldom
        ]
        if silent:
            parts.append(f"no answer from {', '.join(silent)}")
        if snapshot.paused:
            parts.append(snapshot.paused)
        waits = not snapshot.answered and (snapshot.conditions or not snapshot.followed)
        parts = parts or ["waiting for the first document" if waits else "idle"]
        if self._failed:
            parts.append(
                f"{self._failed} deployment{'s' if self._failed > 1 else ''} failed"
            )
        drifted = sum(
            value
            for each in snapshot.verifications
            if isinstance(value := each["drifted"], int)
        )
        if drifted:
            parts.append(f"{drifted} deployment{'s' if drifted > 1 else ''} drifted")
        parts += [
            record.problem.partition(": ")[2].partition(":")[0]
            for record in snapshot.followed
            if record.problem
        ]
        parts += [trouble.partition(": ")[0] for trouble in snapshot.troubles]
        return "; ".join(parts)

    def _clock(self, snapshot: Snapshot) -> str:
        """Return the time of day at which blocked work is tried again."""
        if snapshot.next_try != self._next_try[0]:
            # once: it would not always be the same second
            self._next_try = (
                snapshot.next_try,
                time.time() + snapshot.next_try - time.monotonic(),
            )
        return time.strftime("%H:%M:%S", time.localtime(self._next_try[1]))

    def _blocked(self, snapshot: Snapshot) -> tuple[dict[str, object], ...]:
        """Return `Health.blocked`."""
        causes: dict[str, dict[str, str]] = {}
        since: dict[str, float] = {}
        for key, blocked in snapshot.blocked:
            causes.setdefault(blocked.cause, {})[key] = blocked.reason
            since[blocked.cause] = min(
                blocked.since, since.get(blocked.cause, blocked.since)
            )
        shift = time.time() - processes.since_boot()
        return tuple(
            {
                "cause": cause,
                "since": since[cause] + shift,
                "next_try": self._next_try[1],
                "reason": reasons.get("", ""),
                "deployments": {key: reason for key, reason in reasons.items() if key},
            }
            for cause, reasons in causes.items()
        )

    def _count(self, snapshot: Snapshot) -> int:
        """Return the number of results to be delivered, and count failures, if the journal has changed."""
        version = (snapshot.changes, len(snapshot.entries))
        if version != self._counted:
            self._counted = version
            entries = snapshot.entries.values()
            self._undelivered = sum(entry.state is State.FINISHED for entry in entries)
            self._failed = sum(entry.has_failed for entry in entries)
        return self._undelivered

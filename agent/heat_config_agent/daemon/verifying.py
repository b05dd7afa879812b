"""The process that verifies deployments on a schedule, next to the daemon, which never waits for it.

It is started when a verification is due, hears the current documents, tells what it has found, and ends. It changes
nothing but the record of verifications; a repair is a request, as those of people are.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping

from heat_config_agent.engine.events import Drifted, Report
from heat_config_agent.model.entry import Entry
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import requests
from heat_config_hooks.values import dataclass, replace

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.daemon.agent import Agent

_PROGRAM = "from heat_config_agent.cli.deployments.scheduled import main; raise SystemExit(main())"

_JITTER = 0.1
"""The part of an interval by which a verification begins earlier or later, so that a fleet does not begin at once."""

_LIMIT = 3600.0
"""Seconds after which the process is ended; a longer interval allows it as long."""

_AGAIN = 60.0
"""The most seconds until the next verification after one that was killed."""

_GONE = 5.0
"""Seconds from the request to end until the process is killed."""

_LOOK = 1.0
"""Seconds between two looks at a process while the daemon has other work."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The verification of the agent's own deployments, or of those of a followed document."""

    name: str
    """The name of the followed source; empty for the agent itself."""
    interval: float
    repairs: bool
    due: float
    """When it is due, in monotonic seconds."""
    report: Mapping[str, object]
    """The last one, for the health file."""
    pending: Mapping[str, float]
    """The runs that are being repaired, by key: it is verified again once all of them have run again."""


class Verifying:
    """The verifications on a schedule."""

    def __init__(self, settings: Settings, agent: Agent, report: Report) -> None:
        """Plan the verifications of the settings. `agent` has the current documents and the journal."""
        self._settings, self._agent, self._report = settings, agent, report
        self._schedules = {each.name: each for each in _schedules(settings)}
        self._process: subprocess.Popen[bytes] | None = None
        self._current = ""
        self._end_at = 0.0
        self._told = b""

    def fileno(self) -> int:
        """Return a descriptor that is readable when the process has ended; negative if none runs."""
        process = self._process
        return (
            -1 if process is None or process.stdout is None else process.stdout.fileno()
        )

    @property
    def delay(self) -> float:
        """Seconds until something is due."""
        now = time.monotonic()
        if self._process is not None:
            return max(min(self._end_at - now, _LOOK), 0.0)
        dues = [each.due for each in self._schedules.values()]
        return max(min(dues, default=float("inf")) - now, 0.0)

    @property
    def is_news(self) -> bool:
        """True if a verification has ended, is due, or takes too long."""
        self._hear()
        ended = self._process is not None and self._process.poll() is not None
        return ended or (self.delay == 0 and bool(self._schedules))

    @property
    def reports(self) -> tuple[Mapping[str, object], ...]:
        """The last verification of each schedule, for the health file."""
        return tuple(each.report for each in self._schedules.values() if each.report)

    def tend(self) -> None:
        """Take in what has ended, and start what is due."""
        self._hear()
        now = time.monotonic()
        if self._process is not None:
            if (code := self._process.poll()) is not None:
                self._conclude(code)
            elif now >= self._end_at:
                self._report.warn(
                    f"the verification has not ended within {self._limit:g} s, and is killed"
                )
                self._kill()
            return
        self._look_for_repairs(now)
        late = [each for each in self._schedules.values() if each.due <= now]
        if late:
            self._start(min(late, key=lambda each: each.due))

    def reconfigure(self, settings: Settings) -> None:
        """Verify by other settings from here on."""
        self.end()
        self._settings = settings
        former = self._schedules
        self._schedules = {}
        for each in _schedules(settings):
            last = former.get(each.name)
            kept = last is not None and last.interval == each.interval
            self._schedules[each.name] = (
                replace(each, due=last.due, report=last.report, pending=last.pending)
                if last is not None and kept
                else each
            )

    def end(self) -> None:
        """End the process."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GONE)
        self._kill()
        self._close()

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError):
                self._process.kill()
            self._process.wait()

    @property
    def _limit(self) -> float:
        return max(self._schedules[self._current].interval, _LIMIT)

    def _start(self, schedule: Schedule) -> None:
        """Start a verification. It hears the documents of deployments whose own are not kept any more."""
        self._current = schedule.name
        self._end_at = time.monotonic() + self._limit
        words = [
            sys.executable,
            "-I",
            "-c",
            _PROGRAM,
            str(schedule.interval),
            "yes" if schedule.repairs else "no",
            schedule.name,
            *self._settings.options,
        ]
        try:
            with self._documents(schedule.name) as documents:
                self._process = subprocess.Popen(
                    words,
                    stdin=documents,
                    stdout=subprocess.PIPE,
                    bufsize=0,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            trouble = f"cannot start the verification: {error.strerror or error}"
            self._concluded(schedule, {"trouble": trouble})
            return
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    @contextlib.contextmanager
    def _documents(self, name: str) -> Iterator[int]:
        """Hand on the documents of deployments in a file in memory: a pipe could be full."""
        entries = {} if name else self._agent.journal.entries
        offered = self._agent.applier.work.offer.deployments
        values = {
            key: [each.source, each.document]
            for key, each in offered.items()
            if key in entries and entries[key].removed and not entries[key].document
        }
        if not values:
            yield subprocess.DEVNULL
            return
        descriptor = os.memfd_create("heat-config-agent-documents")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(json.dumps(values).encode())
            os.lseek(descriptor, 0, os.SEEK_SET)
            yield descriptor
        finally:
            os.close(descriptor)

    def _hear(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._process.stdout.fileno(), 64 * 1024):
                self._told += piece

    def _close(self) -> None:
        process, self._process = self._process, None
        self._told = b""
        if process is not None and process.stdout is not None:
            process.stdout.close()

    def _conclude(self, code: int) -> None:
        """Take in what a verification has told, or that it was killed."""
        self._hear()
        try:
            told = json.loads(self._told)
        except ValueError:
            told = None
        self._close()
        if not isinstance(told, dict):
            how = (
                f"killed by the signal {signal.Signals(-code).name}"
                if code < 0
                else f"ended with exit code {code}"
            )
            told = {"trouble": f"the verification was {how}"}
        self._concluded(self._schedules[self._current], told)

    def _concluded(self, schedule: Schedule, told: Mapping[str, object]) -> None:
        trouble = str(told.get("trouble") or "")
        if trouble and trouble != schedule.report.get("trouble"):
            self._report.warn(trouble)
        wait = schedule.interval * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  # no secret
        wait = min(wait, _AGAIN) if trouble else wait
        last = schedule.report
        decided = told.get("repairs")
        repairs = decided if isinstance(decided, dict) else {}
        report = {
            "name": schedule.name,
            "interval": schedule.interval,
            "repair": schedule.repairs,
            "at": last.get("at") if trouble else time.time(),
            "next": time.time() + wait,
            **{
                word: last.get(word) if trouble else told.get(word, 0)
                for word in ("ok", "drifted", "unknown")
            },
            "passes": _number(last.get("passes")) + (not trouble),
            "repairs": _number(last.get("repairs")) + len(repairs),
            "trouble": trouble,
        }
        self._schedules[schedule.name] = replace(
            schedule,
            due=time.monotonic() + wait,
            report=report,
            pending={}
            if schedule.name
            else {key: float(run) for key, (run, _) in repairs.items()},
        )
        news = told.get("news")
        for each in news if isinstance(news, list) else ():
            self._tell(each)
        if not schedule.name:  # those of a followed document are requested already
            self._request(repairs)

    def _request(self, repairs: Mapping[str, tuple[float, str]]) -> None:
        """Request the repairs of deployments that have not run since. Raises StateError."""
        state = self._settings.state
        for key, (run, drift) in repairs.items():
            entry = self._agent.journal.entries.get(key)
            if entry is not None and entry.run_at == run:
                requests.ask_repair(state, entry, drift)

    def _tell(self, news: Mapping[str, object]) -> None:
        """Tell people that a deployment has drifted."""
        entry = self._agent.journal.entries.get(str(news.get("key")))
        text = str(news.get("text"))
        if entry is not None and not news.get("follows"):
            self._agent.applier.work.report.event(Drifted(entry, text))
        else:
            self._report.warn(text)

    def _look_for_repairs(self, now: float) -> None:
        """Verify at once when all repairs of the last verification have ended."""
        for name, each in self._schedules.items():
            if each.pending and all(
                _has_run(self._agent.journal.entries.get(key), run)
                for key, run in each.pending.items()
            ):
                self._schedules[name] = replace(each, due=now, pending={})


def _has_run(entry: Entry | None, run: float) -> bool:
    return entry is None or (entry.over and entry.run_at != run)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _schedules(settings: Settings) -> Iterator[Schedule]:
    """Yield the verifications of the settings. The first is due after a part of its interval."""
    for name in ("", *settings.followed):
        section = f"follow {name}" if name else "agent"
        interval = settings.lookup(section, "verify_interval")[0]
        if isinstance(interval, int | float) and interval > 0:
            first = interval * random.uniform(_JITTER, 1)  # noqa: S311  # no secret
            yield Schedule(
                name=name,
                interval=float(interval),
                repairs=settings.lookup(section, "repair")[0] is True,
                due=time.monotonic() + first,
                report={},
                pending={},
            )

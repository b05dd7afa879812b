"""The sources in use: each asked when it is due, in a thread of its own, and given up when it takes too long.

No source delays another, or whoever waits for all of them: what comes in is handed out by `answers`. When each is due
says `polling`.
"""

from __future__ import annotations

import contextlib
import enum
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path

from heat_config_agent import kill_points
from heat_config_agent.errors import AccessError, AgentError, SourceError
from heat_config_agent.model import Document
from heat_config_agent.polling import Pace, Schedule
from heat_config_agent.sources import Source
from heat_config_agent.sources.abilities import Claiming, Listening
from heat_config_hooks.values import dataclass, field

SLACK = 5.0
"""Seconds that a source gets beyond its own time limit before it is given up."""

STUCK = 4
"""Threads of one source that may hang before it is asked no more until one of them comes back."""

PAST = 32
"""Sources that are not in use any more of which it is known how they were."""


@dataclass
class Condition:
    """How it is with a source."""

    name: str
    working: bool | None = None
    """None until it has answered, or not, for the first time."""
    ever: bool = False
    """Whether it has answered since it was last refused access."""
    trouble: str = ""
    """Why it is not working, or what else is not as it should be."""
    since: float = field(default_factory=time.time)
    """Since when it is working, or not; this and the next in seconds since the epoch."""
    answered: float | None = None
    """When it last answered."""
    failures: int = 0
    """In a row."""
    seldom: bool = False
    """Whether it is only asked now and then whether there is news, and may be silent."""
    denied: bool = False
    """Whether it refuses access."""


@dataclass(frozen=True)
class Answer:
    """What came of asking a source."""

    key: Hashable
    name: str
    document: Document | None = None
    changed: bool = False
    error: AgentError | None = None
    turned: bool = True
    """Whether it may have changed how it is with the source."""


@dataclass(eq=False)
class _Asked:
    key: Hashable
    make: Callable[[Callable[[], None]], Source]
    condition: Condition
    pace: Pace
    """By the monotonic clock."""
    since: float | None = None
    """Since when it is being asked, in monotonic seconds."""
    last: Document | None = None
    thread: _Thread | None = None


class Collection:
    """The sources in use."""

    def __init__(self, schedule: Schedule, seconds: float) -> None:
        """Ask on that schedule; a source has so many seconds for each answer."""
        self.schedule = schedule
        self.seconds = seconds
        self._asked: dict[Hashable, _Asked] = {}
        self._past: dict[Hashable, _Asked] = {}
        """What was in use: if it is again, it is as it was, and is not asked more often for that."""
        self._stuck: dict[str, list[_Thread]] = {}
        """Threads that were let go while they asked a source, by its name."""
        self._done: queue.SimpleQueue[tuple[_Thread | Hashable, object]] = queue.SimpleQueue()
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._waker, False)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are answers."""
        return self._wake

    def use(
        self,
        wanted: Mapping[Hashable, tuple[str, Callable[[Callable[[], None]], Source]]],
        *,
        now: bool,
        seldom: Hashable = None,
    ) -> None:
        """Ask these sources and no others: their key → name, and what makes one, given what to call when it has news.

        New ones are due at once, or within the splay. One may be asked `seldom`.
        """
        for key in [key for key in self._asked if key not in wanted]:
            gone = self._past[key] = self._asked.pop(key)
            self._let_go(gone)
            if len(self._past) > PAST:
                del self._past[next(iter(self._past))]
        for key, (name, make) in wanted.items():
            if key not in self._asked:
                before = self._past.pop(key, None)
                condition, pace = (before.condition, before.pace) if before else (Condition(name), Pace())
                pace.begin(self.schedule, time.monotonic() + (0.0 if now else self.schedule.delay()))
                self._asked[key] = _Asked(key, make, condition, pace)
            condition = self._asked[key].condition
            if condition.seldom and key != seldom:
                self._asked[key].pace.ring()
            condition.seldom = key == seldom

    def forget(self) -> None:
        """Know nothing of any source any more: they are made anew when they are used again."""
        self.use({}, now=True)
        self._past.clear()

    def conditions(self) -> dict[Hashable, Condition]:
        """Return how it is with each source."""
        return {key: each.condition for key, each in self._asked.items()}

    def condition(self, key: Hashable) -> Condition | None:
        """Return how it is with one of them; None where it is not in use."""
        found = self._asked.get(key)
        return found.condition if found else None

    def stir(self) -> None:
        """Something happens: from here on, ask again as often as may be, if the source does not fail."""
        for each in self._asked.values():
            each.pace.stir(self._schedule(each), time.monotonic())

    def hurry(self) -> None:
        """Have every source asked now."""
        for each in self._asked.values():
            each.pace.hurry(self._schedule(each))

    @property
    def due(self) -> float:
        """Seconds until something is to be done that nothing else announces."""
        now = time.monotonic()
        asked = self._asked.values()
        moments = [each.pace.at if each.since is None else each.since + self.seconds + SLACK for each in asked]
        return max(min(moments, default=now + 3600) - now, 0.0)

    @property
    def asking(self) -> bool:
        """Whether a source is being asked, or is yet to be asked for the first time."""
        asked = [each for each in self._asked.values() if not each.condition.seldom]
        return any(each.since is not None or each.condition.working is None for each in asked)

    def answers(self) -> list[Answer]:
        """Ask whoever is due, and return what has come in."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 65536)
        found: list[Answer] = []
        while not self._done.empty():
            who, what = self._done.get()
            found += self._take(who, what)
        now = time.monotonic()
        for each in self._asked.values():
            if each.since is not None and now > each.since + self.seconds + SLACK:
                found.append(self._give_up(each))
            if each.since is None and each.pace.at <= now:
                found += self._ask(each)
        return found

    def taken(self, key: Hashable, document: Document) -> None:
        """A document that a source gave is safe on disk."""
        asked = self._asked.get(key)
        if asked and asked.thread:
            asked.thread.tasks.put((_Task.TAKEN, document))

    def close(self) -> None:
        """Ask nobody any more."""
        self.use({}, now=True)

    def _ask(self, each: _Asked) -> list[Answer]:
        each.pace.ask(time.monotonic())
        stuck = [thread for thread in self._stuck.pop(each.condition.name, []) if thread.is_alive()]
        if stuck:
            self._stuck[each.condition.name] = stuck
        if len(stuck) >= STUCK:
            return [self._failed(each, SourceError(f"{each.condition.name} still has not answered, and is not asked"))]
        try:
            if each.thread is None:
                each.thread = _Thread(each, self._deliver)
        except RuntimeError:  # the machine has no room for one more thread
            return [self._failed(each, SourceError(f"no thread could be started to ask {each.condition.name}"))]
        each.since = time.monotonic()
        each.thread.tasks.put((_Task.COLLECT, None))
        return []

    def _take(self, who: _Thread | Hashable, what: object) -> list[Answer]:
        """Take in what a thread has to say; of one that was given up, or whose source is not in use, nothing."""
        if not isinstance(who, _Thread):
            if who in self._asked:
                self._asked[who].pace.ring()
            return []
        each = self._asked.get(who.asked.key)
        if each is None or each.thread is not who:
            return []
        if isinstance(what, _Failure) and what.task is _Task.TAKEN:
            each.condition.trouble = str(what.error)  # it will hand that out once more
            return []
        each.since = None
        if isinstance(what, _Failure):
            return [self._failed(each, what.error)]
        return [self._answered(each, what if isinstance(what, Document) else None, who.trouble)]

    def _answered(self, each: _Asked, document: Document | None, trouble: str) -> Answer:
        condition, now = each.condition, time.time()
        turned = not condition.working
        if turned:
            condition.since = now
        condition.working, condition.ever, condition.denied = True, True, False
        condition.answered, condition.trouble = now, trouble
        changed = document is not None and document is not each.last
        each.last = document or each.last
        each.pace.answered(self._schedule(each), time.monotonic(), changed=changed)
        condition.failures = 0
        return Answer(each.key, condition.name, document, changed=changed, turned=turned)

    def _failed(self, each: _Asked, error: AgentError) -> Answer:
        condition = each.condition
        if condition.working is not False:
            condition.since = time.time()
        condition.working = False
        condition.denied = isinstance(error, AccessError)
        condition.ever = condition.ever and not condition.denied
        condition.trouble = str(error)
        each.pace.failed(self._schedule(each), time.monotonic())
        condition.failures = each.pace.failures
        return Answer(each.key, condition.name, error=error)

    def _schedule(self, each: _Asked) -> Schedule:
        return self.schedule.seldom if each.condition.seldom else self.schedule

    def _give_up(self, each: _Asked) -> Answer:
        """Let go of a thread that hangs; its source is made anew when it is asked again."""
        self._let_go(each)
        return self._failed(
            each, SourceError(f"{each.condition.name} has not answered within {self.seconds + SLACK:g} s")
        )

    def _let_go(self, each: _Asked) -> None:
        """Part with the thread of a source; one that is asking ends when it has an answer, if it ever has."""
        if each.thread:
            each.thread.tasks.put((_Task.CLOSE, None))
            if each.since is not None:
                self._stuck.setdefault(each.condition.name, []).append(each.thread)
        each.thread, each.since = None, None

    def _deliver(self, who: _Thread | Hashable, what: object) -> None:
        self._done.put((who, what))
        with contextlib.suppress(BlockingIOError):  # it is awake
            os.write(self._waker, b".")


class _Task(enum.Enum):
    COLLECT = "collect"
    TAKEN = "taken"
    CLOSE = "close"


@dataclass(frozen=True)
class _Failure:
    task: _Task
    error: AgentError


class _Thread(threading.Thread):
    """Asks one source, one question after the other."""

    def __init__(self, asked: _Asked, deliver: Callable[[_Thread | Hashable, object], None]) -> None:
        super().__init__(name=f"source {asked.condition.name}", daemon=True)
        self.asked = asked
        self.trouble = ""
        self.tasks: queue.SimpleQueue[tuple[_Task, Document | None]] = queue.SimpleQueue()
        self._deliver = deliver
        self._source: Source | None = None
        self.start()

    def run(self) -> None:
        """Do what is asked, until told to end."""
        while True:
            task, document = self.tasks.get()
            if task is _Task.CLOSE:
                break
            try:
                found = self._do(document)
            except AgentError as error:
                self._deliver(self, _Failure(task, error))
            except Exception as error:  # noqa: BLE001  # a defect of the source must not look like one that is silent
                last = traceback.extract_tb(error.__traceback__)[-1]
                sentence = f"a defect: {type(error).__name__} in {last.name}, {Path(last.filename).name}:{last.lineno}"
                self._deliver(self, _Failure(task, SourceError(sentence)))
            else:
                if task is _Task.COLLECT:
                    self._deliver(self, found)
        source: object = self._source
        if isinstance(source, Listening):
            source.close()

    def _do(self, taken: Document | None) -> Document | None:
        if self._source is None:
            self._source = self.asked.make(lambda: self._deliver(self.asked.key, None))
        if taken is not None:
            if isinstance(self._source, Claiming):
                kill_points.reached("source.let_go.before")
                self._source.taken(taken)
                kill_points.reached("source.let_go.after")
            return None
        document = self._source.collect()
        kill_points.reached("source.claimed")
        self.trouble = self._source.trouble
        return document

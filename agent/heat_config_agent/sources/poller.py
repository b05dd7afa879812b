"""Polls the sources in use: each when it is due, in a thread of its own, which is abandoned if it takes too long.

No source delays another one or the caller, who takes what has arrived from `answers`. `sources.schedule` decides when a
source is due.
"""

from __future__ import annotations

import enum
import queue
import threading
import time
import traceback
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import AccessError, AgentError, SourceError
from heat_config_agent.model.waking import Waker
from heat_config_agent.sources.base import Source
from heat_config_agent.sources.schedule import Pace, Schedule
from heat_config_hooks.values import dataclass, field

SLACK = 5.0
"""Seconds that a source gets beyond its own timeout before its thread is abandoned."""

STUCK = 4
"""The number of hanging threads of a source at which it is no longer polled, until one of them ends."""

PAST = 32
"""The number of sources not in use any more whose conditions are kept."""


@runtime_checkable
class Claiming(Protocol):
    """A source that gives each document only once."""

    def taken(self, document: Document) -> None:
        """Remove a collected document from the source, because it is on disk now. Raises SourceError.

        A newer document that was collected meanwhile stays.
        """
        ...


@runtime_checkable
class Listening(Protocol):
    """A source that is active between two polls."""

    def close(self) -> None:
        """End this activity."""
        ...


@dataclass
class Condition:
    """The condition of a source: its last outcome, and the time since then."""

    name: str
    working: bool | None = None
    """True if the last poll had an answer; None before the first outcome."""
    ever: bool = False
    """True if it has answered since it was last refused access."""
    trouble: str = ""
    """The reason why it does not work, or another problem with it."""
    since: float = field(default_factory=time.time)
    """The time of the last change of `working`; this and the next in seconds since the epoch."""
    answered: float | None = None
    """The time of its last answer."""
    failures: int = 0
    """The number of failures in a row."""
    seldom: bool = False
    """True if it is polled only from time to time, to see if Heat has moved the metadata. It may fail."""
    denied: bool = False
    """True if it refuses access."""


@dataclass(frozen=True)
class Answer:
    """The outcome of one poll."""

    key: Hashable
    name: str
    document: Document | None = None
    changed: bool = False
    error: AgentError | None = None
    turned: bool = True
    """True if the condition of the source may have changed."""


@dataclass(eq=False)
class _Asked:
    key: Hashable
    make: Callable[[Callable[[], None]], Source]
    condition: Condition
    pace: Pace
    """It uses the monotonic clock."""
    since: float | None = None
    """The beginning of the poll under way (monotonic seconds); None if there is none."""
    last: Document | None = None
    thread: _Thread | None = None


class Collection:
    """The sources in use."""

    def __init__(self, schedule: Schedule, seconds: float) -> None:
        """Poll on this schedule; `seconds` is the timeout of a poll."""
        self.schedule = schedule
        self.seconds = seconds
        self._asked: dict[Hashable, _Asked] = {}
        self._past: dict[Hashable, _Asked] = {}
        """Sources that were in use. If one is used again, it keeps its condition and its pace."""
        self._stuck: dict[str, list[_Thread]] = {}
        """Threads that were abandoned during a poll, by the name of the source."""
        self._done: queue.SimpleQueue[tuple[_Thread | Hashable, object]] = (
            queue.SimpleQueue()
        )
        self._waker = Waker()

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are answers."""
        return self._waker.fileno()

    def use(
        self,
        sources: Mapping[Hashable, tuple[str, Callable[[Callable[[], None]], Source]]],
        *,
        now: bool,
        seldom: Hashable = None,
    ) -> None:
        """Poll these sources and no others: key → name, and a function that creates the source.

        The function receives a function that the source calls when it has news. New sources are due at once with `now`,
        else within the splay. The source with the key `rarely` is polled only from time to time.
        """
        for key in [key for key in self._asked if key not in sources]:
            removed = self._past[key] = self._asked.pop(key)
            self._let_go(removed)
            if len(self._past) > PAST:
                del self._past[next(iter(self._past))]
        for key, (name, make) in sources.items():
            if key not in self._asked:
                former = self._past.pop(key, None)
                condition, pace = (
                    (former.condition, former.pace)
                    if former
                    else (Condition(name), Pace())
                )
                pace.begin(
                    self.schedule,
                    time.monotonic() + (0.0 if now else self.schedule.delay()),
                )
                self._asked[key] = _Asked(key, make, condition, pace)
            condition = self._asked[key].condition
            if condition.seldom and key != seldom:
                self._asked[key].pace.ring()
            condition.seldom = key == seldom

    def forget(self) -> None:
        """Forget all sources and their conditions: they are created again when they are used again."""
        self.use({}, now=True)
        self._past.clear()

    def conditions(self) -> dict[Hashable, Condition]:
        """Return the condition of each source in use."""
        return {key: asked.condition for key, asked in self._asked.items()}

    def condition(self, key: Hashable) -> Condition | None:
        """Return the condition of a source; None if it is not in use."""
        asked = self._asked.get(key)
        return asked.condition if asked else None

    def stir(self) -> None:
        """Return to the shortest interval, because there may be changes soon. Failing sources keep their intervals."""
        for asked in self._asked.values():
            asked.pace.stir(self._schedule(asked), time.monotonic())

    def hope(self) -> None:
        """Poll failing sources soon, because a server has answered that may be theirs, or is reached as they are."""
        for asked in self._asked.values():
            if asked.since is None:
                asked.pace.hope(self._schedule(asked))

    def hurry(self) -> None:
        """Make every source due now."""
        for asked in self._asked.values():
            asked.pace.hurry(self._schedule(asked))

    @property
    def due(self) -> float:
        """The seconds until a source is due or has timed out."""
        now = time.monotonic()
        sources = self._asked.values()
        moments = [
            asked.pace.at if asked.since is None else asked.since + self.seconds + SLACK
            for asked in sources
        ]
        return max(min(moments, default=now + 3600) - now, 0.0)

    @property
    def asking(self) -> bool:
        """True if a poll is under way, or a source has not been polled yet."""
        usual = [asked for asked in self._asked.values() if not asked.condition.seldom]
        return any(
            asked.since is not None or asked.condition.working is None
            for asked in usual
        )

    def answers(self) -> list[Answer]:
        """Begin the polls that are due, and return the outcomes that have arrived."""
        self._waker.drain()
        answers: list[Answer] = []
        while not self._done.empty():
            sender, outcome = self._done.get()
            answers += self._take(sender, outcome)
        now = time.monotonic()
        for asked in self._asked.values():
            if asked.since is not None and now > asked.since + self.seconds + SLACK:
                answers.append(self._give_up(asked))
            if asked.since is None and asked.pace.at <= now:
                answers += self._ask(asked)
        return answers

    def taken(self, key: Hashable, document: Document) -> None:
        """Tell a source that its document is on disk."""
        asked = self._asked.get(key)
        if asked and asked.thread:
            asked.thread.tasks.put((_Task.TAKEN, document))

    def close(self) -> None:
        """Stop polling."""
        self.use({}, now=True)

    def _ask(self, asked: _Asked) -> list[Answer]:
        asked.pace.ask(time.monotonic())
        name = asked.condition.name
        stuck = [thread for thread in self._stuck.pop(name, []) if thread.is_alive()]
        if stuck:
            self._stuck[name] = stuck
        if len(stuck) >= STUCK:
            return [
                self._failed(
                    asked,
                    SourceError(
                        f"{name} still has not answered, so it is not polled again yet"
                    ),
                )
            ]
        try:
            if asked.thread is None:
                asked.thread = _Thread(asked, self._deliver)
        except RuntimeError:  # the machine has no room for one more thread
            return [
                self._failed(
                    asked, SourceError(f"cannot start a thread to poll {name}")
                )
            ]
        asked.since = time.monotonic()
        asked.thread.tasks.put((_Task.COLLECT, None))
        return []

    def _take(self, sender: _Thread | Hashable, outcome: object) -> list[Answer]:
        """Return the answer in an outcome. Outcomes of abandoned threads, and of sources not in use, are dropped."""
        if not isinstance(sender, _Thread):
            if sender in self._asked:
                self._asked[sender].pace.ring()
            return []
        asked = self._asked.get(sender.asked.key)
        if asked is None or asked.thread is not sender:
            return []
        if isinstance(outcome, _Failure) and outcome.task is _Task.TAKEN:
            # the source will return the document again
            asked.condition.trouble = str(outcome.error)
            return []
        asked.since = None
        if isinstance(outcome, _Failure):
            return [self._failed(asked, outcome.error)]
        return [
            self._answered(
                asked,
                outcome if isinstance(outcome, Document) else None,
                sender.trouble,
            )
        ]

    def _answered(
        self, asked: _Asked, document: Document | None, trouble: str
    ) -> Answer:
        condition, now = asked.condition, time.time()
        turned = not condition.working
        if turned:
            condition.since = now
        condition.working, condition.ever, condition.denied = True, True, False
        condition.answered, condition.trouble = now, trouble
        changed = document is not None and document is not asked.last
        asked.last = document or asked.last
        asked.pace.answered(self._schedule(asked), time.monotonic(), changed=changed)
        condition.failures = 0
        return Answer(
            asked.key, condition.name, document, changed=changed, turned=turned
        )

    def _failed(self, asked: _Asked, error: AgentError) -> Answer:
        condition = asked.condition
        if condition.working is not False:
            condition.since = time.time()
        condition.working = False
        condition.denied = isinstance(error, AccessError)
        condition.ever = condition.ever and not condition.denied
        condition.trouble = str(error)
        asked.pace.failed(self._schedule(asked), time.monotonic())
        condition.failures = asked.pace.failures
        return Answer(asked.key, condition.name, error=error)

    def _schedule(self, asked: _Asked) -> Schedule:
        return self.schedule.seldom if asked.condition.seldom else self.schedule

    def _give_up(self, asked: _Asked) -> Answer:
        """Abandon a thread that hangs. Its source is created again for the next poll."""
        self._let_go(asked)
        return self._failed(
            asked,
            SourceError(
                f"{asked.condition.name} has not answered within {self.seconds + SLACK:g} s"
            ),
        )

    def _let_go(self, asked: _Asked) -> None:
        """Detach the thread of a source. A thread that is polling ends when it has an answer, if ever."""
        if asked.thread:
            asked.thread.tasks.put((_Task.CLOSE, None))
            if asked.since is not None:
                self._stuck.setdefault(asked.condition.name, []).append(asked.thread)
        asked.thread, asked.since = None, None

    def _deliver(self, sender: _Thread | Hashable, outcome: object) -> None:
        self._done.put((sender, outcome))
        self._waker.wake()


class _Task(enum.Enum):
    COLLECT = "collect"
    TAKEN = "taken"
    CLOSE = "close"


@dataclass(frozen=True)
class _Failure:
    task: _Task
    error: AgentError


class _Thread(threading.Thread):
    """Polls one source, and tells it which documents are on disk."""

    def __init__(
        self, asked: _Asked, deliver: Callable[[_Thread | Hashable, object], None]
    ) -> None:
        super().__init__(name=f"source {asked.condition.name}", daemon=True)
        self.asked = asked
        self.trouble = ""
        self.tasks: queue.SimpleQueue[tuple[_Task, Document | None]] = (
            queue.SimpleQueue()
        )
        self._deliver = deliver
        self._source: Source | None = None
        self.start()

    def run(self) -> None:
        """Carry out tasks until the source is closed."""
        while True:
            task, document = self.tasks.get()
            if task is _Task.CLOSE:
                break
            try:
                outcome = self._do(document)
            except AgentError as error:
                self._deliver(self, _Failure(task, error))
            except BaseException as error:  # noqa: BLE001  # a defect must not look like silence
                last = traceback.extract_tb(error.__traceback__)[-1]
                sentence = f"a defect: {type(error).__name__} in {last.name}, {Path(last.filename).name}:{last.lineno}"
                self._deliver(self, _Failure(task, SourceError(sentence)))
            else:
                if task is _Task.COLLECT:
                    self._deliver(self, outcome)
        source: object = self._source
        if isinstance(source, Listening):
            source.close()

    def _do(self, accepted: Document | None) -> Document | None:
        if self._source is None:
            self._source = self.asked.make(lambda: self._deliver(self.asked.key, None))
        if accepted is not None:
            if isinstance(self._source, Claiming):
                self._source.taken(accepted)
            return None
        document = self._source.collect()
        self.trouble = self._source.trouble
        return document

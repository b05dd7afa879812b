"""A fleet that asks one server for its metadata, simulated: whether the server goes under when it cannot serve all.

The agents decide by `heat_config_agent.sources.schedule` when they ask, as in the daemon. The server works off one
request after the other, in the order in which they came, so many per second. It does not notice that somebody has hung
up: what nobody waits for any more is worked off all the same, which is how servers collapse. Times are in seconds of a
clock of its own that begins at 0.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from heat_config_agent import web
from heat_config_agent.settings import schema
from heat_config_agent.sources import schedule

NUMBER = 20_000

_SETTINGS = {
    each.name: each.default for each in schema.SETTINGS if each.section == "agent"
}


def _seconds(setting: str) -> float:
    value = _SETTINGS[setting]
    assert isinstance(value, float)
    return value


SCHEDULE = schedule.Schedule(
    least=_seconds("min_polling_interval"),
    most=_seconds("polling_interval"),
    splay=_seconds("splay"),
)
"""As it is where nothing is set."""

NEEDED = 1 / (SCHEDULE.most * 0.875)
"""Requests per second that an idle agent makes, whose intervals are up to a quarter shorter than the longest."""

WORK = 10.0
"""Seconds at most that the deployments of a change take."""


class Client(Protocol):
    """A client that sends requests without end."""

    patience: float
    """Seconds that it waits for an answer."""

    def begin(self, *, idle: bool) -> float:
        """Return when to ask first: it has just been started, or has been `idle` for long."""
        ...

    def answered(self, asked: float, now: float, *, changed: bool) -> float:
        """Return when to ask next, after an answer."""
        ...

    def failed(self, asked: float, now: float) -> float:
        """Return when to ask next, where there was none in time."""
        ...

    def stirred(self, now: float) -> float:
        """Return when to ask next: a deployment has just ended."""
        ...


class Agent:
    """This project's agent."""

    patience = _seconds("collect_timeout")

    def __init__(self) -> None:
        self._pace = schedule.Pace()

    def begin(self, *, idle: bool) -> float:
        self._pace.begin(SCHEDULE, _within(SCHEDULE.most) if idle else SCHEDULE.delay())
        if idle:
            self._pace.interval = SCHEDULE.most
        return self._pace.at

    def answered(self, asked: float, now: float, *, changed: bool) -> float:
        self._pace.ask(asked)
        self._pace.answered(SCHEDULE, now, changed=changed)
        return self._pace.at

    def failed(self, asked: float, now: float) -> float:
        self._pace.ask(asked)
        self._pace.failed(SCHEDULE, now)
        return self._pace.at

    def stirred(self, now: float) -> float:
        self._pace.stir(SCHEDULE, now)
        return self._pace.at


class Replaced:
    """os-collect-config, as released: it sleeps from 1 s on, each time twice as long, up to 30 s, whatever happens.

    Over Heat's CloudFormation API it waits 10 s for an answer, and makes one request each time.
    """

    patience = 10.0

    def __init__(self) -> None:
        self._sleep = 1.0
        self._next = math.inf

    def begin(self, *, idle: bool) -> float:
        if idle:
            self._sleep = 30.0
        # it has no splay; machines are not started in the same moment
        return _within(self._sleep)

    def answered(self, asked: float, now: float, *, changed: bool) -> float:  # noqa: ARG002  # what it does not heed
        self._next, self._sleep = now + self._sleep, min(2 * self._sleep, 30.0)
        return self._next

    def failed(self, asked: float, now: float) -> float:
        return self.answered(asked, now, changed=False)

    def stirred(self, now: float) -> float:  # noqa: ARG002
        return self._next


@dataclass(frozen=True)
class Course:
    """The events that a fleet goes through."""

    capacity: float
    """The capacity of the server, as a share of what the idle fleet needs."""
    end: float
    measured_from: float
    idle: bool = True
    """True if the fleet has been polling for long; otherwise all of it starts at the beginning."""
    outage: tuple[float, float] = (math.inf, math.inf)
    """From when to when the server does not work."""
    silent: bool = False
    """True if the server accepts requests during the outage and answers them later; otherwise it refuses them."""
    change: float = math.inf
    """When there is something to be done for every agent."""
    room: float = math.inf
    """The number of requests that may wait, of a fleet of `NUMBER`; further connections are not accepted."""

    @property
    def measured(self) -> float:
        """For how long it is measured."""
        return self.end - self.measured_from


_OUTAGE = (200.0, 500.0)

ENOUGH = Course(capacity=1, outage=(60, 360), silent=True, measured_from=360, end=960)
THIRD = Course(capacity=1 / 3, measured_from=200, end=600)
SHORT = Course(capacity=1 / 3, measured_from=200, end=800, room=4096)
REFUSED = Course(capacity=1 / 3, outage=_OUTAGE, measured_from=500, end=1000)
SILENT = Course(
    capacity=1 / 3, outage=_OUTAGE, silent=True, measured_from=500, end=1200
)
STARTED = Course(capacity=1 / 3, idle=False, measured_from=0, end=600)
CHANGED = Course(capacity=1 / 3, change=200, measured_from=200, end=800)


class Server:
    """The server that all clients poll."""

    def __init__(self, course: Course, number: int) -> None:
        """Serve a fleet of so many."""
        self.rate = course.capacity * NEEDED * number
        self._work = 1 / self.rate
        self._room = course.room * number / NUMBER / self.rate
        """Seconds that one may have to wait."""
        self._down, self._up = course.outage
        self._silent = course.silent
        self._free = 0.0
        """When all that waits is worked off."""

    def ask(self, now: float, patience: float) -> tuple[float, bool, bool]:
        """Return the end of a request for its client, whether it was answered, and whether it cost the server work."""
        start = max(self._free, now)
        if start - now > self._room:
            return now + min(web.CONNECT_SECONDS, patience), False, False
        if self._down <= start < self._up:
            if not self._silent:
                return max(now, self._down), False, False
            start = self._up
        self._free = start + self._work
        if self._free - now > patience:
            return now + patience, False, True
        return self._free, True, True


@dataclass
class Tally:
    """The result, from the beginning of the measurement to the end."""

    course: Course
    rate: float
    """Requests per second that the server can serve."""
    asked: int = 0
    unanswered: int = 0
    """The requests of these that had no answer in time."""
    wasted: int = 0
    """The requests of these that the server has worked for in vain."""
    answered: int = 0
    gaps: list[float] = field(default_factory=list)
    """The longest time without an answer, for each agent."""
    reached: list[float] = field(default_factory=list)
    """When each had its first answer, from the moment on when it could: after the outage, or of what was changed."""

    @property
    def per_second(self) -> float:
        """Answers in time per second."""
        return self.answered / self.course.measured

    @property
    def useful(self) -> float:
        """The share of the server's capacity that became answers in time."""
        return self.per_second / self.rate

    @property
    def lost(self) -> float:
        """The share of the capacity that was spent on clients that had given up: above 1 if the queue grows."""
        return self.wasted / self.course.measured / self.rate

    @property
    def in_time(self) -> float:
        """The share of the requests that were answered in time."""
        return 1 - self.unanswered / max(self.asked, 1)

    def gap(self, share: float) -> float:
        """Return for how long at most that share of the agents was without an answer."""
        return _at(share, self.gaps)

    def reach(self, share: float) -> float:
        """Return after how long that share of the agents had an answer; infinite where it was never so."""
        return _at(share, self.reached) - self.since

    @property
    def since(self) -> float:
        """From when on that counts."""
        course = self.course
        return next(
            (each for each in (course.outage[1], course.change) if each < math.inf), 0.0
        )


def simulate(
    course: Course, make: Callable[[], Client], *, number: int = NUMBER, seed: int = 1
) -> Tally:
    """Have a fleet of so many go through it. The same seed has the same come of it."""
    before = random.getstate()
    random.seed(seed)
    try:
        return _simulated(course, [make() for _ in range(number)])
    finally:
        random.setstate(before)


def _simulated(course: Course, fleet: list[Client]) -> Tally:
    number = len(fleet)
    server = Server(course, number)
    begin, end, change = course.measured_from, course.end, course.change
    reached = [math.inf] * number
    last, gaps = [begin] * number, [0.0] * number
    """When each was answered last, of what is measured, and how long it was without an answer at most."""
    tally = Tally(course, server.rate, reached=reached)
    since = tally.since
    due = [each.begin(idle=course.idle) for each in fleet]
    free = [0.0] * number
    """When the last request of each has ended."""
    seen = [0.0 if course.idle else -math.inf] * number
    """When each was answered last."""
    events = [(at, who) for who, at in enumerate(due)]
    """Times and clients: a client that sends a request then, or -1 - client for one whose deployments end then."""
    heapq.heapify(events)
    while events and events[0][0] < end:
        now, who = heapq.heappop(events)
        if who < 0:
            who = -1 - who
            sooner = max(fleet[who].stirred(now), free[who])
            if sooner < due[who]:
                due[who] = sooner
                heapq.heappush(events, (sooner, who))
            continue
        if now != due[who]:
            continue  # it has asked sooner than it said at first
        client = fleet[who]
        until, good, worked = server.ask(now, client.patience)
        free[who] = until
        if begin <= now:
            tally.asked += 1
            tally.unanswered += not good
            tally.wasted += worked and not good
        if good:
            changed = seen[who] < change <= until or seen[who] < 0
            seen[who] = until
            due[who] = client.answered(now, until, changed=changed)
            if changed and until >= change:
                heapq.heappush(events, (until + _within(WORK), -1 - who))
            if until >= since:
                reached[who] = min(reached[who], until)
            if begin <= until < end:
                tally.answered += 1
                gaps[who] = max(gaps[who], until - last[who])
                last[who] = until
        else:
            due[who] = client.failed(now, until)
        heapq.heappush(events, (due[who], who))
    tally.gaps = [max(gap, end - at) for gap, at in zip(gaps, last, strict=True)]
    return tally


def _within(seconds: float) -> float:
    return random.uniform(0, seconds)  # noqa: S311  # to spread, not to hide


def _at(share: float, values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(share * len(ordered)) - 1]

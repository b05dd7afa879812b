from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import AccessError, SourceError
from heat_config_agent.sources import poller as module
from heat_config_agent.sources import schedule
from heat_config_agent.sources.base import Source
from heat_config_agent.sources.poller import STUCK, Answer, Collection
from heat_config_agent.sources.schedule import Schedule
from support import pace


class Fake:
    """A source that does as it is told: each answer is a document, None, an error to raise, or an event to wait for."""

    name = "fake"
    trouble = ""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.claims: list[Document] = []
        self.closed = threading.Event()
        self.ring: Callable[[], None] = lambda: None
        self.made = 0

    def make(self, ring: Callable[[], None]) -> Source:
        self.ring = ring
        self.made += 1
        return self

    def collect(self) -> Document | None:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, threading.Event):
            answer.wait(30)
            return document("late")
        if isinstance(answer, Exception):
            raise answer
        assert answer is None or isinstance(answer, Document)
        return answer

    def taken(self, document: Document) -> None:
        self.claims.append(document)

    def close(self) -> None:
        self.closed.set()


def document(content: object = None) -> Document:
    """Return a document."""
    return Document(source="fake", content=content or {"deployments": []})


class Clock:
    """The collection's clock, which moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    time = staticmethod(time.time)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock without jitter."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(schedule, "_jittered", lambda seconds: seconds)
    return clock


@pytest.fixture
def events() -> Iterator[Callable[[], threading.Event]]:
    """Return a function that makes events, which are set after the test so that no thread waits."""
    made: list[threading.Event] = []

    def make() -> threading.Event:
        made.append(threading.Event())
        return made[-1]

    yield make
    for each in made:
        each.set()


def sources(
    **fakes: Fake,
) -> dict[object, tuple[str, Callable[[Callable[[], None]], Source]]]:
    """Return fakes as a collection wants them."""
    return {name: (name, fake.make) for name, fake in fakes.items()}


def next_answers(collection: Collection) -> list[Answer]:
    """Wait until something has come in, and return it."""
    found = collection.answers()
    while not found:
        assert select.select([collection.fileno()], [], [], 20)[0], "nothing came"
        found = collection.answers()
    return found


SCHEDULE = Schedule(least=1.0, most=30.0, splay=0.0)


def test_idle_intervals_grow_and_fall_back_on_a_change(clock: Clock) -> None:
    """From the least up to the most; whatever changes has them begin anew."""
    one, two = document("one"), document("two")
    fake = Fake(*[one] * 11, two, two)
    collection = Collection(SCHEDULE, 60)
    collection.use(sources(fake=fake), now=True)
    waits = []
    for _ in range(13):
        [answer] = next_answers(collection)
        assert answer.error is None
        waits.append(collection.due)
        clock.now += collection.due
    assert waits == [1, 1, 1, 1, 1, 2, 4, 8, 16, 30, 30, 1, 1]
    collection.stir()
    assert collection.due == 0
    next_answers(collection)
    assert collection.due == 1
    collection.close()


def test_failing_source_is_polled_less_often(clock: Clock) -> None:
    """Up to a limit; once it answers, as often as the others."""
    fake = Fake(*[SourceError("away")] * 8, document("x"))
    collection = Collection(SCHEDULE, 60)
    collection.use(sources(fake=fake), now=True)
    waits = []
    for _ in range(8):
        [answer] = next_answers(collection)
        assert str(answer.error) == "away"
        waits.append(collection.due)
        collection.stir()
        assert collection.due == waits[-1], (
            "what happens elsewhere is no reason to ask it"
        )
        clock.now += collection.due
    assert waits == [2, 4, 8, 16, 32, 64, 120, 120]
    collection.hope()
    assert collection.due == 0, "a server that answers again may be its own"
    condition = collection.conditions()["fake"]
    assert (condition.working, condition.ever, condition.trouble) == (
        False,
        False,
        "away",
    )
    [answer] = next_answers(collection)
    assert answer.changed
    assert collection.due == 1
    assert (condition.working, condition.ever, condition.trouble) == (True, True, "")
    collection.close()


def test_access_that_is_refused_is_told_from_a_server_that_is_away() -> None:
    """A working source is given up only when access is refused, not when the server is away."""
    fake = Fake(document("x"), SourceError("away"), AccessError("no"))
    collection = Collection(SCHEDULE, 60)
    collection.use(sources(fake=fake), now=True)
    seen = []
    for _ in range(3):
        next_answers(collection)
        seen.append(collection.conditions()["fake"].ever)
        collection.hurry()
    assert seen == [True, True, False]
    collection.close()


def test_splay_and_jitter_spread_the_polls(clock: Clock) -> None:
    """The first question comes within the splay, any number of seconds; intervals are up to a quarter shorter."""
    for splay in (0.25, 10.0, 3600.5):
        delays = []
        for _ in range(50):
            collection = Collection(Schedule(least=1, most=30, splay=splay), 60)
            collection.use(sources(fake=Fake(None)), now=False)
            delays.append(collection.due)
            collection.close()
        assert 0 <= min(delays) < max(delays) <= splay
    assert clock.now == 1000


def test_a_source_that_hangs_delays_no_other(
    clock: Clock, events: Callable[[], threading.Event]
) -> None:
    """A hanging source is given up at its deadline, its late answer is dropped, and it is created again."""
    hang = events()
    slow, quick = Fake(hang, document("again")), Fake(document("x"))
    collection = Collection(SCHEDULE, 3)
    collection.use(sources(slow=slow, quick=quick), now=True)
    [answer] = next_answers(collection)
    assert answer.name == "quick"
    assert collection.asking
    clock.now += 3 + module.SLACK + 0.1
    found = {each.name: each for each in next_answers(collection)}
    assert "has not answered within 8 s" in str(found["slow"].error)
    condition = collection.conditions()["slow"]
    assert collection.conditions()["slow"].working is False
    hang.set()
    slow.closed.wait(10)
    collection.hurry()
    names: set[str] = set()
    while names != {"slow", "quick"}:
        for each in next_answers(collection):
            assert each.document is None or each.document.content != "late"
            names.add(each.name)
    assert slow.made == 2
    assert condition.working
    collection.close()


def test_a_source_that_always_hangs_takes_no_more_than_a_few_threads(
    clock: Clock, events: Callable[[], threading.Event]
) -> None:
    """A source with too many hanging threads is polled again once one of them has returned."""
    hangs = [events() for _ in range(STUCK)]
    fake = Fake(*hangs, document("x"))
    collection = Collection(SCHEDULE, 1)
    before = threading.active_count()
    collection.use(sources(fake=fake), now=True)
    sentences = []
    for _ in range(STUCK + 3):
        collection.hurry()
        sentences += [str(each.error) for each in collection.answers()]
        clock.now += 1 + module.SLACK + 0.1
        sentences += [str(each.error) for each in collection.answers()]
    assert fake.made <= STUCK
    assert threading.active_count() - before <= STUCK
    assert any("is not polled" in each for each in sentences)
    for each in hangs:
        each.set()
    for thread in threading.enumerate():
        if thread.name == "source fake":
            thread.join(pace.seconds(10))
    collection.hurry()
    assert next_answers(collection)[0].document is not None
    collection.close()


def test_how_long_a_source_has_may_be_changed(
    clock: Clock, events: Callable[[], threading.Event]
) -> None:
    """For what is being asked too."""
    collection = Collection(SCHEDULE, 1000)
    collection.use(sources(fake=Fake(events())), now=True)
    collection.answers()
    clock.now += 20
    assert collection.answers() == []
    collection.seconds = 5
    assert len(collection.answers()) == 1
    collection.close()


@pytest.mark.usefixtures("clock")
def test_a_source_with_news_is_polled_at_once() -> None:
    """A source that has news is asked at once."""
    fake = Fake(document("one"))
    collection = Collection(Schedule(least=1000, most=1000, splay=0), 60)
    collection.use(sources(fake=fake), now=True)
    next_answers(collection)
    assert collection.due == 1000
    fake.ring()
    assert select.select([collection.fileno()], [], [], 10)[0]
    assert len(next_answers(collection)) == 1
    assert fake.asked == 2
    collection.close()
    fake.ring()
    assert collection.answers() == []


@pytest.mark.parametrize("how", ["ring", "hurry"])
@pytest.mark.parametrize("answer", [None, SourceError("away")])
def test_news_while_it_is_being_asked_is_not_lost(
    clock: Clock, how: str, answer: object
) -> None:
    """The answer that is under way may have been made before it."""
    fake = Fake(answer)
    collection = Collection(Schedule(least=1000, most=1000, splay=0), 60)
    collection.use(sources(fake=fake), now=True)
    assert collection.answers() == []
    assert collection.asking
    if how == "hurry":
        collection.hurry()
    else:
        fake.ring()
        collection._take("fake", None)  # noqa: SLF001  # as `answers` does, which may hear the answer first
    assert len(next_answers(collection)) == 1
    assert len(next_answers(collection)) == 1
    assert clock.now == 1000
    assert collection.due >= 1000
    collection.close()


def test_a_claim_is_let_go_when_the_document_is_safe() -> None:
    """By the thread that asks it, and never by two at once."""
    one = document("one")
    fake = Fake(one)
    collection = Collection(SCHEDULE, 60)
    collection.use(sources(fake=fake), now=True)
    [answer] = next_answers(collection)
    assert fake.claims == []
    collection.taken(answer.key, one)
    collection.taken("nobody", one)
    collection.close()
    assert fake.closed.wait(10)
    assert fake.claims == [one]


def test_same_object_does_not_count_as_a_change() -> None:
    """The same object or None is not a change; an equal document in another object may be one."""
    one = document("one")
    fake = Fake(one, one, None, document("one"))
    collection = Collection(SCHEDULE, 60)
    collection.use(sources(fake=fake), now=True)
    seen = []
    for _ in range(4):
        [answer] = next_answers(collection)
        seen.append(answer.changed)
        collection.hurry()
    assert seen == [True, False, False, True]
    collection.close()


def test_a_defect_of_a_source_is_its_own() -> None:
    """A defect is reported with its source and its place in the code, and other sources continue."""
    broken, good = Fake(ZeroDivisionError("oh")), Fake(document("x"))
    collection = Collection(SCHEDULE, 60)
    collection.use(sources(broken=broken, good=good), now=True)
    found: dict[str, Answer] = {}
    while len(found) < 2:
        found |= {each.name: each for each in next_answers(collection)}
    assert str(found["broken"].error).startswith(
        "a defect: ZeroDivisionError in collect, test_poller.py:"
    )
    assert found["good"].document
    collection.close()


def test_a_source_in_use_no_more_says_nothing(
    events: Callable[[], threading.Event],
) -> None:
    """The late answer of a source that is no longer used is dropped, and the source is closed."""
    hang = events()
    fake = Fake(hang)
    collection = Collection(SCHEDULE, 60)
    collection.use(sources(fake=fake), now=True)
    collection.answers()
    collection.use({}, now=True)
    hang.set()
    assert fake.closed.wait(10)
    assert collection.answers() == []
    assert collection.conditions() == {}
    assert not collection.asking

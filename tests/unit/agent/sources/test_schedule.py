from __future__ import annotations

import math

import pytest

from heat_config_agent.sources import schedule as schedule_module
from heat_config_agent.sources.schedule import ERRORS_LIMIT, Pace, Schedule

SCHEDULE = Schedule(least=1.0, most=30.0, splay=0.0)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take jitter away."""
    monkeypatch.setattr(schedule_module, "_jittered", lambda seconds: seconds)


def waits(
    pace: Pace, schedule: Schedule, *answers: bool | None, took: float = 0.0
) -> list[float]:
    """Return how long it is until the next question after each of the answers: changed, unchanged, or none."""
    pauses, now = [], 1000.0
    for answer in answers:
        pace.ask(now)
        now += took
        if answer is None:
            pace.failed(schedule, now)
        else:
            pace.answered(schedule, now, changed=answer)
        pauses.append(pace.at - now)
        now = pace.at
    return pauses


@pytest.mark.usefixtures("steady")
def test_intervals_double_without_news_and_begin_anew_with_a_change() -> None:
    """After some answers without news they double from the least to the most; a change has them begin anew."""
    pace = Pace()
    assert waits(pace, SCHEDULE, True, *[False] * 10, True, False) == [
        1,
        1,
        1,
        1,
        1,
        2,
        4,
        8,
        16,
        30,
        30,
        1,
        1,
    ]
    assert waits(pace, SCHEDULE, *[None] * 8) == [2, 4, 8, 16, 32, 64, 120, 120]
    assert pace.failures == 8
    assert waits(pace, SCHEDULE, *[False] * 6) == [
        90,
        67.5,
        50.625,
        37.96875,
        30,
        30,
    ], "not all of a fleet at once"
    assert waits(pace, SCHEDULE, None, False, None, True) == [2, 30, 2, 1], (
        "one error is no more than that"
    )
    assert waits(pace, SCHEDULE, False, None, *[False] * 3) == [1, 2, 4, 8, 16], (
        "nor asked more often after it"
    )


@pytest.mark.usefixtures("steady")
def test_a_slow_server_is_left_alone_for_longer() -> None:
    """By all who ask it, whatever it answers; so is one that is silent; up to the limit."""
    assert waits(
        Pace(), SCHEDULE, True, False, None, None, True, took=0.2
    ) == pytest.approx([1, 1, 2, 4, 1])
    assert waits(Pace(), SCHEDULE, True, False, None, None, True, took=20) == [
        60,
        60,
        60,
        60,
        60,
    ]
    assert waits(Pace(), SCHEDULE, True, False, None, None, True, took=60) == [
        120,
        120,
        120,
        120,
        120,
    ]
    quick = Schedule(least=1, most=1, splay=0)
    assert waits(Pace(), quick, False, took=60) == [quick.longest]


@pytest.mark.usefixtures("steady")
def test_long_interval_of_a_source_is_kept() -> None:
    """A source with long intervals keeps them after changes, errors and events elsewhere."""
    for schedule in (
        SCHEDULE,
        Schedule(least=0.1, most=0.1, splay=0),
        Schedule(least=300, most=300, splay=0),
    ):
        pace = Pace()
        assert set(
            waits(pace, schedule.seldom, True, False, None, None, None, True)
        ) == {schedule.longest}
        before = pace.at
        pace.stir(schedule.seldom, before - 1)
        assert pace.at == before


@pytest.mark.parametrize("least", [0.0, 0.05, 1.0, 7.0, 300.0])
def test_failing_source_is_polled_no_more_often_than_a_working_one(
    least: float,
) -> None:
    """A failing source is polled no more often than a working one, at most once a second, and never dropped."""
    schedule = Schedule(least=least, most=max(least, 30.0), splay=0.0)
    pauses = [schedule.after_error(failures) for failures in (1, 2, 5, 20, 10**6)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= max(least, 1.0)
    assert pauses[-1] == max(least, ERRORS_LIMIT)


def test_jitter_makes_intervals_shorter_and_never_longer() -> None:
    """Intervals are never longer, never much shorter; the first question is any time within the splay."""
    found = [
        waits(Pace(), Schedule(least=8, most=8, splay=0), False)[0] for _ in range(200)
    ]
    assert 6 <= min(found) < max(found) <= 8
    delays = [Schedule(least=1, most=30, splay=3600.5).delay() for _ in range(200)]
    assert 0 <= min(delays) < 900
    assert 2700 < max(delays) <= 3600.5


@pytest.mark.usefixtures("steady")
def test_source_in_use_again_keeps_its_schedule() -> None:
    """A source that is used again keeps its last poll and its failures."""
    pace = Pace()
    pace.begin(SCHEDULE, 5)
    assert pace.at == 5
    pace.ask(10)
    pace.failed(SCHEDULE, 10)
    pace.begin(SCHEDULE, 11)
    assert pace.at == 12
    pace.begin(SCHEDULE, 100)
    assert pace.at == 100


@pytest.mark.usefixtures("steady")
def test_event_brings_the_next_poll_forward() -> None:
    """If it does not fail; what it announces itself, or somebody wants to know, at once in any case."""
    pace = Pace(at=100)
    pace.stir(SCHEDULE, 50)
    assert pace.at == 51
    assert waits(pace, SCHEDULE, *[False] * 6) == [1, 1, 1, 1, 2, 4], (
        "what follows from it is not missed by much"
    )
    pace.ask(60)
    pace.failed(SCHEDULE, 60)
    pace.stir(SCHEDULE, 60)
    assert pace.at == 62
    pace.hope(SCHEDULE)
    assert pace.at == 61, "its server may be back"
    pace.ask(62)
    assert pace.at == math.inf
    pace.ring()
    pace.failed(SCHEDULE, 63)
    assert pace.at < 0, (
        "the answer that was under way may have been made before the news"
    )
    pace.ask(63)
    pace.hurry(SCHEDULE)
    pace.answered(SCHEDULE, 64, changed=False)
    assert pace.at < 0

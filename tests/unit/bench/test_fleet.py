from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench import fleet
from bench.fleet import Agent, Course, Replaced, Server, Tally, simulate

NUMBER = 500
"""Fewer agents, and as much less of a server: what comes of it is the same."""


def test_a_server_that_cannot_serve_all_serves_as_many_as_it_can() -> None:
    """An overloaded server serves what it can, and all clients poll less often."""
    found = simulate(fleet.THIRD, Agent, number=NUMBER)
    assert found.useful > 0.95
    assert found.lost < 0.01
    assert found.in_time > 0.99
    assert found.gap(1.0) < 150


def test_a_fleet_that_does_not_heed_the_server_has_it_collapse() -> None:
    """The simulation can fail: the replaced agent gets no answers at all."""
    found = simulate(fleet.THIRD, Replaced, number=NUMBER)
    assert found.useful < 0.01
    assert found.lost > 0.95
    assert found.reach(0.5) == math.inf


def test_whoever_is_impatient_has_it_collapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time that an agent waits for an answer matters as much as the pause between requests."""
    monkeypatch.setattr(Agent, "patience", 10.0)
    assert simulate(fleet.THIRD, Agent, number=NUMBER).useful < 0.7


def test_a_short_queue_is_fair_enough() -> None:
    """Where connections are refused, nobody goes without answers for long, though nobody stands in line."""
    found = simulate(fleet.SHORT, Agent, number=NUMBER)
    assert found.useful > 0.95
    assert found.gap(0.5) < 240
    assert found.gap(0.95) < 400


def test_after_an_outage_everybody_is_served_within_minutes() -> None:
    """All are served soon, whether the server refused connections or has accepted requests to work off."""
    refused = simulate(fleet.REFUSED, Agent, number=NUMBER)
    assert refused.useful > 0.9
    assert refused.reach(0.99) < 180
    silent = simulate(fleet.SILENT, Agent, number=NUMBER)
    assert silent.reach(0.99) < 600
    assert (
        simulate(
            replace(fleet.SILENT, measured_from=1000, end=1500), Agent, number=NUMBER
        ).useful
        > 0.9
    )
    enough = simulate(fleet.ENOUGH, Agent, number=NUMBER)
    assert enough.reach(0.99) < 180
    assert enough.in_time > 0.99


@pytest.mark.parametrize("course", [fleet.STARTED, fleet.CHANGED])
def test_queue_of_a_whole_fleet_is_short_again_within_minutes(course: Course) -> None:
    """A power cut, or a change of all stacks: the queue is long then, and not for long."""
    found = simulate(course, Agent, number=NUMBER)
    assert found.useful > 0.9
    assert found.reach(0.99) < 300


def test_an_idle_fleet_needs_what_is_said_of_it() -> None:
    """With as much capacity, and no outage, intervals are those of the schedule."""
    found = simulate(
        Course(capacity=2, measured_from=100, end=400), Agent, number=NUMBER
    )
    assert found.per_second == pytest.approx(fleet.NEEDED * NUMBER, rel=0.03)
    assert found.gap(1.0) <= fleet.SCHEDULE.most + 1


def test_seed_determines_the_fleet() -> None:
    """A different seed gives a different fleet."""
    course = Course(capacity=1 / 3, measured_from=0, end=200)
    found: list[Tally] = [
        simulate(course, Agent, number=100, seed=seed) for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]


def asked(server: Server, now: float, patience: float) -> tuple[float, bool, bool]:
    """Return the end of a request, whether it was answered, and whether it cost the server work."""
    until, good, worked = server.ask(now, patience)
    return round(until, 6), good, worked


def test_the_server_serves_one_request_at_a_time_and_its_queue_is_bounded() -> None:
    """Requests are served in turn; an outage drops or delays them, and a full queue refuses new ones."""
    plain = Course(capacity=100 / fleet.NEEDED, measured_from=0, end=100)
    server = Server(plain, 1)
    assert asked(server, 1.0, 10) == (1.01, True, True)
    assert asked(server, 1.0, 10) == (1.02, True, True)
    assert asked(server, 1.0, 0.025) == (1.025, False, True), (
        "it does not notice that nobody waits"
    )
    assert asked(server, 1.0, 10) == (1.04, True, True)

    refusing = Server(replace(plain, outage=(5, 8)), 1)
    assert asked(refusing, 6.0, 10) == (6.0, False, False)
    assert asked(refusing, 8.0, 10) == (8.01, True, True)
    silent = Server(replace(plain, outage=(5, 8), silent=True), 1)
    assert asked(silent, 6.0, 10) == (8.01, True, True)
    assert asked(silent, 6.0, 1) == (7.0, False, True)
    assert asked(silent, 9.0, 1) == (9.01, True, True)

    full = Server(replace(plain, room=1.5 * fleet.NUMBER), 1)
    assert [asked(full, 0.0, 60)[1] for _ in range(4)] == [True, True, False, False]
    assert asked(full, 0.0, 60) == (10.0, False, False)

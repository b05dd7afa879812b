"""Steps in their order, and tasks side by side."""

from __future__ import annotations

from collections.abc import Generator, Hashable

from heat_config_agent.stack.graph import Graph
from heat_config_agent.stack.scheduler import FIRST, LAST, Scheduler


def taken(graph: Graph[str], fails: str = "") -> list[list[str]]:
    """Return which steps can be taken at once, until none is left that can be."""
    rounds, able = [], graph.first()
    while able:
        rounds.append(sorted(able))
        able = [after for each in able if each != fails for after in graph.done(each)]
    return rounds


def diamond() -> Graph[str]:
    """Return a graph in which two need one, and one needs both."""
    graph: Graph[str] = Graph()
    graph.add("d", ["b", "c"])
    graph.add("b", ["a"])
    graph.add("c", ["a", "a"])
    return graph


def test_each_step_comes_after_what_it_needs() -> None:
    """Forwards, and backwards."""
    assert taken(diamond()) == [["a"], ["b", "c"], ["d"]]
    assert taken(diamond().reversed()) == [["d"], ["b", "c"], ["a"]]


def test_what_fails_holds_up_only_what_needs_it() -> None:
    """The other one of the two is taken all the same."""
    assert taken(diamond(), fails="b") == [["a"], ["b", "c"]]


def test_a_task_waits_for_its_key_or_for_a_while() -> None:
    """One that is woken goes on at once; one that only asks again does so less and less often."""
    now = [0.0]
    scheduler = Scheduler(lambda: now[0])
    said: list[str] = []

    def waits() -> Generator[Hashable | None, None, None]:
        said.append("begun")
        yield "key"
        said.append("woken")

    def asks() -> Generator[Hashable | None, None, None]:
        for _ in range(30):
            yield None
        said.append("asked")

    scheduler.add(waits(), lambda: said.append("ended"))
    scheduler.add(asks())
    scheduler.turn()
    assert (said, scheduler.due) == (["begun"], FIRST)
    scheduler.wake("key")
    scheduler.turn()
    assert said == ["begun", "woken", "ended"]
    pauses = []
    while scheduler.busy:
        pauses.append(round(scheduler.due or 0.0, 6))
        now[0] += pauses[-1] + 1e-6
        scheduler.turn()
    assert said[-1] == "asked"
    assert pauses == sorted(pauses)
    assert pauses[-1] == LAST
    assert scheduler.due is None

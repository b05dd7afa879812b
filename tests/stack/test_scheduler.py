"""Tasks side by side."""

from __future__ import annotations

from collections.abc import Generator, Hashable

from heat_config_stack.resource.scheduler import FIRST, LAST, Scheduler


def test_a_task_waits_for_its_key_or_for_a_while() -> None:
    """A task that is woken continues at once, and one that polls does so less and less often."""
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

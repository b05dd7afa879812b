"""The decision which drifted deployments are repaired: one repair for each drift, and less and less often in vain."""

from __future__ import annotations

from heat_config_agent.model.entry import Entry, State
from heat_config_agent.verification import repairs
from heat_config_agent.verification.record import Verified
from heat_config_agent.verification.repairs import Tried
from heat_config_hooks import verdict

INTERVAL = 100.0


def entry(run: float) -> Entry:
    """Return a deployment whose last run has ended at `run`."""
    return Entry(
        key="web",
        id="web",
        name="web",
        action="CREATE",
        tool="script",
        source="local",
        addressee="",
        document={},
        state=State.UNASKED,
        at=run,
        accepted=run,
        ended=run,
    )


def verified(run: float, *, is_drifted: bool = True) -> Verified:
    """Return the verification of that run."""
    answer = verdict.drifted([], "off") if is_drifted else verdict.in_effect()
    return Verified(key="web", run=run, at=run + 1, since=run + 1, verdict=answer)


def decided(
    tried: dict[str, Tried], run: float, now: float
) -> tuple[bool, dict[str, Tried]]:
    """Return whether a run that has drifted is repaired, and the repairs after that."""
    [decision] = repairs.decide(
        [(entry(run), verified(run))], tried, None, interval=INTERVAL, now=now
    )
    newer = repairs.counted(
        [decision], tried, {"web": verified(run)}, {"web": entry(run)}, now
    )
    return decision.is_repaired, newer


def test_wait_doubles_after_each_repair_in_vain() -> None:
    """2 intervals, then 4, then 8."""
    is_repaired, tried = decided({}, run=1, now=1000)
    assert is_repaired
    at = 1000.0
    for number, wait in enumerate((200, 400, 800), start=2):
        assert decided(tried, run=number, now=at + wait - 1) == (False, tried)
        is_repaired, tried = decided(tried, run=number, now=at + wait)
        at += wait
        assert is_repaired
        assert tried["web"].times == number


def test_same_run_is_requested_again() -> None:
    """The process that wanted to request it was killed, for example; it counts once."""
    _, tried = decided({}, run=1, now=1000)

    assert decided(tried, run=1, now=1001) == (True, tried)


def test_repairs_are_over_when_the_deployment_is_in_effect() -> None:
    """The next drift is repaired at once."""
    _, tried = decided({}, run=1, now=1000)
    well = {"web": verified(2, is_drifted=False)}

    assert repairs.counted([], tried, well, {"web": entry(2)}, 1100) == {}


def test_clock_that_is_set_back_holds_up_no_repair() -> None:
    """The time of the last repair is in the future then."""
    _, tried = decided({}, run=1, now=1000)

    assert decided(tried, run=2, now=10)[0]

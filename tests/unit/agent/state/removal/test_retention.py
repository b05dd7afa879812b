from __future__ import annotations

import pytest

from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.model.run_settings import Limits
from heat_config_agent.state.removal import retention
from heat_config_agent.state.removal.retention import Part, Removal, Weight
from heat_config_hooks.values import replace
from support import entries

DAY = 86400.0
NOW = 100 * DAY
LIMITS = Limits(secrets=DAY, age=30 * DAY, count=1000, size=1_000_000, files=1000)
HEAVY = Weight(output=300_000, other=1000, output_files=3, other_files=2)
OVER = (State.SIGNALLED, State.UNASKED, State.REFUSED, State.SUPERSEDED)
PENDING = tuple(each for each in State if each not in (*OVER, State.DAMAGED))


def entry(
    key: str = "a",
    days: float = 0.0,
    *,
    state: State = State.SIGNALLED,
    left: bool = True,
    removed: Removed = Removed.SECRETS,
    again: bool = False,
    hook: str = "builtin:script",
) -> Entry:
    """Return what the journal says of a deployment that was settled, and has left the metadata, so many days ago."""
    moment = NOW - days * DAY
    return entries.entry(
        key,
        state,
        at=0.0,
        accepted=moment,
        started=None,
        ended=None,
        values=None,
        run=entries.run_of(hook),
        settled_at=moment,
        left_at=moment if left else None,
        removed=removed,
        again=again,
    )


def due(
    *entries: Entry, limits: Limits = LIMITS, weight: Weight = HEAVY, full: bool = False
) -> list[Removal]:
    """Return what is to be removed, where all weigh the same."""
    known = {each.key: each for each in entries}
    return retention.due(known, dict.fromkeys(known, weight), limits, NOW, full=full)


def said(found: list[Removal]) -> list[tuple[str, Part]]:
    """Return what is removed of which deployment."""
    return [(each.entry.key, each.part) for each in found]


@pytest.mark.parametrize("state", OVER)
@pytest.mark.parametrize("left", [True, False])
def test_secrets_go_after_their_time(state: State, left: bool) -> None:
    """Secrets are removed in time, whether or not the deployment is still in the metadata."""
    young = entry("young", 0.9, state=state, left=left, removed=Removed.NOTHING)
    old = entry("old", 1.1, state=state, left=left, removed=Removed.NOTHING)
    assert said(due(young, old)) == [("old", Part.SECRETS)]


def test_secrets_go_at_once_where_that_is_wanted() -> None:
    """A time of 0 is one that is over."""
    limits = Limits(
        secrets=0, age=LIMITS.age, count=1, size=LIMITS.size, files=LIMITS.files
    )
    assert said(due(entry(removed=Removed.NOTHING), limits=limits)) == [
        ("a", Part.SECRETS)
    ]


@pytest.mark.parametrize("state", PENDING)
@pytest.mark.parametrize("left", [True, False])
def test_undelivered_result_keeps_its_files(state: State, left: bool) -> None:
    """An undelivered result keeps everything, whatever its age and size, also on a full disk."""
    tight = Limits(secrets=0, age=0, count=1, size=0, files=1)
    entries = [
        entry(each, 99, state=state, left=left, removed=Removed.NOTHING)
        for each in "abc"
    ]
    assert due(*entries, limits=tight, full=True) == []


@pytest.mark.parametrize(
    ("state", "goes"), [(State.SIGNALLED, True), (State.REFUSED, False)]
)
def test_a_result_that_was_delivered_late_goes_too(state: State, goes: bool) -> None:
    """A late result was kept without its inputs; after delivery its outputs, which may be secret, are removed."""
    late = replace(entry(days=2, state=state), values={"password": "x"})
    assert said(due(late)) == [("a", Part.SECRETS)] * goes
    assert due(replace(late, values=None)) == []


def test_deployment_that_will_run_again_keeps_its_files() -> None:
    """A deployment that a person has asked to run again loses nothing."""
    assert due(entry(days=99, again=True, removed=Removed.NOTHING)) == []


def test_damaged_record_is_kept_until_its_deployment_left() -> None:
    """Until then it is to be answered."""
    assert (
        due(entry("a", 99, state=State.DAMAGED, left=False, removed=Removed.NOTHING))
        == []
    )
    found = due(entry("a", 99, state=State.DAMAGED, removed=Removed.NOTHING))
    assert said(found) == [("a", Part.DEPLOYMENT)]


def test_deployment_that_left_long_ago_loses_its_files() -> None:
    """Part is still in the metadata loses what its tool has printed."""
    found = due(
        entry("old", 31),
        entry("kept", 31, left=False),
        entry("young", 29),
        entry("new", 29, left=False),
    )
    assert said(found) == [("old", Part.DEPLOYMENT), ("kept", Part.OUTPUT)]
    assert {each.reason for each in found} == {"it is older than 30 days"}


def test_a_deployment_is_kept_from_when_it_left() -> None:
    """The age counts from when the deployment left the metadata, not from when it finished."""
    done = entry("a", 99)
    assert due(replace(done, left_at=NOW - DAY)) == []


def test_record_without_output_is_left_alone() -> None:
    """There is nothing to do about it at each look."""
    assert due(entry(days=99, left=False), weight=Weight(other=10, other_files=2)) == []


def test_of_many_the_newest_stay() -> None:
    """Only departed deployments count."""
    limits = Limits(secrets=DAY, age=30 * DAY, count=2, size=10**9, files=10**9)
    entries = [entry(str(days), days) for days in (4, 1, 3, 2)]
    kept = [entry(f"in{days}", days, left=False) for days in (9, 8)]
    assert said(due(*entries, *kept, limits=limits)) == [
        ("4", Part.DEPLOYMENT),
        ("3", Part.DEPLOYMENT),
    ]


@pytest.mark.parametrize("bound", ["size", "files"])
def test_the_oldest_go_where_there_is_too_much(bound: str) -> None:
    """First those that have left the metadata, whole; then the output of the others."""
    tight = {"size": 610_000, "files": 11}
    limits = Limits(**{**LIMITS.__dict__, bound: tight[bound]})
    left = [entry(str(days), days) for days in (2, 3)]
    kept = [entry(f"in{days}", days, left=False) for days in (9, 8)]
    found = due(*left, *kept, limits=limits)
    assert said(found) == [("3", Part.DEPLOYMENT), ("2", Part.DEPLOYMENT)][: len(found)]
    assert len(found) == 2
    tighter = Limits(**{**LIMITS.__dict__, bound: 0})
    assert said(due(*left, *kept, limits=tighter)) == [
        ("3", Part.DEPLOYMENT),
        ("2", Part.DEPLOYMENT),
        ("in9", Part.OUTPUT),
        ("in8", Part.OUTPUT),
    ]


def test_unremovable_output_counts_towards_the_limit() -> None:
    """The room is the same, whoever takes it."""
    running = [
        entry(each, 0, state=State.RUNNING, left=False, removed=Removed.NOTHING)
        for each in "abc"
    ]
    assert said(due(*running, entry("old", 1))) == [("old", Part.DEPLOYMENT)]


def test_full_disk_removes_the_output_of_departed_deployments() -> None:
    """At once, so that work can go on; results that somebody may ask for stay."""
    found = due(entry("left"), entry("kept", left=False), full=True)
    assert said(found) == [("left", Part.OUTPUT)]
    assert found[0].reason == retention.FULL


def test_record_is_kept_until_its_cleanup() -> None:
    """The record of a run stays until its cleanup, and its output may be removed."""
    pending = entry("a", 99, hook="builtin:docker-cmd")
    assert said(due(pending)) == [("a", Part.OUTPUT)]
    done = replace(entry("a.left", 1), action="(left)")
    assert said(due(pending, done)) == [("a", Part.DEPLOYMENT)]


def test_secrets_go_with_the_output() -> None:
    """Secrets and output may both be due for a deployment in the metadata."""
    found = due(entry("a", 31, left=False, removed=Removed.NOTHING))
    assert said(found) == [("a", Part.SECRETS), ("a", Part.OUTPUT)]


def test_ids_of_departed_deployments_are_kept_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only so many departed deployments are kept; ids that may still be in the metadata stay known for ever."""
    monkeypatch.setattr(retention, "TOMBSTONES", 2)
    stones = [entry(str(days), days, removed=Removed.ALL) for days in (50, 90, 70, 60)]
    stones.append(entry("back", 99, left=False, removed=Removed.ALL))
    assert said(due(*stones)) == [("90", Part.ID), ("70", Part.ID)]


def test_record_from_the_future_counts_as_young() -> None:
    """Part was settled after now, as a lost clock has it, is young."""
    assert due(entry("a", -50, removed=Removed.NOTHING)) == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (30 * DAY, "30 days"),
        (DAY, "1 day"),
        (1.5 * DAY, "1.5 days"),
        (7200, "2 hours"),
        (60, "1 minute"),
        (5, "5 seconds"),
    ],
)
def test_long_times_are_shown_in_the_largest_unit(seconds: float, text: str) -> None:
    """In the largest unit that fits."""
    assert retention.days(seconds) == text

"""Rolling updates: how many members a group has, and which are updated, in each batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from heat_config_stack.resource.rolling import (
    Batch,
    Policy,
    from_json,
    plan,
    sizes,
    to_json,
)


def planned(
    members: list[str], target: int, policy: Policy, current: tuple[str, ...] = ()
) -> list[Batch]:
    """Return the batches of a group whose members are numbered, and that replaces the highest numbers first."""
    names = [str(each) for each in range(20)]

    def in_order(now: Sequence[str], after: int) -> list[str]:
        return sorted(
            now,
            key=lambda name: (
                target - int(name)
                if int(name) < target
                else after * (int(name) < after)
            ),
        )

    numbers = sizes(target, len(members), policy)
    return plan(
        members,
        current,
        numbers,
        policy.pause,
        in_order=in_order,
        names=lambda _: names,
    )[0]


@pytest.mark.parametrize(
    ("target", "now", "policy", "expected"),
    [
        (3, 3, Policy(1), [(3, 1), (3, 1), (3, 1)]),
        (5, 5, Policy(2), [(5, 2), (5, 2), (5, 1)]),
        (3, 0, Policy(2), [(2, 2), (3, 1)]),
        (3, 3, Policy(1, in_service=9), [(4, 1), (4, 1), (4, 1), (4, 1), (3, 0)]),
        (2, 5, Policy(1, in_service=9), [(3, 1), (3, 1), (2, 0)]),
        (0, 2, Policy(1), [(0, 0)]),
    ],
)
def test_batches_keep_the_minimum_in_service(
    target: int, now: int, policy: Policy, expected: list[tuple[int, int]]
) -> None:
    """Each batch keeps the minimum in service, and the group has its size after the last one."""
    assert list(sizes(target, now, policy)) == expected


def test_extra_members_are_made_first_and_removed_last() -> None:
    """The group has one member more while the others are updated, from the highest number down."""
    assert planned(["0", "1"], 2, Policy(1, 5.0, 2)) == [
        Batch(("2",), (), 0.0),
        Batch(("1",), (), 5.0),
        Batch(("0",), (), 5.0),
        Batch((), ("2",), 5.0),
    ]


def test_members_with_the_new_definition_are_not_updated() -> None:
    """After an update that failed, only the others are left."""
    made = [
        name
        for batch in planned(["0", "1", "2"], 3, Policy(1), ("2",))
        for name in batch.made
    ]
    assert made == ["1", "0"]


def test_batches_survive_as_json() -> None:
    """Batches are stored with the group, and are the same after an interruption."""
    batches = planned(["0", "1"], 3, Policy(1, 2.5, 1))
    assert from_json(to_json(batches)) == batches

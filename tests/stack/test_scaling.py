"""Groups that change their size, and the policies that do it when they are signalled."""

from __future__ import annotations

import time
from typing import Any

import pytest

from heat_config_agent.model.errors import UsageError
from heat_config_stack.lifecycle import validation
from heat_config_stack.resource_types import known_types
from heat_config_stack.resource_types.scaling import CHANGE, EXACT, PERCENT, new_size
from stack.made import made
from stack.working import Working

OUTPUTS = {
    "size": {"attr": ["g", "current_size"]},
    "all": {"attr": ["g", "outputs_list", "output"]},
    "first": {"attr": ["g", "resource.0.output"]},
    "names": {"attr": ["g", "refs_map"]},
}


def group(**properties: Any) -> dict[str, Any]:
    """Return a group of one to four members, and policies for it."""
    member = {"type": "OS::Heat::TestResource", "properties": {"value": "m"}}
    resources = {
        "g": {"type": "OS::Heat::AutoScalingGroup"},
        "up": policy(CHANGE, 2),
        "down": policy(CHANGE, -1),
    }
    resources["g"]["properties"] = {
        "resource": member,
        "min_size": 1,
        "max_size": 4,
        **properties,
    }
    return resources


def policy(kind: str, adjustment: float, **properties: Any) -> dict[str, Any]:
    """Return a policy for the group."""
    change = {"adjustment_type": kind, "scaling_adjustment": adjustment}
    return {
        "type": "OS::Heat::ScalingPolicy",
        "properties": {"auto_scaling_group_id": {"ref": "g"}, **change, **properties},
    }


def test_a_group_has_its_desired_size_and_a_policy_changes_it(working: Working) -> None:
    """Within its limits, the oldest members first; an update of the group gives it the desired size again."""
    working.session.create(made(group(desired_capacity=2), OUTPUTS))
    assert (working.root.output("size"), working.root.output("all")) == (2, ["m", "m"])
    assert working.root.output("first") == "m"
    working.session.signal("up", None)
    assert list(working.root.output("names")) == ["0", "1", "2", "3"]
    working.session.signal("up", None)
    assert working.root.output("size") == 4
    working.session.signal("down", None)
    assert list(working.root.output("names")) == ["1", "2", "3"]
    working.close()
    working.session.update(
        working.again({"resources": group(desired_capacity=2), "outputs": OUTPUTS})
    )
    assert working.root.output("size") == 2
    working.session.update(
        working.again({"resources": group(desired_capacity=1), "outputs": OUTPUTS})
    )
    assert list(working.root.output("names")) == ["3"]
    working.session.delete()
    assert working.session.root is None


@pytest.mark.parametrize(
    "updates",
    [
        pytest.param(
            [({"min_size": 3}, 3), ({}, 3), ({"max_size": 2}, 2)], id="no desired size"
        ),
        pytest.param(
            [
                ({"desired_capacity": 3}, 3),
                ({}, 3),
                ({"desired_capacity": 0, "min_size": 0}, 3),
            ],
            id="a desired size for a time",
        ),
    ],
)
def test_the_size_at_updates(
    working: Working, updates: list[tuple[dict[str, Any], int]]
) -> None:
    """As Heat has it: without a desired size, or with 0, a group stays as large as it is, within its limits."""
    working.session.create(made(group(), OUTPUTS))
    assert working.root.output("size") == 1
    for properties, size in updates:
        working.session.update(
            working.again({"resources": group(**properties), "outputs": OUTPUTS})
        )
        assert working.root.output("size") == size


def test_a_policy_waits_for_its_cooldown(working: Working) -> None:
    """A signal before that changes nothing."""
    working.session.create(
        made({**group(), "up": policy(CHANGE, 1, cooldown=60)}, OUTPUTS)
    )
    working.session.signal("up", None)
    working.session.signal("up", None)
    assert working.root.output("size") == 2


def test_group_does_not_cool_down_for_days_after_a_wrong_clock(
    working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock was days ahead when the policy was signalled, and is right again."""
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 5 * 24 * 3600)
    working.session.create(
        made({**group(), "up": policy(CHANGE, 1, cooldown=60)}, OUTPUTS)
    )
    working.session.signal("up", None)
    monkeypatch.setattr(time, "time", wall)
    working.session.signal("up", None)
    assert working.root.output("size") == 3
    working.session.signal("up", None)
    assert working.root.output("size") == 3


@pytest.mark.parametrize("cooldown", [0, None, -1])
def test_a_group_cools_down_after_its_creation(
    working: Working, cooldown: int | None
) -> None:
    """As in Heat, a policy cannot shorten that with a cooldown of its own."""
    up = policy(CHANGE, 1) if cooldown is None else policy(CHANGE, 1, cooldown=cooldown)
    working.session.create(made({**group(cooldown=60), "up": up}, OUTPUTS))
    working.session.signal("up", None)
    assert working.root.output("size") == 1


def test_a_suspended_policy_takes_no_signal(working: Working) -> None:
    """As in Heat, a signal is refused while a resource is suspended."""
    working.session.create(made(group(), OUTPUTS))
    working.session.suspend()
    with pytest.raises(
        UsageError, match="Signal resource during SUSPEND is not supported"
    ):
        working.session.signal("up", None)
    working.session.resume()
    working.session.signal("up", None)
    assert working.root.output("size") == 3


@pytest.mark.parametrize(
    ("size", "adjustment", "kind", "step", "expected"),
    [
        (3, 2, CHANGE, None, 5),
        (3, 7, EXACT, None, 7),
        (4, 50, PERCENT, None, 6),
        (3, 10, PERCENT, None, 4),
        (3, -10, PERCENT, None, 2),
        (3, 50, PERCENT, None, 4),
        (3, -50, PERCENT, None, 2),
        (10, 10, PERCENT, 3, 13),
    ],
)
def test_percentage_of_a_size_is_rounded(
    size: int, adjustment: float, kind: str, step: int | None, expected: int
) -> None:
    """A percentage is rounded to one member at least, and otherwise towards the old size."""
    assert new_size(size, adjustment, kind, step) == expected


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"min_size": 5}, "MinSize can not be greater than MaxSize"),
        (
            {"desired_capacity": 9},
            "DesiredCapacity must be between MinSize and MaxSize",
        ),
        ({"resource": {"properties": {}}}, 'Resource member is missing "type"'),
        ({"resource": {"type": "OS::Heat::Valu"}}, "could not be found"),
    ],
)
def test_mistakes_of_a_group_are_reported_before_its_creation(
    properties: dict[str, Any], problem: str
) -> None:
    """Mistakes of a group are found before anything is created."""
    found = list(validation.mistakes(made(group(**properties)), known_types()))
    assert [each for each in found if problem in each.problem]

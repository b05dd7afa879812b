"""`verification.chosen`: the deployments that are in force."""

from __future__ import annotations

from typing import Any

from heat_config_agent.model.deployment import CLEANUP
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.verification import chosen
from support.entries import entry


def ran(key: str, accepted: float, **fields: Any) -> Entry:
    """Return a deployment of one resource that has run."""
    values = {"owner": "b1f2/web", "accepted": accepted, **fields}
    return entry(key, State.UNASKED, **values)


def keys(*entries: Entry) -> list[str]:
    """Return the keys of the entries that are in force."""
    return [each.key for each in chosen.in_force(entries)]


def test_newest_action_of_a_resource_is_in_force() -> None:
    """The order in the journal does not matter."""
    update = ran("u", 2.0, action="UPDATE")

    assert keys(update, ran("c", 1.0)) == ["u"]


def test_removed_resource_is_not_in_force() -> None:
    """Its DELETE, or its cleanup, has removed what there was."""
    assert keys(ran("c", 1.0), ran("d", 2.0, action="DELETE")) == []
    assert keys(ran("c", 1.0), ran("x", 2.0, action=CLEANUP)) == []


def test_deployment_that_has_left_its_document_is_not_in_force() -> None:
    """Another one of the same resource may be."""
    assert keys(ran("u", 2.0, left_at=3.0), ran("c", 1.0)) == ["c"]
    assert keys(ran("u", 2.0, left_at=3.0)) == []


def test_deployments_without_a_resource_are_in_force_side_by_side() -> None:
    """Even with the same name."""
    first, second = (ran(key, 1.0, owner="site", name="site") for key in "ab")

    assert keys(first, second) == ["a", "b"]


def test_same_resource_of_two_sources_is_in_force_twice() -> None:
    """Each document says what it says."""
    assert keys(ran("a", 1.0), ran("b", 2.0, source="other")) == ["a", "b"]

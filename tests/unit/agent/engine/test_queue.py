from __future__ import annotations

from typing import cast

from heat_config_agent.deployments import cleanup, metadata
from heat_config_agent.deployments.plan import Step, Verb
from heat_config_agent.engine.queue import DELETE_PATIENCE, Active, Queue
from heat_config_agent.model.deployment import CLEANUP_KEY, Document
from heat_config_agent.model.entry import Run
from heat_config_agent.runs.supervisor import Running
from heat_config_hooks import processes
from heat_config_hooks.values import replace
from support.machine import deployment


def step(identity: str, action: str = "CREATE", resource: str = "") -> Step:
    """Return the step of a new deployment."""
    inputs = {"deploy_stack_id": "s/1", "deploy_resource_name": resource or identity}
    content = [deployment(identity, "text", action=action, inputs=inputs)]
    (found,) = metadata.parse(Document(source="test", content=content)).deployments
    if action == cleanup.ACTION:
        found = replace(found, key=f"{identity}{CLEANUP_KEY}")
    return Step(verb=Verb.RUN, deployment=found, reason="new")


class Started:
    """A run, as the queue sees it."""

    def __init__(self, began: float) -> None:
        self.run = Run(
            boot="b",
            pid=1,
            ticks=2,
            began=began,
            limit=None,
            hook="h",
            working="/w",
            outputs="/o",
        )


def active(step: Step, seconds: float = 0.0) -> Active:
    """Return a step whose run began that many seconds ago."""
    return Active(step, cast("Running", Started(processes.since_boot() - seconds)))


def queue(*steps: Step) -> Queue:
    """Return a queue of steps."""
    waiting = Queue()
    for each in steps:
        waiting.add(each)
    return waiting


def test_steps_begin_in_their_order_as_far_as_there_is_room() -> None:
    """As many at once as `parallel` allows."""
    first, second = step("a"), step("b")
    assert queue(first, second).next([], 1) is first
    assert queue(second).next([active(first)], 1) is None
    assert queue(second).next([active(first)], 2) is second


def test_two_deployments_of_one_resource_never_run_together() -> None:
    """Two deployments of one resource never run together, even if there is room."""
    assert (
        queue(step("b", resource="web")).next([active(step("a", resource="web"))], 9)
        is None
    )


def test_a_delete_waits_only_for_other_deletes_and_not_for_long() -> None:
    """A hung run does not delay a DELETE."""
    last = step("z", "DELETE")
    assert queue(last).next([active(step("a"))], 1) is last
    assert queue(last).next([active(step("a", "DELETE"))], 1) is None
    assert (
        queue(last).next([active(step("a", "DELETE"), DELETE_PATIENCE + 1)], 1) is last
    )


def test_a_cleanup_ends_before_anything_else_begins() -> None:
    """A new deployment may need the place of the one that is cleaned up."""
    first, second = step("a", cleanup.ACTION), step("b")
    assert queue(first, second).next([], 9) is first
    assert queue(second).next([active(first)], 9) is None


def test_nothing_begins_while_it_is_held_or_waits_for_a_reboot() -> None:
    """Nothing begins while the queue is held or waits for a reboot, not even a DELETE."""
    held, rebooting = queue(step("a", "DELETE")), queue(step("a"))
    held.hold = "paused"
    rebooting.rebooting.add("other")
    assert held.next([], 9) is None
    assert rebooting.next([], 9) is None


def test_dropped_deployment_does_not_begin() -> None:
    """A dropped deployment does not begin, and no longer counts as a waiting DELETE."""
    waiting = queue(step("a", "DELETE"), step("b"))
    waiting.drop("a")
    assert waiting.due is None
    assert [each.deployment.id for each in waiting] == ["b"]


def test_a_queue_by_name_has_cleanups_first() -> None:
    """Cleanups come first, then the other deployments by name."""
    waiting = queue(step("b"), step("a"), step("z", cleanup.ACTION))
    waiting.sort_by_name()
    assert [each.deployment.id for each in waiting] == ["z", "a", "b"]


def test_a_retry_keeps_its_place_and_begins_when_it_is_due() -> None:
    """Until then, it counts among the runs; another deployment begins only if there is room for it as well."""
    now = processes.since_boot()
    later, due = (
        replace(step("a"), attempt=2, due=moment) for moment in (now + 60, now - 1)
    )
    other = step("b")
    assert queue(later, other).next([], 1) is None
    assert queue(later, other).next([], 2) is other
    assert queue(later, other).next([active(step("c"))], 2) is None
    assert queue(other, due).next([], 1) is due
    assert 59 < (queue(later, other).due or 0) <= 60
    assert queue(other, due).due is None
    assert queue(later).has_retry
    assert not queue(other).has_retry


def test_a_retry_begins_nothing_while_the_queue_is_held() -> None:
    """A pause holds it too, and nobody has to wait for it."""
    held = queue(replace(step("a"), attempt=2))
    held.hold = "paused"
    assert held.next([], 1) is None
    assert not held.has_retry


def test_a_delete_replaces_a_retry_of_its_resource() -> None:
    """A DELETE waits for no retry of any resource."""
    retry, other = (
        replace(step(each, resource=each), attempt=2, due=float("inf"))
        for each in ("web", "db")
    )
    delete = step("z", "DELETE", resource="web")
    waiting = queue(retry, other, delete)
    assert waiting.replaced() == [retry]
    waiting.take(retry)
    assert waiting.next([], 1) is delete
    assert queue(retry, other).replaced() == []

"""The steps that wait for their turn, and the rules for which of them may begin next to those that run."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator

from heat_config_agent.deployments import cleanup
from heat_config_agent.deployments.plan import Step
from heat_config_agent.model.deployment import DELETE, Deployment
from heat_config_agent.runs.supervisor import Running
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass

DELETE_PATIENCE = 30.0
"""Seconds that a DELETE waits for another DELETE to end."""

_LOOK = 1.0
"""Seconds between two looks at a queue in which a DELETE waits."""

REMINDER = 3600.0
"""Seconds after which an obstacle that lasts is reported again."""


@dataclass
class Active:
    """A run that has not ended."""

    step: Step
    running: Running


@dataclass(frozen=True)
class Blocked:
    """A step that cannot begin, although it is its turn."""

    name: str
    """The name of the deployment."""
    reason: str
    """The reason in one sentence."""
    cause: str
    """The cause in a few words: several steps may have the same."""
    since: float
    """When it could not begin for the first time, in seconds since boot."""
    said: float
    """When this was last reported, in seconds since boot."""


class Queue:
    """Steps in the order in which they are to begin."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._deletes = 0
        self._follow_ups = 0
        self._retries = 0
        self.hold = ""
        """The reason why nothing new begins; empty if it does."""
        self.rebooting: set[str] = set()
        """Keys of deployments that wait for a reboot of the machine, before which nothing new begins."""
        self.blocked: dict[str, Blocked] = {}
        """The steps that could not begin at the last try, by the keys of their deployments."""

    def __len__(self) -> int:
        """Return the number of waiting steps."""
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        """Return the waiting steps in their order."""
        return iter(self._steps)

    @property
    def due(self) -> float | None:
        """Seconds until the queue has to be looked at again; None if only events change which step begins.

        A DELETE does not wait for others for ever, and a retry waits for its time.
        """
        delays = [_LOOK] if self._deletes else []
        if self._retries:
            now = processes.since_boot()
            delays += [step.due - now for step in self._steps if step.due > now]
        return min(delays, default=None)

    @property
    def has_retry(self) -> bool:
        """True if a retry waits for its time, or for its turn."""
        return bool(self._retries and not self.hold and not self.rebooting)

    def replaced(self) -> list[Step]:
        """Return the retries that are not wanted any more, because a DELETE of the same resource waits."""
        steps = self._steps if self._retries and self._deletes else ()
        deletes = {
            step.deployment.place for step in steps if step.deployment.action == DELETE
        }
        return [
            step
            for step in steps
            if step.attempt > 1 and step.deployment.place in deletes - {""}
        ]

    def add(self, step: Step) -> None:
        """Add a step at the end; a follow-up at the beginning, as other steps wait for it."""
        if step.deployment.is_follow_up:
            self._steps.appendleft(step)
            self._follow_ups += 1
        else:
            self._steps.append(step)
        self._deletes += step.deployment.action == DELETE
        self._retries += step.attempt > 1

    def take(self, step: Step) -> None:
        """Remove a step that begins or is not wanted any more."""
        self._steps.remove(step)
        self._follow_ups -= step.deployment.is_follow_up
        self._deletes -= step.deployment.action == DELETE
        self._retries -= step.attempt > 1

    def block(
        self, step: Step, reason: str, cause: str, before: Blocked | None
    ) -> bool:
        """Note that a step cannot begin; return whether this has to be reported. `before` is the note of the last try.

        The same reason is reported again only after `REMINDER` seconds.
        """
        now = processes.since_boot()
        is_news = (
            before is None or before.reason != reason or now - before.said > REMINDER
        )
        since, said = (
            before.since if before else now,
            now if before is None or is_news else before.said,
        )
        self.blocked[step.deployment.key] = Blocked(
            step.deployment.title, reason, cause, since, said
        )
        return is_news

    def drop(self, key: str) -> None:
        """Remove the steps of a deployment."""
        self.blocked.pop(key, None)
        for step in [step for step in self._steps if step.deployment.key == key]:
            self.take(step)

    def clear(self) -> None:
        """Remove all steps."""
        self._steps.clear()
        self._deletes = self._retries = self._follow_ups = 0

    def sort_by_name(self) -> None:
        """Order the steps by the names of their deployments, cleanups first."""
        self._steps = deque(sorted(self._steps, key=_order))

    def next(self, active: Collection[Active], parallel: int) -> Step | None:
        """Return the step that may begin now, next to the active runs; None if there is none.

        At most `parallel` runs are active at once; a DELETE waits only for other DELETEs. A deployment that is retried
        keeps its place among the runs, so that nothing begins too early that has to come after it.
        """
        if not self._steps or self.hold or self.rebooting:
            return None
        running = [run.step.deployment for run in active]
        if self._retries:
            retries, now = (
                [step for step in self._steps if step.attempt > 1],
                processes.since_boot(),
            )
            due = [step for step in retries if step.due <= now]
            if step := self._first(due, running, active, parallel):
                return step
            running += [step.deployment for step in retries]
        is_full = sum(deployment.action != DELETE for deployment in running) >= parallel
        if is_full and not self._deletes:
            return None
        return self._first(
            (step for step in self._steps if step.attempt == 1),
            running,
            active,
            parallel,
        )

    def _first(
        self,
        steps: Iterable[Step],
        running: Collection[Deployment],
        active: Collection[Active],
        parallel: int,
    ) -> Step | None:
        """Return the first step that may begin while other steps run; None if there is none."""
        return next(
            (
                step
                for step in steps
                if self._may_begin(step.deployment, running, active, parallel)
            ),
            None,
        )

    def _may_begin(
        self,
        deployment: Deployment,
        running: Collection[Deployment],
        active: Collection[Active],
        parallel: int,
    ) -> bool:
        """Return whether a deployment may begin while others run.

        Two deployments of one place never run at once. A DELETE waits only for other DELETEs, and not for long: a
        run that hangs must not hold it up. A cleanup ends before anything else begins, as that may need the same place.
        A follow-up ends before anything else of its stack begins, so it sees what has failed, and not its rollback.
        """
        if any(other.place and other.place == deployment.place for other in running):
            return False
        if any(_holds_up(other, deployment) for other in running):
            return False
        if self._follow_ups and any(
            _holds_up(step.deployment, deployment) for step in self._steps
        ):
            return False
        if deployment.action == DELETE:
            now = processes.since_boot()
            began = [
                run.running.run.began
                for run in active
                if run.step.deployment.action == DELETE
            ]
            return sum(now - moment < DELETE_PATIENCE for moment in began) < parallel
        cleans = any(other.action == cleanup.ACTION for other in running)
        cleans = cleans or self._steps[0].deployment.action == cleanup.ACTION
        if cleans and deployment.action != cleanup.ACTION:
            return False
        return sum(other.action != DELETE for other in running) < parallel


def _holds_up(other: Deployment, deployment: Deployment) -> bool:
    """Return whether a deployment has to wait for another one, which is a follow-up of a failure."""
    if not other.is_follow_up or deployment.is_follow_up:
        return False
    if other.source.startswith("stack:") or other.given_name == deployment.given_name:
        # all deployments in the queue are those of one stack, or it is another edition of what has failed
        return True
    stack = other.input("deploy_stack_id")
    return bool(stack) and stack == deployment.input("deploy_stack_id")


def _order(step: Step) -> tuple[bool, bool, str]:
    deployment = step.deployment
    return (
        deployment.action != cleanup.ACTION,
        not deployment.is_follow_up,
        deployment.name,
    )

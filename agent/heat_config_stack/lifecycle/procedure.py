"""Carries out procedures of a stack: one step after the other, each kept when it is done.

What is done is the same each time for the same outcomes. So the record of a run has the outcomes only, in their order:
after an interruption the run is gone through again from its beginning, and what has an outcome is not done again.
"""

from __future__ import annotations

import hashlib
import heapq
import time
from collections.abc import Generator, Hashable, Mapping
from typing import TypeAlias

from heat_config_agent.diagnostics.words import among
from heat_config_agent.model.errors import AgentError, NotFoundError
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import (
    OPERATION,
    ResourceDefinition,
    Tree,
    Unresolved,
    resolve,
)
from heat_config_stack.definition.procedures import (
    DEPLOY,
    UNDEPLOY,
    Delivery,
    Plan,
    Procedure,
    StateChange,
    Step,
    Steps,
)
from heat_config_stack.lifecycle import deployments, nodes
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import records
from heat_config_stack.records.exception import ResourceFailure
from heat_config_stack.records.records import (
    COMPLETE,
    FAILED,
    IN_PROGRESS,
    ProcedureRecord,
    ResourceRecord,
)
from heat_config_stack.resource import actions

Carrying: TypeAlias = Generator[Hashable | None, None, str]
"""A task that returns why something has failed; nothing where it has not."""

DONE, PASSED_OVER, GONE_WRONG, CHOSEN = "c", "s", "f", "g"
"""The outcomes: an activity that is complete, a node that does not meet the filter, an activity that has failed, and a
node that meets the filter."""


class Refused(AgentError):  # noqa: N818  # it is the procedure that is
    """A precondition of a procedure does not hold, so the procedure is not begun."""


def key(stack: Stack, name: str) -> str:
    """Return the id of the record of a procedure's last run."""
    return f"{stack.id}/{name}"


def holds(condition: Tree, stack: Stack) -> bool:
    """Return whether a condition holds now; one whose values are not known does not."""
    try:
        return resolve(condition, stack.look) is True
    except Unresolved:
        return False


def last(stack: Stack, name: str) -> ProcedureRecord | None:
    """Return the record of the last run of a procedure; None if there was none."""
    return stack.world.store.procedures.get(key(stack, name))


def unfinished(stack: Stack) -> ProcedureRecord | None:
    """Return the run that an earlier process began and did not finish."""
    return next(
        (
            each
            for each in stack.world.store.procedures.values()
            if each.status == IN_PROGRESS
        ),
        None,
    )


def procedure(stack: Stack, name: str) -> Procedure:
    """Return the procedure of a name. Raises NotFoundError."""
    known, triggers = stack.definition.procedures, stack.definition.triggers
    if name not in known and name not in triggers:
        hint = among(name, known) if known else ""
        raise NotFoundError(
            f"the stack {stack.name} has no workflow {name}",
            hint=hint,
            subject=("workflow", f"{stack.name}/{name}"),
        )
    return known[name] if name in known else triggers[name]


def begin(stack: Stack, name: str, inputs: Mapping[str, Json]) -> Run:
    """Begin a procedure. Raises `Invalid`, UsageError, Refused."""
    plan = procedure(stack, name).plan(inputs)
    for each in plan.preconditions:
        if not holds(each.condition, stack):
            raise Refused(f"the workflow {name} was not begun: {each.problem}")
    record = ProcedureRecord(
        key(stack, name), name, stack.id, inputs=dict(inputs), outline=_outline(plan)
    )
    for former in stack.world.store.resources_of(record.id):
        _drop(stack, former)
    stack.keep(record)
    return Run(stack, record, plan)


def go_on(stack: Stack, record: ProcedureRecord) -> Run:
    """Continue a run; one whose procedure has become another one begins again. Raises `Invalid`, UsageError."""
    plan = procedure(stack, record.name).plan(record.inputs)
    outline = _outline(plan)
    if outline != record.outline:
        record.outline, record.trace, record.current = outline, "", ""
    record.trace = (
        record.trace.partition(GONE_WRONG)[0]
        if record.status == FAILED
        else record.trace
    )
    record.status, record.reason, record.updated = IN_PROGRESS, "", time.time()
    stack.keep(record)
    return Run(stack, record, plan)


def deployment(stack: Stack) -> Run:
    """Begin the procedure that creates the operations of a stack, or continue it. Raises `Invalid`, Refused."""
    found = last(stack, DEPLOY)
    if found is not None:
        return go_on(stack, found)
    run = begin(stack, DEPLOY, {})
    for name in stack.definition.nodes:
        nodes.choose(stack, name, nodes.INITIAL)
    return run


def is_to_deploy(stack: Stack) -> bool:
    """Return whether a procedure has to create the operations of a stack, or to continue to."""
    if (
        stack.defined is None
        or stack.owner is not None
        or DEPLOY not in stack.defined.procedures
    ):
        return False
    found = last(stack, DEPLOY)
    if stack.record.action == records.CREATE:
        return found is None or found.status != COMPLETE
    return (
        stack.record.action == records.UPDATE
        and found is not None
        and found.status != COMPLETE
    )


def take_over(stack: Stack) -> None:
    """Record the current definitions of operations that a procedure ran, for the comparison by the next update."""
    for name in stack.definition.nodes:
        nodes.forget(stack, name, nodes.INITIAL)
        nodes.forget(stack, name, nodes.ERROR)
    for name, resource in stack.resources.items():
        if resource.record.type == OPERATION:
            try:
                resource.record.definition = stack.as_defined(name).frozen()
            except Unresolved:
                continue
            stack.keep(resource.record)


def abandon(stack: Stack) -> None:
    """Drop the runs that are not finished, but for that of `undeploy`: the stack is deleted."""
    for record in list(stack.world.store.procedures.values()):
        if record.status == IN_PROGRESS and record.name != UNDEPLOY:
            for operation in stack.world.store.resources_of(record.id):
                _drop(stack, operation)
            stack.drop(record)


def _outline(plan: Plan) -> str:
    return hashlib.sha256("\n".join(plan.outline()).encode()).hexdigest()


class Run:
    """One run of a procedure."""

    def __init__(self, stack: Stack, record: ProcedureRecord, plan: Plan) -> None:
        self.stack, self.record = stack, record
        self._plan = plan
        self._at = 0
        """The number of outcomes that have been gone through."""

    def task(self) -> Generator[Hashable | None, None, None]:
        """Carry it out, and record how it has ended."""
        problem = yield from self._steps(self._plan.steps)
        record = self.record
        record.status, record.reason, record.current = (
            FAILED if problem else COMPLETE,
            problem,
            "",
        )
        record.updated = time.time()
        self.stack.keep(record)

    def _steps(self, body: Steps) -> Carrying:
        """Carry out steps, each after its predecessors."""
        order = {name: position for position, name in enumerate(body.steps)}
        needs: dict[str, set[str]] = {name: set() for name in body.steps}
        for name, step in body.steps.items():
            for neighbour in step.on_success:
                needs[neighbour].add(name)
        followers = body.followers()
        ready = [order[name] for name in body.steps if name not in followers]
        names, problem = [*order], ""
        while ready:
            name = names[heapq.heappop(ready)]
            step = body.steps[name]
            failure = yield from self._step(name, step)
            if failure:
                problem = problem or failure
                ready = sorted({order[neighbour] for neighbour in step.on_failure})
                handling = _following(body, step.on_failure)
                needs = {neighbour: needs[neighbour] & handling for neighbour in needs}
                continue
            for neighbour in step.on_success:
                needs[neighbour].discard(name)
                if not needs[neighbour] and order[neighbour] not in ready:
                    heapq.heappush(ready, order[neighbour])
        return problem

    def _step(self, name: str, step: Step) -> Carrying:
        for work in step.works:
            outcome = self._recorded()
            if not outcome:
                outcome = CHOSEN if holds(work.condition, self.stack) else PASSED_OVER
                self._record(outcome)
            if outcome == PASSED_OVER:
                continue
            for activity in work.activities:
                if isinstance(activity, Steps):
                    problem = yield from self._steps(activity)
                else:
                    problem = yield from self._activity(activity)
                if problem:
                    return f"step {name}: {problem}"
        return ""

    def _activity(self, activity: Delivery | StateChange) -> Carrying:
        outcome = self._recorded()
        if outcome:
            return self.record.reason if outcome == GONE_WRONG else ""
        problem = ""
        if isinstance(activity, Delivery):
            problem = yield from self._deliver(activity)
        else:
            self._change(activity)
        self.record.reason = problem or self.record.reason
        self._record(GONE_WRONG if problem else DONE)
        return problem

    def _recorded(self) -> str:
        """Return the next outcome of an earlier process; nothing if there is none."""
        trace = self.record.trace
        if self._at == len(trace):
            return ""
        self._at += 1
        return trace[self._at - 1]

    def _record(self, outcome: str) -> None:
        self.record.trace += outcome
        self.record.updated = time.time()
        self._at = len(self.record.trace)
        self.stack.keep(self.record)

    def _change(self, change: StateChange) -> None:
        nodes.choose(self.stack, change.node, change.state)
        self.stack.happened([change.node], "STATE", COMPLETE, change.state)

    def _deliver(self, delivery: Delivery) -> Carrying:
        """Carry out an operation, or continue one of an earlier process."""
        stack, store = self.stack, self.stack.world.store
        record = store.resources.get(self.record.current)
        if record is None:
            record = ResourceRecord(records.new_id(), delivery.name, self.record.id)
            self.record.current = record.id
            stack.keep(record)
            stack.keep(self.record)
        resource = stack.beside(
            ResourceDefinition(delivery.name, OPERATION, delivery.properties), record
        )
        if record.state != (records.CREATE, COMPLETE):
            try:
                yield from actions.create(resource)
            except ResourceFailure as failure:
                self.record.current = ""
                nodes.choose(stack, _node(stack, delivery), nodes.ERROR)
                return f"{delivery.name}: {self._why(record) or failure.text}"
        if self.record.name not in (DEPLOY, UNDEPLOY):
            nodes.forget(stack, _node(stack, delivery), nodes.ERROR)
        keeper = stack.resources.get(delivery.keeper)
        for outputs in (
            record.data.get(nodes.OUTPUTS) or {}
        ).values():  # it is one operation
            if keeper is not None:
                data = keeper.record.data
                data[nodes.OUTPUTS] = {
                    **(data.get(nodes.OUTPUTS) or {}),
                    delivery.kept_as: outputs,
                }
                stack.keep(keeper.record)
        if keeper is not None and record.is_left_out:
            keeper.record.data["left_out"], keeper.record.reason = (
                records.CREATE,
                record.reason,
            )
            stack.keep(keeper.record)
        self.record.current = ""
        _drop(stack, record)
        return ""

    def _why(self, record: ResourceRecord) -> str:
        """Return why an operation has failed, in the words of its script; empty if no script has failed."""
        found = self.stack.world.store.deployments.get(record.physical or "")
        is_reason = found is not None and found.status == FAILED
        return (
            self.stack.conceal.text(deployments.why(found))
            if found is not None and is_reason
            else ""
        )


def _node(stack: Stack, delivery: Delivery) -> str:
    return nodes.of_operation(stack, delivery.keeper) or delivery.keeper


def _drop(stack: Stack, record: ResourceRecord) -> None:
    """Remove the resource of an operation that has ended, with its deployment."""
    deployment = stack.world.store.deployments.get(record.physical or "")
    if deployment is not None:
        deployments.remove(stack.world, deployment)
    stack.drop(record)


def _following(body: Steps, names: tuple[str, ...]) -> set[str]:
    """Return steps and all their successors."""
    reached: set[str] = set()
    todo = [*names]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += (*body.steps[name].on_success, *body.steps[name].on_failure)
    return reached

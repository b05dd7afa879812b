"""The traversal of a stack: every resource, in the order of dependencies, to a new definition, state, or deletion.

The steps and their order are those of Heat's convergence. Each resource of the definition is created or updated after
its dependencies. Each resource that existed before is visited a second time, after everything that depended on it, and
is deleted if the stack no longer has it. A failed step is never done: it stops only what depends on it, unless the
stack is worked on in turn.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from graphlib import TopologicalSorter
from typing import NamedTuple

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.model.errors import AgentError, shortage
from heat_config_stack.definition import Definition
from heat_config_stack.definition.procedures import DEPLOY
from heat_config_stack.lifecycle import deployments, procedure
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import records, spans
from heat_config_stack.records.exception import ResourceFailure, UpdateReplace
from heat_config_stack.records.records import (
    COMPLETE,
    CREATE,
    DELETE,
    FAILED,
    IN_PROGRESS,
    INIT,
    ROLLBACK,
    UPDATE,
)
from heat_config_stack.records.records import ResourceRecord as Record
from heat_config_stack.resource import actions
from heat_config_stack.resource.resource import PLUGINS, Resource
from heat_config_stack.resource.rolling import Rolling
from heat_config_stack.resource.scheduler import Task

TURNS: dict[str, Callable[[Resource], actions.Acting]] = {
    records.SUSPEND: actions.suspend,
    records.RESUME: actions.resume,
    records.CHECK: actions.check,
    records.SNAPSHOT: actions.snapshot,
}
"""The action for each resource in a traversal that leaves the definition as it is."""


class Node(NamedTuple):
    """A step of a traversal."""

    id: str
    """The id of the resource; if it is replaced on the way, the id of the old one."""
    last: bool
    """True if it is the second visit: delete the resource if the stack no longer has it."""


class _Inside(NamedTuple):
    """A resource of a child stack that the update of that stack removes."""

    outer: Resource
    """The resource with the child stack."""
    path: tuple[str, ...]
    """The names that lead to it in the child stack."""
    inner: Resource


def key(stack: Stack) -> tuple[str, str]:
    """Return the key that is woken when the traversal of a stack ends."""
    return ("stack", stack.id)


class Traversal:
    """Runs the steps of a graph, each as soon as its dependencies are done."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.graph: TopologicalSorter[Node] = TopologicalSorter()
        """The graph. A failed step is never done, so the steps that depend on it never begin."""
        self._open = 0
        self._in_turn = stack.in_turn
        self._waiting: list[tuple[int, Node]] = []
        """The steps that could begin, if the stack is worked on in turn: a heap, by their positions."""
        self._is_over = False
        """True if a step has failed after which nothing more is begun."""
        self._goes_on = False
        """True if dependents of a failed step are visited too."""

    def start(self) -> None:
        """Begin with the steps that have no dependencies."""
        self.stack.traversal = self
        self.graph.prepare()
        self._take()
        if not self._open:
            self._ended()

    def step(self, node: Node) -> Task:
        """Return the task of a step."""
        raise NotImplementedError

    def _take(self) -> None:
        """Begin the steps whose dependencies are done; deletions first, as in Heat."""
        ready = self.graph.get_ready()
        nodes = (
            self._next(ready)
            if self._in_turn
            else sorted(ready, key=lambda node: not node.last)
        )
        self._open += len(nodes)
        for node in nodes:
            done: list[bool] = []
            self.stack.world.scheduler.add(
                self._guarded(node, done), partial(self._after, node, done)
            )

    def _next(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return the next step; none while another step is open, or after a failure."""
        for node in nodes:
            heapq.heappush(self._waiting, (self.position(node), node))
        if self.stack.record.failure is not None and not self._goes_on:
            # only a removal goes on
            self._waiting = [entry for entry in self._waiting if entry[1].last]
            heapq.heapify(self._waiting)
        if self._open or self._is_over or not self._waiting:
            return ()
        return (heapq.heappop(self._waiting)[1],)

    def position(self, node: Node) -> int:
        """Return the position of a step among the steps that could begin; the lowest begins first."""
        raise NotImplementedError

    def _guarded(self, node: Node, succeeded: list[bool]) -> Task:
        try:
            yield from self.step(node)
            succeeded.append(True)
        except ResourceFailure as failure:
            self._fail(failure)
        except (AgentError, GeneratorExit):
            raise
        except (
            BaseException
        ) as error:  # plug-ins may raise anything, outside of their handlers too
            if isinstance(error, OSError) and shortage(error):
                raise
            self._fail(self._broken(node, error))

    def _fail(self, failure: ResourceFailure) -> None:
        if self.stack.record.failure is None:
            self.stack.record.failure = records.Failure(
                failure.kind, failure.path, failure.text
            )

    def _broken(self, node: Node, error: BaseException) -> ResourceFailure:
        """Mark a resource as failed by an error outside its handlers, unless it had not started."""
        record = self.stack.world.store.resources.get(node.id)
        failure = actions.failure(
            record.name if record else node.id, error, self.stack.world.conceal
        )
        if record is not None and record.status == IN_PROGRESS:
            record.status, record.reason, record.updated = (
                FAILED,
                str(failure),
                time.time(),
            )
            self.stack.keep(record)
            self.stack.happened([record.name], record.action, FAILED, record.reason)
        return failure

    def _after(self, node: Node, succeeded: list[bool]) -> None:
        self._open -= 1
        goes_on = bool(succeeded) or self._goes_on
        self._is_over = self._is_over or not (goes_on or node.last)
        if self.stack.traversal is self and (goes_on or self._in_turn):
            if goes_on or node.last:
                self.graph.done(node)
            self._take()
        if not self._open and self.stack.traversal is self:
            self._ended()

    def _ended(self) -> None:
        self.stack.traversal = None
        record = self.stack.record
        record.status = FAILED if record.failure else COMPLETE
        record.reason = (
            f"Resource {record.action} failed: {record.failure}"
            if record.failure
            else ""
        )
        record.updated = time.time()
        self.stack.keep(record)
        if self.stack.owner is None:
            self.stack.happened([], record.action, record.status, record.reason)
        self.stack.world.scheduler.wake(key(self.stack))


def converge(
    stack: Stack,
    action: str,
    definition: Definition | None,
    attempt: str = "",
    rolling: Rolling | None = None,
) -> None:
    """Begin to create or update a stack to a definition; without one, to delete it."""
    record = stack.record
    if record.action != DELETE:
        stack.settle()
    if action != ROLLBACK:
        record.undone = None
        record.before, record.revision = record.revision, record.latest + 1
        record.latest = record.revision
    _begin(stack, action, attempt)
    _Convergence(stack, definition, rolling).start()


def turn(stack: Stack, action: str, attempt: str = "") -> None:
    """Begin to suspend, resume or check a stack."""
    stack.settle()
    _begin(stack, action, attempt)
    _Turn(stack).start()


def go_on(
    stack: Stack, definition: Definition | None, rolling: Rolling | None = None
) -> None:
    """Continue the traversal that an earlier process began."""
    if stack.record.action in TURNS:
        _Turn(stack).start()
    else:
        rest = rolling.left(each.name for each in stack.records()) if rolling else None
        _Convergence(
            stack, None if stack.record.action == DELETE else definition, rest
        ).start()


def cancel(root: Stack, reason: str, *, rollback: bool) -> None:
    """End the actions that are in progress, as failed; with `rollback`, go back if the action was begun so.

    The runs of deployments have ended before.
    """
    store, now = root.world.store, time.time()
    for deployment in list(store.deployments.values()):
        if deployment.status == IN_PROGRESS:
            deployment.status, deployment.reason = FAILED, reason
            store.put(deployment)
    for record in list(store.resources.values()):
        if record.status != IN_PROGRESS:
            continue
        record.status, record.reason, record.updated = FAILED, reason, now
        store.put(record)
        stack = root.world.stacks.get(record.stack)
        if stack is not None:
            stack.happened([record.name], record.action, FAILED, reason, record=record)
    is_changing = root.record.status == IN_PROGRESS
    action = root.record.action
    for each in list(store.stacks.values()):
        if each.status == IN_PROGRESS:
            each.status, each.reason, each.updated = FAILED, reason, now
            each.failure = each.failure or records.Failure("Cancelled", [], reason)
            store.put(each)
    root.traversal = None
    if not is_changing:
        return
    if rollback and root.record.rollback and action in (CREATE, UPDATE, records.ADOPT):
        go_back(root, reason)
    else:
        root.happened([], action, FAILED, reason)


def _begin(stack: Stack, action: str, attempt: str) -> None:
    record = stack.record
    record.action, record.status, record.reason, record.failure = (
        action,
        IN_PROGRESS,
        "",
        None,
    )
    record.attempt, record.updated = attempt or records.new_id(), time.time()
    stack.keep(record)
    if stack.owner is None:
        stack.happened([], action, IN_PROGRESS)


_REMOVED = Node("", True)
"""The step after all removals that precede creations and updates."""


class _Turn(Traversal):
    """Suspends, resumes or checks each resource."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack)
        ids = {name: resource.record.id for name, resource in stack.resources.items()}
        self._names = {of: name for name, of in ids.items()}
        self._goes_on = stack.record.action == records.CHECK
        self._stopped: set[str] = set()
        """The ids of the resources that a check does not reach, and of the failed ones before them."""
        suspends = stack.record.action == records.SUSPEND
        nodes = {
            of: Node(of, False)
            for of in (reversed(self._names) if suspends else self._names)
        }
        self._positions = {of: position for position, of in enumerate(nodes)}
        for node in nodes.values():
            self.graph.add(node)
        for name, resource in stack.resources.items():
            for required in resource.record.requires:
                if required in nodes:
                    after, before = (
                        (required, ids[name]) if suspends else (ids[name], required)
                    )
                    self.graph.add(nodes[after], nodes[before])

    def position(self, node: Node) -> int:
        return self._positions[node.id]

    def step(self, node: Node) -> Task:
        action, attempt = self.stack.record.action, self.stack.record.attempt
        resource = self.stack.resources[self._names[node.id]]
        if self._is_stopped(resource):
            return
        is_done = (resource.record.passed, *resource.state) == (
            attempt,
            action,
            COMPLETE,
        )
        # a host that was away may be back when a check continues
        if not is_done or resource.record.is_unverified:
            resource.record.passed = attempt
            try:
                yield from TURNS[action](resource)
            except ResourceFailure:
                self._stopped.add(node.id)
                raise

    def _is_stopped(self, resource: Resource) -> bool:
        """Return whether a check does not reach a resource, because a dependency has failed and it runs nothing here.

        Each resource that runs something here is verified, because the next update repairs what has failed.
        """
        stopped = not self._stopped.isdisjoint(resource.record.requires)
        if stopped and not resource.has_run() and resource.child is None:
            self._stopped.add(resource.record.id)
            return True
        return False


class _Convergence(Traversal):
    """Creates, updates and deletes resources until the stack matches a definition."""

    def __init__(
        self,
        stack: Stack,
        definition: Definition | None,
        rolling: Rolling | None = None,
    ) -> None:
        super().__init__(stack)
        self._definition, self._rolling = definition, rolling or Rolling(())
        self._before = {each.id: each for each in stack.records()}
        self._current: dict[str, str] = {}
        """The ids of the resources of the definition at the start, by name."""
        self._names: dict[str, str] = {}
        self._adopted_failure = False
        """True if a resource had failed before it was adopted, which is not a reason to delete the stack."""
        self._pauses: dict[Node, float] = {}
        """The seconds to wait before a step."""
        widened = None if definition is None else self._rolling.widened(definition)
        stack.define(widened)
        self._in_turn = stack.in_turn
        if widened is not None:
            self._plan(widened)
        self._inside = self._leaving_inside()
        self._plan_removals()
        self._plan_batches()
        self._positions = {
            Node(of, True): len(self._before) - at for at, of in enumerate(self._before)
        }
        self._positions |= dict.fromkeys(
            (_REMOVED, *(Node(of, True) for of in self._inside)), 0
        )
        self._positions |= {
            Node(of, False): at - len(self._names) for at, of in enumerate(self._names)
        }

    def position(self, node: Node) -> int:
        return self._positions[node]

    def _plan(self, definition: Definition) -> None:
        """Find or create the record of each resource, and order each after its dependencies."""
        stack = self.stack
        by_name: dict[str, list[Record]] = {}
        for resource in self._before.values():
            by_name.setdefault(resource.name, []).append(resource)
        for name in definition.resources:
            chosen = self._fittest(by_name.get(name, ()))
            if chosen is None:
                chosen = self._new(name)
            self._current[name], self._names[chosen.id] = chosen.id, name
            if (
                name not in stack.resources
                or stack.resources[name].record is not chosen
            ):
                stack.resources[name] = stack.resource(chosen)
        for name, wanted in definition.resources.items():
            needs = [
                self._current[other]
                for other in wanted.requirements()
                if other in self._current
            ]
            self.graph.add(
                Node(self._current[name], False),
                *(Node(other, False) for other in needs),
            )
            if stack.resources[name].record.definition is None:
                stack.resources[name].record.requires = sorted(needs)
        extra = {
            self._current[name]: stack.resources[name].record
            for name in self._rolling.extra
        }
        self._before |= extra  # they are deleted again

    def _fittest(self, candidates: Sequence[Record]) -> Record | None:
        """Return the record, of several with one name, to go on with: by Heat's scores, else the last that changed."""
        revision, before = self.stack.record.revision, self.stack.record.before
        replaced = {each.replaces for each in self._before.values()}

        def fitness(of: Record) -> tuple[int, float]:
            score = (
                -30 * (of.status == FAILED)
                - 50 * (of.action == DELETE)
                - (of.id in replaced)
            )
            return score + 5 * (of.revision == before) + 10 * (
                of.revision == revision
            ), of.updated or of.created

        return max(candidates, key=fitness, default=None)

    def _plan_batches(self) -> None:
        """Order each batch of a rolling update, with its removals, after the batch before."""
        former: list[Node] = []
        for batch in self._rolling.batches:
            members = [
                self._current[name] for name in batch.made if name in self._current
            ]
            gone = [
                of for of, each in self._before.items() if each.name in batch.removed
            ]
            nodes = [
                *(Node(of, False) for of in members),
                *(Node(of, True) for of in gone),
            ]
            for node in nodes:
                self.graph.add(node, *former)
                self._pauses[node] = batch.pause
            first = [
                Node(of, True)
                for of in gone
                if self.stack.resource(self._before[of]).has_run()
            ]
            for of in members:
                self.graph.add(Node(of, False), *first)
            stay = [
                of
                for of in members
                if of in self._before
                and self._before[of].name not in self._rolling.extra
            ]
            former = [*nodes, *(Node(of, True) for of in stay)] or former

    def _plan_removals(self) -> None:
        """Visit each existing resource again, after its own first visit and after everything that depended on it."""
        current = set(self._current.values())
        first = self._removed_first()
        for id_, former in self._before.items():
            self.graph.add(
                Node(id_, True), *([Node(id_, False)] if id_ in current else [])
            )
            for other in former.requires:
                if other in self._before and other not in first and other != id_:
                    self.graph.add(Node(other, True), Node(id_, True))
            if former.replaces in self._before and former.replaces not in first:
                self.graph.add(Node(former.replaces, True), Node(id_, True))
        if not first and not self._inside:
            return
        self.graph.add(_REMOVED, *(Node(of, True) for of in (*first, *self._inside)))
        self._order_inside(first)
        for of, dependents in first.items():
            self.graph.add(Node(of, True), *(Node(other, True) for other in dependents))
        for name, of in self._current.items():
            if self.stack.as_defined(name).may_run:
                self.graph.add(Node(of, False), _REMOVED)

    def _leaving_inside(self) -> dict[str, _Inside]:
        """Return the resources that child stacks will remove, by id: new resources may take over their place, too.

        There are none if nothing new may run outside of the child stack that removes them.
        """
        if self._definition is None:
            return {}
        there = self.stack.resources.values()
        outer = [
            each
            for each in there
            if each.child is not None and not type(each).__module__.startswith(PLUGINS)
        ]
        if not outer or not (
            outer[1:] or any(each.may_run and each.action == INIT for each in there)
        ):
            return {}
        return {
            inner.record.id: _Inside(each, path, inner)
            for each in outer
            for path, inner in each.leaving(self.stack.definition)
        }

    def _order_inside(self, first: Iterable[str]) -> None:
        """Order the removals inside child stacks: dependents are removed first."""
        for resource, each in self._inside.items():
            outer = each.outer.record
            before = [
                other
                for other, user in self._inside.items()
                if resource in user.inner.record.requires
            ]
            before += [
                other for other in first if outer.id in self._before[other].requires
            ]
            self.graph.add(
                Node(resource, True), *(Node(other, True) for other in before)
            )
            for other in first:
                if other in outer.requires:
                    self.graph.add(Node(other, True), Node(resource, True))

    def _removed_first(self) -> dict[str, set[str]]:
        """Return the resources that are removed before anything runs: new ones may have their place on the machine.

        With each are those that depended on it and are removed first as well. One that a plug-in's resource uses is
        not among them.
        """
        if self._definition is None:
            return {}
        current, later = (
            set(self._current.values()),
            {name for each in self._rolling.batches for name in each.removed},
        )
        removed = {
            of: resource
            for of, each in self._before.items()
            if of not in current
            and each.name not in later
            and (resource := self.stack.resource(each)).has_run()
        }
        users: dict[str, set[str]] = {}
        for of, each in self._before.items() if removed else ():
            for other in each.requires:
                users.setdefault(other, set()).add(of)
        first: dict[str, set[str]] = {}
        for of in removed:
            reached: set[str] = set()
            todo = [of]
            while todo:
                todo += (new := users.get(todo.pop(), set()) - reached)
                reached |= new
            if not any(
                self._is_of_plugin(other) for other in reached if other not in current
            ):
                first[of] = (reached & removed.keys()) - {of}
        return {of: dependents & first.keys() for of, dependents in first.items()}

    def _is_of_plugin(self, of: str) -> bool:
        return type(self.stack.resource(self._before[of])).__module__.startswith(
            PLUGINS
        )

    def _new(self, name: str, replaces: str = "") -> Record:
        """Return the record of a new resource, whose definition has not been resolved yet."""
        made = Record(
            records.new_id(),
            name,
            self.stack.id,
            revision=self.stack.record.revision,
            replaces=replaces,
        )
        wanted = self.stack.as_defined(name).record
        made.type, made.template = wanted.type, wanted.template
        self.stack.keep(made)
        return made

    def step(self, node: Node) -> Task:
        if node == _REMOVED:
            return
        if not node.last:
            yield from self._make(node)
        else:
            yield from self._remove(node)

    def _make(self, node: Node) -> Task:
        """Create, update or replace a resource, unless an earlier process has finished it."""
        resource = self.stack.resources[self._names[node.id]]
        record, attempt = resource.record, self.stack.record.attempt
        if (record.passed, record.revision, record.status) == (
            attempt,
            self.stack.record.revision,
            COMPLETE,
        ):
            return
        if record.passed != attempt:
            yield from self._paused(node, record)
            ours = resource.may_run and not type(resource).__module__.startswith(
                PLUGINS
            )
            if ours and record.status == IN_PROGRESS and record.action != DELETE:
                record.attempt = ""  # what was interrupted had another definition
        record.passed = attempt
        if resource.state == (DELETE, IN_PROGRESS) and resource.has_run():
            yield from self._replaced(resource)
            return
        again = (
            resource.state == (CREATE, IN_PROGRESS)
            and resource.again_after_interruption
        )
        again = again or resource.state == (records.ADOPT, IN_PROGRESS)
        if resource.action != INIT and not again:
            try:
                yield from actions.update(
                    resource,
                    self.stack.as_defined(resource.name),
                    self._needs(resource.name),
                )
            except UpdateReplace:
                yield from self._replaced(resource)
                return
        else:
            resource = self._made_new(record)
            yield from self._begun(resource)
        self._is_made(resource)

    def _is_made(self, resource: Resource) -> None:
        resource = self.stack.renewed(resource)
        self._needs_now(resource)
        self.stack.keep(resource.record)

    def _replaced(self, former: Resource) -> Task:
        """Create the replacement of a resource; first delete a resource that has run something: both share a place."""
        if former.has_run():
            yield from actions.delete(self.stack.resource(former.record))
        resource = self._made_new(self._new(former.name, replaces=former.record.id))
        yield from self._begun(resource)
        self._is_made(resource)

    def _begun(self, resource: Resource) -> Task:
        """Create a resource, or adopt it with its stack."""
        if self.stack.record.action != records.ADOPT:
            yield from actions.create(resource)
            return
        data = (self.stack.record.adopted or {}).get(resource.name)
        yield from actions.adopt(resource, data)
        if failure := actions.adopt_failed(resource, data):
            self._adopted_failure = True
            self._fail(failure)

    def _paused(self, node: Node, record: Record) -> Task:
        """Wait before a step of a batch; after an interruption, only for the rest of the pause."""
        pause = self._pauses.get(node, 0.0)
        if not pause:
            return
        spans.begin(
            record, f"{self.stack.record.attempt}{' removal' if node.last else ''}"
        )
        self.stack.keep(record)
        while spans.lasted(record) < pause:
            if spans.renew(record):
                self.stack.keep(record)
            yield None

    def _made_new(self, record: Record) -> Resource:
        """Return a resource that is about to be created, as the definition has it now."""
        resource = self.stack.as_defined(record.name)
        record.type, record.template = resource.record.type, resource.record.template
        record.revision, record.passed = (
            self.stack.record.revision,
            self.stack.record.attempt,
        )
        resource.attach(record)
        self.stack.resources[record.name] = resource
        self._needs_now(resource)
        return resource

    def _needs_now(self, resource: Resource) -> None:
        resource.record.requires = self._needs(resource.name)

    def _needs(self, name: str) -> list[str]:
        """Return the ids of the resources that one of the definition depends on."""
        there = self.stack.resources
        needs = self.stack.definition.resources[name].requirements()
        return sorted(there[each].record.id for each in needs if each in there)

    def _remove(self, node: Node) -> Task:
        """Delete a resource if the stack no longer has it."""
        if node.id in self._inside:
            yield from self._removed_inside(self._inside[node.id])
            return
        record = self._before[node.id]
        yield from self._paused(node, record)
        working = self.stack.resources.get(record.name)
        if working is None or working.record is not record:
            record.passed = self.stack.record.attempt
            yield from actions.delete(self.stack.resource(record))
        elif self._definition is None or record.name not in self._definition.resources:
            record.passed = self.stack.record.attempt
            yield from actions.delete(working)

    def _removed_inside(self, inside: _Inside) -> Task:
        """Delete a resource of a child stack, before that is updated."""
        try:
            yield from actions.delete(inside.inner)
        except ResourceFailure as failure:
            names = (inside.outer.name, *inside.path[:-1])
            outer = [word for name in names for word in ("resources", name)]
            raise ResourceFailure(
                failure.kind, [*outer, *failure.path], failure.text
            ) from failure

    def _ended(self) -> None:
        record = self.stack.record
        if record.failure is None and procedure.is_to_deploy(self.stack):
            self.stack.world.scheduler.add(self._deployed(), self._ended)
            return
        failed, back = (
            record.failure is not None,
            record.rollback and record.action in (CREATE, UPDATE, records.ADOPT),
        )
        if failed and back and self.stack.owner is None and not self._adopted_failure:
            self._go_back()
            return
        if not failed and self._definition is None:
            self._clear()
        if self._rolling.extra:
            self.stack.define(self._definition)
        super()._ended()

    def _deployed(self) -> Task:
        """Carry out the procedure that creates the operations."""
        stack = self.stack
        try:
            run = procedure.deployment(stack)
        except (Invalid, procedure.Refused) as error:
            problem = str(error)
        else:
            yield from run.task()
            problem = run.record.reason
        if problem:
            stack.record.failure = records.Failure(
                "WorkflowFailed", ["workflows", DEPLOY], problem
            )
        else:
            procedure.take_over(stack)

    def _go_back(self) -> None:
        record = self.stack.record
        go_back(self.stack, f"Resource {record.action} failed: {record.failure}")

    def _clear(self) -> None:
        """Delete all configs and deployments of the stack."""
        for each in self.stack.world.store.rest_of(self.stack.id):
            self.stack.world.store.drop(each)


def go_back(stack: Stack, failed: str) -> None:
    """Begin to return to the earlier definition, because of a failure; after a failed create, to nothing."""
    record = stack.record
    stack.happened([], record.action, FAILED, failed)
    record.undone = {"reason": failed, "runs": deployments.runs_that_failed(stack)}
    create = record.action != UPDATE
    record.revision, record.before = (
        (record.latest + 1 if create else record.before),
        record.revision,
    )
    record.latest = max(record.latest, record.revision)
    record.source, record.source_before = record.source_before, record.source
    earlier = None if create else stack.earlier
    _begin(stack, ROLLBACK, record.attempt)
    _Convergence(stack, earlier).start()

"""The traversal of a stack: every resource, in the order of dependencies, to a new definition, state, or deletion.

The steps and their order are those of Heat's convergence. Each resource of the definition is created or updated after
its dependencies. Each resource that existed before is visited a second time, after everything that depended on it, and
is deleted if the stack no longer has it. A failure stops only what depends on the failed resource.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from functools import partial
from graphlib import TopologicalSorter
from typing import NamedTuple

from heat_config_agent.language.mistakes import Invalid
from heat_config_agent.model.errors import AgentError, shortage
from heat_config_agent.stack import actions, procedure, records, spans
from heat_config_agent.stack.definition import Definition
from heat_config_agent.stack.definition.procedures import DEPLOY
from heat_config_agent.stack.exception import ResourceFailure, UpdateReplace
from heat_config_agent.stack.live import Stack, best
from heat_config_agent.stack.records import COMPLETE, CREATE, DELETE, FAILED, IN_PROGRESS, INIT, ROLLBACK, UPDATE
from heat_config_agent.stack.records import ResourceRecord as Record
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.scheduler import Task


class Node(NamedTuple):
    """A step of a traversal."""

    id: str
    """The id of the resource; if it is replaced on the way, the id of the old one."""
    last: bool
    """True if it is the second visit: delete the resource if the stack no longer has it."""


TURNS: dict[str, Callable[[Resource], actions.Acting]] = {
    records.SUSPEND: actions.suspend,
    records.RESUME: actions.resume,
    records.CHECK: actions.check,
    records.SNAPSHOT: actions.snapshot,
}
"""The action for each resource in a traversal that leaves the definition as it is."""


def key(stack: Stack) -> tuple[str, str]:
    """Return the key that is woken when the traversal of a stack ends."""
    return ("stack", stack.id)


def converge(stack: Stack, action: str, definition: Definition | None, attempt: str = "") -> None:
    """Begin to create or update a stack to a definition; without one, to delete it."""
    record = stack.record
    if record.action != DELETE:
        stack.settle()
    if action != ROLLBACK:
        record.before, record.revision = record.revision, record.latest + 1
        record.latest = record.revision
    _begin(stack, action, attempt)
    _Convergence(stack, definition).start()


def turn(stack: Stack, action: str, attempt: str = "") -> None:
    """Begin to suspend, resume or check a stack."""
    stack.settle()
    _begin(stack, action, attempt)
    _Turn(stack).start()


def go_on(stack: Stack, definition: Definition | None) -> None:
    """Continue the traversal that an earlier process began."""
    if stack.record.action in TURNS:
        _Turn(stack).start()
    else:
        _Convergence(stack, None if stack.record.action == DELETE else definition).start()


def _begin(stack: Stack, action: str, attempt: str) -> None:
    record = stack.record
    record.action, record.status, record.reason, record.failure = action, IN_PROGRESS, "", None
    record.attempt, record.updated = attempt or records.new_id(), time.time()
    stack.keep(record)
    if stack.owner is None:
        stack.happened([], action, IN_PROGRESS)


class _Traversal:
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
        """Begin the steps whose dependencies are done."""
        nodes = self._next(self.graph.get_ready()) if self._in_turn else self.graph.get_ready()
        self._open += len(nodes)
        for node in nodes:
            done: list[bool] = []
            self.stack.world.scheduler.add(self._guarded(node, done), partial(self._after, node, done))

    def _next(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """Return the one step to begin; none while another one is open, or after a failure."""
        for node in nodes:
            heapq.heappush(self._waiting, (self.position(node), node))
        if self.stack.record.failure is not None:  # only a removal goes on
            self._waiting = [entry for entry in self._waiting if entry[1].last]
            heapq.heapify(self._waiting)
        if self._open or self._is_over or not self._waiting:
            return ()
        return (heapq.heappop(self._waiting)[1],)

    def position(self, node: Node) -> int:
        """Return the position of a step among those that could begin; the least is the first."""
        raise NotImplementedError

    def _guarded(self, node: Node, succeeded: list[bool]) -> Task:
        try:
            yield from self.step(node)
            succeeded.append(True)
        except ResourceFailure as failure:
            self._fail(failure)
        except (AgentError, GeneratorExit):
            raise
        except BaseException as error:  # plug-ins may raise anything, outside of their handlers too
            if isinstance(error, OSError) and shortage(error):
                raise
            self._fail(self._broken(node, error))

    def _fail(self, failure: ResourceFailure) -> None:
        if self.stack.record.failure is None:
            self.stack.record.failure = records.Failure(failure.kind, failure.path, failure.text)

    def _broken(self, node: Node, error: BaseException) -> ResourceFailure:
        """Record that a resource failed outside of its handlers; one that was not begun keeps its state."""
        record = self.stack.world.store.resources.get(node.id)
        failure = actions.failure(record.name if record else node.id, error, self.stack.world.conceal)
        if record is not None and record.action != INIT:
            record.status, record.reason, record.updated = FAILED, str(failure), time.time()
            self.stack.keep(record)
            self.stack.happened([record.name], record.action, FAILED, record.reason)
        return failure

    def _after(self, node: Node, succeeded: list[bool]) -> None:
        self._open -= 1
        self._is_over = self._is_over or not (succeeded or node.last)
        if self.stack.traversal is self and (succeeded or self._in_turn):
            if succeeded or node.last:
                self.graph.done(node)
            self._take()
        if not self._open and self.stack.traversal is self:
            self._ended()

    def _ended(self) -> None:
        self.stack.traversal = None
        record = self.stack.record
        record.status = FAILED if record.failure else COMPLETE
        record.reason = f"Resource {record.action} failed: {record.failure}" if record.failure else ""
        record.updated = time.time()
        self.stack.keep(record)
        if self.stack.owner is None:
            self.stack.happened([], record.action, record.status, record.reason)
        self.stack.world.scheduler.wake(key(self.stack))


class _Turn(_Traversal):
    """Suspends, resumes or checks each resource."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack)
        ids = {name: each.record.id for name, each in stack.resources.items()}
        self._names = {of: name for name, of in ids.items()}
        suspends = stack.record.action == records.SUSPEND
        nodes = {of: Node(of, False) for of in (reversed(self._names) if suspends else self._names)}
        self._positions = {of: position for position, of in enumerate(nodes)}
        for node in nodes.values():
            self.graph.add(node)
        for name, each in stack.resources.items():
            for other in each.record.requires:
                if other in nodes:
                    after, before = (other, ids[name]) if suspends else (ids[name], other)
                    self.graph.add(nodes[after], nodes[before])

    def position(self, node: Node) -> int:
        return self._positions[node.id]

    def step(self, node: Node) -> Task:
        action, attempt = self.stack.record.action, self.stack.record.attempt
        resource = self.stack.resources[self._names[node.id]]
        if (resource.record.passed, *resource.state) != (attempt, action, COMPLETE):
            resource.record.passed = attempt
            yield from TURNS[action](resource)


class _Convergence(_Traversal):
    """Creates, updates and deletes resources until the stack matches a definition."""

    def __init__(self, stack: Stack, definition: Definition | None) -> None:
        super().__init__(stack)
        self._definition = definition
        self._before = {each.id: each for each in stack.records()}
        self._current: dict[str, str] = {}
        """The ids of the resources of the definition at the start, by name."""
        self._names: dict[str, str] = {}
        self._pauses: dict[str, float] = {}
        """The seconds to wait before a resource is created or updated, by name."""
        stack.define(definition)
        self._in_turn = stack.in_turn
        if definition is not None:
            self._plan(definition)
        self._plan_removals()
        self._positions = {Node(of, True): len(self._before) - at for at, of in enumerate(self._before)}
        self._positions |= {Node(of, False): at - len(self._names) for at, of in enumerate(self._names)}

    def position(self, node: Node) -> int:
        return self._positions[node]

    def _plan(self, definition: Definition) -> None:
        """Find or create the record of each resource, and order each after its dependencies."""
        stack, record = self.stack, self.stack.record
        by_name: dict[str, list[Record]] = {}
        for resource in self._before.values():
            by_name.setdefault(resource.name, []).append(resource)
        for name in definition.resources:
            chosen = best(by_name.get(name, ()), record.revision, record.before)
            if chosen is None:
                chosen = self._new(name)
            self._current[name], self._names[chosen.id] = chosen.id, name
            if name not in stack.resources or stack.resources[name].record is not chosen:
                stack.resources[name] = stack.resource(chosen)
        for name, wanted in definition.resources.items():
            needs = [self._current[other] for other in wanted.requirements() if other in self._current]
            self.graph.add(Node(self._current[name], False), *(Node(other, False) for other in needs))
            if stack.resources[name].record.definition is None:
                stack.resources[name].record.requires = sorted(needs)
        if stack.batches:
            names, size = list(definition.resources), stack.batches[0]
            for at in range(size, len(names), size):
                former = [Node(self._current[resource], False) for resource in names[at - size : at]]
                for name in names[at : at + size]:
                    self.graph.add(Node(self._current[name], False), *former)
                    self._pauses[name] = stack.batches[1]

    def _plan_removals(self) -> None:
        """Visit each existing resource again, after its own first visit and after everything that depended on it."""
        current = set(self._current.values())
        for id_, former in self._before.items():
            self.graph.add(Node(id_, True), *([Node(id_, False)] if id_ in current else []))
            for other in former.requires:
                if other in self._before and other != id_:
                    self.graph.add(Node(other, True), Node(id_, True))
            if former.replaces in self._before:
                self.graph.add(Node(former.replaces, True), Node(id_, True))

    def _new(self, name: str, replaces: str = "") -> Record:
        """Return the record of a new resource, whose definition has not been resolved yet."""
        made = Record(records.new_id(), name, self.stack.id, revision=self.stack.record.revision, replaces=replaces)
        wanted = self.stack.as_defined(name).record
        made.type, made.template = wanted.type, wanted.template
        self.stack.keep(made)
        return made

    def step(self, node: Node) -> Task:
        if not node.last:
            yield from self._make(node)
        else:
            yield from self._remove(node)

    def _make(self, node: Node) -> Task:
        """Create, update or replace a resource; leave one that an earlier process has finished."""
        resource = self.stack.resources[self._names[node.id]]
        record, attempt = resource.record, self.stack.record.attempt
        if (record.passed, record.revision, record.status) == (attempt, self.stack.record.revision, COMPLETE):
            return
        if record.passed != attempt:
            yield from self._paused(resource)
        record.passed = attempt
        again = resource.state == (CREATE, IN_PROGRESS) and resource.again_after_interruption
        again = again or resource.state == (records.ADOPT, IN_PROGRESS)
        if resource.action != INIT and not again:
            try:
                yield from actions.update(resource, self.stack.as_defined(resource.name))
            except UpdateReplace:
                resource = self._made_new(self._new(resource.name, replaces=record.id))
                yield from self._begun(resource)
        else:
            resource = self._made_new(record)
            yield from self._begun(resource)
        self._needs_now(resource)
        self.stack.keep(resource.record)

    def _begun(self, resource: Resource) -> Task:
        """Create a resource, or adopt it with its stack."""
        if self.stack.record.action == records.ADOPT:
            return actions.adopt(resource, (self.stack.record.adopted or {}).get(resource.name))
        return actions.create(resource)

    def _paused(self, resource: Resource) -> Task:
        """Wait before the batch of a resource; after an interruption, only for the rest of the pause."""
        pause = self._pauses.get(resource.name, 0.0)
        if not pause:
            return
        record = resource.record
        spans.begin(record, self.stack.record.attempt)
        self.stack.keep(record)
        while spans.lasted(record) < pause:
            if spans.renew(record):
                self.stack.keep(record)
            yield None

    def _made_new(self, record: Record) -> Resource:
        """Return a resource that is about to be created, as the definition has it now."""
        resource = self.stack.as_defined(record.name)
        record.type, record.template = resource.record.type, resource.record.template
        record.revision, record.passed = self.stack.record.revision, self.stack.record.attempt
        resource.attach(record)
        self.stack.resources[record.name] = resource
        self._needs_now(resource)
        return resource

    def _needs_now(self, resource: Resource) -> None:
        there = self.stack.resources
        needs = self.stack.definition.resources[resource.name].requirements()
        resource.record.requires = sorted(there[each].record.id for each in needs if each in there)

    def _remove(self, node: Node) -> Task:
        """Delete a resource if the stack no longer has it."""
        record = self._before[node.id]
        working = self.stack.resources.get(record.name)
        if working is None or working.record is not record:
            yield from actions.delete(self.stack.resource(record))
        elif self._definition is None:
            yield from actions.delete(working)

    def _ended(self) -> None:
        record = self.stack.record
        if record.failure is None and procedure.is_to_deploy(self.stack):
            self.stack.world.scheduler.add(self._deployed(), self._ended)
            return
        failed, back = record.failure is not None, record.rollback and record.action in (CREATE, UPDATE, records.ADOPT)
        if failed and back and self.stack.owner is None:
            self._go_back()
            return
        if not failed and self._definition is None:
            self._clear()
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
            stack.record.failure = records.Failure("WorkflowFailed", ["workflows", DEPLOY], problem)
        else:
            procedure.take_over(stack)

    def _go_back(self) -> None:
        """Return to the earlier definition; after a failed create, to nothing."""
        stack, record = self.stack, self.stack.record
        failed = f"Resource {record.action} failed: {record.failure}"
        stack.happened([], record.action, FAILED, failed)
        create = record.action != UPDATE
        record.revision, record.before = (record.latest + 1 if create else record.before), record.revision
        record.latest = max(record.latest, record.revision)
        record.source, record.source_before = record.source_before, record.source
        earlier = None if create else stack.earlier
        _begin(stack, ROLLBACK, record.attempt)
        _Convergence(stack, earlier).start()

    def _clear(self) -> None:
        """Delete all configs and deployments of the stack."""
        for each in self.stack.world.store.rest_of(self.stack.id):
            self.stack.world.store.drop(each)

"""One way through all of a stack: to what its definition says, to its end, or to another state.

The steps and their order are those of Heat's convergence: each resource of the definition is made or updated after
those that it needs; each that was there before is looked at once more after those that needed it, and removed if the
stack has gone on without it. What fails holds up what needs it, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from heat_config_agent.stack import acting, records
from heat_config_agent.stack.definition import Definition
from heat_config_agent.stack.exception import ResourceFailure, UpdateReplace
from heat_config_agent.stack.graph import Graph
from heat_config_agent.stack.live import Stack, best
from heat_config_agent.stack.records import COMPLETE, CREATE, DELETE, FAILED, IN_PROGRESS, INIT, ROLLBACK, UPDATE
from heat_config_agent.stack.records import ResourceRecord as Record
from heat_config_agent.stack.resource import Resource
from heat_config_agent.stack.scheduler import Task


class Node(NamedTuple):
    """A step of a traversal."""

    id: str
    """Of the resource; of one that is replaced on the way, that of the old one."""
    last: bool
    """Whether it is the second look at it: is it to be removed?"""


TURNS: dict[str, Callable[[Resource], acting.Acting]] = {
    records.SUSPEND: acting.suspend,
    records.RESUME: acting.resume,
    records.CHECK: acting.check,
}
"""What is done with each resource where the stack stays what it is."""


def key(stack: Stack) -> tuple[str, str]:
    """Return what is woken when a stack has come to the end of its way."""
    return ("stack", stack.id)


def converge(stack: Stack, action: str, definition: Definition | None, attempt: str = "") -> None:
    """Begin to have a stack be what a definition says; without one, to remove it."""
    record = stack.record
    if action != ROLLBACK:
        record.before, record.revision = record.revision, record.latest + 1
        record.latest = record.revision
    _begin(stack, action, attempt)
    _Convergence(stack, definition).start()


def turn(stack: Stack, action: str, attempt: str = "") -> None:
    """Begin to suspend, resume or check a stack."""
    _begin(stack, action, attempt)
    _Turn(stack).start()


def go_on(stack: Stack, definition: Definition | None) -> None:
    """Go on with what an earlier process was doing."""
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
    """Takes the steps of a graph, each as soon as it can be taken."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.graph: Graph[Node] = Graph()
        self._open = 0

    def start(self) -> None:
        """Begin with the steps that need nothing."""
        self.stack.traversal = self
        self._take(self.graph.first())
        if not self._open:
            self._ended()

    def step(self, node: Node) -> Task:
        """Return the task of a step."""
        raise NotImplementedError

    def _take(self, nodes: list[Node]) -> None:
        self._open += len(nodes)
        for node in nodes:
            done: list[bool] = []
            self.stack.world.scheduler.add(self._guarded(node, done), partial(self._after, node, done))

    def _guarded(self, node: Node, done: list[bool]) -> Task:
        try:
            yield from self.step(node)
            done.append(True)
        except ResourceFailure as failure:
            if self.stack.record.failure is None:
                self.stack.record.failure = records.Failure(failure.kind, failure.path, failure.text)

    def _after(self, node: Node, done: list[bool]) -> None:
        if done and self.stack.traversal is self:
            self._take(self.graph.done(node))
        self._open -= 1
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
        for name, each in stack.resources.items():
            needs = [other for other in each.record.requires if other in self._names]
            self.graph.add(Node(ids[name], False), [Node(other, False) for other in needs])
        if stack.record.action == records.SUSPEND:
            self.graph = self.graph.reversed()

    def step(self, node: Node) -> Task:
        action, attempt = self.stack.record.action, self.stack.record.attempt
        resource = self.stack.resources[self._names[node.id]]
        if (resource.record.passed, *resource.state) != (attempt, action, COMPLETE):
            resource.record.passed = attempt
            yield from TURNS[action](resource)


class _Convergence(_Traversal):
    """Has a stack be what a definition says."""

    def __init__(self, stack: Stack, definition: Definition | None) -> None:
        super().__init__(stack)
        self._definition = definition
        self._before = {each.id: each for each in stack.records()}
        self._current: dict[str, str] = {}
        """The ids of the resources that the definition has, as they are at first, by name."""
        self._names: dict[str, str] = {}
        self._pauses: dict[str, float] = {}
        """The seconds to wait before a resource is made or updated, by name."""
        stack.define(definition)
        if definition is not None:
            self._plan(definition)
        self._plan_removals()

    def _plan(self, definition: Definition) -> None:
        """Find the resource of each name, or make one, and have each come after those that it needs."""
        stack, record = self.stack, self.stack.record
        there: dict[str, list[Record]] = {}
        for each in self._before.values():
            there.setdefault(each.name, []).append(each)
        for name in definition.resources:
            found = best(there.get(name, ()), record.revision, record.before)
            if found is None:
                found = self._new(name)
            self._current[name], self._names[found.id] = found.id, name
            if name not in stack.resources or stack.resources[name].record is not found:
                stack.resources[name] = stack.resource(found)
        for name, wanted in definition.resources.items():
            needs = [self._current[other] for other in wanted.requirements() if other in self._current]
            self.graph.add(Node(self._current[name], False), [Node(other, False) for other in needs])
            if stack.resources[name].record.definition is None:
                stack.resources[name].record.requires = sorted(needs)
        if stack.batches:
            names, size = list(definition.resources), stack.batches[0]
            for at in range(size, len(names), size):
                former = [Node(self._current[each], False) for each in names[at - size : at]]
                for name in names[at : at + size]:
                    self.graph.add(Node(self._current[name], False), former)
                    self._pauses[name] = stack.batches[1]

    def _plan_removals(self) -> None:
        """Have each resource that was there be looked at after itself and those that needed it."""
        current = set(self._current.values())
        for of, each in self._before.items():
            self.graph.add(Node(of, True), [Node(of, False)] if of in current else [])
            for other in each.requires:
                if other in self._before and other != of:
                    self.graph.add(Node(other, True), [Node(of, True)])
            if each.replaces in self._before:
                self.graph.add(Node(each.replaces, True), [Node(of, True)])

    def _new(self, name: str, replaces: str = "") -> Record:
        """Return a resource that is not made yet. What it is to be is not known to be possible."""
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
        """Make or update a resource, or replace it; one that an earlier process has done with is left as it is."""
        resource = self.stack.resources[self._names[node.id]]
        record, attempt = resource.record, self.stack.record.attempt
        if (record.passed, record.revision, record.status) == (attempt, self.stack.record.revision, COMPLETE):
            return
        until = time.monotonic() + self._pauses.get(resource.name, 0.0)
        while time.monotonic() < until:
            yield None
        record.passed = attempt
        again = resource.state == (CREATE, IN_PROGRESS) and resource.again_after_interruption
        if resource.action != INIT and not again:
            try:
                yield from acting.update(resource, self.stack.as_defined(resource.name))
            except UpdateReplace:
                resource = self._made_new(self._new(resource.name, replaces=record.id))
                yield from acting.create(resource)
        else:
            resource = self._made_new(record)
            yield from acting.create(resource)
        self._needs_now(resource)
        self.stack.keep(resource.record)

    def _made_new(self, record: Record) -> Resource:
        """Return what works on a resource that is to be made, as the definition has it now."""
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
        """Remove a resource, if the stack has gone on without it."""
        record = self._before[node.id]
        working = self.stack.resources.get(record.name)
        if working is None or working.record is not record:
            yield from acting.delete(self.stack.resource(record))
        elif self._definition is None:
            yield from acting.delete(working)

    def _ended(self) -> None:
        record = self.stack.record
        failed, back = record.failure is not None, record.rollback and record.action in (CREATE, UPDATE)
        if failed and back and self.stack.owner is None:
            self._go_back()
            return
        if not failed and self._definition is None:
            self._clear()
        super()._ended()

    def _go_back(self) -> None:
        """Have the stack be what it was before; one that was only being made, nothing at all."""
        stack, record = self.stack, self.stack.record
        failed = f"Resource {record.action} failed: {record.failure}"
        stack.happened([], record.action, FAILED, failed)
        create = record.action == CREATE
        record.revision, record.before = (record.latest + 1 if create else record.before), record.revision
        record.latest = max(record.latest, record.revision)
        record.source = record.source_before
        earlier = None if create else stack.earlier
        _begin(stack, ROLLBACK, record.attempt)
        _Convergence(stack, earlier).start()

    def _clear(self) -> None:
        """Forget all that was kept beside the stack itself."""
        for each in self.stack.world.store.rest_of(self.stack.id):
            self.stack.world.store.drop(each)

"""The steps of a traversal: each begins when the steps that it depends on are done.

A failed step is never done. It stops only what depends on it, unless the stack is worked on in turn.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable
from functools import partial
from graphlib import TopologicalSorter
from typing import NamedTuple

from heat_config_agent.model.errors import AgentError, shortage
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import records
from heat_config_stack.records.exception import ResourceFailure
from heat_config_stack.records.records import COMPLETE, FAILED, IN_PROGRESS
from heat_config_stack.resource import actions
from heat_config_stack.resource.scheduler import Task


class Node(NamedTuple):
    """A step of a traversal."""

    id: str
    """The id of the resource; if it is replaced on the way, the id of the old one."""
    last: bool
    """True if it is the second visit: delete the resource if the stack no longer has it."""


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
        """Begin the steps whose dependencies are done; first, as in Heat, those that delete."""
        ready = self.graph.get_ready()
        nodes = self._next(ready) if self._in_turn else sorted(ready, key=lambda node: not node.last)
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
        if record is not None and record.status == IN_PROGRESS:
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

"""Which step of a stack comes after which: a graph whose steps are taken as soon as all that they need are done."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)


class Graph(Generic[Node]):
    """Steps, and what each needs. A step that fails is never done, and so nothing that needs it is taken."""

    def __init__(self) -> None:
        self._needs: dict[Node, set[Node]] = {}
        self._needed: dict[Node, list[Node]] = {}

    def add(self, node: Node, needs: Iterable[Node] = ()) -> None:
        """Add a step, or more that it needs."""
        mine = self._needs.setdefault(node, set())
        for each in needs:
            if each not in mine:
                mine.add(each)
                self._needs.setdefault(each, set())
                self._needed.setdefault(each, []).append(node)

    def first(self) -> list[Node]:
        """Return the steps that need nothing, in the order in which they were added."""
        return [node for node, needs in self._needs.items() if not needs]

    def done(self, node: Node) -> list[Node]:
        """Take note that a step is done, and return those that can be taken now."""
        able = []
        for each in self._needed.get(node, ()):
            self._needs[each].discard(node)
            if not self._needs[each]:
                able.append(each)
        return able

    def reversed(self) -> Graph[Node]:
        """Return the graph in which what was needed needs."""
        made: Graph[Node] = Graph()
        for node in reversed(self._needs):
            made.add(node)
        for node, needs in self._needs.items():
            for each in needs:
                made.add(each, [node])
        return made

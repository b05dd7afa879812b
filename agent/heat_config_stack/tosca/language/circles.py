"""Circles in what needs what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MOST_SHOWN = 10


def circles(graph: Mapping[Any, Iterable[Any]]) -> list[list[Any]]:
    """Return circles of a graph, of which no two share a node; each begins with its first node in the graph's order."""
    order = {node: number for number, node in enumerate(graph)}
    done: set[Any] = set()
    in_circle: set[Any] = set()
    result: list[list[Any]] = []
    for start in graph:
        trail: dict[Any, int] = {}
        todo: list[tuple[Any, bool]] = [(start, False)]
        while todo:
            node, is_left = todo.pop()
            if is_left:
                done.add(node)
                trail.popitem()
            elif node not in done and node not in trail:
                trail[node] = len(trail)
                todo.append((node, True))
                for following in graph.get(node, ()):
                    if following in trail:
                        circle = (
                            []
                            if following in in_circle
                            else [*trail][trail[following] :]
                        )
                        if circle and not in_circle.intersection(circle):
                            in_circle.update(circle)
                            result.append(_turned(circle, order))
                    elif following not in done:
                        todo.append((following, False))
    return result


def _turned(circle: list[Any], order: Mapping[Any, int]) -> list[Any]:
    first = min(range(len(circle)), key=lambda position: order[circle[position]])
    return circle[first:] + circle[:first]


def shown_circle(names: Sequence[str]) -> str:
    """Return a circle as a message shows it."""
    if len(names) > _MOST_SHOWN:
        return " → ".join([*names[:_MOST_SHOWN], "…", names[0]])
    return " → ".join([*names, names[0]])

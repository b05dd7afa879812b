"""Where the boxes and the lines of a graph go, so that no line runs behind a box.

The layers are columns.
A line that passes columns gets a *lane* in each of them, which takes room between the boxes as a box does.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heat_config_hooks.values import dataclass

if TYPE_CHECKING:
    Item = tuple[str, int]
    """A box or a lane: the name of the resource where the line begins, and the column."""

_SWEEPS = 12
_GAP, _LANE, _MARGIN = 16.0, 8.0, 20.0
_NARROW, _BROAD = 56.0, 160.0
"""The minimum and maximum distance between columns."""
_PAGE = 900.0
"""The width of a page for resources that nothing connects; they fill rows of that width."""


@dataclass(frozen=True)
class Node:
    """A resource in the graph."""

    name: str
    type: str
    needs: tuple[str, ...]
    status: str = ""


@dataclass(frozen=True)
class Box:
    """The place of a resource in pixels."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The vertical position at which its lines begin and end."""
        return self.y + self.height / 2


@dataclass(frozen=True)
class Line:
    """A line from a resource to one that needs it, as points: it is level at each of them."""

    begin: str
    end: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Layout:
    """A graph in pixels."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    lines: Sequence[Line]


def direct(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """Return what each resource needs, without what it needs anyway because of another one."""
    needs = {node.name: node.needs for node in nodes}
    indirect: dict[str, set[str]] = {}
    remaining = list(reversed(needs))
    while remaining:
        name = remaining[-1]
        unknown = [other for other in needs[name] if other not in indirect]
        if unknown and name not in indirect:
            remaining += unknown
            continue
        indirect.setdefault(name, {name}.union(*(indirect[other] for other in needs[name])))
        remaining.pop()
    return {
        name: tuple(
            other for other in others if not any(other in indirect[third] for third in others if third != other)
        )
        for name, others in needs.items()
    }


def placed(layers: Sequence[Sequence[Node]], sizes: Mapping[str, tuple[float, float]]) -> Layout:
    """Return the layout of the layers; `sizes` are the width and the height of each box."""
    nodes = [node for layer in layers for node in layer]
    needs = direct(nodes)
    connected = {name for node, others in needs.items() for name in ((node, *others) if others else ())}
    columns = _columns(layers, needs, connected)
    heights = {(name, place): sizes[name][1] + _GAP for place, column in enumerate(columns) for name in column}
    links = _links(columns, needs, heights)
    order = _ordered(columns, links, heights)
    middles = _middles(order, links, heights)
    top = min((middles[item] - height / 2 for item, height in heights.items()), default=0.0) + _GAP / 2 - _MARGIN
    middles = {item: middle - top for item, middle in middles.items()}
    boxes, x = dict[str, Box](), _MARGIN
    spans = list[tuple[float, float]]()
    for place, column in enumerate(columns):
        width = max(sizes[name][0] for name in column)
        for name in column:
            height = sizes[name][1]
            boxes[name] = Box(x, middles[name, place] - height / 2, width, height)
        spans.append((x, x + width))
        steepest = max((abs(middles[a] - middles[b]) for a, b in links if a[1] == place), default=0.0)
        x += width + min(max(steepest / 5, _NARROW), _BROAD)
    lines = _lines(columns, needs, boxes, middles, spans)
    _below(boxes, [node.name for node in nodes if node.name not in connected], sizes)
    return Layout(
        max((box.x + box.width for box in boxes.values()), default=0.0) + _MARGIN,
        max([box.y + box.height for box in boxes.values()] + [y for line in lines for _, y in line.points], default=0.0)
        + _MARGIN,
        boxes,
        lines,
    )


def _columns(
    layers: Sequence[Sequence[Node]], needs: Mapping[str, Sequence[str]], connected: set[str]
) -> list[list[str]]:
    """Return the resources of each column: each is as close to those that need it as shortens the lines."""
    column_of = {node.name: place for place, layer in enumerate(layers) for node in layer if node.name in connected}
    needed_by: dict[str, list[str]] = {}
    for name, others in needs.items():
        for other in others:
            needed_by.setdefault(other, []).append(name)
    for name in sorted(column_of, key=column_of.__getitem__, reverse=True):
        if len(needs[name]) <= len(needed_by.get(name, ())):
            column_of[name] = min(column_of[other] for other in needed_by[name]) - 1
    return [[name for name in column_of if column_of[name] == place] for place in sorted({*column_of.values()})]


def _links(
    columns: Sequence[Sequence[str]], needs: Mapping[str, Sequence[str]], heights: dict[Item, float]
) -> set[tuple[Item, Item]]:
    """Return the pairs of neighbours in adjacent columns, and add the lanes to `heights`."""
    column_of = {name: place for place, column in enumerate(columns) for name in column}
    links = set[tuple["Item", "Item"]]()
    for name, place in column_of.items():
        for other in needs[name]:
            first = column_of[other]
            for passed in range(first + 1, place):
                heights.setdefault((other, passed), _LANE + _GAP)
                links.add(((other, passed - 1), (other, passed)))
            links.add(((other, place - 1), (name, place)))
    return links


def _ordered(
    columns: Sequence[Sequence[str]], links: set[tuple[Item, Item]], heights: Mapping[Item, float]
) -> list[list[Item]]:
    """Return the items of each column from top to bottom, with few crossings of lines."""
    order = [[item for item in heights if item[1] == place] for place in range(len(columns))]
    left, right = _neighbours(links)
    best, fewest = order, _crossings(order, right)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        order = [list(column) for column in order]
        forward = sweep % 2 == 0
        for place in range(len(order)) if forward else reversed(range(len(order))):
            beside = place - 1 if forward else place + 1
            if not 0 <= beside < len(order):
                continue
            rank = {item: float(row) for row, item in enumerate(order[beside])}
            near = left if forward else right
            own = {item: float(row) for row, item in enumerate(order[place])}
            order[place].sort(key=lambda item: _mean([rank[other] for other in near.get(item, ())], own[item]))
        crossings = _crossings(order, right)
        if crossings < fewest:
            best, fewest = order, crossings
    return best


def _neighbours(links: set[tuple[Item, Item]]) -> tuple[dict[Item, list[Item]], dict[Item, list[Item]]]:
    left, right = dict["Item", list["Item"]](), dict["Item", list["Item"]]()
    for begin, end in sorted(links):
        right.setdefault(begin, []).append(end)
        left.setdefault(end, []).append(begin)
    return left, right


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _crossings(order: Sequence[Sequence[Item]], right: Mapping[Item, Sequence[Item]]) -> int:
    total = 0
    for column, beside in itertools.pairwise(order):
        rank = {item: row for row, item in enumerate(beside)}
        above: list[int] = []
        for item in column:
            ends = [rank[other] for other in right.get(item, ())]
            total += sum(len(above) - bisect_right(above, end) for end in ends)
            for end in ends:
                insort(above, end)
    return total


def _middles(
    order: Sequence[Sequence[Item]], links: set[tuple[Item, Item]], heights: Mapping[Item, float]
) -> dict[Item, float]:
    """Return the height of the middle of each item: near those of its neighbours, and no two items overlap."""
    left, right = _neighbours(links)
    middles = dict["Item", float]()
    for column in order:
        y = -sum(heights[item] for item in column) / 2
        for item in column:
            middles[item] = y + heights[item] / 2
            y += heights[item]
    for sweep in range(_SWEEPS):
        near = left if sweep % 2 == 0 else right
        for column in order if sweep % 2 == 0 else reversed(order):
            wishes = [_mean([middles[other] for other in near.get(item, ())], middles[item]) for item in column]
            for item, middle in zip(column, _apart(wishes, [heights[item] for item in column]), strict=True):
                middles[item] = middle
    return middles


def _apart(wishes: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Return the middles of items that are as near to the wishes as their heights allow (least squares, in order)."""
    offsets, offset = list[float](), 0.0
    for height in heights:
        offsets.append(offset + height / 2)
        offset += height
    blocks = list[tuple[float, int]]()
    for wish, offset in zip(wishes, offsets, strict=True):
        total, size = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / size:
            before = blocks.pop()
            total, size = total + before[0], size + before[1]
        blocks.append((total, size))
    shifts = [total / size for total, size in blocks for _ in range(size)]
    return [shift + offset for shift, offset in zip(shifts, offsets, strict=True)]


def _lines(
    columns: Sequence[Sequence[str]],
    needs: Mapping[str, Sequence[str]],
    boxes: Mapping[str, Box],
    middles: Mapping[Item, float],
    spans: Sequence[tuple[float, float]],
) -> list[Line]:
    column_of = {name: place for place, column in enumerate(columns) for name in column}
    lines = []
    for name, place in column_of.items():
        for other in needs[name]:
            points = [(spans[column_of[other]][1], boxes[other].middle)]
            for passed in range(column_of[other] + 1, place):
                points += [(x, middles[other, passed]) for x in spans[passed]]
            points.append((spans[place][0], boxes[name].middle))
            lines.append(Line(other, name, tuple(points)))
    return lines


def _below(boxes: dict[str, Box], names: Sequence[str], sizes: Mapping[str, tuple[float, float]]) -> None:
    """Place the resources that nothing connects in rows below the others."""
    wide = max([box.x + box.width for box in boxes.values()] + [_PAGE])
    width = max((sizes[name][0] for name in names), default=0.0)
    x, y = _MARGIN, max((box.y + box.height + 2 * _GAP for box in boxes.values()), default=_MARGIN)
    for name in names:
        if x > _MARGIN and x + width > wide:
            x, y = _MARGIN, y + max(sizes[other][1] for other in names) + _GAP
        boxes[name] = Box(x, y, width, sizes[name][1])
        x += width + _GAP

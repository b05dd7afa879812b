"""The graph and the timeline of a stack: as text, for Graphviz, for Mermaid, or as SVG that a browser can show alone.

The layers of the graph are columns. A line that passes columns gets a *lane* in each of them, which takes room between
the boxes as a box does, so that no line runs behind a box.
"""

from __future__ import annotations

import argparse
import html
import itertools
import json
import unicodedata
from bisect import bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.state import journal
from heat_config_hooks.values import dataclass
from heat_config_stack.cli import template_options
from heat_config_stack.cli.stack import sessions, templates, timeline
from heat_config_stack.cli.stack.operations import with_mistakes
from heat_config_stack.cli.stack.timeline import Span
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.hot import loader
from heat_config_stack.records import listing

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
    """A line from a resource to another one that needs it, as points, at which it is level."""

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
    """Return the direct dependencies of each resource, without those that follow from others."""
    needs = {node.name: node.needs for node in nodes}
    indirect: dict[str, set[str]] = {}
    remaining = list(reversed(needs))
    while remaining:
        name = remaining[-1]
        unknown = [other for other in needs[name] if other not in indirect]
        if unknown and name not in indirect:
            remaining += unknown
            continue
        indirect.setdefault(
            name, {name}.union(*(indirect[other] for other in needs[name]))
        )
        remaining.pop()
    return {
        name: tuple(
            other
            for other in others
            if not any(other in indirect[third] for third in others if third != other)
        )
        for name, others in needs.items()
    }


def placed(
    layers: Sequence[Sequence[Node]], sizes: Mapping[str, tuple[float, float]]
) -> Layout:
    """Return the layout of the layers; `sizes` are the width and the height of each box."""
    nodes = [node for layer in layers for node in layer]
    needs = direct(nodes)
    connected = {
        name
        for node, others in needs.items()
        for name in ((node, *others) if others else ())
    }
    columns = _columns(layers, needs, connected)
    heights = {
        (name, place): sizes[name][1] + _GAP
        for place, column in enumerate(columns)
        for name in column
    }
    links = _links(columns, needs, heights)
    order = _ordered(columns, links, heights)
    middles = _middles(order, links, heights)
    top = (
        min(
            (middles[item] - height / 2 for item, height in heights.items()),
            default=0.0,
        )
        + _GAP / 2
        - _MARGIN
    )
    middles = {item: middle - top for item, middle in middles.items()}
    boxes, x = dict[str, Box](), _MARGIN
    spans = list[tuple[float, float]]()
    for place, column in enumerate(columns):
        width = max(sizes[name][0] for name in column)
        for name in column:
            height = sizes[name][1]
            boxes[name] = Box(x, middles[name, place] - height / 2, width, height)
        spans.append((x, x + width))
        steepest = max(
            (abs(middles[a] - middles[b]) for a, b in links if a[1] == place),
            default=0.0,
        )
        x += width + min(max(steepest / 5, _NARROW), _BROAD)
    lines = _lines(columns, needs, boxes, middles, spans)
    _below(boxes, [node.name for node in nodes if node.name not in connected], sizes)
    return Layout(
        max((box.x + box.width for box in boxes.values()), default=0.0) + _MARGIN,
        max(
            [box.y + box.height for box in boxes.values()]
            + [y for line in lines for _, y in line.points],
            default=0.0,
        )
        + _MARGIN,
        boxes,
        lines,
    )


def _columns(
    layers: Sequence[Sequence[Node]],
    needs: Mapping[str, Sequence[str]],
    connected: set[str],
) -> list[list[str]]:
    """Return the resources of each column; a resource is placed near its dependents to shorten the lines."""
    column_of = {
        node.name: place
        for place, layer in enumerate(layers)
        for node in layer
        if node.name in connected
    }
    needed_by: dict[str, list[str]] = {}
    for name, others in needs.items():
        for other in others:
            needed_by.setdefault(other, []).append(name)
    for name in sorted(column_of, key=column_of.__getitem__, reverse=True):
        if len(needs[name]) <= len(needed_by.get(name, ())):
            column_of[name] = min(column_of[other] for other in needed_by[name]) - 1
    return [
        [name for name in column_of if column_of[name] == place]
        for place in sorted({*column_of.values()})
    ]


def _links(
    columns: Sequence[Sequence[str]],
    needs: Mapping[str, Sequence[str]],
    heights: dict[Item, float],
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
    columns: Sequence[Sequence[str]],
    links: set[tuple[Item, Item]],
    heights: Mapping[Item, float],
) -> list[list[Item]]:
    """Return the items of each column from top to bottom, with few crossings of lines."""
    order = [
        [item for item in heights if item[1] == place] for place in range(len(columns))
    ]
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
            order[place].sort(
                key=lambda item: _mean(
                    [rank[other] for other in near.get(item, ())], own[item]
                )
            )
        crossings = _crossings(order, right)
        if crossings < fewest:
            best, fewest = order, crossings
    return best


def _neighbours(
    links: set[tuple[Item, Item]],
) -> tuple[dict[Item, list[Item]], dict[Item, list[Item]]]:
    left, right = dict["Item", list["Item"]](), dict["Item", list["Item"]]()
    for begin, end in sorted(links):
        right.setdefault(begin, []).append(end)
        left.setdefault(end, []).append(begin)
    return left, right


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _crossings(
    order: Sequence[Sequence[Item]], right: Mapping[Item, Sequence[Item]]
) -> int:
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
    order: Sequence[Sequence[Item]],
    links: set[tuple[Item, Item]],
    heights: Mapping[Item, float],
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
            wishes = [
                _mean([middles[other] for other in near.get(item, ())], middles[item])
                for item in column
            ]
            for item, middle in zip(
                column, _apart(wishes, [heights[item] for item in column]), strict=True
            ):
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


def _below(
    boxes: dict[str, Box],
    names: Sequence[str],
    sizes: Mapping[str, tuple[float, float]],
) -> None:
    """Place the resources that nothing connects in rows below the others."""
    wide = max([box.x + box.width for box in boxes.values()] + [_PAGE])
    width = max((sizes[name][0] for name in names), default=0.0)
    x, y = (
        _MARGIN,
        max((box.y + box.height + 2 * _GAP for box in boxes.values()), default=_MARGIN),
    )
    for name in names:
        if x > _MARGIN and x + width > wide:
            x, y = _MARGIN, y + max(sizes[other][1] for other in names) + _GAP
        boxes[name] = Box(x, y, width, sizes[name][1])
        x += width + _GAP


_TEXT, _BOLD = 7.2, 8.2
"""Width in pixels of the widest common letters in lower case, in the widest of the fonts (Verdana)."""
_NARROW_LETTERS, _BROAD_LETTERS = "fijlrtI .,:;|!'()[]/-", "mwMW@%…"
_WIDEST = 300.0
"""Maximum width of a text in a box; longer ones are shortened, and shown as a whole when pointed at."""
_LINE, _PAD = 18, 10
_EDGE, _ROW, _CHART = 20, 26, 600
_FONT = 'font-family="Verdana, DejaVu Sans, sans-serif" font-size="12"'
_LOOKS = {
    "": ("#eeeeee", "#666666", 1.0, "", ""),
    "INIT": ("#f7f7f7", "#666666", 1.0, "2 3", ""),
    "COMPLETE": ("#d9efd9", "#2e6b2e", 1.0, "", "M1,6 L4.5,9.5 L11,2"),
    "IN_PROGRESS": ("#d6e6f7", "#1f4e8c", 2.0, "6 3", "M2,1 L10,6 L2,11 Z"),
    "FAILED": ("#f8d3ce", "#9c1c10", 2.5, "", "M2,2 L10,10 M10,2 L2,10"),
}
"""End of a status → fill, stroke, its width and dashes, and the path of its mark."""


def _page(width: float, height: float, parts: Iterator[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>'
    return "\n".join(
        [begin, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"]
    )


def _escaped(text: str) -> str:
    """Return a text for XML, in one line."""
    return html.escape(terminal.line(text))


def _svg_text(x: float, y: float, text: str, extra: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{extra}>{_escaped(text)}</text>'


def _status(status: str) -> tuple[str, str, float, str, str]:
    return _LOOKS[_look(status)]


def _look(status: str) -> str:
    """Return the name of a status in `_LOOKS`, or nothing for one that has no look of its own."""
    if status.startswith("INIT"):
        return "INIT"
    return next((end for end in _LOOKS if end and status.endswith(end)), "")


def extent(text: str, letter: float) -> float:
    """Return the width of a text in pixels, in the widest of the fonts; `letter` is that of a usual letter."""
    return sum(letter * _share(sign) for sign in terminal.line(text))


def _share(sign: str) -> float:
    if sign in _NARROW_LETTERS:
        return 0.66
    if sign in _BROAD_LETTERS or sign.isupper():
        return 1.55 if sign in _BROAD_LETTERS else 1.2
    return 1.9 if unicodedata.east_asian_width(sign) in "WF" else 1.0


def fitted(text: str, letter: float) -> str:
    """Return a text that fits into a box: the middle of a longer one is left out, because its end distinguishes it."""
    kept = terminal.line(text)
    if extent(kept, letter) <= _WIDEST:
        return kept
    size = len(kept)
    while (
        extent(
            shorter := f"{kept[: size - size // 2]}…{kept[len(kept) - size // 2 :]}",
            letter,
        )
        > _WIDEST
    ):
        size -= 1
    return shorter


def _rows(node: Node) -> list[tuple[str, float, str]]:
    """Return the texts of a box: each with the width of its letters and its attributes."""
    rows = [
        (fitted(node.name, _BOLD), _BOLD, ' font-weight="bold"'),
        (fitted(node.type, _TEXT), _TEXT, ' fill="#444444"'),
    ]
    return (
        [*rows, (node.status, _TEXT, f' fill="{_status(node.status)[1]}"')]
        if node.status
        else rows
    )


def svg_graph(layers: Sequence[Sequence[Node]]) -> str:
    """Return the graph from left to right: arrows lead from a resource to its dependents."""
    nodes = [node for layer in layers for node in layer]
    texts = {node.name: _rows(node) for node in nodes}
    sizes = {
        node.name: (
            max(extent(text, letter) for text, letter, _ in texts[node.name])
            + 2 * _PAD
            + 16,
            float(_LINE * len(texts[node.name]) + 8),
        )
        for node in nodes
    }
    places = placed(layers, sizes)
    return _page(places.width, places.height, _svg_parts(nodes, texts, places))


def _svg_parts(
    nodes: Sequence[Node],
    texts: dict[str, list[tuple[str, float, str]]],
    places: Layout,
) -> Iterator[str]:
    yield (
        '<defs><marker id="arrowhead" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0.5 L10,5 L0,9.5 Z" fill="#555555"/></marker></defs>'
    )
    yield '<g stroke="#777777" stroke-width="1.2" fill="none">'
    for line in places.lines:
        title = _escaped(f"{line.begin} → {line.end}")
        yield f'<path d="{_curve(line.points)}" marker-end="url(#arrowhead)"><title>{title}</title></path>'
    yield "</g>"
    for node in nodes:
        box = places.boxes[node.name]
        fill, stroke, thick, dashes, mark = _status(node.status)
        title = " ".join(part for part in (node.name, node.type, node.status) if part)
        yield f"<g><title>{_escaped(title)}</title>"
        yield (
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{thick}"{_dashed(dashes)} '
            f'id="{_escaped(node.name)}"/>'
        )
        for row, (text, _, extra) in enumerate(texts[node.name]):
            yield _svg_text(box.x + _PAD, box.y + _LINE * (row + 1) - 1, text, extra)
        if mark:
            yield _mark(mark, stroke, box.x + box.width - 20, box.y + 8)
        yield "</g>"


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return the path through points, level at each of them."""
    path, (last_x, last_y) = f"M{points[0][0]:.1f},{points[0][1]:.1f}", points[0]
    for x, y in points[1:]:
        half = (last_x + x) / 2
        level = abs(y - last_y) < 0.05
        path += (
            f" L{x:.1f},{y:.1f}"
            if level
            else f" C{half:.1f},{last_y:.1f} {half:.1f},{y:.1f} {x:.1f},{y:.1f}"
        )
        last_x, last_y = x, y
    return path


def _dashed(dashes: str) -> str:
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def _mark(path: str, colour: str, x: float, y: float) -> str:
    return (
        f'<path d="{path}" transform="translate({x:.1f},{y:.1f})" fill="none" stroke="{colour}" stroke-width="2" '
        'stroke-linecap="round" stroke-linejoin="round"/>'
    )


def svg_timeline(spans: Sequence[Span]) -> str:
    """Return the times of resources: a lane for each, hatched while it waits, filled while it is worked on."""
    names = (
        max((extent(fitted(span.path, _TEXT), _TEXT) for span in spans), default=0)
        + 2 * _EDGE
    )
    height = 2 * _EDGE + max(len(spans), 1) * _ROW
    return _page(names + _CHART + 15 * _EDGE, height, _lanes(spans, names))


def _lanes(spans: Sequence[Span], left: float) -> Iterator[str]:
    scale = _CHART / max([span.end for span in spans] + [0.001])
    yield (
        '<defs><pattern id="waiting" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<path d="M0,6 L6,0" stroke="#888888"/></pattern></defs>'
    )
    for row, span in enumerate(spans):
        y, high = _EDGE + row * _ROW, _ROW - 8
        x, wide = left + span.work * scale, max((span.end - span.work) * scale, 2)
        fill, stroke, thick, dashes, mark = _status(span.status)
        yield f"<g><title>{_escaped(f'{span.path} {span.action} {span.status} {span.times()}')}</title>"
        yield _svg_text(_EDGE, y + 14, fitted(span.path, _TEXT))
        if span.waited:
            yield (
                f'<rect x="{left + span.begin * scale:.1f}" y="{y}" width="{span.waited * scale:.1f}" height="{high}" '
                'fill="url(#waiting)" stroke="#888888"/>'
            )
        if span.work < span.end or not span.waited:
            yield (
                f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{high}" fill="{fill}" stroke="{stroke}" '
                f'stroke-width="{thick}"{_dashed(dashes)}/>'
            )
        if mark:
            yield _mark(mark, stroke, x + wide + 6, y + 3)
        yield _svg_text(
            x + wide + 24, y + 14, f"{span.action} {span.times()}", ' fill="#444444"'
        )
        yield "</g>"


_BAR = 40
"""Width of the whole timeline in characters."""


@with_mistakes
def graph(options: argparse.Namespace) -> int:
    """Draw the graph or the timeline."""
    if bool(options.name) == bool(options.template):
        raise UsageError("name either a stack, or a template with -t")
    if options.template:
        if options.timeline:
            raise UsageError("a template has no timeline", hint="name a stack")
        nodes = _nodes(_defined(options), {})
        return _answer(options, _DRAWN[options.format](nodes), nodes)
    settings = state_options.of(options)
    root = sessions.look(settings, options.name)
    if options.timeline:
        if options.format == "dot":
            raise UsageError(
                "Graphviz draws no timelines",
                hint="give --format text, mermaid or svg",
            )
        spans = timeline.spans(
            root, journal.read(listing.folder(settings.state, options.name)).values()
        )
        return _answer(options, _TIMELINES[options.format](spans), (), spans)
    if root.defined is None:
        raise UsageError(f"{root.name} was rolled back, and has no resources")
    states = {name: "_".join(each.state) for name, each in root.resources.items()}
    nodes = _nodes(root.defined, states)
    return _answer(options, _DRAWN[options.format](nodes), nodes)


def _answer(
    options: argparse.Namespace,
    drawn: str,
    nodes: Sequence[Node],
    spans: Sequence[timeline.Span] = (),
) -> int:
    """Print a picture, or with --json its content."""
    if not options.json:
        terminal.say(drawn, end="")
        return ExitCode.OK
    envelope.result(
        {
            "drawing": drawn,
            "format": options.format,
            "nodes": [
                {
                    "name": each.name,
                    "type": each.type,
                    "needs": list(each.needs),
                    "status": each.status or None,
                }
                for each in nodes
            ],
            "spans": [
                {
                    "name": each.path,
                    "action": each.action,
                    "status": each.status,
                    "begin_seconds": max(each.begin, 0.0),
                    "work_seconds": max(each.work, 0.0),
                    "end_seconds": max(each.end, 0.0),
                }
                for each in spans
            ],
        }
    )
    return ExitCode.OK


def _defined(options: argparse.Namespace) -> Definition:
    """Return the definition of a template; parameters may have no values. Raises `Invalid`."""
    if language_of(options.template) == TOSCA:
        from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

        return services.outline(options, Identity("stack", ""))
    source = templates.source(
        options.template, options.environment, template_options.parameters(options)
    )
    definition, mistakes, _ = loader.examine(source, Identity("stack", ""), known=False)
    if definition is None or mistakes:
        raise Invalid(mistakes, definition.conceal if definition else OPEN)
    return definition


def _nodes(definition: Definition, states: Mapping[str, str]) -> list[Node]:
    resources = definition.resources
    return [
        Node(
            name,
            resource.type,
            tuple(
                sorted(other for other in resource.requirements() if other in resources)
            ),
            states.get(name, ""),
        )
        for name, resource in resources.items()
    ]


def layers(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the resources in layers; each layer needs only resources of layers before it. Raises UsageError."""
    remaining, placed, result = list(nodes), set[str](), list[list[Node]]()
    while remaining:
        layer = [node for node in remaining if placed.issuperset(node.needs)]
        if not layer:
            raise UsageError(
                f"these resources need each other: {', '.join(node.name for node in remaining)}"
            )
        result.append(layer)
        placed.update(node.name for node in layer)
        remaining = [node for node in remaining if node.name not in placed]
    return result


def _text_graph(nodes: Sequence[Node]) -> str:
    rows = [
        (
            node.name,
            node.type,
            *([node.status] if node.status else []),
            f"needs {', '.join(node.needs)}" if node.needs else "",
        )
        for layer in layers(nodes)
        for node in layer
    ]
    return "".join(f"{line}\n" for line in terminal.table(rows))


def _dot(nodes: Sequence[Node]) -> str:
    layers(nodes)
    lines = ["digraph stack {", "  rankdir=LR;", "  node [shape=box];"]
    for each in nodes:
        label = "\\n".join(
            _quoted(part)[1:-1] for part in (each.name, each.type, each.status) if part
        )
        lines.append(f'  {_quoted(each.name)} [label="{label}"];')
    needs = direct(nodes)
    lines += [
        f"  {_quoted(other)} -> {_quoted(each.name)};"
        for each in nodes
        for other in needs[each.name]
    ]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return json.dumps(terminal.line(text), ensure_ascii=False)


def mermaid_graph(nodes: Sequence[Node]) -> str:
    """Return the graph for Mermaid, which draws it where people read code. Raises UsageError."""
    layers(nodes)
    names = {each.name: f"r{number}" for number, each in enumerate(nodes)}
    lines, used = ["flowchart LR"], dict[str, None]()
    for each in nodes:
        label = "<br/>".join(
            _mermaid(part) for part in (each.name, each.type, each.status) if part
        )
        look = _look(each.status).lower()
        used.setdefault(look)
        lines.append(
            f'  {names[each.name]}["{label}"]' + (f":::{look}" if look else "")
        )
    needs = direct(nodes)
    lines += [
        f"  {names[other]} --> {names[each.name]}"
        for each in nodes
        for other in needs[each.name]
    ]
    for look in filter(None, used):
        fill, stroke, thick, dashes, _ = _LOOKS[look.upper()]
        lines.append(
            f"  classDef {look} fill:{fill},stroke:{stroke},stroke-width:{thick}px,color:#222"
            + (f",stroke-dasharray:{dashes}" if dashes else "")
        )
    return "\n".join([*lines, ""])


def mermaid_timeline(spans: Sequence[Span]) -> str:
    """Return the times of resources for Mermaid: a section for each, its waiting and its work as bars."""
    lines = ["gantt", "  dateFormat x", "  axisFormat %M:%S"]
    for span in spans:
        begin, work, end = (
            round(max(at, 0.0) * 1000) for at in (span.begin, span.work, span.end)
        )
        lines.append(f"  section {_mermaid(span.path)}")
        if span.waited:
            lines.append(f"  waiting :{begin}, {work}")
        if work < end or not span.waited:
            bar = {"FAILED": "crit, ", "IN_PROGRESS": "active, "}.get(
                _look(span.status), "done, "
            )
            text = _mermaid(f"{span.action} {span.status} {span.times()}")
            start = work if span.waited else begin
            # Mermaid needs a length: a bar of no time gets a thousandth of a second.
            lines.append(f"  {text} :{bar}{start}, {max(end, start + 1)}")
    return "\n".join([*lines, ""])


def _mermaid(text: str) -> str:
    """Return a text for Mermaid, in one line: whatever could be its syntax as a number."""
    return "".join(
        sign
        if sign.isalnum() or sign in " _-./,()" or not sign.isascii()
        else f"#{ord(sign)};"
        for sign in terminal.line(text)
    )


def _bars(spans: Sequence[Span]) -> str:
    """Return a line for each resource: its bar is light while it waits, and dark while it is worked on."""
    scale = _BAR / max([span.end for span in spans if span.end > 0], default=1)
    rows = []
    for span in spans:
        begin, work, end = (
            int(span.begin * scale),
            round(span.work * scale),
            round(span.end * scale),
        )
        light = max(work - begin, 1) if span.waited else 0
        dark = max(end - begin - light, 0 if light and span.work == span.end else 1)
        rows.append(
            (
                span.path,
                span.action,
                span.times(),
                f"{' ' * begin}{'░' * light}{'█' * dark}",
            )
        )
    return "".join(f"{line}\n" for line in terminal.table(rows))


def _svg(nodes: Sequence[Node]) -> str:
    return svg_graph(layers(nodes))


_DRAWN = {"text": _text_graph, "dot": _dot, "mermaid": mermaid_graph, "svg": _svg}
_TIMELINES = {"text": _bars, "mermaid": mermaid_timeline, "svg": svg_timeline}

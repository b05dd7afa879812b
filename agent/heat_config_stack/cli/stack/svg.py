"""Pictures of a stack in SVG, with nothing that a browser would have to fetch."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from heat_config_agent.cli import terminal
from heat_config_stack.cli.stack import layout

if TYPE_CHECKING:
    from heat_config_stack.cli.stack.layout import Node
    from heat_config_stack.cli.stack.timeline import Span

_TEXT, _BOLD = 7.2, 8.2
"""Width in pixels of the widest common letters in lower case, in the widest of the fonts (Verdana)."""
_NARROW, _BROAD = "fijlrtI .,:;|!'()[]/-", "mwMW@%…"
_WIDEST = 300.0
"""Maximum width of a text in a box; longer ones are shortened, and shown as a whole when pointed at."""
_LINE, _PAD = 18, 10
_MARGIN, _LANE, _CHART = 20, 26, 600
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
    return "\n".join([begin, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, extra: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{extra}>{escape(terminal.line(text))}</text>'


def _status(status: str) -> tuple[str, str, float, str, str]:
    if status.startswith("INIT"):
        return _LOOKS["INIT"]
    return next((look for end, look in _LOOKS.items() if end and status.endswith(end)), _LOOKS[""])


def extent(text: str, letter: float) -> float:
    """Return the width of a text in pixels, in the widest of the fonts; `letter` is that of a usual letter."""
    return sum(letter * _share(sign) for sign in terminal.line(text))


def _share(sign: str) -> float:
    if sign in _NARROW:
        return 0.66
    if sign in _BROAD or sign.isupper():
        return 1.55 if sign in _BROAD else 1.2
    return 1.9 if unicodedata.east_asian_width(sign) in "WF" else 1.0


def fitted(text: str, letter: float) -> str:
    """Return a text that fits into a box: the middle of a longer one is left out, because its end distinguishes it."""
    kept = terminal.line(text)
    if extent(kept, letter) <= _WIDEST:
        return kept
    size = len(kept)
    while extent(shorter := f"{kept[: size - size // 2]}…{kept[len(kept) - size // 2 :]}", letter) > _WIDEST:
        size -= 1
    return shorter


def _rows(node: Node) -> list[tuple[str, float, str]]:
    """Return the texts of a box: each with the width of its letters and its attributes."""
    rows = [
        (fitted(node.name, _BOLD), _BOLD, ' font-weight="bold"'),
        (fitted(node.type, _TEXT), _TEXT, ' fill="#444444"'),
    ]
    return [*rows, (node.status, _TEXT, f' fill="{_status(node.status)[1]}"')] if node.status else rows


def graph(layers: Sequence[Sequence[Node]]) -> str:
    """Return the graph from left to right: arrows lead from what is needed to what needs it."""
    nodes = [node for layer in layers for node in layer]
    texts = {node.name: _rows(node) for node in nodes}
    sizes = {
        node.name: (
            max(extent(text, letter) for text, letter, _ in texts[node.name]) + 2 * _PAD + 16,
            float(_LINE * len(texts[node.name]) + 8),
        )
        for node in nodes
    }
    places = layout.placed(layers, sizes)
    return _page(places.width, places.height, _graph(nodes, texts, places))


def _graph(
    nodes: Sequence[Node], texts: dict[str, list[tuple[str, float, str]]], places: layout.Layout
) -> Iterator[str]:
    yield (
        '<defs><marker id="arrowhead" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0.5 L10,5 L0,9.5 Z" fill="#555555"/></marker></defs>'
    )
    yield '<g stroke="#777777" stroke-width="1.2" fill="none">'
    for line in places.lines:
        title = escape(terminal.line(f"{line.begin} → {line.end}"))
        yield f'<path d="{_curve(line.points)}" marker-end="url(#arrowhead)"><title>{title}</title></path>'
    yield "</g>"
    for node in nodes:
        box = places.boxes[node.name]
        fill, stroke, thick, dashes, mark = _status(node.status)
        title = " ".join(part for part in (node.name, node.type, node.status) if part)
        yield f"<g><title>{escape(terminal.line(title))}</title>"
        yield (
            f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" '
            f'fill="{fill}" stroke="{stroke}" stroke-width="{thick}"{_dashed(dashes)} '
            f"id={quoteattr(terminal.line(node.name))}/>"
        )
        for row, (text, _, extra) in enumerate(texts[node.name]):
            yield _text(box.x + _PAD, box.y + _LINE * (row + 1) - 1, text, extra)
        if mark:
            yield _mark(mark, stroke, box.x + box.width - 20, box.y + 8)
        yield "</g>"


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return the path through points, level at each of them."""
    path, (last_x, last_y) = f"M{points[0][0]:.1f},{points[0][1]:.1f}", points[0]
    for x, y in points[1:]:
        half = (last_x + x) / 2
        level = abs(y - last_y) < 0.05
        path += f" L{x:.1f},{y:.1f}" if level else f" C{half:.1f},{last_y:.1f} {half:.1f},{y:.1f} {x:.1f},{y:.1f}"
        last_x, last_y = x, y
    return path


def _dashed(dashes: str) -> str:
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def _mark(path: str, colour: str, x: float, y: float) -> str:
    return (
        f'<path d="{path}" transform="translate({x:.1f},{y:.1f})" fill="none" stroke="{colour}" stroke-width="2" '
        'stroke-linecap="round" stroke-linejoin="round"/>'
    )


def timeline(spans: Sequence[Span]) -> str:
    """Return the times of resources: a lane for each, hatched while it waits, filled while it is worked on."""
    names = max((extent(fitted(span.path, _TEXT), _TEXT) for span in spans), default=0) + 2 * _MARGIN
    height = 2 * _MARGIN + max(len(spans), 1) * _LANE
    return _page(names + _CHART + 15 * _MARGIN, height, _lanes(spans, names))


def _lanes(spans: Sequence[Span], left: float) -> Iterator[str]:
    scale = _CHART / max([span.end for span in spans] + [0.001])
    yield (
        '<defs><pattern id="waiting" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<path d="M0,6 L6,0" stroke="#888888"/></pattern></defs>'
    )
    for row, span in enumerate(spans):
        y, high = _MARGIN + row * _LANE, _LANE - 8
        x, wide = left + span.work * scale, max((span.end - span.work) * scale, 2)
        fill, stroke, thick, dashes, mark = _status(span.status)
        yield f"<g><title>{escape(terminal.line(f'{span.path} {span.action} {span.status} {span.times()}'))}</title>"
        yield _text(_MARGIN, y + 14, fitted(span.path, _TEXT))
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
        yield _text(x + wide + 24, y + 14, f"{span.action} {span.times()}", ' fill="#444444"')
        yield "</g>"

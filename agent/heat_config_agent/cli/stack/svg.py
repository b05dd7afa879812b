"""Pictures of a stack: boxes and lines in SVG, with nothing that a browser would have to fetch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from heat_config_agent.cli import terminal

if TYPE_CHECKING:
    from heat_config_agent.cli.stack.drawing import Node, Span

_CHARACTER = 7
"""Width of a character of the letters that are used, in pixels, at most."""
_HIGH, _GAP, _BETWEEN, _MARGIN = 44, 18, 70, 20
_LANE, _CHART = 26, 600
_COLOURS = {"COMPLETE": "#cfe8cf", "FAILED": "#f4c7c3", "IN_PROGRESS": "#cfe2f4", "": "#eeeeee"}


def _page(width: int, height: int, parts: Iterator[str]) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">'
    return "\n".join([begin, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, extra: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{extra}>{escape(terminal.line(text))}</text>'


def _colour(status: str) -> str:
    return next(colour for end, colour in _COLOURS.items() if status.endswith(end))


def graph(layers: Sequence[Sequence[Node]]) -> str:
    """Return the graph, the layers from left to right, each line from what is needed to what needs it."""
    widths = [max(max(len(each.name), len(each.type)) for each in layer) * _CHARACTER + 16 for layer in layers]
    places: dict[str, tuple[int, int, int]] = {}
    x = _MARGIN
    for layer, wide in zip(layers, widths, strict=True):
        for row, each in enumerate(layer):
            places[each.name] = (x, _MARGIN + row * (_HIGH + _GAP), wide)
        x += wide + _BETWEEN
    height = 2 * _MARGIN + max((len(layer) for layer in layers), default=0) * (_HIGH + _GAP)
    return _page(max(x - _BETWEEN, 0) + _MARGIN, height, _graph([each for layer in layers for each in layer], places))


def _graph(nodes: Sequence[Node], places: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    yield '<g stroke="#666666" fill="none">'
    for each in nodes:
        x, y, _ = places[each.name]
        for other in each.needs:
            from_x, from_y, wide = places[other]
            begin, end = (from_x + wide, from_y + _HIGH // 2), (x, y + _HIGH // 2)
            middle = (begin[0] + end[0]) // 2
            yield f'<path d="M{begin[0]},{begin[1]} C{middle},{begin[1]} {middle},{end[1]} {end[0]},{end[1]}"/>'
    yield "</g>"
    for each in nodes:
        x, y, wide = places[each.name]
        title = " ".join(part for part in (each.name, each.type, each.status) if part)
        yield f"<g><title>{escape(terminal.line(title))}</title>"
        yield (
            f'<rect x="{x}" y="{y}" width="{wide}" height="{_HIGH}" rx="5" fill="{_colour(each.status)}" '
            f'stroke="#666666" id={quoteattr(terminal.line(each.name))}/>'
        )
        yield _text(x + 8, y + 18, each.name, ' font-weight="bold"')
        yield _text(x + 8, y + 35, each.type, ' fill="#555555"')
        yield "</g>"


def timeline(spans: Sequence[Span]) -> str:
    """Return the times of resources: a lane for each, a bar for as long as it was worked on."""
    names = max((len(each.path) for each in spans), default=0) * _CHARACTER + 2 * _MARGIN
    height = 2 * _MARGIN + (len(spans) + 1) * _LANE
    return _page(names + _CHART + 5 * _MARGIN, height, _lanes(spans, names))


def _lanes(spans: Sequence[Span], left: int) -> Iterator[str]:
    scale = _CHART / max([each.end for each in spans] + [0.001])
    for row, each in enumerate(spans):
        y = _MARGIN + row * _LANE
        x, wide = left + each.begin * scale, max((each.end - each.begin) * scale, 2)
        took = terminal.duration(each.end - each.begin)
        yield f"<g><title>{escape(terminal.line(f'{each.path} {each.action} {each.status} {took}'))}</title>"
        yield _text(_MARGIN, y + 14, each.path)
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{_LANE - 8}" fill="{_colour(each.status)}" '
            'stroke="#666666"/>'
        )
        yield _text(x + wide + 6, y + 14, took, ' fill="#555555"')
        yield "</g>"

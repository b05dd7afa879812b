"""The pictures of a stack: where boxes and lines go, and what tells one status from another."""

from __future__ import annotations

import html
import itertools
import random
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from heat_config_stack.cli.stack import drawing
from heat_config_stack.cli.stack.drawing import Layout, Line, Node, layers
from heat_config_stack.cli.stack.timeline import Span

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
SIZE = (120.0, 44.0)


def node(name: str, *needs: str, status: str = "") -> Node:
    """Return a resource that needs others."""
    return Node(name, "OS::Heat::None", needs, status)


def placed(nodes: list[Node]) -> Layout:
    """Return the layout of resources whose boxes all have one size."""
    return drawing.placed(layers(nodes), {each.name: SIZE for each in nodes})


def drawn(line: Line) -> Iterator[tuple[float, float]]:
    """Yield points of a line as it is drawn: level at each of its points, and a cubic curve between them."""
    for (x, y), (end_x, end_y) in itertools.pairwise(line.points):
        half = (x + end_x) / 2
        for step in range(1, 40):
            t = step / 40
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            yield (
                sum(
                    w * p for w, p in zip(weights, (x, half, half, end_x), strict=True)
                ),
                sum(w * p for w, p in zip(weights, (y, y, end_y, end_y), strict=True)),
            )


def random_nodes(seed: int) -> list[Node]:
    """Return resources that need some of those before them."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    names = [f"r{place}" for place in range(chance.randint(2, 60))]
    return [
        node(name, *chance.sample(names[:place], min(place, chance.randint(0, 3))))
        for place, name in enumerate(names)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_no_line_runs_behind_a_box_and_no_boxes_overlap(seed: int) -> None:
    """In any graph, lines and boxes do not overlap, and all of them are on the page."""
    nodes = random_nodes(seed)
    picture = placed(nodes)
    assert set(picture.boxes) == {each.name for each in nodes}
    for line in picture.lines:
        for x, y in drawn(line):
            behind = [
                name
                for name, box in picture.boxes.items()
                if box.x < x < box.x + box.width
                and box.y - 1 < y < box.y + box.height + 1
            ]
            assert behind == [], line
            assert 0 < x < picture.width
            assert 0 < y < picture.height
    for one, other in itertools.combinations(picture.boxes.values(), 2):
        apart_x = one.x + one.width < other.x or other.x + other.width < one.x
        assert apart_x or one.y + one.height < other.y or other.y + other.height < one.y
    for box in picture.boxes.values():
        assert min(box.x, box.y) > 0
        assert box.x + box.width < picture.width
        assert box.y + box.height < picture.height


@pytest.mark.parametrize("seed", range(10))
def test_transitive_dependencies_are_left_out(seed: int) -> None:
    """The remaining arrows have the same meaning, and none of them is redundant."""
    nodes = random_nodes(seed)
    direct = drawing.direct(nodes)

    def reached(name: str, needs: dict[str, tuple[str, ...]]) -> set[str]:
        return {name}.union(*(reached(other, needs) for other in needs[name]))

    for resource in nodes:
        assert reached(resource.name, direct) == reached(
            resource.name, {other.name: other.needs for other in nodes}
        )
        for other in direct[resource.name]:
            fewer = {
                **direct,
                resource.name: tuple(
                    third for third in direct[resource.name] if third != other
                ),
            }
            assert other not in reached(resource.name, fewer)


def test_a_source_is_next_to_what_needs_it() -> None:
    """A config that only the last deployment needs stands in the column before it, not in the first."""
    chain = [
        node("a"),
        node("b", "a"),
        node("c", "b"),
        node("config"),
        node("d", "c", "config"),
    ]
    boxes = placed(chain).boxes
    assert boxes["config"].x == boxes["c"].x
    assert all(len(line.points) == 2 for line in placed(chain).lines)


def test_a_large_graph_is_drawn_soon() -> None:
    """Five hundred deployments on a server take no noticeable time, and those that nothing connects fill rows."""
    nodes = [node("server"), *(node(f"d{place}", "server") for place in range(500))]
    assert len(placed(nodes).lines) == 500
    alone = placed([node(f"r{place}") for place in range(60)])
    assert len({box.x for box in alone.boxes.values()}) > 3
    assert alone.width < 1000


def test_picture_has_arrowheads_and_the_status_of_resources() -> None:
    """Each line has an arrowhead, and each status a word, a mark and a border of its own."""
    states = ["CREATE_COMPLETE", "CREATE_FAILED", "UPDATE_IN_PROGRESS", "INIT_COMPLETE"]
    nodes = [
        node("server"),
        *(node(state.lower(), "server", status=state) for state in states),
    ]
    picture = ET.fromstring(drawing.svg_graph(layers(nodes)))  # noqa: S314  # our own
    lines = [
        path
        for path in picture.iter(f"{SVG}path")
        if path.find(f"{SVG}title") is not None
    ]
    assert len(lines) == 4
    assert all(line.get("marker-end") == "url(#arrowhead)" for line in lines)
    assert picture.find(f".//{SVG}marker[@id='arrowhead']") is not None
    boxes = {box.get("id"): box for box in picture.iter(f"{SVG}rect") if box.get("id")}
    borders = {
        (
            boxes[state.lower()].get("stroke-width"),
            boxes[state.lower()].get("stroke-dasharray"),
        )
        for state in states
    }
    assert len(borders) == 4
    assert {text.text for text in picture.iter(f"{SVG}text")} >= set(states)
    assert (
        len([path for path in picture.iter(f"{SVG}path") if path.get("transform")]) == 3
    )


@pytest.mark.parametrize(
    "name", ["short", "W" * 30, "a_" * 100 + "end", "設定" * 40, "x\x1b[2J\ny<&>"]
)
def test_names_fit(name: str) -> None:
    """A box is as wide as its texts; a text that would be too long loses its middle, and is whole in the title."""
    picture = ET.fromstring(drawing.svg_graph([[node(name)]]))  # noqa: S314  # our own
    texts = [text.text or "" for text in picture.iter(f"{SVG}text")]
    (box,) = (box for box in picture.iter(f"{SVG}rect") if box.get("id"))
    assert 12 + drawing.extent(texts[0], 8.2) < float(box.get("width", "0")) < 350
    title = picture.findtext(f".//{SVG}g/{SVG}title") or ""
    assert title.startswith(
        re.sub(r"[\x00-\x1f]", lambda sign: " " if sign[0] == "\n" else "\ufffd", name)
    )
    if "…" in texts[0]:
        begin, end = texts[0].split("…")
        assert title.startswith(begin)
        assert end
        assert title.split()[0].endswith(end)


def test_the_timeline_tells_waiting_from_working() -> None:
    """A deployment that waited for its run has a hatched bar before the bar of its run."""
    spans = [
        Span("first", "CREATE", "COMPLETE", 0, 0, 10),
        Span("second", "CREATE", "FAILED", 0, 10, 12),
        Span("third", "CREATE", "IN_PROGRESS", 0, 12, 12),
    ]
    assert [span.times() for span in spans] == [
        "10 s",
        "2.00 s after waiting 10 s",
        "waiting for 12 s",
    ]
    picture = ET.fromstring(drawing.svg_timeline(spans))  # noqa: S314  # our own
    bars = [
        [bar.get("fill") for bar in lane.iter(f"{SVG}rect")]
        for lane in picture.iter(f"{SVG}g")
    ]
    assert [len(lane) for lane in bars] == [1, 2, 1]
    assert bars[1][0] == bars[2][0] == "url(#waiting)"
    assert bars[0][0] != bars[1][1]


def test_the_status_of_a_resource_is_a_word_and_a_border_in_mermaid() -> None:
    """Each status has a class with a border of its own, and the resource names its status."""
    states = ["CREATE_COMPLETE", "CREATE_FAILED", "UPDATE_IN_PROGRESS", "INIT_COMPLETE"]
    nodes = [
        node("server"),
        *(node(state.lower(), "server", status=state) for state in states),
    ]
    lines = drawing.mermaid_graph(nodes).splitlines()
    assert lines[1] == '  r0["server<br/>OS#58;#58;Heat#58;#58;None"]'
    classes = {line.split()[1]: line for line in lines if "classDef" in line}
    assert list(classes) == ["complete", "failed", "in_progress", "init"]
    borders = {line.partition("stroke:")[2] for line in classes.values()}
    assert len(borders) == 4
    for state in states:
        (box,) = (line for line in lines if f'<br/>{state}"]' in line)
        assert box.split(":::")[1] in classes
    assert len([line for line in lines if "-->" in line]) == 4


def test_the_timeline_in_mermaid_tells_waiting_from_working() -> None:
    """A deployment that waited for its run has a bar of its waiting before the bar of its run."""
    spans = [
        Span("first", "CREATE", "COMPLETE", 0, 0, 10),
        Span("second", "CREATE", "FAILED", 0, 10, 12),
        Span("third", "CREATE", "IN_PROGRESS", 0, 12, 12),
        Span("server", "CREATE", "COMPLETE", 3, 3, 3),
    ]
    assert drawing.mermaid_timeline(spans).splitlines()[3:] == [
        "  section first",
        "  CREATE COMPLETE 10 s :done, 0, 10000",
        "  section second",
        "  waiting :0, 10000",
        "  CREATE FAILED 2.00 s after waiting 10 s :crit, 10000, 12000",
        "  section third",
        "  waiting :0, 12000",
        "  section server",
        "  CREATE COMPLETE 0.00 s :done, 3000, 3001",
    ]


HOSTILE = ["short", "end", "設定", 'a"]; click r0 call x()', "a#58;b:c", "`x` <b>&"]


@pytest.mark.slow
def test_mermaid_draws_any_name() -> None:
    """Mermaid's renderer, as the documentation has it, draws each name as it is."""
    python = ROOT / ".venv/site/bin/python"
    if not python.exists():
        pytest.skip("there is no .venv/site: make docs")
    drawings = [
        drawing.mermaid_graph([node(name) for name in HOSTILE]),
        drawing.mermaid_timeline(
            [Span(name, "CREATE", "COMPLETE", 0, 0, 1) for name in HOSTILE]
        ),
    ]
    script = "import sys, mmdr; print(mmdr.render(sys.stdin.read()).svg())"
    for text in drawings:
        picture = subprocess.run(
            [python, "-c", script],
            input=text,
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout
        shown = [html.unescape(each) for each in re.findall(r">([^<{}]+)<", picture)]
        assert not set(HOSTILE).difference(shown)

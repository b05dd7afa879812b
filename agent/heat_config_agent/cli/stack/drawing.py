"""The graph of a stack, and the times of its resources: as text, for Graphviz, or as a picture."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from heat_config_agent.cli import chosen, given, terminal
from heat_config_agent.cli.stack import opened, svg, wanted
from heat_config_agent.cli.stack.doing import with_mistakes
from heat_config_agent.errors import ExitCode, UsageError
from heat_config_agent.hot import loading
from heat_config_agent.stack.definition import Definition, Identity, Invalid
from heat_config_agent.stack.live import Stack
from heat_config_agent.stack.records import IN_PROGRESS
from heat_config_hooks.values import dataclass

_BAR = 40
"""Characters of the longest bar."""


@dataclass(frozen=True)
class Node:
    """A resource in the graph."""

    name: str
    type: str
    needs: tuple[str, ...]
    status: str = ""


@dataclass(frozen=True)
class Span:
    """When a resource was worked on (seconds since the stack's work began)."""

    path: str
    action: str
    status: str
    begin: float
    end: float


@with_mistakes
def graph(said: argparse.Namespace) -> int:
    """Draw it."""
    if bool(said.name) == bool(said.template):
        raise UsageError("what is to be drawn?", hint="name a stack, or a template with -t, and not both")
    if said.template:
        if said.timeline:
            raise UsageError("a template has no timeline", hint="name a stack")
        nodes = _nodes(_defined(said), {})
        terminal.say(_DRAWN[said.format](nodes), end="")
        return ExitCode.OK
    root = opened.look(chosen.of(said), said.name)
    if said.timeline:
        if said.format == "dot":
            raise UsageError("Graphviz draws no timelines", hint="give --format text or svg")
        found = spans(root)
        terminal.say(svg.timeline(found) if said.format == "svg" else _bars(found), end="")
        return ExitCode.OK
    if root.defined is None:
        raise UsageError(f"nothing is left of {root.name}, which was rolled back")
    states = {name: "_".join(each.state) for name, each in root.resources.items()}
    terminal.say(_DRAWN[said.format](_nodes(root.defined, states)), end="")
    return ExitCode.OK


def _defined(said: argparse.Namespace) -> Definition:
    """Return what a template says, though values of parameters may be missing. Raises `Invalid`."""
    source = wanted.source(said.template, said.environment, given.parameters(said))
    made, mistakes, _ = loading.examine(source, Identity("stack", ""), known=False)
    if made is None or mistakes:
        raise Invalid(mistakes)
    return made


def _nodes(definition: Definition, states: Mapping[str, str]) -> list[Node]:
    there = definition.resources
    return [
        Node(
            name,
            each.type,
            tuple(sorted(other for other in each.requirements() if other in there)),
            states.get(name, ""),
        )
        for name, each in there.items()
    ]


def layers(nodes: Sequence[Node]) -> list[list[Node]]:
    """Return the resources in layers, each of which needs only what is in those before it. Raises UsageError."""
    left, placed, found = list(nodes), set[str](), list[list[Node]]()
    while left:
        layer = [each for each in left if placed.issuperset(each.needs)]
        if not layer:
            raise UsageError(f"these need each other: {', '.join(each.name for each in left)}")
        found.append(layer)
        placed.update(each.name for each in layer)
        left = [each for each in left if each.name not in placed]
    return found


def _text(nodes: Sequence[Node]) -> str:
    rows = [
        (
            each.name,
            each.type,
            *([each.status] if each.status else []),
            f"needs {', '.join(each.needs)}" if each.needs else "",
        )
        for layer in layers(nodes)
        for each in layer
    ]
    return "".join(f"{line}\n" for line in terminal.table(rows))


def _dot(nodes: Sequence[Node]) -> str:
    layers(nodes)
    lines = ["digraph stack {", "  rankdir=LR;", "  node [shape=box];"]
    for each in nodes:
        label = "\\n".join(_quoted(part)[1:-1] for part in (each.name, each.type, each.status) if part)
        lines.append(f'  {_quoted(each.name)} [label="{label}"];')
    lines += [f"  {_quoted(other)} -> {_quoted(each.name)};" for each in nodes for other in each.needs]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return json.dumps(terminal.line(text), ensure_ascii=False)


def spans(root: Stack) -> list[Span]:
    """Return when each resource was worked on, in the last work on the stack."""
    events = root.world.store.events
    begins = [place for place, each in enumerate(events) if not each["path"] and each["status"] == IN_PROGRESS]
    events = events[begins[-1] :] if begins else events
    if not events:
        return []
    zero, last = events[0]["time"], events[-1]["time"]
    open_: dict[str, float] = {}
    found = []
    for each in events:
        if each["status"] == IN_PROGRESS:
            open_[each["path"]] = each["time"] - zero
        elif each["path"]:
            begin = open_.pop(each["path"], each["time"] - zero)
            found.append(Span(each["path"], each["action"], each["status"], begin, each["time"] - zero))
    found += [Span(path, "", IN_PROGRESS, begin, last - zero) for path, begin in open_.items() if path]
    return sorted(found, key=lambda each: (each.begin, each.end))


def _bars(found: Sequence[Span]) -> str:
    scale = _BAR / max([each.end for each in found], default=1) if found else 1
    rows = []
    for each in found:
        begin = int(each.begin * scale)
        bar = " " * begin + "█" * max(round((each.end - each.begin) * scale), 1)
        rows.append((each.path, each.action, terminal.duration(each.end - each.begin), bar))
    return "".join(f"{line}\n" for line in terminal.table(rows))


def _svg(nodes: Sequence[Node]) -> str:
    return svg.graph(layers(nodes))


_DRAWN = {"text": _text, "dot": _dot, "svg": _svg}

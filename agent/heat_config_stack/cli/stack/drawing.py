"""The graph and the timeline of a stack: as text, for Graphviz, or as SVG."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.diagnostics.kinds import TOSCA, language_of
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.state import journal
from heat_config_stack.cli import template_options
from heat_config_stack.cli.stack import layout, sessions, templates, timeline
from heat_config_stack.cli.stack.layout import Node
from heat_config_stack.cli.stack.operations import with_mistakes
from heat_config_stack.cli.stack.timeline import Span
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.hot import loader
from heat_config_stack.records import listing

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
        terminal.say(_DRAWN[options.format](nodes), end="")
        return ExitCode.OK
    settings = state_options.of(options)
    root = sessions.look(settings, options.name)
    if options.timeline:
        if options.format == "dot":
            raise UsageError("Graphviz draws no timelines", hint="give --format text or svg")
        spans = timeline.spans(root, journal.read(listing.folder(settings.state, options.name)).values())
        terminal.say(_svg_timeline(spans) if options.format == "svg" else _bars(spans), end="")
        return ExitCode.OK
    if root.defined is None:
        raise UsageError(f"{root.name} was rolled back, and has no resources")
    states = {name: "_".join(each.state) for name, each in root.resources.items()}
    terminal.say(_DRAWN[options.format](_nodes(root.defined, states)), end="")
    return ExitCode.OK


def _defined(options: argparse.Namespace) -> Definition:
    """Return the definition of a template; parameters may have no values. Raises `Invalid`."""
    if language_of(options.template) == TOSCA:
        from heat_config_stack.cli.stack import services  # noqa: PLC0415  # HOT needs none of it

        return services.outline(options, Identity("stack", ""))
    source = templates.source(options.template, options.environment, template_options.parameters(options))
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
            tuple(sorted(other for other in resource.requirements() if other in resources)),
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
            raise UsageError(f"these resources need each other: {', '.join(node.name for node in remaining)}")
        result.append(layer)
        placed.update(node.name for node in layer)
        remaining = [node for node in remaining if node.name not in placed]
    return result


def _text(nodes: Sequence[Node]) -> str:
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
        label = "\\n".join(_quoted(part)[1:-1] for part in (each.name, each.type, each.status) if part)
        lines.append(f'  {_quoted(each.name)} [label="{label}"];')
    needs = layout.direct(nodes)
    lines += [f"  {_quoted(other)} -> {_quoted(each.name)};" for each in nodes for other in needs[each.name]]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return json.dumps(terminal.line(text), ensure_ascii=False)


def _bars(spans: Sequence[Span]) -> str:
    """Return a line for each resource: its bar is light while it waits, and dark while it is worked on."""
    scale = _BAR / max([span.end for span in spans if span.end > 0], default=1)
    rows = []
    for span in spans:
        begin, work, end = int(span.begin * scale), round(span.work * scale), round(span.end * scale)
        light = max(work - begin, 1) if span.waited else 0
        dark = max(end - begin - light, 0 if light and span.work == span.end else 1)
        rows.append((span.path, span.action, span.times(), f"{' ' * begin}{'░' * light}{'█' * dark}"))
    return "".join(f"{line}\n" for line in terminal.table(rows))


def _svg(nodes: Sequence[Node]) -> str:
    from heat_config_stack.cli.stack import svg  # noqa: PLC0415  # its library for XML is slow to load

    return svg.graph(layers(nodes))


def _svg_timeline(spans: Sequence[Span]) -> str:
    from heat_config_stack.cli.stack import svg  # noqa: PLC0415

    return svg.timeline(spans)


_DRAWN = {"text": _text, "dot": _dot, "svg": _svg}

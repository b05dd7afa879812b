"""A service as its model: nodes with their targets, and the evaluator of its functions, made of a text alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Tree
from heat_config_stack.tosca.evaluation.evaluation import NOTHING, Context, Evaluator
from heat_config_stack.tosca.evaluation.later import static
from heat_config_stack.tosca.files.documents import Document, Library
from heat_config_stack.tosca.files.source import Kept, Source, machine_template
from heat_config_stack.tosca.topology.service import Node, Service
from heat_config_stack.tosca.topology.topology import (
    Layer,
    Part,
    Surroundings,
    Topology,
)

HEAD = "tosca_definitions_version: tosca_simple_yaml_1_3\n"


@dataclass
class Model:
    """A service that is built, and not compiled."""

    topology: Topology
    evaluator: Evaluator
    layer: Layer
    document: Document

    def part(self, name: str) -> Part:
        """Return a node by its full name."""
        return self.topology.parts[name]

    def value(
        self,
        tree: Json,
        subject: str = "",
        *,
        artifacts: set[tuple[str, str]] | None = None,
    ) -> Tree:
        """Return a value with its functions evaluated: of a node or a relationship, or else of the service."""
        links = {link.name: link for link in self.topology.links}
        of = self.topology.parts.get(subject) or links.get(subject)
        assert of is not None or not subject, f"there is no {subject}"
        return self.evaluator.value(
            tree, Context(of, of.layer if of else self.layer, artifacts=artifacts)
        )

    @property
    def problems(self) -> list[str]:
        """The mistakes of the topology."""
        return [mistake.problem for mistake in self.topology.mistakes]

    @property
    def links(self) -> list[str]:
        """The names of all relationships."""
        return [link.name for link in self.topology.links]


def model(
    text: str,
    inputs: Mapping[str, Json] | None = None,
    *,
    files: Mapping[str, str] | None = None,
    substitutes: Mapping[str, str] | None = None,
    machine: Mapping[str, Mapping[str, Json]] | None = None,
    given: Mapping[str, Mapping[str, Json]] | None = None,
) -> Model:
    """Return the model of a service.

    `substitutes` are the paths of the services in the place of nodes, `machine` are the facts of this machine.
    """
    texts = {"service.yaml": text, **(files or {})}
    contents = {
        path: HEAD + dedent(of) if path.endswith(".yaml") else of
        for path, of in texts.items()
    }
    kept, library = Kept(Source("service.yaml", files=contents)), Library()
    document = library.read(kept, "service.yaml")
    assert [*document.report.mistakes] == []
    evaluator = Evaluator(given=given or {})

    def substitute(part: Part) -> Service | None:
        path = (substitutes or {}).get(part.name)
        return Service(library.read(kept, path, document.version)) if path else None

    def there(tree: Tree) -> Json:
        return None if tree is NOTHING else static(tree)

    def inner_inputs(part: Part, inner: Service) -> dict[str, Tree]:
        own = {name: evaluator.property_value(part, name) for name in inner.inputs}
        return {
            name: inner.inputs[name].default if value is NOTHING else value
            for name, value in own.items()
        }

    node = (
        Node("this_machine", machine_template(machine), document, ())
        if machine
        else None
    )
    surroundings = Surroundings(
        node,
        substitute,
        lambda tree, part: static(evaluator.value(tree, Context(part, part.layer))),
        lambda part, name: there(evaluator.property_value(part, name)),
        lambda part, capability, name: there(
            evaluator.capability_value(part, capability, name)
        ),
        inner_inputs,
    )
    topology = Topology(surroundings)
    evaluator.parts = topology.parts.values
    service = Service(document)
    defaults = {name: of.default for name, of in service.inputs.items()}
    return Model(
        topology,
        evaluator,
        topology.build(service, {**defaults, **(inputs or {})}),
        document,
    )


class Running:
    """The attributes of resources of a stack that runs (`definition.Look`)."""

    def __init__(self, attributes: Mapping[tuple[str, str], Json]) -> None:
        self._attributes = attributes

    def reference(self, resource: str) -> Json:
        """Return the id of a resource: its name."""
        return resource

    def attribute(self, resource: str, attribute: str, path: Any) -> Json:
        """Return an attribute, or a part of it."""
        value = self._attributes.get((resource, attribute))
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def attributes(self, resource: str) -> Json:
        """Return the attributes of a resource."""
        return {
            name: value
            for (owner, name), value in self._attributes.items()
            if owner == resource
        }

    def facade(self, section: str) -> Json:
        """Return nothing: no resource owns the stack."""
        raise NotImplementedError(section)

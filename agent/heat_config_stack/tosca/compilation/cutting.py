"""Inputs that need an operation which comes later: they are null, so that no operations wait for one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from heat_config_stack.definition import ResourceDefinition, circle, requires
from heat_config_stack.tosca.compilation.operations import Implemented
from heat_config_stack.tosca.topology.topology import Topology


def cut_circles(
    resources: dict[str, ResourceDefinition], operations: Mapping[str, Implemented], topology: Topology
) -> None:
    """Make inputs null that need an operation which needs theirs; other circles are left to validation."""
    positions = {name: at for at, name in enumerate(resources)}
    while way := circle(resources):
        pairs = [*zip(way, [*way[1:], way[0]], strict=True)]
        able = [(name, needed) for name, needed in pairs if needed not in resources[name].depends_on]
        able = [(name, needed) for name, needed in able if _is_input(resources[name], needed)]
        if not able:
            return
        name, needed = min(able, key=lambda pair: positions[pair[0]])
        _cut(resources, name, needed, operations[name], topology)


def _is_input(resource: ResourceDefinition, needed: str) -> bool:
    return any(need.resource == needed for need in requires(resource.properties.get("input_values")))


def _cut(
    resources: dict[str, ResourceDefinition], name: str, needed: str, operation: Implemented, topology: Topology
) -> None:
    resource = resources[name]
    values = dict(resource.properties["input_values"])
    for key, tree in values.items():
        if any(need.resource == needed for need in requires(tree)):
            values[key] = None
            problem = f"the input {key} of {name} is null: it needs {needed}, which comes later"
            topology.warnings[operation.document.report.mistake(problem, operation.path, code="alone")] = None
    resources[name] = replace(resource, properties={**resource.properties, "input_values": values})

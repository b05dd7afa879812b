"""Machines that a service describes, compared with this machine, which stands for them (14.2)."""

from __future__ import annotations

from collections.abc import Mapping

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Unresolved
from heat_config_stack.tosca.evaluation.evaluation import NOTHING, Evaluator, TooDeep
from heat_config_stack.tosca.evaluation.later import static
from heat_config_stack.tosca.language.primitives import READERS
from heat_config_stack.tosca.language.text import written
from heat_config_stack.tosca.topology.topology import Part, Topology

_COMPARED = {"num_cpus": "integer", "mem_size": "scalar-unit.size"}
"""The properties of the capability `host` that are compared, with their types."""


def warn_of_less(
    topology: Topology, evaluator: Evaluator, facts: Mapping[str, Mapping[str, Json]], server: str
) -> None:
    """Record a warning for each machine on which operations run here, and that asks for more than this one has.

    Without the name of a server, each machine of the service is this one.
    """
    offered = facts.get("host") or {}
    for part in topology.parts.values():
        if part.is_compute and part is not topology.machine and server in {"", part.name}:
            for name, type_ in _COMPARED.items():
                _compare(part, name, type_, offered.get(name), evaluator)


def _compare(part: Part, name: str, type_: str, offered: Json, evaluator: Evaluator) -> None:
    read = READERS[type_]
    try:
        value = evaluator.capability_value(part, "host", name)
        wanted = None if value is NOTHING else static(value)
        is_less = wanted is not None and offered is not None and read(offered) < read(wanted)
    except (TooDeep, Unresolved, ValueError):  # it is reported where it is checked
        return
    if is_less:
        problem = f"{part.name} asks for {name} {written(wanted)}, and this machine has {written(offered)}"
        path = (*part.template.path, "capabilities", "host", "properties", name)
        part.layer.topology.warn(problem, part.template, path, "apply it on a larger machine", code="small-machine")

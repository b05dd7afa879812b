"""Checks of evaluated values: computed properties (3.5.3), and machines that ask for more than this one has (14.2).

Reading a document checks the values that it has in writing. What an input or another property gives is known when the
service is compiled. A value that only a run can know is not checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import Tree, Unresolved
from heat_config_stack.tosca.evaluation.evaluation import (
    NOTHING,
    Evaluator,
    Subject,
    TooDeep,
)
from heat_config_stack.tosca.evaluation.later import is_known, static
from heat_config_stack.tosca.language import values
from heat_config_stack.tosca.language.primitives import READERS
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.text import written
from heat_config_stack.tosca.language.types import PropertyDefinition
from heat_config_stack.tosca.topology.topology import Part, Topology, capability_of


def check_computed(topology: Topology, evaluator: Evaluator) -> None:
    """Record a mistake for each computed property of a node, capability or relationship that does not fit."""
    for part in topology.parts.values():
        _check(topology, part, _properties(part, evaluator))
        _check(topology, part, _capability_properties(part, evaluator))
    for link in topology.links:
        _check(topology, link, _properties(link, evaluator))


_Property = tuple[Path, PropertyDefinition, Callable[[], Tree]]
"""The path of a computed property below its template, its definition, and its evaluator."""


def _properties(subject: Subject, evaluator: Evaluator) -> Iterator[_Property]:
    defined = subject.type.properties if subject.type is not None else {}
    for name, definition in defined.items():
        if _has_call(subject.template.property_value(name)):
            yield (
                ("properties", name),
                definition,
                partial(evaluator.property_value, subject, name),
            )


def _capability_properties(part: Part, evaluator: Evaluator) -> Iterator[_Property]:
    for capability, content in (
        part.template.content.get("capabilities") or {}
    ).items():
        definition = capability_of(part, capability)
        for name, value in ((content or {}).get("properties") or {}).items():
            if (
                definition is not None
                and name in definition.properties
                and _has_call(value)
            ):
                path = ("capabilities", capability, "properties", name)
                yield (
                    path,
                    definition.properties[name],
                    partial(evaluator.capability_value, part, capability, name),
                )


def _check(
    topology: Topology, subject: Subject, properties: Iterator[_Property]
) -> None:
    template = subject.template
    for below, definition, evaluate in properties:
        path = (*template.path, *below)
        try:
            value = evaluate()
        except TooDeep as error:
            topology.wrong(
                f"values need each other in a circle: {error}",
                template,
                path,
                code="function-circle",
            )
            continue
        except Unresolved as error:
            topology.wrong(str(error), template, path, code="function-arguments")
            continue
        if not is_known(value) or _has_null(value):
            continue
        report = Report(None, template.document.report.budget)
        values.check(value, definition.schema, (below[-1],), report)
        for mistake in report.mistakes:
            hint = (
                mistake.hint
                or "its value is computed: correct the function, or the input that it uses"
            )
            topology.wrong(mistake.problem, template, path, hint, code=mistake.code)


def _has_call(value: Json) -> bool:
    if isinstance(value, dict):
        return values.is_call(value) or any(map(_has_call, value.values()))
    return isinstance(value, list) and any(map(_has_call, value))


def _has_null(value: Json) -> bool:
    """Return whether a part of a value is not there: an optional input without a value, say."""
    if isinstance(value, dict):
        return any(map(_has_null, value.values()))
    return (
        any(map(_has_null, value)) if isinstance(value, list | tuple) else value is None
    )


# Machines that a service describes, compared with this machine, which stands for them (14.2).

_COMPARED = {"num_cpus": "integer", "mem_size": "scalar-unit.size"}
"""The properties of the capability `host` that are compared, with their types."""


def warn_of_less(
    topology: Topology,
    evaluator: Evaluator,
    facts: Mapping[str, Mapping[str, Json]],
    server: str,
) -> None:
    """Record a warning for each machine on which operations run here, and that asks for more than this one has.

    Without the name of a server, each machine of the service is this one.
    """
    offered = facts.get("host") or {}
    for part in topology.parts.values():
        if (
            part.is_compute
            and part is not topology.machine
            and server in {"", part.name}
        ):
            for name, type_ in _COMPARED.items():
                _compare(part, name, type_, offered.get(name), evaluator)


def _compare(
    part: Part, name: str, type_: str, offered: Json, evaluator: Evaluator
) -> None:
    read = READERS[type_]
    try:
        value = evaluator.capability_value(part, "host", name)
        wanted = None if value is NOTHING else static(value)
        is_less = (
            wanted is not None and offered is not None and read(offered) < read(wanted)
        )
    except (TooDeep, Unresolved, ValueError):  # it is reported where it is checked
        return
    if is_less:
        problem = f"{part.name} asks for {name} {written(wanted)}, and this machine has {written(offered)}"
        path = (*part.template.path, "capabilities", "host", "properties", name)
        part.layer.topology.warn(
            problem,
            part.template,
            path,
            "apply it on a larger machine",
            code="small-machine",
        )

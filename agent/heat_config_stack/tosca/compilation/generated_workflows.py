"""`deploy` and `undeploy` for a service in which workflows stand for the lifecycle of a substituted node.

Such a node is created as any other: its `create`, `configure` and `start` are called in its turn, and each is a
workflow of the service in its place, which calls some operations of the inner nodes (section 3.7.11). So the order in
which all nodes of the service are created, or deleted, is itself a workflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from heat_config_agent.model.positions import Json
from heat_config_stack.definition.procedures import (
    DEPLOY,
    UNDEPLOY,
    Activity,
    Plan,
    ProcedureInput,
    StateChange,
    Step,
    Steps,
    Work,
)
from heat_config_stack.tosca.compilation.compiler import Compiler, Pair
from heat_config_stack.tosca.compilation.procedures import Weaver
from heat_config_stack.tosca.evaluation import conditions
from heat_config_stack.tosca.topology.topology import (
    Layer,
    Link,
    MappedOperation,
    Part,
    mapped_operations,
)

_CREATING = ("create", "configure", "start")
_DELETING = ("stop", "delete")
_STARTED = "started"
_DELETED = "initial"


class GeneratedWorkflow:
    """The order in which a service is created or deleted, as a workflow (`definition.Procedure`)."""

    inputs: Mapping[str, ProcedureInput] = {}

    def __init__(self, name: str, compiler: Compiler, layer: Layer) -> None:
        self.name = name
        self._compiler = compiler
        self._layer = layer

    @property
    def description(self) -> str:
        """Its purpose."""
        return f"{'Create' if self.name == DEPLOY else 'Delete'} all nodes, some by workflows of the services inside."

    def plan(self, values: Mapping[str, Json]) -> Plan:  # noqa: ARG002  # it has no inputs
        """Return what it does."""
        operations = _CREATING if self.name == DEPLOY else _DELETING
        units = [*_units(self._layer.parts.values(), operations)]
        weaver = Weaver(self._compiler, self._layer)
        works = {unit.part.name: self._work(unit, weaver) for unit in units}
        follows: dict[str, dict[str, None]] = {name: {} for name in works}
        unit_of = {
            part.name: unit.part.name
            for unit in units
            for part in unit.parts(self._compiler)
        }
        for unit in units:
            for part in unit.parts(self._compiler):
                for target in self._needed(part):
                    needed = unit_of.get(target.name, unit.part.name)
                    if needed != unit.part.name and self.name == DEPLOY:
                        follows[needed][unit.part.name] = None
                    elif needed != unit.part.name:
                        follows[unit.part.name][needed] = None
        names = [*works] if self.name == DEPLOY else [*reversed(works)]
        steps = {name: Step((works[name],), tuple(follows[name])) for name in names}
        return Plan((), Steps(steps))

    def _needed(self, part: Part) -> Iterator[Part]:
        topology = self._compiler.topology
        for link in part.links:
            yield from topology.everything(link.target)
        yield from topology.needed_around(part)

    def outline(self) -> None:
        """Evaluate the procedure once, so that the definition of the stack has everything that it needs."""
        self.plan({})

    def _work(self, unit: _Unit, weaver: Weaver) -> Work:
        activities = (
            self._creating(unit, weaver)
            if self.name == DEPLOY
            else self._deleting(unit, weaver)
        )
        return Work("", conditions.Combined("and", ()), tuple(activities))

    def _creating(self, unit: _Unit, weaver: Weaver) -> Iterator[Activity]:
        """Yield the operations that create a node: its own and those of its relationships (sections 5.8 and 7.2)."""
        if not unit.mapped:
            for pair in self._compiler.lines.get(unit.part.name, ()):
                yield from _made(pair, weaver)
            yield StateChange(unit.part.name, _STARTED)
            return
        around = self._around(unit)
        for name, when in zip(_CREATING, ("pre_", "post_", "add_"), strict=True):
            if name in unit.mapped:
                yield weaver.mapped(unit.part, unit.mapped[name])
            for pair in around:
                if pair.name.rpartition(".")[2].startswith(when):
                    yield from _made(pair, weaver)

    def _deleting(self, unit: _Unit, weaver: Weaver) -> Iterator[Activity]:
        """Yield the operations that delete a node (sections 5.8 and 7.2)."""
        if not unit.mapped:
            for pair in reversed(self._compiler.lines.get(unit.part.name, ())):
                yield from _undone(pair, weaver)
            yield StateChange(unit.part.name, _DELETED)
            return
        for pair in reversed(self._around(unit)):
            yield from _undone(pair, weaver)
        for name in _DELETING:
            if name in unit.mapped:
                yield weaver.mapped(unit.part, unit.mapped[name])

    def _around(self, unit: _Unit) -> list[Pair]:
        """Return the operations of relationships between a substituted node and the nodes outside of it."""
        inside = {part.name for part in unit.parts(self._compiler)}
        around = []
        for part in unit.parts(self._compiler):
            for pair in self._compiler.lines.get(part.name, ()):
                subject = pair.first.subject
                if (
                    isinstance(subject, Link)
                    and not {subject.source.name, subject.target.name} <= inside
                ):
                    around.append(pair)
        return around


@dataclass(frozen=True)
class _Unit:
    """A node that is created in one turn: a plain node, or a substituted node with all its inner nodes."""

    part: Part
    mapped: Mapping[str, MappedOperation]
    """The operations for which workflows stand, by name; none for a node that is not substituted."""

    def parts(self, compiler: Compiler) -> Iterable[Part]:
        """Return its nodes."""
        return compiler.topology.everything(self.part)


def _units(parts: Iterable[Part], names: tuple[str, ...]) -> Iterator[_Unit]:
    for part in parts:
        mapped = {
            of.name: of
            for of in mapped_operations(part)
            if of.is_standard and of.name in names
        }
        if part.inner is None or mapped:
            yield _Unit(part, mapped)
        else:
            yield from _units(part.inner.parts.values(), names)


def _made(pair: Pair, weaver: Weaver) -> Iterator[Activity]:
    if pair.makes is not None and pair.kind != "target_changed":
        yield weaver.delivery(pair.makes, pair.node)


def _undone(pair: Pair, weaver: Weaver) -> Iterator[Activity]:
    if pair.undoes is not None:
        yield weaver.delivery(pair.undoes, pair.node)


def generated_workflows(
    compiler: Compiler, layer: Layer
) -> dict[str, GeneratedWorkflow]:
    """Return `deploy` and `undeploy`, each only if a mapped operation makes it necessary."""
    return {
        name: GeneratedWorkflow(name, compiler, layer)
        for name, operations in ((DEPLOY, _CREATING), (UNDEPLOY, _DELETING))
        if any(unit.mapped for unit in _units(layer.parts.values(), operations))
    }

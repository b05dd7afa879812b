"""Procedures: steps that people start on a stack, next to what is done to create, update and delete it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from heat_config_agent.model.positions import Json
from heat_config_stack.definition.values import Tree

DEPLOY, UNDEPLOY = "deploy", "undeploy"
"""The procedures that stand in the place of what creates and deletes the operations of a stack."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An operation that is carried out once."""

    name: str
    """The name of the operation, as a resource of its own that is there as long as it is carried out."""
    properties: Mapping[str, Tree]
    keeper: str
    """The resource that keeps the outputs."""
    kept_as: str
    """The name of the operation in the outputs that the resource keeps."""


@dataclass(frozen=True, slots=True)
class StateChange:
    """The new state of a node."""

    node: str
    state: str


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps by name, in their order."""

    steps: Mapping[str, Step]

    def followers(self) -> frozenset[str]:
        """Return the names of the steps that come after another step."""
        return frozenset(
            name
            for step in self.steps.values()
            for names in (step.on_success, step.on_failure)
            for name in names
        )


Activity: TypeAlias = Delivery | StateChange | Steps


@dataclass(frozen=True, slots=True)
class Work:
    """The part of a step that concerns one node."""

    node: str
    """The name of the node; empty if it is about none."""
    condition: Tree
    """True if it is done; a value that is not known counts as false."""
    activities: tuple[Activity, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a procedure."""

    works: tuple[Work, ...]
    on_success: tuple[str, ...] = ()
    """The steps that wait for it."""
    on_failure: tuple[str, ...] = ()
    """The steps that begin if it fails; then no others do."""


@dataclass(frozen=True, slots=True)
class Precondition:
    """A condition that has to be met before a procedure begins."""

    condition: Tree
    problem: str
    """The condition that does not hold, as a sentence."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a procedure for given inputs."""

    preconditions: tuple[Precondition, ...]
    steps: Steps

    def outline(self) -> Iterator[str]:
        """Yield the names of everything that is done, in the order of the text."""
        yield from _outline(self.steps)


def _outline(body: Steps) -> Iterator[str]:
    for name, step in body.steps.items():
        yield f"{name}>{','.join(step.on_success)}>{','.join(step.on_failure)}"
        for work in step.works:
            yield work.node
            for activity in work.activities:
                if isinstance(activity, Steps):
                    yield from _outline(activity)
                elif isinstance(activity, Delivery):
                    yield activity.name
                else:
                    yield f"{activity.node}={activity.state}"


@dataclass(frozen=True, slots=True)
class ProcedureInput:
    """An input of a procedure."""

    type: str
    description: str = ""
    default: Json = None
    required: bool = True
    metadata: Mapping[str, Json] = field(default_factory=dict)


class Procedure(Protocol):
    """A procedure of a stack."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def description(self) -> str:
        """Its purpose."""

    @property
    def inputs(self) -> Mapping[str, ProcedureInput]:
        """Its inputs."""

    def plan(self, values: Mapping[str, Json]) -> Plan:
        """Return the plan for values of the inputs; texts are read according to their types. Raises `Invalid`."""

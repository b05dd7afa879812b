"""A service as it is applied: its nodes with what fulfils their requirements, and inner services in the place of nodes.

A `Layer` is one service template with the values of its inputs. The outermost has the service itself; each node that a
template substitutes has a layer of its own. A `Part` is a node of a layer, a `Link` is a relationship between parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import Tree
from heat_config_stack.tosca.language.types import CapabilityDefinition, Type
from heat_config_stack.tosca.topology import filters, requirements
from heat_config_stack.tosca.topology.service import (
    Node,
    Requirement,
    Service,
    mapped_to,
)
from heat_config_stack.tosca.topology.templates import Relationship, Template, variable

COMPUTE = "tosca.nodes.Compute"
HOSTED_ON = "tosca.relationships.HostedOn"
STANDARD = "tosca.interfaces.node.lifecycle.Standard"
CONFIGURE = "tosca.interfaces.relationship.Configure"
MACHINE = "this_machine"
"""The name of the node for this machine, where no template describes it."""

Values = Mapping[str, Tree]


class Layer:
    """A service template as it is applied."""

    def __init__(
        self,
        service: Service,
        topology: Topology,
        inputs: Values,
        outer: Part | None = None,
    ) -> None:
        self.service = service
        self.topology = topology
        self.inputs = inputs
        self.outer = outer
        self.prefix = f"{outer.name}." if outer else ""
        self.parts: dict[str, Part] = {
            name: Part(node, self, f"{self.prefix}{name}")
            for name, node in service.nodes.items()
        }

    @property
    def mapping(self) -> Mapping[str, Any]:
        """The substitution mapping of the template."""
        return self.service.content.get("substitution_mappings") or {}


class Part:
    """A node of a service as it is applied."""

    kind = "node"

    def __init__(self, template: Node, layer: Layer, name: str) -> None:
        self.template = template
        self.layer = layer
        self.name = name
        self.inner: Layer | None = None
        """The service that stands in its place."""
        self.incoming: list[Link] = []
        """The relationships of which it is the target, in the order of the templates."""
        self.id = ""
        """Its tosca_id: its name as it may be in the name of a variable."""

    def __repr__(self) -> str:
        return self.name

    @property
    def type(self) -> Type | None:
        """Its type."""
        return self.template.type

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The relationships of which it is the source, in the order of its requirements."""
        return tuple(self.layer.topology.linked(self))

    @property
    def host(self) -> Part | None:
        """The node that it is hosted on; None where nothing hosts it."""
        return next((link.target for link in self.links if link.hosts), None)

    @property
    def hosts(self) -> Iterator[Part]:
        """All nodes along HostedOn, the nearest first."""
        seen = {self}
        host = self.host
        while host is not None and host not in seen:
            seen.add(host)
            yield host
            host = host.host

    @property
    def is_compute(self) -> bool:
        """True if it is a machine."""
        return self.type is not None and COMPUTE in self.type.keys

    @property
    def machine(self) -> Part | None:
        """The machine that it is on, or that it is itself; None where nothing hosts it."""
        if self.is_compute:
            return self
        return next((host for host in self.hosts if host.is_compute), None)

    def of_requirement(self, name: str) -> list[Link]:
        """Return the relationships of a requirement."""
        return [link for link in self.links if link.requirement == name]


@dataclass(eq=False)
class Link:
    """A relationship between two nodes."""

    requirement: str
    source: Part
    target: Part
    capability: str
    """The name of the capability by which the target fulfils the requirement; empty where that is not known."""
    template: Relationship
    number: int = 1
    """Its index, if a target fulfils a requirement several times."""

    kind = "relationship"

    @property
    def name(self) -> str:
        """Its name, which the resources of its operations begin with."""
        suffix = f".{self.number}" if self.number > 1 else ""
        return f"{self.source.name}.{self.requirement}.{self.target.name}{suffix}"

    @property
    def id(self) -> str:
        """The value of its attribute `tosca_id`."""
        return variable(self.name)

    @property
    def layer(self) -> Layer:
        """The layer in which it stands."""
        return self.source.layer

    @property
    def type(self) -> Type | None:
        """Its type."""
        return self.template.type

    @property
    def hosts(self) -> bool:
        """True if the target hosts the source."""
        return self.type is not None and HOSTED_ON in self.type.keys


@dataclass(frozen=True)
class Surroundings:
    """Everything that a service is applied with, apart from its template and its inputs."""

    machine: Node | None
    """This machine as a node; None where it can fulfil nothing."""
    substitute: Callable[[Part], Service | None]
    """Returns the service that stands in the place of a node; None if there is none."""
    static: Callable[[Json, Part], Json]
    """Returns a value of a template with its functions evaluated; what only a run can know is None."""
    property_value: Callable[[Part, str], Json]
    """Returns the value of a property, evaluated."""
    capability_value: Callable[[Part, str, str], Json]
    """Returns the value of a property of a capability, evaluated."""
    inputs: Callable[[Part, Service], Values]
    """Returns the inputs of a service that stands in the place of a node."""


@dataclass
class Topology:
    """All nodes of a service with their relationships."""

    surroundings: Surroundings
    mistakes: dict[Mistake, None] = field(default_factory=dict)
    warnings: dict[Mistake, None] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    """The nodes in the order of the templates, those of inner services in the place of what they stand for."""
    links: list[Link] = field(default_factory=list)
    machine: Part | None = None
    """This machine, where a requirement needed it."""

    def build(self, service: Service, inputs: Values) -> Layer:
        """Return the outermost layer, after all nodes are there and linked."""
        layer = Layer(service, self, inputs)
        self._weave(layer)
        names: set[str] = set()
        for part in self.parts.values():
            part.id = _unique(variable(part.name), names)
        for part in list(self.parts.values()):
            counts: dict[tuple[str, Part], int] = {}
            for link in part.links:
                key = link.requirement, link.target
                counts[key] = link.number = counts.get(key, 0) + 1
                link.target.incoming.append(link)
                self.links.append(link)
        if self.machine is not None:
            self.machine.id = _unique(variable(self.machine.name), names)
            self.parts = {self.machine.name: self.machine, **self.parts}
        return layer

    def _weave(self, layer: Layer) -> None:
        for part in layer.parts.values():
            inner = self.surroundings.substitute(part)
            if inner is None:
                self.parts[part.name] = part
                continue
            part.inner = Layer(inner, self, {}, part)
            part.inner.inputs = self.surroundings.inputs(part, inner)
            part.id = variable(part.name)
            self._weave(part.inner)

    def wrong(
        self, problem: str, template: Template, path: Path, hint: str = "", *, code: str
    ) -> None:
        """Record a mistake."""
        self.mistakes[
            template.document.report.mistake(problem, path, hint, code=code)
        ] = None

    def warn(
        self, problem: str, template: Template, path: Path, hint: str = "", *, code: str
    ) -> None:
        """Record a warning."""
        self.warnings[
            template.document.report.mistake(problem, path, hint, code=code)
        ] = None

    # Requirements.

    def linked(self, part: Part) -> Iterator[Link]:
        """Yield the relationships of which a node is the source."""
        assigned = list(part.template.requirements)
        outer = self._outer_requirements(part)
        defined = part.type.requirements if part.type else {}
        for name, definition in defined.items():
            number = sum(requirement.name == name for requirement in assigned)
            if name in outer and number:
                problem = f"the requirement {name} of {part.name} is fulfilled here, and also by the substituted node"
                self.wrong(
                    problem,
                    part.template,
                    part.template.path,
                    "leave out one of them",
                    code="mapping-unfit",
                )
            missing = 0 if name in outer else int(definition.occurrences[0]) - number
            for _ in range(missing):
                assigned.append(
                    Requirement(name, {}, part.template, definition, part.template.path)
                )
                assigned[-1].node_type = definition.node
        for requirement in assigned:
            target = self._target(requirement, part)
            if target is not None:
                yield self._link(requirement, part, target, requirement.name)
        for name, links in outer.items():
            for requirement, target in links:
                yield self._link(requirement, part, target, name)

    def _outer_requirements(
        self, part: Part
    ) -> dict[str, list[tuple[Requirement, Part]]]:
        """Return the requirements that the node has because its template stands in for another one."""
        outer = part.layer.outer
        if outer is None:
            return {}
        requirements: dict[str, list[tuple[Requirement, Part]]] = {}
        # the substituted node may be within another one
        around = self._outer_requirements(outer)
        for name, entry in (part.layer.mapping.get("requirements") or {}).items():
            mapped = mapped_to(entry)
            if not isinstance(mapped, list) or len(mapped) != 2:
                continue
            if mapped[0] != part.template.name:
                continue
            for requirement in outer.template.requirements:
                target = (
                    self._target(requirement, outer)
                    if requirement.name == name
                    else None
                )
                if target is not None:
                    requirements.setdefault(mapped[1], []).append((requirement, target))
            if name in around:
                requirements.setdefault(mapped[1], []).extend(around[name])
        return requirements

    def _target(self, requirement: Requirement, part: Part) -> Part | None:
        """Return the node that fulfils a requirement (section 3.7.2); None, with a mistake, if there is none."""
        if requirement.target is None:
            requirement.target = self._found(requirement, part)
        if requirement.target is None:
            return None
        if requirement.target is self.surroundings.machine:
            return self._this_machine(part.layer)
        return part.layer.parts[requirement.target.name]

    def _found(self, requirement: Requirement, part: Part) -> Node | None:
        node_filter = requirement.content.get("node_filter")
        if node_filter is None and requirement.definition is not None:
            node_filter = requirement.definition.node_filter
        node_filter = (
            self.surroundings.static(node_filter, part) if node_filter else None
        )
        nodes = [
            node
            for node in requirements.fitting(requirement, part.layer.service)
            if not node_filter
            or filters.meets(
                node,
                node_filter,
                part.template.document,
                _Known(part.layer.parts[node.name]),
            )
        ]
        if len(nodes) == 1:
            return nodes[0]
        owner = f"the requirement {requirement.name} of {part.name}"
        if nodes:
            names = ", ".join(node.name for node in nodes[:5])
            problem = f"{owner} can be fulfilled by several nodes: {names}"
            self.wrong(
                problem,
                part.template,
                requirement.path,
                "name one of them",
                code="open-requirement",
            )
            return None
        machine = self.surroundings.machine
        problem = f"no node fulfils {owner}"
        hint = "name a node that fulfils it"
        if requirements.is_for_machine(requirement) and machine is not None:
            if not node_filter or filters.meets(
                machine, node_filter, part.template.document
            ):
                return machine
            problem += ", and this machine does not meet its filter"
            hint = f"this machine has {_facts(machine)}"
        if (
            not part.template.directives
            or part.layer.topology.surroundings.substitute(part) is None
        ):
            self.wrong(
                problem, part.template, requirement.path, hint, code="open-requirement"
            )
        return None

    def _this_machine(self, layer: Layer) -> Part:
        if self.machine is None:
            assert self.surroundings.machine is not None  # noqa: S101  # it has fulfilled a requirement
            name = MACHINE
            while name in self.parts:
                name = f"_{name}"
            root = layer
            while root.outer is not None:
                root = root.outer.layer
            self.machine = Part(self.surroundings.machine, root, name)
        return self.machine

    def _link(
        self, requirement: Requirement, part: Part, target: Part, name: str
    ) -> Link:
        capability = requirement.capability
        inner = self.inside(target, capability.name if capability else "")
        return Link(name, part, inner[0], inner[1], _relationship(requirement))

    def inside(self, target: Part, capability: str) -> tuple[Part, str]:
        """Return the inner node and its capability to which a relationship to a substituted node leads."""
        while target.inner is not None:
            entry = (target.inner.mapping.get("capabilities") or {}).get(capability)
            mapped = mapped_to(entry)
            if not isinstance(mapped, list) or len(mapped) != 2:
                break
            if mapped[0] not in target.inner.parts:
                break
            target = target.inner.parts[mapped[0]]
            capability = mapped[1]
        return target, capability

    def needed_around(self, part: Part) -> Iterator[Part]:
        """Yield the nodes that a node needs because it is inside of one whose requirements are mapped to nothing."""
        outer = part.layer.outer
        while outer is not None and outer.inner is not None:
            mapped = outer.inner.mapping.get("requirements") or {}
            for requirement in outer.template.requirements:
                if requirement.name not in mapped and requirement.target is not None:
                    target = outer.layer.parts.get(requirement.target.name)
                    yield from self.everything(target) if target is not None else ()
            for name, links in self._outer_requirements(outer).items():
                for _, target in links if name not in mapped else ():
                    yield from self.everything(target)
            outer = outer.layer.outer

    def everything(self, part: Part) -> Iterator[Part]:
        """Yield a node, or all nodes of the service that stands in its place."""
        if part.inner is None:
            yield part
            return
        for inner in part.inner.parts.values():
            yield from self.everything(inner)


class _Known:
    """The evaluated properties of a node, for filters."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def property_value(self, name: str) -> Json:
        """Return the value of a property."""
        return self._part.layer.topology.surroundings.property_value(self._part, name)

    def capability_property(self, capability: str, name: str) -> Json:
        """Return the value of a property of a capability."""
        return self._part.layer.topology.surroundings.capability_value(
            self._part, capability, name
        )


def _facts(machine: Node) -> str:
    found = []
    for capability in ("host", "os"):
        values = machine.assigned(capability, "properties")
        found += [f"{name} {value}" for name, value in values.items()]
    return ", ".join(found)


def _unique(name: str, taken: set[str]) -> str:
    made = name
    number = 2
    while made in taken:
        made = f"{name}_{number}"
        number = number + 1
    taken.add(made)
    return made


def _relationship(requirement: Requirement) -> Relationship:
    """Return the relationship of a requirement."""
    relationship = requirement.relationship
    if relationship is not None and relationship.type is not None:
        return relationship
    content: Mapping[str, Json] = {}
    path = requirement.path
    if relationship is not None:
        content = relationship.content
        path = relationship.path
    made = Relationship(
        requirement.name,
        content,
        requirement.node.document,
        path,
        requirement.definition,
    )
    made.type = requirement.relationship_type
    return made


def capability_of(part: Part, name: str) -> CapabilityDefinition | None:
    """Return the definition of a capability of a node; None where it has none of that name."""
    return part.type.capabilities.get(name) if part.type else None


# Operations of a substituted node that workflows of the inner service stand for (section 3.7.11).


@dataclass(frozen=True)
class MappedOperation:
    """An operation of a substituted node, with the workflow that is carried out in its place."""

    interface: str
    name: str
    workflow: str
    inputs: Mapping[str, Json]
    """The values of the operation's inputs, as the template of the node and its type give them."""
    is_standard: bool
    """True if it is of the normative interface, whose operations create and delete nodes."""


def mapped_operations(part: Part) -> Iterator[MappedOperation]:
    """Yield the operations of a node that are mapped to workflows of the service in its place."""
    if part.inner is None:
        return
    for name, entry in (part.inner.mapping.get("interfaces") or {}).items():
        if isinstance(entry, dict):
            own = entry.get("operations")
            for operation, workflow in (
                own if isinstance(own, dict) else entry
            ).items():
                if isinstance(workflow, str):
                    yield _mapped(part, name, operation, workflow)
        elif isinstance(entry, str):
            interface, _, operation = name.rpartition(".")
            yield _mapped(part, interface, operation, entry)


def mapped_operation(
    part: Part, interface: str, operation: str
) -> MappedOperation | None:
    """Return the mapped operation of a name; without an interface, the first of that name."""
    found = part.template.interface(interface) if interface else None
    wanted = found.name if found is not None else interface
    for mapped in mapped_operations(part):
        if mapped.name == operation and wanted in ("", mapped.interface):
            return mapped
    return None


def _mapped(
    part: Part, interface: str, operation: str, workflow: str
) -> MappedOperation:
    template = part.template
    mapped = template.interface(interface) if interface else None
    if mapped is None and not interface:
        mapped = next(
            (of for of in template.interfaces.values() if operation in of.operations),
            None,
        )
    if mapped is None:
        return MappedOperation(interface, operation, workflow, {}, is_standard=False)
    type_ = mapped.definition.type if mapped.definition is not None else None
    is_standard = type_ is not None and STANDARD in type_.keys
    return MappedOperation(
        mapped.name, operation, workflow, mapped.inputs(operation), is_standard
    )

"""A service with its relationships → the definition of a stack: a resource for each node and each operation.

`create` and `delete`, `start` and `stop`, `add_target` and `remove_target` are one resource each. The resources of a
node are a line, in which each needs the one before it; removing them is the same line backwards (sections 5.8, 7.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import (
    HOST,
    NODE,
    OPERATION,
    Later,
    Look,
    Need,
    NodeDefinition,
    Output,
    ResourceDefinition,
    Tree,
    Unresolved,
    circle,
    requires,
)
from heat_config_stack.tosca.compilation.operations import (
    ORCHESTRATOR,
    Operation,
    Scripts,
    lifecycle,
    machine,
    surroundings,
    verification,
)
from heat_config_stack.tosca.evaluation.evaluation import (
    Context,
    Evaluator,
    Subject,
    TooDeep,
)
from heat_config_stack.tosca.evaluation.later import (
    Attribute,
    Soft,
    static,
    written_out,
)
from heat_config_stack.tosca.files.processors import SCRIPTS
from heat_config_stack.tosca.topology.templates import Template
from heat_config_stack.tosca.topology.topology import Layer, Part, Topology


@dataclass(frozen=True, slots=True)
class Reference(Later):
    """The id of a resource."""

    resource: str

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(self.resource),)

    def resolve(self, look: Look) -> Json:
        return look.reference(self.resource)


@dataclass
class Pair:
    """One resource of operations: the operation that makes, and the one that undoes it."""

    name: str
    kind: str
    part: Part
    """The node in whose line it is."""
    node: Part
    """The node that it is about, and on whose machine it runs."""
    makes: Operation | None
    undoes: Operation | None
    needs: list[str] = field(default_factory=list)
    after: str = ""
    """The resource before it in the line whose run makes this one run again."""

    @property
    def first(self) -> Operation:
        """The creating operation, or else the deleting one."""
        found = self.makes or self.undoes
        if found is None:
            raise ValueError(f"{self.name} has no operation")
        return found

    @property
    def operations(self) -> Iterator[Operation]:
        """The operations that there are."""
        for operation in (self.makes, self.undoes):
            if operation is not None:
                yield operation


class Compiler:
    """Makes the resources of one service."""

    def __init__(
        self, topology: Topology, evaluator: Evaluator, scripts: Scripts
    ) -> None:
        self.topology = topology
        self.evaluator = evaluator
        self.scripts = scripts
        self.lines: dict[str, list[Pair]] = {}
        """The operations of each node, in their order."""
        self.resources: dict[str, ResourceDefinition] = {}
        self.types: dict[str, str] = {}
        """The type of each resource as the stack knows it."""
        self.nodes: dict[str, NodeDefinition] = {}
        self._places: dict[tuple[int, str, str], tuple[str, str]] = {}
        self._checks: dict[str, Operation] = {}
        """The operations that verify nodes, by the names of these."""
        self._for_operations: dict[str, dict[str, list[str]]] = {}
        """The outputs that operations ask for, and not only the outputs of the service."""
        evaluator.resource_of = self._resource_of

    def compile(self) -> None:
        """Make all resources and nodes."""
        self.evaluator.keepers = {
            part.name for part in self.topology.parts.values() if part.inner is None
        }
        for part in self.topology.parts.values():
            self.lines[part.name] = self._line(part)
        for line in self.lines.values():
            for pair in line:
                for operation in pair.operations:
                    self._places[operation.key] = (pair.name, operation.name)
        for part in self.topology.parts.values():
            for pair in self.lines[part.name]:
                self._prepare(pair)
            self._prepare_verification(part)
        for part in self.topology.parts.values():
            self._node(part)
        operations = {
            pair.name: pair.first for line in self.lines.values() for pair in line
        }
        _cut_circles(self.resources, operations, self.topology)
        for resource, asked in self.evaluator.outputs.items():
            needed = {
                name: self._irreplaceable(resource, name, outputs)
                for name, outputs in asked.items()
            }
            self._for_operations[resource] = needed

    def _irreplaceable(
        self, resource: str, operation: str, names: Iterable[str]
    ) -> list[str]:
        """Return the outputs of an operation that nothing can replace."""
        replaceable = {
            (of.resource, of.attribute, *of.path) for of in self.evaluator.replaceable
        }
        return [
            name for name in names if (resource, operation, name) not in replaceable
        ]

    def outputs(self, layer: Layer) -> dict[str, Output]:
        """Return the outputs of the service."""
        outputs = {}
        for name, output in layer.service.outputs.items():
            path: Path = (*layer.service.path, "outputs", name)
            try:
                value = self.evaluator.value(output.get("value"), Context(None, layer))
            except (TooDeep, Unresolved) as error:
                value = None
                self.topology.warn(
                    f"the output {name} is null: {error}",
                    _Owner(layer),
                    path,
                    code="function-arguments",
                )
            outputs[name] = Output(name, value, str(output.get("description", "")))
        return outputs

    def finish(self) -> dict[str, ResourceDefinition]:
        """Return the resources, after everything that asks for outputs has been evaluated."""
        for name, wanted in self.evaluator.outputs.items():
            resource = self.resources.get(name)
            if resource is not None and self.types[name] == OPERATION:
                asked: dict[str, Tree] = {"outputs": {}}
                output_types: dict[str, Tree] = {}
                for operation, names in wanted.items():
                    asked["outputs"][operation] = [*names]
                    types = {output: type_ for output, type_ in names.items() if type_}
                    if types:
                        output_types[operation] = types
                if output_types:
                    asked["output_types"] = output_types
                if name in self._for_operations:
                    asked["needed_outputs"] = self._for_operations[name]
                self.resources[name] = replace(
                    resource, properties={**resource.properties, **asked}
                )
        return self.resources

    # The line of a node.

    def _line(self, part: Part) -> list[Pair]:
        """Return the operations of a node in their order (sections 5.8 and 7.2)."""
        own = lifecycle(part)
        sources = [(link, lifecycle(link)) for link in part.links]
        targets = [(link, lifecycle(link)) for link in part.incoming]
        line: list[Pair] = []

        def add(
            name: str,
            kind: str,
            of: Part,
            operations: Mapping[str, Operation],
            *names: str,
        ) -> None:
            makes = operations.get(names[0])
            undoes = operations.get(names[1]) if len(names) > 1 else None
            if makes is not None or undoes is not None:
                line.append(Pair(f"{name}.{names[0]}", kind, part, of, makes, undoes))

        add(part.name, "create", part, own, "create", "delete")
        for when in ("pre", "post"):
            for link, operations in sources:
                add(
                    link.name,
                    "configure",
                    link.source,
                    operations,
                    f"{when}_configure_source",
                )
            for link, operations in targets:
                add(
                    link.name,
                    "configure",
                    link.target,
                    operations,
                    f"{when}_configure_target",
                )
            if when == "pre":
                add(part.name, "configure", part, own, "configure")
        add(part.name, "start", part, own, "start", "stop")
        for link, operations in sources:
            add(
                link.name, "add", link.source, operations, "add_target", "remove_target"
            )
            add(
                link.name, "add", link.target, operations, "add_source", "remove_source"
            )
        for link, operations in sources:
            add(link.name, "target_changed", link.source, operations, "target_changed")
        self._order(part, line)
        return line

    def _order(self, part: Part, line: list[Pair]) -> None:
        """Let each operation of a node need its predecessor."""
        before = [part.name] if part.is_compute else self._needed(part)
        after = ""
        added: dict[str, str] = {}
        for pair in line:
            if pair.kind not in ("add", "target_changed"):
                pair.needs = before
                pair.after = after
                before = [pair.name]
                after = pair.name if pair.makes is not None else after
        for pair in line:
            if pair.kind == "add":
                link = pair.name.rpartition(".")[0]
                pair.needs = (
                    [added.setdefault(link, pair.name)] if link in added else before
                )
                added[link] = pair.name
            elif pair.kind == "target_changed":
                pair.needs = before

    def _needed(self, part: Part) -> list[str]:
        """Return the resources that have to be complete before a node begins (sections 5.8 and 7.2)."""
        needed: dict[str, None] = {}
        for link in part.links:
            for target in self.topology.everything(link.target):
                needed.update(dict.fromkeys(self.ready(target)))
        for target in self.topology.needed_around(part):
            needed.update(dict.fromkeys(self.ready(target)))
        return [*needed]

    def ready(self, part: Part) -> list[str]:
        """Return the resources that are complete when a node is started."""
        own = (
            [pair.name for pair in self.lines.get(part.name, ())]
            if part.is_compute
            else []
        )
        return [part.name, *own]

    def _resource_of(
        self, subject: Subject, interface: str, operation: str
    ) -> tuple[str, str] | None:
        """Return the resource with the outputs of an operation, and the name under which it keeps them.

        An operation that only workflows call has no resource of its own: the node has the outputs of all of these.
        """
        declared = subject.template.interface(interface)
        place = self._places.get(
            (id(subject), declared.name if declared else interface, operation)
        )
        if place is not None or declared is None:
            return place
        definition = declared.operations.get(operation)
        part = getattr(subject, "source", subject)
        is_kept = (
            definition is not None
            and definition.implemented is not None
            and part.name in self.evaluator.keepers
        )
        return (
            (part.name, _kept_as(subject, declared.name, operation))
            if is_kept
            else None
        )

    def _prepare(self, pair: Pair) -> None:
        if pair.makes is not None:
            pair.makes = self._prepared(pair.makes, pair.part.layer)
        if pair.undoes is not None:
            pair.undoes = self._prepared(pair.undoes, pair.part.layer)

    def _prepare_verification(self, part: Part) -> None:
        """Prepare the operation `verify` of a node, which has to be a script."""
        operation = verification(part)
        if operation is None:
            return
        if not any(
            each.makes and each.first.subject is part for each in self.lines[part.name]
        ):
            self.topology.warn(
                f"the operation verify of {part.name} is not carried out: there is nothing that it could verify",
                part.template,
                part.template.path,
                "implement create, configure or start",
                code="alone",
            )
            return
        made = self._prepared(operation, part.layer)
        if made.config.get("processor") in SCRIPTS:
            self._checks[part.name] = made
        elif made.config:
            problem = "the operation verify has to be a script: its exit code says whether the node is in effect"
            self.topology.mistakes[
                made.document.report.mistake(problem, made.path, "", code="open-tool")
            ] = None

    def _prepared(self, operation: Operation, layer: Layer) -> Operation:
        """Return an operation with what is run for it; as it is, with a mistake, where that cannot be evaluated."""
        try:
            return self.scripts.prepared(operation)
        except TooDeep as error:
            problem = f"values need each other in a circle: {error}"
            self.topology.wrong(
                problem, _Owner(layer), operation.path, code="function-circle"
            )
        except Unresolved as error:
            report = operation.document.report
            self.topology.mistakes[
                report.mistake(str(error), operation.path, code="function-arguments")
            ] = None
        return operation

    # Resources.

    def _node(self, part: Part) -> None:
        line = self.lines[part.name]
        type_ = str(part.template.content.get("type"))
        if part.is_compute:
            self.add(
                ResourceDefinition(part.name, type_, {}, {}, tuple(self._needed(part))),
                HOST,
            )
        self._artifacts(part)
        for pair in line:
            self._operation(pair)
        if not part.is_compute:
            needs = [*self._needed(part), *(pair.name for pair in line)]
            needs += [
                name for name in (f"{part.name}.artifacts",) if name in self.resources
            ]
            self.add(
                ResourceDefinition(
                    part.name, type_, {}, {}, tuple(dict.fromkeys(needs))
                ),
                NODE,
            )
        host = part.machine
        self.nodes[part.name] = NodeDefinition(
            part.name,
            type_,
            host.name if host is not None else "",
            {pair.name: pair.kind for pair in line},
            partial(self._attributes, part),
        )
        for name in self._open_attributes(part):
            self._attribute(part, name)

    def _attributes(self, part: Part) -> dict[str, Tree]:
        type_ = part.type
        names = [*type_.properties, *type_.attributes] if type_ is not None else []
        found = {}
        for name in names:
            if name != "state":
                found[name] = self._attribute(part, name)
        return found

    def _attribute(self, part: Part, name: str) -> Tree:
        try:
            return written_out(self.evaluator.attribute(part, name))
        except (TooDeep, Unresolved):
            return None

    def _open_attributes(self, part: Part) -> list[str]:
        """Return the attributes with functions, which may ask for outputs of operations."""
        assigned = part.template.content.get("attributes") or {}
        defined = part.type.attributes if part.type is not None else {}
        values = {**{name: of.default for name, of in defined.items()}, **assigned}
        return [
            name for name, value in values.items() if isinstance(value, dict | list)
        ]

    def add(self, resource: ResourceDefinition, type_: str) -> None:
        """Take a resource with the type that the stack knows for it."""
        self.resources[resource.name] = resource
        self.types[resource.name] = type_

    def _artifacts(self, part: Part) -> None:
        """Copy artifacts before the first operation of the node."""
        files, places = self.scripts.deployed(part)
        if not places:
            return
        host = part.machine
        properties = {
            "server": Reference(
                self._machine(host.name if host is not None else ORCHESTRATOR)
            ),
            "kind": "artifacts",
            "operation": "artifacts",
            "config": {"files": files},
            "trigger": [place["to"] for place in places],
            "places": places,
        }
        needs = [part.name] if part.is_compute else self._needed(part)
        self.add(
            ResourceDefinition(
                f"{part.name}.artifacts", "artifacts", properties, {}, tuple(needs)
            ),
            OPERATION,
        )

    def _machine(self, name: str) -> str:
        """Return the name of the resource of a machine; the orchestrator is there when it is needed."""
        if name == ORCHESTRATOR and ORCHESTRATOR not in self.resources:
            self.add(ResourceDefinition(ORCHESTRATOR, ORCHESTRATOR, {}), HOST)
        return name

    def _operation(self, pair: Pair) -> None:
        first = pair.first
        nothing = Operation(first.subject, first.interface, first.definition)
        makes = pair.makes or nothing
        undoes = pair.undoes or nothing
        server = self._machine(machine(first, pair.node))
        trigger: Tree = Attribute(pair.after, "run") if pair.after else None
        if pair.kind == "target_changed":
            trigger = self._target(pair)
        around = {
            **surroundings(first, pair.node),
            **undoes.uncompared,
            **makes.uncompared,
        }
        more = [place for place in undoes.places if place not in makes.places]
        properties: dict[str, Tree] = {
            "server": Reference(server),
            "kind": pair.kind,
            "operation": pair.makes.name if pair.makes else "",
            "inverse": pair.undoes.name if pair.undoes else "",
            "config": makes.config,
            "inverse_config": undoes.config,
            "files": {**undoes.files, **makes.files},
            "places": [*makes.places, *more],
            "input_values": makes.inputs,
            "inverse_values": _softened(undoes.inputs),
            "surroundings": _softened(around),
            "trigger": trigger,
            "options": {**makes.options, **self._options(pair)},
            **self._verification(pair),
        }
        needs = [*pair.needs]
        if f"{pair.part.name}.artifacts" in self.resources:
            needs.append(f"{pair.part.name}.artifacts")
        if pair.kind == "target_changed":
            for part in self.topology.everything(self._target_of(pair)):
                needs += self.ready(part)
        kept = {
            name: value
            for name, value in properties.items()
            if value not in (None, {}, [], "")
        }
        type_ = f"{first.interface.name}.{pair.name.rpartition('.')[2]}"
        self.add(
            ResourceDefinition(pair.name, type_, kept, {}, tuple(dict.fromkeys(needs))),
            OPERATION,
        )

    def _verification(self, pair: Pair) -> dict[str, Tree]:
        """Return the operation `verify` of the node of an operation, with the values that are known by then."""
        checks = self._checks.get(pair.part.name)
        if checks is None or pair.first.subject is not pair.part or not pair.makes:
            return {}
        line = [other.name for other in self.lines[pair.part.name]]
        later = {*line[line.index(pair.name) :], pair.part.name}
        values = {**checks.inputs, **checks.uncompared}
        if any(need.resource in later for need in requires(checks.inputs)):
            return {}  # they are not known when the operation runs
        files = {**checks.files, **checks.config["files"]}
        return {
            "verify": {**checks.config, "files": files},
            "verify_values": _softened(values),
        }

    def _options(self, pair: Pair) -> dict[str, Json]:
        metadata = pair.part.template.content.get("metadata") or {}
        options: dict[str, Json] = {
            name: metadata[name]
            for name in ("retry", "on_failure")
            if metadata.get(name)
        }
        if str(metadata.get("idempotent", "")).lower() == "true":
            options["idempotent"] = True
        return options

    def _target_of(self, pair: Pair) -> Part:
        return pair.first.subject.target  # type: ignore[union-attr]  # it is one of a relationship

    def _target(self, pair: Pair) -> Tree:
        """Return a value that changes whenever the target of a relationship does (sections 5.8 and 7.2)."""
        target = self._target_of(pair)
        made = [
            other
            for part in self.topology.everything(target)
            for other in self.lines.get(part.name, ())
        ]
        runs = [
            Attribute(other.name, "run")
            for other in made
            if other.makes and other.kind != "target_changed"
        ]
        properties = {}
        for name in target.type.properties if target.type is not None else ():
            value = self._value_of_property(target, name)
            if value is not None:
                properties[name] = value
        added = self._added(target)
        return {
            "runs": [run for run in runs if run.resource not in added],
            "properties": properties,
        }

    def _added(self, target: Part) -> set[str]:
        return {
            pair.name for pair in self.lines.get(target.name, ()) if pair.kind == "add"
        }

    def _value_of_property(self, part: Part, name: str) -> Json:
        try:
            return written_out(static(self.evaluator.property_value(part, name)))
        except (TooDeep, Unresolved):
            return None


def _kept_as(subject: Subject, interface: str, operation: str) -> str:
    """Return the name under which the outputs of an operation are kept with its node."""
    name = f"{interface}.{operation}"
    if isinstance(subject, Part):
        return name
    return f"{subject.name.removeprefix(f'{subject.source.name}.')}.{name}"


class _Owner(Template):
    """The service itself, where a mistake belongs to no template."""

    def __init__(self, layer: Layer) -> None:
        super().__init__("", {}, layer.service.document, layer.service.path)


def _softened(values: dict[str, Tree]) -> Tree:
    """Return values that nothing waits for: parts that only a run can know have their current values."""
    is_open = any(True for _ in requires(values)) or any(
        map(_is_later, values.values())
    )
    return Soft(values) if is_open else values


def _is_later(tree: Tree) -> bool:
    if isinstance(tree, dict):
        return any(map(_is_later, tree.values()))
    if isinstance(tree, list):
        return any(map(_is_later, tree))
    return isinstance(tree, Later)


# Inputs that need an operation which comes later: they are null, so that no operations wait for one another.


def _cut_circles(
    resources: dict[str, ResourceDefinition],
    operations: Mapping[str, Operation],
    topology: Topology,
) -> None:
    """Make inputs null that need an operation which needs theirs; other circles are left to validation."""
    positions = {name: at for at, name in enumerate(resources)}
    while way := circle(resources):
        pairs = [*zip(way, [*way[1:], way[0]], strict=True)]
        able = [
            (name, needed)
            for name, needed in pairs
            if needed not in resources[name].depends_on
        ]
        able = [
            (name, needed)
            for name, needed in able
            if _is_input(resources[name], needed)
        ]
        if not able:
            return
        name, needed = min(able, key=lambda pair: positions[pair[0]])
        _cut(resources, name, needed, operations[name], topology)


def _is_input(resource: ResourceDefinition, needed: str) -> bool:
    return any(
        need.resource == needed
        for need in requires(resource.properties.get("input_values"))
    )


def _cut(
    resources: dict[str, ResourceDefinition],
    name: str,
    needed: str,
    operation: Operation,
    topology: Topology,
) -> None:
    resource = resources[name]
    values = dict(resource.properties["input_values"])
    for key, tree in values.items():
        if any(need.resource == needed for need in requires(tree)):
            values[key] = None
            problem = f"the input {key} of {name} is null: it needs {needed}, which comes later"
            topology.warnings[
                operation.document.report.mistake(problem, operation.path, code="alone")
            ] = None
    resources[name] = replace(
        resource, properties={**resource.properties, "input_values": values}
    )

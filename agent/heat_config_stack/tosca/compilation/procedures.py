"""Workflows of a service → procedures of a stack (section 7.3 of the specification)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import MappingProxyType
from typing import Any

from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import HOST, ResourceDefinition, Tree
from heat_config_stack.definition.procedures import (
    Activity,
    Delivery,
    Plan,
    Precondition,
    ProcedureInput,
    StateChange,
    Step,
    Steps,
    Work,
)
from heat_config_stack.tosca.compilation.compiler import Compiler, Reference
from heat_config_stack.tosca.compilation.operations import (
    ORCHESTRATOR,
    Operation,
    machine,
    surroundings,
)
from heat_config_stack.tosca.evaluation import conditions
from heat_config_stack.tosca.evaluation.evaluation import Context, Subject
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.types import PropertyDefinition, definitions
from heat_config_stack.tosca.language.values import check_inputs
from heat_config_stack.tosca.topology.service import Group, Policy
from heat_config_stack.tosca.topology.templates import (
    Interface,
    variable,
    with_variables,
)
from heat_config_stack.tosca.topology.topology import (
    Layer,
    Link,
    MappedOperation,
    Part,
    mapped_operation,
)

MOST = 5000
"""The maximum number of activities in a workflow, with inlined workflows."""


class Workflow:
    """A workflow of a service (`definition.Procedure`)."""

    def __init__(
        self, name: str, content: Mapping[str, Any], compiler: Compiler, layer: Layer
    ) -> None:
        self.name = name
        self._compiler = compiler
        self._layer = layer
        self._content = content

    @property
    def description(self) -> str:
        """Its purpose."""
        return str(self._content.get("description") or "")

    @cached_property
    def _inputs(self) -> Mapping[str, PropertyDefinition]:
        own = self._content.get("inputs") or {}
        return definitions(
            own, {}, self._layer.service.document, (*self._path, "inputs")
        )

    @property
    def _path(self) -> tuple[str, ...]:
        return (*map(str, self._layer.service.path), "workflows", self.name)

    @property
    def inputs(self) -> Mapping[str, ProcedureInput]:
        """Its inputs."""
        return {
            name: ProcedureInput(
                str(of.get("type", "")),
                " ".join(str(of.get("description", "")).split()),
                of.default,
                of.required,
                of.get("metadata") or {},
            )
            for name, of in self._inputs.items()
        }

    def plan(self, values: Mapping[str, Json]) -> Plan:
        """Return the plan for values of the inputs. Raises `Invalid`."""
        report = Report(None, self._layer.service.document.report.budget)
        texts = {
            name: value for name, value in values.items() if isinstance(value, str)
        }
        chosen = check_inputs(self._inputs, texts, (*self._path, "inputs"), report)
        mistakes = [*report.mistakes, *report.open]
        if mistakes:
            place = self._layer.service.document.report.mistake(
                "", (*self._path, "inputs"), code="value"
            ).place
            raise Invalid(
                [
                    Mistake(of.problem, of.path, place, of.hint, of.kind, of.code)
                    for of in mistakes
                ],
                OPEN,
            )
        weaver = Weaver(self._compiler, self._layer)
        plan = weaver.plan(self._content, self._defaults(chosen))
        if self._compiler.topology.mistakes:
            raise Invalid(ordered(self._compiler.topology.mistakes), OPEN)
        return plan

    def outline(self) -> None:
        """Evaluate the procedure once, so that the definition of the stack has everything that it needs."""
        weaver = Weaver(self._compiler, self._layer)
        weaver.plan(self._content, self._defaults({}))

    def _defaults(self, chosen: Mapping[str, Json]) -> dict[str, Tree]:
        """Return the values of its inputs; an input without one leaves the service's input visible (7.3)."""
        values = {
            name: of.default
            for name, of in self._inputs.items()
            if of.default is not None
        }
        return {**values, **chosen}


def workflows(compiler: Compiler, layer: Layer) -> dict[str, Workflow]:
    """Return the workflows of a service by name."""
    return {
        name: Workflow(name, content, compiler, layer)
        for name, content in layer.service.workflows.items()
    }


def triggers(compiler: Compiler, layer: Layer) -> dict[str, Workflow]:
    """Return the actions of the triggers of all policies, as workflows: `POLICY.TRIGGER` (section 15)."""
    workflows = {}
    for policy in layer.service.policies:
        inherited: dict[str, Any] = {}
        for ancestor in reversed(policy.type.lineage if policy.type else ()):
            inherited |= ancestor.content.get("triggers") or {}
        for name, trigger in {
            **inherited,
            **(policy.content.get("triggers") or {}),
        }.items():
            content = _action(trigger.get("action"), policy, layer)
            if content is not None:
                full = f"{policy.name}.{name}"
                workflows[full] = Workflow(full, content, compiler, layer)
    return workflows


def _action(action: Json, policy: Policy, layer: Layer) -> Mapping[str, Any] | None:
    """Return the action of a trigger as a workflow: one of the service, or a step for each target of the policy."""
    if isinstance(action, str) and action in layer.service.workflows:
        content: Mapping[str, Any] = layer.service.workflows[action]
        return content
    if isinstance(action, str):
        activities: list[Any] = [{"call_operation": action}]
    elif isinstance(action, dict):
        activities = [
            {
                "call_operation": {
                    "operation": name,
                    "inputs": (of or {}).get("inputs") or {},
                }
            }
            for name, of in action.items()
            if isinstance(of, dict | None)
        ]
    else:
        activities = [activity for activity in action or () if activity]
    own = [activity for activity in activities if "inline" in activity]
    rest = [activity for activity in activities if "inline" not in activity]
    targets = [name for name in policy.content.get("targets") or () if name]
    steps: dict[str, Any] = {
        f"{name}": {"target": name, "activities": rest} for name in targets if rest
    }
    if own:
        steps["inline"] = {"activities": own}
    return {"steps": steps} if steps else None


class _Group(Part):
    """A group of a service, whose own operations workflows call: it is on no machine, and needs no node."""

    kind = "group"

    def __init__(self, template: Group, layer: Layer) -> None:
        super().__init__(template, layer, f"{layer.prefix}{template.name}")  # type: ignore[arg-type]  # less is asked of it
        self.id = variable(self.name)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """No links: the requirements of a group are those of its members."""
        return ()


class Weaver:
    """Makes the plan of one workflow."""

    def __init__(self, compiler: Compiler, layer: Layer) -> None:
        self._compiler = compiler
        self._layer = layer
        self._service = layer.service
        self._evaluator = compiler.evaluator
        self._left = MOST

    def plan(self, content: Mapping[str, Any], values: Mapping[str, Tree]) -> Plan:
        """Return the plan of a workflow."""
        with self._inputs(values):
            found = [
                Precondition(
                    condition, f"the precondition for {part.name} does not hold"
                )
                for part, condition in self._preconditions(content)
            ]
            return Plan(tuple(found), self._steps(content, {}))

    @contextmanager
    def _inputs(self, values: Mapping[str, Tree]) -> Iterator[None]:
        """Let functions see the inputs of a workflow before those of the service."""
        before = self._layer.inputs
        evaluated = {
            name: self._evaluator.value(value, Context(None, self._layer))
            for name, value in values.items()
        }
        self._layer.inputs = {**before, **evaluated}
        try:
            yield
        finally:
            self._layer.inputs = before

    def _preconditions(
        self, content: Mapping[str, Any]
    ) -> Iterator[tuple[Part, conditions.Combined]]:
        for precondition in content.get("preconditions") or ():
            for part in self._targets((precondition or {}).get("target")):
                yield (
                    part,
                    conditions.all_of(
                        precondition.get("condition"), part, self._evaluator
                    ),
                )

    def _targets(self, name: str | None) -> list[Part]:
        """Return the nodes that a name stands for: one, or the members of a group."""
        if name in self._layer.parts:
            return [self._layer.parts[name]]
        group = self._service.groups.get(name or "")
        if group is None:
            return []
        parts = self._layer.parts
        return [parts[member] for member in group.members if member in parts]

    def _steps(
        self,
        content: Mapping[str, Any],
        filters: Mapping[str, tuple[conditions.Combined, ...]],
    ) -> Steps:
        found = {}
        for name, step in (content.get("steps") or {}).items():
            works = tuple(self._works(step, filters))
            found[name] = Step(
                works, _names(step.get("on_success")), _names(step.get("on_failure"))
            )
        return Steps(found)

    def _works(
        self,
        step: Mapping[str, Any],
        filters: Mapping[str, tuple[conditions.Combined, ...]],
    ) -> Iterator[Work]:
        activities = [activity for activity in step.get("activities") or () if activity]
        target = step.get("target")
        group = None
        if target not in self._layer.parts:
            group = self._service.groups.get(target or "")
        if group is not None:
            own_operations = tuple(
                self._of_group(_Group(group, self._layer), activities, step)
            )
            if own_operations:
                yield Work("", conditions.Combined("and", ()), own_operations)
        if target is None:
            yield Work(
                "",
                conditions.Combined("and", ()),
                tuple(self._activities(activities, step, None)),
            )
        for part in self._targets(target):
            own = conditions.all_of(step.get("filter"), part, self._evaluator)
            condition = conditions.Combined("and", (*filters.get(part.name, ()), own))
            yield Work(
                part.name, condition, tuple(self._activities(activities, step, part))
            )

    def _activities(
        self,
        activities: list[Mapping[str, Any]],
        step: Mapping[str, Any],
        part: Part | None,
    ) -> Iterator[Activity]:
        for activity in activities:
            self._left -= 1
            if self._left < 0:
                problem = f"a workflow has over {MOST:,} activities"
                raise Invalid(
                    [Mistake(problem, (*self._service.path, "workflows"))], OPEN
                )
            if activity.get("inline") is not None:
                yield self._inline(activity["inline"])
            elif part is not None and activity.get("set_state") is not None:
                for of in self._compiler.topology.everything(part):
                    yield StateChange(of.name, str(activity["set_state"]))
            elif part is not None and activity.get("call_operation") is not None:
                yield from self._called(activity["call_operation"], step, part)

    def _of_group(
        self, part: _Group, activities: list[Mapping[str, Any]], step: Mapping[str, Any]
    ) -> Iterator[Delivery | Steps]:
        """Return the operations of a group itself, which run before the operations of its members."""
        for activity in activities:
            if (
                activity.get("call_operation") is not None
                and step.get("target_relationship") is None
            ):
                yield from self._called(activity["call_operation"], step, part)

    def _inline(self, inline: Json) -> Steps:
        if isinstance(inline, dict):
            return self.inlined(inline["workflow"], inline.get("inputs") or {})
        return self.inlined(inline, {})

    def inlined(self, name: str, assigned: Mapping[str, Tree]) -> Steps:
        """Return the steps of another workflow; its preconditions pass over nodes that do not meet them (7.3)."""
        content = self._service.workflows[name]
        own = definitions(content.get("inputs") or {}, {}, self._service.document, ())
        values = {key: of.default for key, of in own.items() if of.default is not None}
        with self._inputs({**values, **assigned}):
            filters: dict[str, tuple[conditions.Combined, ...]] = {}
            for part, condition in self._preconditions(content):
                filters[part.name] = (*filters.get(part.name, ()), condition)
            return self._steps(content, filters)

    def _called(
        self, called: Json, step: Mapping[str, Any], part: Part
    ) -> Iterator[Delivery | Steps]:
        """Return the operations that a node, or its relationships, have by the name of a call (section 7.3)."""
        if not isinstance(called, dict):
            called = {"operation": called}
        name = called["operation"]
        inputs = called.get("inputs") or {}
        interface, _, operation = name.rpartition(".")
        relationship = step.get("target_relationship")
        subjects: list[Subject] = (
            [part] if relationship is None else [*part.of_requirement(relationship)]
        )
        mapped = (
            mapped_operation(part, interface, operation)
            if relationship is None
            else None
        )
        if mapped is not None:
            yield self.mapped(part, mapped, inputs)
            return
        for subject in subjects:
            declared = (
                subject.template.interface(interface)
                if interface
                else _with_operation(subject, operation)
            )
            definition = declared.operations.get(operation) if declared else None
            if (
                declared is not None
                and definition is not None
                and definition.implemented is not None
            ):
                yield self.delivery(
                    Operation(subject, declared, definition), part, step, inputs
                )

    def mapped(
        self,
        part: Part,
        operation: MappedOperation,
        inputs: Mapping[str, Json] = MappingProxyType({}),
    ) -> Steps:
        """Return the steps of the workflow that stands for an operation of a substituted node.

        The inputs of the operation are those of the workflow, where it has inputs of their names.
        """
        assert part.inner is not None  # noqa: S101  # only such a node has mapped operations
        context = Context(part, part.layer)
        content = part.inner.service.workflows[operation.workflow].get("inputs") or {}
        own = definitions(content, {}, part.inner.service.document, ())
        given = {**operation.inputs, **inputs}
        values = {
            name: self._evaluator.value(value, context)
            for name, value in given.items()
            if name in own
        }
        known = {**part.inner.inputs, **values}
        for name, definition in own.items():
            if (
                known.get(name) is None
                and definition.default is None
                and definition.required
            ):
                problem = (
                    f"the workflow {operation.workflow} for {operation.name} of {part.name} "
                    f"needs the input {name}"
                )
                path = (*part.template.path, "interfaces")
                hint = "give it as an input of the operation"
                self._compiler.topology.wrong(
                    problem, part.template, path, hint, code="open-input"
                )
        inner = Weaver(self._compiler, part.inner)
        inner._left = self._left  # it is of the same class
        steps = inner.inlined(operation.workflow, values)
        self._left = inner._left
        return steps

    def delivery(
        self,
        operation: Operation,
        part: Part,
        step: Mapping[str, Any] = MappingProxyType({}),
        inputs: Mapping[str, Json] = MappingProxyType({}),
    ) -> Delivery:
        """Return an operation as it is carried out once."""
        prepared = self._compiler.scripts.prepared(operation)
        context = Context(operation.subject, self._layer)
        own = {
            name: prepared.written(self._evaluator.value(value, context))
            for name, value in inputs.items()
        }
        server = self._server(operation, part, step.get("operation_host"))
        place = self._evaluator.resource_of(
            operation.subject, operation.interface.name, operation.name
        )
        keeper, kept_as = place or (
            "" if part.kind == _Group.kind else part.name,
            operation.name,
        )
        names = [*self._evaluator.outputs.get(keeper, {}).get(kept_as, ())]
        properties: dict[str, Tree] = {
            "server": Reference(server),
            "kind": "configure",
            "operation": operation.name,
            "config": prepared.config,
            "files": prepared.files,
            "places": prepared.places,
            "input_values": {**prepared.inputs, **with_variables(own)},
            "surroundings": {**surroundings(operation, part), **prepared.uncompared},
            "outputs": {operation.name: names} if names else {},
            "options": prepared.options,
        }
        kept = {
            key: value for key, value in properties.items() if value not in ({}, [], "")
        }
        name = f"{operation.subject.name}.{operation.interface.name}.{operation.name}"
        return Delivery(name, kept, keeper, kept_as)

    def _server(self, operation: Operation, part: Part, host: str | None) -> str:
        """Return the machine of an operation: that of a step, which may be a node, goes before its own."""
        end: Part | None = self._layer.parts.get(host or "")
        if host in ("SOURCE", "TARGET") and isinstance(operation.subject, Link):
            end = (
                operation.subject.source
                if host == "SOURCE"
                else operation.subject.target
            )
        if end is not None:
            name = end.machine.name if end.machine is not None else ORCHESTRATOR
        else:
            name = ORCHESTRATOR if host == ORCHESTRATOR else machine(operation, part)
        if name == ORCHESTRATOR and name not in self._compiler.resources:
            self._compiler.add(ResourceDefinition(ORCHESTRATOR, ORCHESTRATOR, {}), HOST)
        return name


def _with_operation(subject: Subject, operation: str) -> Interface | None:
    """Return the first interface that implements an operation, which a trigger names without its interface."""
    for interface, definition in subject.template.operations:
        if definition.name == operation:
            return interface
    return None


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(dict.fromkeys(name for name in value or () if name is not None))

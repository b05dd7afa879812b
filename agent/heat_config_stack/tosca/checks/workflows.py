"""Checks of workflows (sections 3.5.19 to 3.5.23, 3.7.7 and 7.3 of the specification)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.checks.type_checks import (
    activities,
    check_definitions,
    monitored,
)
from heat_config_stack.tosca.language import functions, values
from heat_config_stack.tosca.language.circles import circles, shown_circle
from heat_config_stack.tosca.language.entities import HOST_NAMES
from heat_config_stack.tosca.language.functions import Scope, Subject, TypeSubject
from heat_config_stack.tosca.language.grammar import EMPTY
from heat_config_stack.tosca.language.types import PropertyDefinition, definitions
from heat_config_stack.tosca.topology.filters import assertions, check_clauses
from heat_config_stack.tosca.topology.service import (
    Group,
    Node,
    Policy,
    Requirement,
    Service,
)
from heat_config_stack.tosca.topology.templates import Template


def check_workflows(service: Service, scope: Scope) -> None:
    """Report what is wrong with the workflows of a service."""
    inlined: dict[str, list[str]] = {}
    for name, content in service.workflows.items():
        check = _WorkflowCheck(name, content, service, scope)
        check.check()
        inlined[name] = check.inlined
    for circle in circles(inlined):
        names = shown_circle(circle)
        path = (*service.path, "workflows", circle[0])
        scope.report.wrong(
            f"workflows are inlined in a circle: {names}", path, code="workflow-circle"
        )


def check_actions(policy: Policy, service: Service, scope: Scope) -> None:
    """Report actions and filters of triggers with unknown names (section 3.5.18)."""
    check = _WorkflowCheck("", {}, service, scope)
    targets = [name for name in policy.content.get("targets") or () if name]
    target: Template | None = None
    if len(targets) == 1:
        target = service.nodes.get(targets[0]) or service.groups.get(targets[0])
    for name, trigger in (policy.content.get("triggers") or {}).items():
        path = (*policy.path, "triggers", name)
        check.check_trigger(trigger, target, path)


class _WorkflowCheck:
    """The check of one workflow."""

    def __init__(
        self, name: str, content: Mapping[str, Any], service: Service, scope: Scope
    ) -> None:
        self.content = content
        self.service = service
        self.path: Path = (*service.path, "workflows", name)
        self.inlined: list[str] = []
        outer = scope.inputs if isinstance(scope.inputs, dict) else {}
        inputs = {**outer, **(content.get("inputs") or {})}
        self.scope = replace(scope.within(None), inputs=inputs)
        self.report = scope.report

    def check(self) -> None:
        """Report the mistakes of the workflow."""
        own = self.content.get("inputs") or {}
        path = (*self.path, "inputs")
        defined = definitions(own, {}, self.service.document, path)
        check_definitions(own, defined, path, self.service.document, needs_type=True)
        functions.check_defaults(defined, own, path, self.scope)
        functions.check(
            self.content.get("outputs"), (*self.path, "outputs"), self.scope
        )
        for index, condition in enumerate(self.content.get("preconditions") or ()):
            if condition is not None:
                here = (*self.path, "preconditions", index)
                target = self._target(condition.get("target"), (*here, "target"))
                self._check_relationship(condition, target, here)
                self._check_conditions(
                    condition.get("condition"), target, (*here, "condition")
                )
        steps = self.content.get("steps") or {}
        for name, step in steps.items():
            if step is not EMPTY:
                self._check_step(step, steps, (*self.path, "steps", name))
        self._check_order(steps)

    def check_trigger(
        self, trigger: Mapping[str, Any], target: Template | None, path: Path
    ) -> None:
        """Report what is wrong with the action and the filter of a trigger."""
        node = (trigger.get("target_filter") or {}).get("node")
        if node is not None and self.service.document.find("node_types", node) is None:
            self._target(node, (*path, "target_filter", "node"))
        for conditions, where in monitored(trigger, path, self.service.document):
            self._check_conditions(conditions, target, where)
        inner = self.scope.within(_subject(target))
        for key in ("condition", "constraint"):
            functions.check(trigger.get(key), (*path, key), inner)
        action = trigger.get("action")
        if isinstance(action, str) and "." not in action:
            self._check_inline(action, (*path, "action"))
        elif isinstance(action, dict):
            functions.check(action, (*path, "action"), self.scope)
        for index, activity in enumerate(
            activities(trigger, path, self.service.document)
        ):
            if activity is not None:
                self._check_activity(activity, {}, target, (*path, "action", index))

    def _target(self, name: Json, path: Path) -> Template | None:
        """Return the node or group of a name, or report that there is none."""
        if name is None:
            return None
        target: Template | None = self.service.nodes.get(
            name
        ) or self.service.groups.get(name)
        if target is None:
            known = [*self.service.nodes, *self.service.groups]
            self.report.wrong(
                f"there is no node template or group {name}",
                path,
                self.report.nearest(name, known),
                code="target-unknown",
            )
        return target

    def _nodes(self, target: Template) -> list[Node]:
        if isinstance(target, Group):
            return [
                self.service.nodes[name]
                for name in target.members
                if name in self.service.nodes
            ]
        return [target] if isinstance(target, Node) else []

    def _check_relationship(
        self, content: Mapping[str, Json], target: Template | None, path: Path
    ) -> None:
        name = content.get("target_relationship")
        if name is None or target is None:
            return
        nodes = [node for node in self._nodes(target) if node.type is not None]
        requirements = {
            requirement
            for node in nodes
            if node.type
            for requirement in node.type.requirements
        }
        if nodes and all(node.is_known for node in nodes) and name not in requirements:
            problem = f"{target.name} has no requirement {name}"
            where = (*path, "target_relationship")
            self.report.wrong(
                problem,
                where,
                self.report.nearest(name, sorted(requirements)),
                code="relationship-unknown",
            )

    def _check_conditions(
        self, content: Any, target: Template | None, path: Path
    ) -> None:
        inner = self.scope.within(_subject(target))
        for name, clauses, where in assertions(content, path):
            definition = self._definition(name, target)
            schema = definition.schema if definition else None
            check_clauses(clauses, schema, where, self.service.document)
            functions.check(clauses, where, inner)

    def _definition(
        self, name: str, target: Template | None
    ) -> PropertyDefinition | None:
        if target is None or target.type is None:
            return None
        return target.type.attributes.get(name) or target.type.properties.get(name)

    def _check_step(
        self, step: Mapping[str, Any], steps: Mapping[str, Any], path: Path
    ) -> None:
        target = self._target(step.get("target"), (*path, "target"))
        self._check_relationship(step, target, path)
        self._check_conditions(step.get("filter"), target, (*path, "filter"))
        if (
            step.get("target_relationship") is not None
            and step.get("operation_host") is None
        ):
            problem = "a step with target_relationship needs operation_host"
            self.report.wrong(
                problem,
                path,
                "add operation_host: SOURCE or TARGET",
                code="key-missing",
            )
        self._check_host(step, target, path)
        activities = [
            activity
            for activity in step.get("activities") or ()
            if activity is not None
        ]
        if step.get("target") is None and any(
            "inline" not in activity for activity in activities
        ):
            self.report.wrong(
                "a step needs target", path, "add target", code="key-missing"
            )
        for index, activity in enumerate(step.get("activities") or ()):
            if activity is not None:
                self._check_activity(
                    activity, step, target, (*path, "activities", index)
                )
        for key in ("on_success", "on_failure"):
            for name, where in _named_steps(step.get(key), (*path, key)):
                if name not in steps:
                    self.report.wrong(
                        f"there is no step {name}",
                        where,
                        self.report.nearest(name, steps),
                        code="step-unknown",
                    )

    def _check_host(
        self, step: Mapping[str, Any], target: Template | None, path: Path
    ) -> None:
        """Report an operation_host that a step with that target cannot have (section 3.5.23)."""
        host = step.get("operation_host")
        allowed = (
            HOST_NAMES
            if step.get("target_relationship") is None
            else ("SOURCE", "TARGET")
        )
        if host is None or host in allowed:
            return
        if target is not None and target.kind == Group.kind:
            if (
                host in self.service.nodes
                or self.service.document.find("node_types", host) is not None
            ):
                return
            allowed = (*allowed, "a node template", "a node type")
        problem = f"operation_host must be one of {', '.join(allowed)}"
        self.report.wrong(
            problem,
            (*path, "operation_host"),
            self.report.nearest(host, allowed),
            code="choice",
        )

    def _check_activity(
        self,
        activity: Mapping[str, Any],
        step: Mapping[str, Any],
        target: Template | None,
        path: Path,
    ) -> None:
        called = activity.get("call_operation")
        inline: Any = activity.get("inline")
        if called is not None:
            name = called.get("operation") if isinstance(called, dict) else called
            if name is not None:
                self._check_call(name, step, target, (*path, "call_operation"))
        if inline is not None:
            name = (
                str(inline.get("workflow") or "")
                if isinstance(inline, dict)
                else str(inline)
            )
            self._check_inline(name, (*path, "inline"))
        for key in ("call_operation", "inline", "delegate"):
            value = activity.get(key)
            if isinstance(value, dict):
                functions.check(value.get("inputs"), (*path, key, "inputs"), self.scope)
        if (
            isinstance(called, dict)
            and called.get("inputs")
            and step.get("target_relationship") is None
        ):
            self._check_inputs(called, target, (*path, "call_operation", "inputs"))

    def _check_inputs(
        self, called: Mapping[str, Any], target: Template | None, path: Path
    ) -> None:
        """Report inputs of a call that do not fit their definitions."""
        interface, _, operation = str(called.get("operation")).rpartition(".")
        for node in self._nodes(target) if target is not None else ():
            found = node.interface(interface)
            defined = found.input_definitions(operation) if found is not None else {}
            for name, value in called["inputs"].items():
                if name in defined and value is not None:
                    values.check(
                        value, defined[name].schema, (*path, name), self.report
                    )

    def _check_inline(self, name: str, path: Path) -> None:
        if name in self.service.workflows:
            self.inlined.append(name)
        elif name:
            self.report.wrong(
                f"there is no workflow {name}",
                path,
                self.report.nearest(name, self.service.workflows),
                code="workflow-unknown",
            )

    def _check_call(
        self, name: str, step: Mapping[str, Any], target: Template | None, path: Path
    ) -> None:
        """Report an operation that none of the targets has; `INTERFACE.OPERATION` is split at the last dot (7.3)."""
        interface, dot, operation = name.rpartition(".")
        if not dot or not interface:
            problem = f"{name} names no interface"
            self.report.wrong(
                problem, path, "write INTERFACE.OPERATION", code="operation-unknown"
            )
            return
        if target is None:
            return
        nodes = self._nodes(target)
        relationship = step.get("target_relationship")
        if relationship is not None:
            requirements = [
                of
                for node in nodes
                for of in node.requirements
                if of.name == relationship
            ]
            self._check_relationship_call(
                requirements, (interface, operation), name, path
            )
            return
        owners: list[Template] = (
            [target, *nodes] if isinstance(target, Group) else [*nodes]
        )
        if not owners or not all(owner.is_known for owner in owners):
            return
        hint = ""
        for owner in owners:
            operations = owner.interface_operations(interface)
            if operations is not None and operation in operations:
                return
            hint = hint or (
                self.report.nearest(operation, operations)
                if operations
                else self.report.nearest(interface, owner.interfaces)
            )
        self.report.wrong(
            f"{target.name} has no operation {name}",
            path,
            hint,
            code="operation-unknown",
        )

    def _check_relationship_call(
        self,
        requirements: list[Requirement],
        called: tuple[str, str],
        name: str,
        path: Path,
    ) -> None:
        interface, operation = called
        for requirement in requirements:
            type_ = requirement.relationship_type
            if type_ is None or type_.is_incomplete:
                return
            found = (
                requirement.relationship.interface(interface)
                if requirement.relationship
                else None
            )
            definition = type_.interface(interface)
            if (definition and operation in definition.operations) or (
                found and operation in found.operations
            ):
                return
        if requirements:
            self.report.wrong(
                f"the relationship has no operation {name}",
                path,
                code="operation-unknown",
            )

    def _check_order(self, steps: Mapping[str, Any]) -> None:
        """Report steps that follow one another in a circle."""
        graph: dict[str, list[str]] = {}
        for name, step in steps.items():
            following = [
                *_named_steps(step.get("on_success"), ()),
                *_named_steps(step.get("on_failure"), ()),
            ]
            graph[name] = [other for other, _ in following]
        for circle in circles(graph):
            names = shown_circle(circle)
            path = (*self.path, "steps", circle[0])
            self.report.wrong(
                f"steps follow one another in a circle: {names}",
                path,
                code="step-circle",
            )


def _subject(target: Template | None) -> Subject:
    """Return the entities that SELF means in a condition: its node, or each member of a group."""
    return target if isinstance(target, Node) else TypeSubject(None, Node.kind)


def _named_steps(value: Any, path: Path) -> Iterator[tuple[str, Path]]:
    if isinstance(value, str):
        yield value, path
        return
    for index, name in enumerate(value or ()):
        if name is not None:
            yield name, (*path, index)

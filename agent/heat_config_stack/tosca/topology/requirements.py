"""Requirements: what is wrong with them, and the nodes that can fulfil them (sections 3.7.2 and 14.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from heat_config_agent.model.positions import Path
from heat_config_stack.tosca.language.circles import circles, shown_circle
from heat_config_stack.tosca.language.functions import Scope
from heat_config_stack.tosca.language.primitives import UNBOUNDED
from heat_config_stack.tosca.language.types import RequirementDefinition, Type
from heat_config_stack.tosca.topology.filters import check_filter, meets
from heat_config_stack.tosca.topology.service import Node, Requirement, Service

_COMPUTE = "tosca.nodes.Compute"
_CONTAINER = "tosca.capabilities.Container"


def check_requirements(node: Node, service: Service, scope: Scope) -> None:
    """Report what is wrong with the requirements of a node template."""
    for requirement in node.requirements:
        if requirement.definition is None and node.is_known:
            known = node.type.requirements if node.type else {}
            problem = f"{node.name} has no requirement {requirement.name}"
            scope.report.wrong(
                problem,
                requirement.path,
                scope.report.nearest(requirement.name, known),
                code="undeclared",
            )
        if requirement.content:
            _check_target(requirement, service, scope)
            _check_relationship(requirement, service, scope)
            _check_filter(requirement, scope)
            _check_occurrences(requirement, scope)
    if node.is_known and node.type is not None:
        _check_number(node, node.type.requirements, service, scope)


def _check_target(requirement: Requirement, service: Service, scope: Scope) -> None:
    """Report a node or a capability that is unknown, or does not fit the definition (section 3.7.2)."""
    content = requirement.content
    definition = requirement.definition
    name = content.get("node")
    path = (*requirement.path, "node")
    target = requirement.target
    asked = target.type if target is not None else requirement.node_type
    if name is not None:
        if target is None and asked is None:
            problem = f"there is no node template {name}, nor a node type"
            known = scope.report.nearest(name, service.nodes)
            scope.report.wrong(problem, path, known, code="target-unknown")
        wanted = definition.node if definition is not None else None
        if asked is not None and wanted is not None and not asked.may_be(wanted):
            problem = f"{requirement.name} needs a node of the type {wanted.name}, and {name} is not"
            scope.report.wrong(problem, path, code="target-unfit")
            return
    _check_capability(requirement, asked, scope)
    if target is not None:
        _check_sources(requirement, target, scope)


def _check_capability(
    requirement: Requirement, asked: Type | None, scope: Scope
) -> None:
    name = requirement.content.get("capability")
    required = requirement.definition.capability if requirement.definition else None
    path = (*requirement.path, "capability")
    is_known = asked is not None and not asked.is_incomplete
    if name is not None:
        offered = asked.capabilities.get(name) if asked is not None else None
        type_ = offered.type if offered else scope.names.find("capability_types", name)
        if type_ is None:
            if offered is None and (is_known or asked is None):
                known = asked.capabilities if asked else ()
                problem = f"{name} is neither a capability of the target nor a capability type"
                scope.report.wrong(
                    problem,
                    path,
                    scope.report.nearest(name, known),
                    code="capability-unknown",
                )
            return
        if required is not None and not type_.may_be(required):
            problem = f"{requirement.name} needs a capability of the type {required.name}, and {name} is not"
            scope.report.wrong(problem, path, code="target-unfit")
            return
        required = None if offered else type_
    if (
        required is not None
        and requirement.target is not None
        and is_known
        and asked is not None
    ):
        types = [of.type for of in asked.capabilities.values()]
        if not any(of is None or of.may_be(required) for of in types):
            problem = f"{requirement.target.name} has no capability of the type {required.name}"
            scope.report.wrong(
                problem, (*requirement.path, "node"), code="target-unfit"
            )


def _check_sources(requirement: Requirement, target: Node, scope: Scope) -> None:
    """Warn where a capability names the types that may use it, and the node is of none."""
    node = requirement.node
    capability = requirement.capability
    if capability is None or node.type is None or node.type.is_incomplete:
        return
    sources = capability.valid_source_types
    if sources and not any(node.type.is_a(source) for source in sources):
        names = ", ".join(source.name for source in sources)
        problem = f"the capability {capability.name} of {target.name} is for {names}, and {node.name} has another type"
        scope.report.warn(problem, requirement.path, code="unfit-source")
    relationship = requirement.relationship_type
    offered = capability.type
    targets = _valid_targets(relationship) if relationship is not None else []
    if (
        relationship is not None
        and offered is not None
        and targets
        and not any(map(offered.may_be, targets))
    ):
        names = ", ".join(type_.name for type_ in targets)
        subject = f"{capability.name} of {target.name}"
        problem = f"the relationship {relationship.name} is for {names}, and {subject} has another type"
        scope.report.warn(problem, requirement.path, code="unfit-source")


def _valid_targets(relationship: Type) -> list[Type]:
    """Return the capability types that a relationship type names; nothing where it may lead to any."""
    for ancestor in relationship.lineage:
        names = ancestor.content.get("valid_target_types")
        if names:
            found = [
                ancestor.names.find("capability_types", name) for name in names if name
            ]
            return [type_ for type_ in found if type_ is not None]
    return []


def _check_relationship(
    requirement: Requirement, service: Service, scope: Scope
) -> None:
    """Report a relationship that is unknown, or is not of the type of the definition (section 3.7.2)."""
    relationship = requirement.content.get("relationship")
    if not relationship or relationship.get("type") is None:
        return
    name = relationship["type"]
    path = (*requirement.path, "relationship", "type")
    template = service.relationships.get(name)
    type_ = template.type if template is not None else requirement.named_type
    if template is None and type_ is None:
        names = [
            *service.relationships,
            "HostedOn",
            "ConnectsTo",
            "AttachesTo",
            "DependsOn",
        ]
        problem = f"{name} is neither a relationship template nor a relationship type"
        scope.report.wrong(
            problem,
            path,
            scope.report.nearest(name, names),
            code="relationship-unknown",
        )
    wanted = requirement.definition.relationship if requirement.definition else None
    if type_ is not None and wanted is not None and not type_.may_be(wanted):
        problem = f"{requirement.name} needs a relationship of the type {wanted.name}, and {name} is not"
        scope.report.wrong(problem, path, code="relationship-unfit")


def _check_occurrences(requirement: Requirement, scope: Scope) -> None:
    """Report occurrences that are not within those of the definition (1.3)."""
    own = requirement.content.get("occurrences")
    definition = requirement.definition
    if own is None or definition is None:
        return
    (least, most), upper = (
        definition.occurrences,
        float("inf") if own[1] == UNBOUNDED else own[1],
    )
    if own[0] < least or upper > most:
        problem = f"the occurrences of {requirement.name} are not within those of its definition: {least:g} to {most:g}"
        scope.report.wrong(problem, (*requirement.path, "occurrences"), code="value")


def _check_filter(requirement: Requirement, scope: Scope) -> None:
    content = requirement.content.get("node_filter")
    if content is None:
        return
    path = (*requirement.path, "node_filter")
    if requirement.target is not None:
        problem = f"{requirement.target.name} is named, so there is nothing to filter"
        scope.report.wrong(
            problem,
            path,
            "name a node type, or leave the filter out",
            code="filter-unfit",
        )
    document = requirement.node.document
    check_filter(content, requirement.node_type, path, document, scope)


def _check_number(
    node: Node,
    defined: Mapping[str, RequirementDefinition],
    service: Service,
    scope: Scope,
) -> None:
    """Report too many targets, and leave it open where there are too few (section 3.7.2)."""
    assigned = Counter(requirement.name for requirement in node.requirements)
    for name, definition in defined.items():
        least, most = definition.occurrences
        number = assigned.get(name, 0)
        if number > most:
            problem = f"{node.name} may have {most:g} of the requirement {name} at most, and has {number}"
            scope.report.wrong(problem, node.path, code="too-many")
        if number < least and not node.directives:
            problem = f"the requirement {name} of {node.name} has no target"
            hint = f"name a node that fulfils it{_fulfilled(name, node, definition, service)}"
            scope.report.leave_open(problem, node.path, hint, code="open-requirement")
    for requirement in node.requirements:
        if (
            requirement.definition is not None
            and requirement.target is None
            and not node.directives
        ):
            _check_candidates(requirement, service, scope)


def _fulfilled(
    name: str, node: Node, definition: RequirementDefinition, service: Service
) -> str:
    """Return the end of a hint: what fulfils a requirement that is not assigned when the service is applied."""
    if (node.name, name) in service.mapped_requirements:
        return "; in the place of a node, the target is that of the node"
    budget = service.document.report.budget
    budget.matches -= len(service.nodes)
    if budget.matches < 0:
        return ""
    requirement = Requirement(name, {}, node, definition, node.path)
    requirement.node_type = definition.node
    nodes = candidates(requirement, service)
    if len(nodes) == 1:
        return f"; otherwise it is {nodes[0].name}"
    return (
        "; otherwise it is this machine"
        if not nodes and is_for_machine(requirement)
        else ""
    )


def _check_candidates(requirement: Requirement, service: Service, scope: Scope) -> None:
    """Report an open point if a requirement without a named node is not fulfilled by exactly one node."""
    if requirement.content.get("node") is not None and requirement.node_type is None:
        return  # it has been reported
    budget = service.document.report.budget
    budget.matches -= len(service.nodes)
    if budget.matches < 0:
        return
    nodes = candidates(requirement, service)
    if len(nodes) > 1:
        names = ", ".join(node.name for node in nodes[:5])
        problem = f"the requirement {requirement.name} of {requirement.node.name} can be fulfilled by several: {names}"
        scope.report.leave_open(
            problem, requirement.path, "name one of them", code="open-requirement"
        )
    elif not nodes and not is_for_machine(requirement):
        problem = f"no node fulfils the requirement {requirement.name} of {requirement.node.name}"
        scope.report.leave_open(
            problem,
            requirement.path,
            "name a node that fulfils it",
            code="open-requirement",
        )


def candidates(requirement: Requirement, service: Service) -> list[Node]:
    """Return the nodes of a service that can fulfil a requirement without a named node, in their order (3.7.2)."""
    node_filter = requirement.content.get("node_filter")
    if node_filter is None and requirement.definition is not None:
        node_filter = requirement.definition.node_filter
    found = fitting(requirement, service)
    return [
        node
        for node in found
        if not node_filter or meets(node, node_filter, requirement.node.document)
    ]


def fitting(requirement: Requirement, service: Service) -> list[Node]:
    """Return the nodes of the types that a requirement without a named node asks for, before its filter is applied."""
    wanted = requirement.node_type
    capability = requirement.capability_type
    nodes = []
    for node in service.nodes.values():
        type_ = node.type
        if (
            node is requirement.node
            or type_ is None
            or (wanted is not None and not type_.is_a(wanted))
        ):
            continue
        if capability is not None and not any(
            of.type is not None and of.type.is_a(capability)
            for of in type_.capabilities.values()
        ):
            continue
        nodes.append(node)
    return nodes


def is_for_machine(requirement: Requirement) -> bool:
    """Return whether a requirement that no node fulfils is one that this machine can fulfil: for a Compute."""
    if requirement.node_type is not None:
        return _COMPUTE in requirement.node_type.keys
    capability = requirement.capability_type
    return capability is not None and _CONTAINER in capability.keys


def check_circles(service: Service, scope: Scope) -> None:
    """Report nodes that need each other in a circle, each circle at its first node (section 3.7.2)."""
    graph: dict[str, list[str]] = {}
    for name, node in service.nodes.items():
        graph[name] = [
            requirement.target.name
            for requirement in node.requirements
            if requirement.target is not None
        ]
    for circle in circles(graph):
        names = shown_circle(circle)
        path: Path = service.nodes[circle[0]].path
        scope.report.wrong(
            f"nodes need each other in a circle: {names}",
            path,
            "leave out one requirement",
            code="circle",
        )

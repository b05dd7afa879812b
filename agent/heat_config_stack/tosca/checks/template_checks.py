"""Checks of templates: nodes, relationships, groups and policies (section 3.7 of the specification)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.tosca.checks.type_checks import check_triggers, find
from heat_config_stack.tosca.checks.workflows import check_actions
from heat_config_stack.tosca.files.artifacts import check_artifact, check_implementation
from heat_config_stack.tosca.language import functions, values
from heat_config_stack.tosca.language.entities import operations
from heat_config_stack.tosca.language.functions import Scope
from heat_config_stack.tosca.language.types import (
    PropertyDefinition,
    Type,
    check_operations,
)
from heat_config_stack.tosca.topology.filters import check_filter
from heat_config_stack.tosca.topology.requirements import check_requirements
from heat_config_stack.tosca.topology.service import Node, Service
from heat_config_stack.tosca.topology.templates import (
    Interface,
    Relationship,
    Template,
    variable,
)

_SCALABLE = "tosca.capabilities.Scalable"

SELECTABLE = frozenset({"selectable", "select"})


def check_templates(service: Service, scope: Scope) -> None:
    """Report what is wrong with the node and relationship templates of a service."""
    nodes = service.content.get("node_templates") or {}
    for name, node in service.nodes.items():
        _check_node(node, nodes[name], nodes, service, scope)
    relationships = service.content.get("relationship_templates") or {}
    for name, relationship in service.relationships.items():
        content = relationships[name]
        _check_type(relationship, content, relationships, scope)
        check_relationship(relationship, content, scope)


def _check_type(
    template: Template,
    content: Mapping[str, Json],
    others: Mapping[str, Any],
    scope: Scope,
) -> None:
    """Report a missing or unknown type, and copies of a node that cannot be copied (section 3.7)."""
    report = scope.report
    path = template.path
    copied = content.get("copy")
    if copied is not None:
        original = others.get(copied)
        if original is None:
            problem = f"there is no template {copied} to copy"
            report.wrong(
                problem,
                (*path, "copy"),
                report.nearest(copied, others),
                code="copy-unknown",
            )
            return
        if original.get("copy") is not None:
            problem = f"{copied} is a copy itself"
            report.wrong(
                problem,
                (*path, "copy"),
                f"copy {original['copy']}",
                code="copy-of-copy",
            )
            return
    if template.content.get("type") is None:
        report.wrong(
            f"the template {template.name} needs a type",
            path,
            "add type",
            code="key-missing",
        )
    elif content.get("type") is not None:
        find(template.document, template.section, content["type"], (*path, "type"))


def _check_node(
    node: Node,
    content: Mapping[str, Json],
    others: Mapping[str, Any],
    service: Service,
    scope: Scope,
) -> None:
    _check_type(node, content, others, scope)
    inner = scope.within(node)
    type_ = node.type
    path = node.path
    check_properties(node, content, type_.properties if type_ else {}, inner)
    check_attributes(node, content, type_, inner)
    _check_capabilities(node, content, inner)
    check_interfaces(node, content.get("interfaces") or {}, path, inner, node.artifacts)
    _check_variables(node, inner)
    for name, artifact in (content.get("artifacts") or {}).items():
        check_artifact(node.artifacts[name], artifact, node.document)
        functions.check(
            artifact.get("properties"), (*path, "artifacts", name, "properties"), inner
        )
    check_requirements(node, service, inner)
    for requirement in node.requirements:
        relationship = requirement.content.get("relationship")
        described = requirement.relationship
        if (
            relationship
            and described is not None
            and described.path == (*requirement.path, "relationship")
        ):
            check_relationship(described, relationship, inner)
    node_filter = content.get("node_filter")
    if node_filter:
        where = (*path, "node_filter")
        if not SELECTABLE & set(node.directives):
            problem = f"{node.name} has a node_filter, but not the directive selectable"
            scope.report.warn(
                problem,
                where,
                "add directives: [ selectable ]",
                code="filter-unselectable",
            )
        check_filter(node_filter, type_, where, node.document, inner)


def check_properties(
    template: Template,
    content: Mapping[str, Json],
    defined: Mapping[str, PropertyDefinition],
    scope: Scope,
) -> None:
    """Report what is wrong with the properties of a template; what it copies counts as well."""
    own: Mapping[str, Json] = content.get("properties") or {}
    path = (*template.path, "properties")
    _check_functions(own, path, scope, template)
    if not template.is_known:
        return
    all_values = template.content.get("properties") or {}
    if all_values is own:
        values.check_properties(
            own, defined, template.name, (path, template.path), scope.report
        )
    else:
        _check_copied(own, all_values, defined, template, scope)


def _check_copied(
    own: Mapping[str, Json],
    all_values: Mapping[str, Json],
    defined: Mapping[str, PropertyDefinition],
    template: Template,
    scope: Scope,
) -> None:
    wanted = {
        name: of
        for name, of in defined.items()
        if name in own or name not in all_values
    }
    path = (*template.path, "properties")
    values.check_properties(
        own, wanted, template.name, (path, template.path), scope.report
    )


def _check_functions(
    content: Mapping[str, Json], path: Path, scope: Scope, *holder: object
) -> None:
    for name, value in content.items():
        if value.__class__ is dict or value.__class__ is list:
            functions.check(value, (*path, name), scope.of(*holder, name))


def check_attributes(
    template: Template, content: Mapping[str, Json], type_: Type | None, scope: Scope
) -> None:
    """Report what is wrong with the attributes of a template; a value may stand under `value` (section 3.5.12)."""
    own: Mapping[str, Json] = content.get("attributes") or {}
    path = (*template.path, "attributes")
    _check_functions(own, path, scope, template)
    if type_ is not None and not type_.is_incomplete:
        _check_attribute_values(
            own, {**type_.properties, **type_.attributes}, template.name, path, scope
        )


def _check_attribute_values(
    own: Mapping[str, Json],
    defined: Mapping[str, PropertyDefinition],
    owner: str,
    path: Path,
    scope: Scope,
) -> None:
    for name, value in own.items():
        definition = defined.get(name)
        if definition is None:
            problem = f"{owner} has no attribute {name}"
            scope.report.wrong(
                problem,
                (*path, name),
                scope.report.nearest(name, defined),
                code="undeclared",
            )
        elif (
            isinstance(value, dict)
            and "value" in value
            and value.keys() <= {"value", "description"}
        ):
            values.check(
                value["value"], definition.schema, (*path, name, "value"), scope.report
            )
        elif value is not None:
            values.check(value, definition.schema, (*path, name), scope.report)


def _check_capabilities(node: Node, content: Mapping[str, Json], scope: Scope) -> None:
    """Report what is wrong with the capabilities of a node template (section 3.7.1)."""
    own: Mapping[str, Any] = content.get("capabilities") or {}
    type_ = node.type
    path = (*node.path, "capabilities")
    is_complete = type_ is not None and not type_.is_incomplete
    for name, assigned in own.items():
        here = (*path, name)
        for member in ("properties", "attributes"):
            _check_functions(
                assigned.get(member) or {}, (*here, member), scope, node, name
            )
        if type_ is None or not is_complete:
            continue
        definition = type_.capabilities.get(name)
        if definition is None:
            hint = scope.report.nearest(name, type_.capabilities)
            scope.report.wrong(
                f"{node.name} has no capability {name}", here, hint, code="undeclared"
            )
        elif definition.type is not None and not definition.type.is_incomplete:
            properties = assigned.get("properties") or {}
            owner = f"the capability {name} of {node.name}"
            values.check_properties(
                properties,
                definition.properties,
                owner,
                ((*here, "properties"), here),
                scope.report,
            )
            if (
                _SCALABLE in definition.type.keys
                and properties.get("default_instances", 1) != 1
            ):
                problem = "there is one instance of each node here: nothing scales"
                scope.report.warn(
                    problem, (*here, "properties", "default_instances"), code="alone"
                )
            defined = {**definition.properties, **definition.attributes}
            attributes = assigned.get("attributes") or {}
            _check_attribute_values(
                attributes, defined, owner, (*here, "attributes"), scope
            )
    assigned_anywhere = node.content.get("capabilities") or {}
    needing = type_.needing if type_ is not None and is_complete else {}
    for name, capability in needing.items():
        if name not in assigned_anywhere:
            owner = f"the capability {name} of {node.name}"
            values.check_properties(
                {}, capability.properties, owner, (path, node.path), scope.report
            )


def check_relationship(
    relationship: Relationship, content: Mapping[str, Json], scope: Scope
) -> None:
    """Report what is wrong with a relationship template, or with what a requirement says of its relationship."""
    inner = scope.within(relationship)
    type_ = relationship.type
    check_properties(relationship, content, type_.properties if type_ else {}, inner)
    check_attributes(relationship, content, type_, inner)
    check_interfaces(
        relationship, content.get("interfaces") or {}, relationship.path, inner, {}
    )
    _check_variables(relationship, inner)


def check_interfaces(
    template: Template,
    content: Mapping[str, Any],
    path: Path,
    scope: Scope,
    artifacts: Mapping[str, Any],
) -> None:
    """Report what is wrong with the interfaces of a template (section 3.7)."""
    names: dict[str, str] = {}
    for name, assigned in content.items():
        here = (*path, "interfaces", name)
        definition = template.declaration(name)
        first = names.setdefault(definition.name if definition else name, name)
        if first != name:
            problem = f"the interface {name} is there twice: {first} is the same one"
            scope.report.wrong(
                problem, here, "put all operations under one of them", code="duplicate"
            )
        check_operations(assigned, here, scope.report)
        own_type = (
            None if definition else template.document.find("interface_types", name)
        )
        is_declared = definition is not None or own_type is not None
        if not is_declared and template.is_known:
            problem = f"{template.name} has no interface {name}"
            scope.report.wrong(
                problem,
                here,
                scope.report.nearest(name, template.declared),
                code="undeclared",
            )
        interface = template.interfaces.get(definition.name if definition else name)
        _check_keys(interface, assigned, here, scope)
        declared = (
            interface.definition.operations
            if interface and interface.definition
            else {}
        )
        is_complete = (
            is_declared and template.type is not None and not _is_incomplete(interface)
        )
        for operation, written, where in operations(assigned, here):
            if is_complete and operation not in declared:
                problem = f"the interface {name} has no operation {operation}"
                scope.report.wrong(
                    problem,
                    where,
                    scope.report.nearest(operation, declared),
                    code="undeclared",
                )
            shared = assigned.get("inputs") or {}
            defined = interface.input_definitions(operation) if interface else None
            _check_own_inputs(written, shared, defined, where, scope)
            implementation = written.get("implementation")
            if implementation:
                check_implementation(
                    implementation,
                    artifacts,
                    (*where, "implementation"),
                    template.document,
                    operation=operation,
                )
                functions.check(implementation, (*where, "implementation"), scope)
            functions.check_outputs(written, where, scope)
        for notification, written in (assigned.get("notifications") or {}).items():
            functions.check_outputs(
                written, (*here, "notifications", notification), scope
            )


def _check_keys(
    interface: Interface | None,
    assigned: Mapping[str, Any],
    here: Path,
    scope: Scope,
) -> None:
    """Report mistakes in the inputs that all operations of an interface share, and keynames that only types have."""
    shared: Mapping[str, Json] = assigned.get("inputs") or {}
    for key, value in shared.items():
        functions.check(value, (*here, "inputs", key), scope)
    if (
        interface is not None
        and interface.definition is not None
        and "inputs" in assigned
    ):
        elsewhere: dict[str, Json] = {}
        for _, written, _ in operations(assigned, here):
            elsewhere.update(dict.fromkeys(written.get("inputs") or ()))
        _check_inputs(
            shared, elsewhere, interface.definition.inputs, (*here, "inputs"), scope
        )
    for key in assigned.keys() & {
        "type",
        "derived_from",
        "version",
        "description",
        "metadata",
    }:
        scope.report.wrong(
            f"an interface of a template has no keyname {key}",
            (*here, key),
            code="key-unknown",
        )


def _check_own_inputs(
    written: Mapping[str, Any],
    shared: Mapping[str, Json],
    defined: Mapping[str, PropertyDefinition] | None,
    where: Path,
    scope: Scope,
) -> None:
    """Report mistakes in the inputs of an operation, which has the `shared` ones of its interface too."""
    own: Mapping[str, Json] = written.get("inputs") or {}
    for key, value in own.items():
        functions.check(value, (*where, "inputs", key), scope)
    if "inputs" in written and defined is not None:
        _check_inputs(own, shared, defined, (*where, "inputs"), scope)


def _check_variables(template: Template, scope: Scope) -> None:
    """Warn of inputs of an operation that would have the same variable."""
    for interface, operation in template.operations:
        names: dict[str, str] = {}
        for name in interface.inputs(operation.name):
            first = names.setdefault(variable(name), name)
            if first != name:
                problem = f"the inputs {first} and {name} of {operation.name} have the same variable, {variable(name)}"
                path = (*template.path, "interfaces", interface.name)
                scope.report.warn(
                    problem, path, "rename one of them", code="same-variable"
                )


def _is_incomplete(interface: Interface | None) -> bool:
    type_ = interface.definition.type if interface and interface.definition else None
    return type_ is None or type_.is_incomplete


def _check_inputs(
    own: Mapping[str, Json],
    shared: Mapping[str, Json],
    defined: Mapping[str, PropertyDefinition],
    path: Path,
    scope: Scope,
) -> None:
    """Report inputs that do not fit their definitions, and required ones that are missing in what is written."""
    for name, value in own.items():
        if name in defined and value is not None:
            values.check(value, defined[name].schema, (*path, name), scope.report)
    for name, definition in defined.items():
        if (
            name not in own
            and name not in shared
            and definition.required
            and definition.default is None
        ):
            scope.report.wrong(
                f"the input {name} needs a value", path, f"add {name}", code="required"
            )


# Groups and policies (sections 3.7.5, 3.7.6 and 3.5.18).

_SCALING = "tosca.policies.Scaling"


def check_groups(service: Service, scope: Scope) -> None:
    """Report what is wrong with the groups of a service."""
    for group in service.groups.values():
        inner = _check_template(group, scope)
        check_interfaces(
            group, group.content.get("interfaces") or {}, group.path, inner, {}
        )
        _check_members(group, "members", service.nodes, scope)


def check_policies(service: Service, scope: Scope) -> None:
    """Report what is wrong with the policies of a service."""
    for policy in service.policies:
        if not policy.content:
            continue
        _check_template(policy, scope)
        check_triggers(
            policy.content.get("triggers") or {},
            (*policy.path, "triggers"),
            service.document,
        )
        check_actions(policy, service, scope)
        _check_members(policy, "targets", {**service.groups, **service.nodes}, scope)
        if policy.type is not None and _SCALING in policy.type.keys:
            problem = "there is one instance of each node here: nothing scales"
            scope.report.warn(problem, policy.path, code="alone")


def _check_template(template: Template, scope: Scope) -> Scope:
    content = template.content
    if content.get("type") is not None:
        find(
            template.document,
            template.section,
            content["type"],
            (*template.path, "type"),
        )
    inner = scope.within(template)
    type_ = template.type
    check_properties(template, content, type_.properties if type_ else {}, inner)
    check_attributes(template, content, type_, inner)
    return inner


def _check_members(
    template: Template, key: str, templates: Mapping[str, Template], scope: Scope
) -> None:
    """Report members that are not there, or of no type that the type allows."""
    allowed = _allowed(template.type, key)
    for index, name in enumerate(template.content.get(key) or ()):
        if name is None:
            continue
        path = (*template.path, key, index)
        member = templates.get(name)
        if member is None:
            noun = "node template" if key == "members" else "node template or group"
            scope.report.wrong(
                f"there is no {noun} {name}",
                path,
                scope.report.nearest(name, templates),
                code="member-unknown",
            )
        elif (
            allowed
            and member.type is not None
            and not any(member.type.may_be(type_) for type_ in allowed)
        ):
            names = ", ".join(type_.name for type_ in allowed)
            problem = f"{template.name} is for {names}, and {name} is of the type {member.type.name}"
            scope.report.wrong(problem, path, code="member-unfit")


def _allowed(type_: Type | None, key: str) -> list[Type]:
    """Return the types of members that a group or policy type allows; nothing where it allows all."""
    for ancestor in type_.lineage if type_ else ():
        names: Iterable[str] = ancestor.content.get(key) or ()
        if names:
            sections = ("node_types", "group_types")
            found = [
                ancestor.names.find(section, name)
                for name in names
                if name
                for section in sections
            ]
            return [of for of in found if of is not None]
    return []

"""Checks of groups and policies (sections 3.7.5, 3.7.6 and 3.5.18 of the specification)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heat_config_stack.tosca.checks.template_checks import check_attributes, check_interfaces, check_properties
from heat_config_stack.tosca.checks.triggers import check_triggers
from heat_config_stack.tosca.checks.type_checks import find
from heat_config_stack.tosca.checks.workflows import check_actions
from heat_config_stack.tosca.language.functions import Scope
from heat_config_stack.tosca.language.report import nearest
from heat_config_stack.tosca.language.types import Type
from heat_config_stack.tosca.topology.service import Service
from heat_config_stack.tosca.topology.templates import Template

_SCALING = "tosca.policies.Scaling"


def check_groups(service: Service, scope: Scope) -> None:
    """Report what is wrong with the groups of a service."""
    for group in service.groups.values():
        inner = _check_template(group, scope)
        check_interfaces(group, group.content.get("interfaces") or {}, group.path, inner, {})
        _check_members(group, "members", service.nodes, scope)


def check_policies(service: Service, scope: Scope) -> None:
    """Report what is wrong with the policies of a service."""
    for policy in service.policies:
        if not policy.content:
            continue
        _check_template(policy, scope)
        check_triggers(policy.content.get("triggers") or {}, (*policy.path, "triggers"), service.document)
        check_actions(policy, service, scope)
        _check_members(policy, "targets", {**service.groups, **service.nodes}, scope)
        if policy.type is not None and _SCALING in policy.type.keys:
            problem = "there is one instance of each node here: nothing scales"
            scope.report.warn(problem, policy.path, code="alone")


def _check_template(template: Template, scope: Scope) -> Scope:
    content = template.content
    if content.get("type") is not None:
        find(template.document, template.section, content["type"], (*template.path, "type"))
    inner = Scope(scope.names, scope.report, template, scope.inputs, scope.templates, None, scope.uses)
    type_ = template.type
    check_properties(template, content, type_.properties if type_ else {}, inner)
    check_attributes(template, content, type_, inner)
    return inner


def _check_members(template: Template, key: str, known: Mapping[str, Template], scope: Scope) -> None:
    """Report members that are not there, or of no type that the type allows."""
    allowed = _allowed(template.type, key)
    for index, name in enumerate(template.content.get(key) or ()):
        if name is None:
            continue
        path = (*template.path, key, index)
        member = known.get(name)
        if member is None:
            noun = "node template" if key == "members" else "node template or group"
            scope.report.wrong(f"there is no {noun} {name}", path, nearest(name, known), code="member-unknown")
        elif allowed and member.type is not None and not any(member.type.may_be(type_) for type_ in allowed):
            names = ", ".join(type_.name for type_ in allowed)
            problem = f"{template.name} is for {names}, and {name} is of the type {member.type.name}"
            scope.report.wrong(problem, path, code="member-unfit")


def _allowed(type_: Type | None, key: str) -> list[Type]:
    """Return the types of members that a group or policy type allows; nothing where it allows all."""
    for ancestor in type_.lineage if type_ else ():
        names: Iterable[str] = ancestor.content.get(key) or ()
        if names:
            sections = ("node_types", "group_types")
            found = [ancestor.names.find(section, name) for name in names if name for section in sections]
            return [of for of in found if of is not None]
    return []

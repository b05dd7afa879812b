"""Warnings about a definition that is valid: types that Heat no longer supports, and configs that never run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import heat_config_hooks
from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.diagnostics.words import among, meant
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Path
from heat_config_stack.definition import Definition, Interface, ResourceDefinition
from heat_config_stack.lifecycle import validation
from heat_config_stack.records.exception import EntityNotFound
from heat_config_stack.records.records import CREATE, DELETE, RESUME, SUSPEND, UPDATE
from heat_config_stack.resource import heat_types, type_schemas
from heat_config_stack.resource.properties import Schema, schemata
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.support import (
    DEPRECATED,
    HIDDEN,
    UNSUPPORTED,
    SupportStatus,
)
from heat_config_stack.resource.types import Types

ACTIONS = (CREATE, UPDATE, SUSPEND, RESUME, DELETE)
"""The actions for which a stack delivers a component."""
COMPONENT = "OS::Heat::SoftwareComponent"
_DOUBTFUL = {
    DEPRECATED: "is deprecated",
    HIDDEN: "is obsolete",
    UNSUPPORTED: "is unsupported",
}


_CONFIGS = ("OS::Heat::SoftwareConfig", "OS::Heat::StructuredConfig")


def warnings(
    definition: Definition, types: Types, tools: Collection[str]
) -> list[Mistake]:
    """Return the warnings about the resources of a stack, and all warnings about its child stacks.

    `tools` are those that are installed.
    """
    result = [
        warning.concealed(definition.conceal.text)
        for warning in _of_resources(definition, types, tools)
    ]
    for child in validation.children(definition, types):
        made = child.definition
        for warning in (*made.warnings, *_of_resources(made, types, tools)):
            hidden = (
                warning.concealed(made.conceal.text)
                .concealed(definition.conceal.text)
                .under(*child.path)
            )
            result.append(replace(hidden, place=hidden.place or child.place))
    return result


def once(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Return warnings without repetitions from several stacks of one template."""
    kept: dict[object, Mistake] = {}
    for each in mistakes:
        kept.setdefault((each.place, each.problem) if each.place else each, each)
    return list(kept.values())


def _of_resources(
    definition: Definition, types: Types, tools: Collection[str]
) -> Iterator[Mistake]:
    """Yield the warnings about the resources of one stack."""
    for name, resource in definition.resources.items():
        try:
            mapped = types.mapped_type(resource, definition.environment)
            if mapped.template:
                yield from _of_interface(
                    definition,
                    resource,
                    definition.environment.interface(mapped.template),
                )
                continue
            class_ = types.class_of(mapped)
        except (EntityNotFound, ValueError, Invalid):
            # a mistake, which is reported elsewhere
            continue
        yield from _of_type(definition, resource, mapped.type, class_)
        if mapped.type in _CONFIGS:
            yield from _of_group(
                definition, name, resource.properties.get("group"), tools
            )
        if mapped.type == COMPONENT:
            yield from _of_component(
                definition, name, resource.properties.get("configs"), tools
            )


def _of_type(
    definition: Definition,
    resource: ResourceDefinition,
    type_: str,
    class_: type[Resource],
) -> Iterator[Mistake]:
    """Yield the warnings about the support status of a type, and of the properties that the resource has."""
    status = type_schemas.status(type_, class_)
    if status.status in _DOUBTFUL:
        instead = heat_types.instead(type_)
        hint = f"use {instead}" if instead else ""
        yield definition.mistake(
            _sentence(type_, status), ("resources", resource.name, "type"), hint
        )
    try:
        schemas = schemata(class_.properties_schema)
    except TypeError:  # the class of a plug-in is wrong, which is reported elsewhere
        return
    here: Path = ("resources", resource.name, "properties")
    for path, doubtful in _properties(schemas, resource.properties):
        problem = _sentence(f"the property {'.'.join(map(str, path))}", doubtful)
        yield definition.mistake(problem, (*here, *path))


def _of_interface(
    definition: Definition, resource: ResourceDefinition, interface: Interface
) -> Iterator[Mistake]:
    """Yield the warnings about parameters of a nested template that only an environment may still give a value."""
    if interface.is_final or not isinstance(resource.properties, Mapping):
        return
    for name, schema in interface.properties.items():
        if (
            schema.default is None
            and resource.properties.get(name) is None
            and name not in resource.omitted
        ):
            problem, hint = (
                f"Property {name} not assigned",
                f"unless parameter_defaults give {name} a value",
            )
            yield definition.mistake(
                problem, ("resources", resource.name, "properties"), hint
            )


def _sentence(subject: str, status: SupportStatus) -> str:
    since = f" since Heat {status.version}" if status.version else ""
    return f"{subject} {_DOUBTFUL[status.status]}{since}{f': {status.message}' if status.message else ''}"


def _properties(
    schemas: Mapping[str, Schema], values: Mapping[str, Any]
) -> Iterator[tuple[Path, SupportStatus]]:
    """Yield the path and the status of each property with a value that is no longer supported."""
    for name, value in values.items():
        schema = schemas.get(name)
        if schema is None:
            continue
        if schema.support_status.status in _DOUBTFUL:
            yield (name,), schema.support_status
        for path, status in _members(schema, value):
            yield (name, *path), status


def _members(schema: Schema, value: Any) -> Iterator[tuple[Path, SupportStatus]]:
    if not isinstance(schema.schema, Mapping):
        return
    if isinstance(value, dict):
        yield from _properties(schemata(schema.schema), value)
    elif isinstance(value, list) and "*" in schema.schema:
        for index, member in enumerate(value):
            for path, status in _members(schemata(schema.schema)["*"], member):
                yield (index, *path), status


def _of_group(
    definition: Definition, name: str, group: Any, tools: Collection[str]
) -> Iterator[Mistake]:
    """Yield the warning that no tool of this machine is that of a config, if its name is close to one of them.

    Another name may be a tool of other servers.
    """
    if isinstance(group, str) and group not in tools and (hint := meant(group, tools)):
        problem = f"no hook for the tool {group} is installed on this machine: the config fails here"
        yield definition.mistake(
            problem, ("resources", name, "properties", "group"), hint
        )


def _of_component(
    definition: Definition, name: str, configs: Any, tools: Collection[str]
) -> Iterator[Mistake]:
    """Yield the warnings about actions and tools of a component that never run."""
    for index, config in enumerate(configs if isinstance(configs, list) else ()):
        if not isinstance(config, dict):
            continue
        path: Path = ("resources", name, "properties", "configs", index)
        actions = config.get("actions")
        for position, action in enumerate(actions if isinstance(actions, list) else ()):
            if isinstance(action, str) and action not in ACTIONS:
                problem = (
                    f"a stack has no action {action}: the config never runs for it"
                )
                yield definition.mistake(
                    problem,
                    (*path, "actions", position),
                    among(action, ACTIONS, "one of"),
                )
        tool = config.get("tool")
        if isinstance(tool, str) and tool not in tools:
            problem = f"no hook for the tool {tool} is installed on this machine: the config fails here"
            package = (
                heat_config_hooks.COMPAT_PACKAGE
                if heat_config_hooks.absent(tool)
                else ""
            )
            hint = (
                f"install the package {package}"
                if package
                else among(tool, tools, "one of")
            )
            yield definition.mistake(problem, (*path, "tool"), hint)

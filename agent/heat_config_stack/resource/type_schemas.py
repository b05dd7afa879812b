"""The declaration of resource types as JSON, with the keys of Heat's API, and templates that are generated from it.

A generated template has a parameter for each property and an output for each attribute; it can replace its type in an
environment. It is the one that Heat generates, with two exceptions: the resource has the last part of the type as its
name, not the name of a class; and constraints that a template cannot state are left out, not empty.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping

from heat_config_agent.model.positions import Json
from heat_config_stack.resource import attributes, constraints, heat_types
from heat_config_stack.resource.properties import Schema, schemata
from heat_config_stack.resource.resource import PLUGINS, Resource
from heat_config_stack.resource.support import HIDDEN, SupportStatus
from heat_config_stack.resource.types import Types

CARRIED_OUT, PLACEHOLDER, NOTHING, PLUGIN = (
    "carried out",
    "placeholder",
    "nothing",
    "plug-in",
)
"""The treatment of a resource of a type on this machine."""


def names(types: Types) -> list[str]:
    """Return the names of all types: of Heat, of this package, and of plug-ins."""
    return sorted({*types, *heat_types.names()})


def handling(class_: type[Resource]) -> str:
    """Return how this machine treats a resource of a class."""
    if class_.is_placeholder:
        return NOTHING if class_.any_property else PLACEHOLDER
    return PLUGIN if class_.__module__.startswith(PLUGINS) else CARRIED_OUT


def status(name: str, class_: type[Resource]) -> SupportStatus:
    """Return the support status of a type: for a type of Heat that is carried out here, Heat's."""
    facts = (
        None if class_.__module__.startswith(PLUGINS) else heat_types.heat_type(name)
    )
    return facts.status if facts else class_.support_status


def description(class_: type[Resource]) -> str:
    """Return the docstring of a class; empty if it has none of its own."""
    return inspect.getdoc(class_) or "" if class_.__doc__ else ""


def declaration(
    name: str, class_: type[Resource], *, placeholder: bool = False
) -> dict[str, Json]:
    """Return the properties, attributes and support status of a type, without hidden and unimplemented ones.

    Of the type of a placeholder, which accepts every update, it says which ones Heat accepts. Raises TypeError if the
    class of a plug-in declares no schemas.
    """
    properties = schemata(class_.properties_schema)
    in_place = heat_types.updated_in_place(name) if placeholder else frozenset()
    declared = {**attributes.schemata(class_.attributes_schema), attributes.SHOW: _SHOW}
    return {
        "resource_type": name,
        "properties": {
            key: {
                **_property(each),
                "update_allowed": key in in_place
                if placeholder
                else each.update_allowed,
            }
            for key, each in properties.items()
            if each.implemented and each.support_status.status != HIDDEN
        },
        "attributes": {
            key: _attribute(each)
            for key, each in declared.items()
            if each.support_status.status != HIDDEN
        },
        "support_status": status(name, class_).to_dict(),
    }


_SHOW = attributes.Schema(
    "Detailed information about the resource.", type=attributes.Schema.MAP
)


def _property(schema: Schema) -> dict[str, Json]:
    values: dict[str, Json] = {"type": schema.type.lower()}
    if schema.description is not None:
        values["description"] = schema.description
    if schema.default is not None:
        values["default"] = schema.default
    if isinstance(schema.schema, Mapping):
        values["schema"] = {
            key: _property(part) for key, part in schemata(schema.schema).items()
        }
    values |= {
        "required": schema.required,
        "update_allowed": schema.update_allowed,
        "immutable": schema.immutable,
    }
    if schema.constraints:
        values["constraints"] = [dict(_constraint(part)) for part in schema.constraints]
    return values


def _constraint(constraint: constraints.Constraint) -> Iterator[tuple[str, Json]]:
    limit = constraint.limit
    yield (
        constraint.kind,
        {key: each for key, each in limit.items() if each is not None}
        if isinstance(limit, dict)
        else limit,
    )
    if constraint.description is not None:
        yield "description", constraint.description


def _attribute(schema: attributes.Schema) -> dict[str, Json]:
    values: dict[str, Json] = (
        {} if schema.type is None else {"type": schema.type.lower()}
    )
    return values | (
        {} if schema.description is None else {"description": schema.description}
    )


HOT, CFN = "hot", "cfn"

_HOT_TYPES = {
    "integer": "number",
    "number": "number",
    "string": "string",
    "boolean": "boolean",
    "map": "json",
    "list": "comma_delimited_list",
    "any": "json",
}
_CFN_TYPES = {
    "integer": "Number",
    "number": "Number",
    "string": "String",
    "boolean": "Boolean",
    "map": "Json",
    "list": "CommaDelimitedList",
    "any": "Json",
}
_CFN_LIMITS = {"length": ("MinLength", "MaxLength"), "range": ("MinValue", "MaxValue")}
_CFN_PATTERNS = {"allowed_values": "AllowedValues", "allowed_pattern": "AllowedPattern"}
_BOOLEANS = ["True", "true", "False", "false"]


def generated_template(declaration: Mapping[str, Json], kind: str) -> dict[str, Json]:
    """Return a template, `HOT` or `CFN`, from the declaration of a type as `type_schemas.declaration` returns it."""
    type_ = declaration["resource_type"]
    name = type_.rpartition("::")[2]
    description = f"Initial template of {name}"
    made: Callable[[str, str, Mapping[str, Json]], dict[str, Json]] = (
        _hot if kind == HOT else _cfn
    )
    return made(name, description, declaration)


def _renamed(schema: Mapping[str, Json], **names: str) -> dict[str, Json]:
    """Return some values of a schema under other names, as far as it has them."""
    return {name: schema[key] for key, name in names.items() if key in schema}


def _hot(
    name: str, description: str, declaration: Mapping[str, Json]
) -> dict[str, Json]:
    properties: Mapping[str, Mapping[str, Json]] = declaration["properties"]
    outputs = {
        key: {"value": {"get_attr": [name, key]}}
        | _renamed(attribute, description="description")
        for key, attribute in declaration["attributes"].items()
    }
    return {
        "heat_template_version": "2016-10-14",
        "description": description,
        "parameters": {
            key: dict(_hot_parameter(property_))
            for key, property_ in properties.items()
        },
        "resources": {
            name: {
                "type": declaration["resource_type"],
                "properties": {key: {"get_param": key} for key in properties},
            }
        },
        "outputs": {**outputs, "OS::stack_id": {"value": {"get_resource": name}}},
    }


def _hot_parameter(schema: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    yield "type", _HOT_TYPES[schema["type"]]
    yield from _renamed(schema, description="description", default="default").items()
    limits = [
        {
            kind: limit
            for kind, limit in each.items()
            if kind in (*_CFN_LIMITS, *_CFN_PATTERNS)
        }
        for each in schema.get("constraints", ())
    ]
    if found := [each for each in limits if each]:
        yield "constraints", found


def _cfn(
    name: str, description: str, declaration: Mapping[str, Json]
) -> dict[str, Json]:
    properties: Mapping[str, Mapping[str, Json]] = declaration["properties"]
    outputs = {
        key: {"Value": {"Fn::GetAtt": [name, key]}}
        | _renamed(attribute, description="Description")
        for key, attribute in declaration["attributes"].items()
    }
    return {
        "HeatTemplateFormatVersion": "2012-12-12",
        "Description": description,
        "Parameters": {
            key: dict(_cfn_parameter(property_))
            for key, property_ in properties.items()
        },
        "Resources": {
            name: {
                "Type": declaration["resource_type"],
                "Properties": {
                    key: {"Fn::Split": [",", {"Ref": key}]}
                    if property_["type"] == "list"
                    else {"Ref": key}
                    for key, property_ in properties.items()
                },
            }
        },
        "Outputs": {**outputs, "OS::stack_id": {"Value": {"Ref": name}}},
    }


def _cfn_parameter(schema: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    yield "Type", _CFN_TYPES[schema["type"]]
    yield from _renamed(schema, description="Description", default="Default").items()
    for constraint in schema.get("constraints", ()):
        for kind, limit in constraint.items():
            if kind in _CFN_LIMITS:
                least, most = _CFN_LIMITS[kind]
                yield from (
                    (key, limit[end])
                    for key, end in ((least, "min"), (most, "max"))
                    if end in limit
                )
            elif kind in _CFN_PATTERNS:
                yield _CFN_PATTERNS[kind], limit
    if schema["type"] == "boolean":
        yield "AllowedValues", _BOOLEANS

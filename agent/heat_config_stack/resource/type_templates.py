"""Templates generated from resource types: a parameter for each property, and an output for each attribute.

Such a template can replace its type in an environment. It is the one that Heat generates, with two exceptions: the
resource has the last part of the type as its name, not the name of a class; and constraints that a template cannot
state are left out, not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from heat_config_agent.model.positions import Json

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


def template(declaration: Mapping[str, Json], kind: str) -> dict[str, Json]:
    """Return a template, `HOT` or `CFN`, from the declaration of a type as `type_schemas.declaration` returns it."""
    type_ = declaration["resource_type"]
    name = type_.rpartition("::")[2]
    description = f"Initial template of {name}"
    made: Callable[[str, str, Mapping[str, Json]], dict[str, Json]] = _hot if kind == HOT else _cfn
    return made(name, description, declaration)


def _renamed(schema: Mapping[str, Json], **names: str) -> dict[str, Json]:
    """Return some values of a schema under other names, as far as it has them."""
    return {name: schema[key] for key, name in names.items() if key in schema}


def _hot(name: str, description: str, declaration: Mapping[str, Json]) -> dict[str, Json]:
    properties: Mapping[str, Mapping[str, Json]] = declaration["properties"]
    outputs = {
        key: {"value": {"get_attr": [name, key]}} | _renamed(attribute, description="description")
        for key, attribute in declaration["attributes"].items()
    }
    return {
        "heat_template_version": "2016-10-14",
        "description": description,
        "parameters": {key: dict(_hot_parameter(property_)) for key, property_ in properties.items()},
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
        {kind: limit for kind, limit in each.items() if kind in (*_CFN_LIMITS, *_CFN_PATTERNS)}
        for each in schema.get("constraints", ())
    ]
    if found := [each for each in limits if each]:
        yield "constraints", found


def _cfn(name: str, description: str, declaration: Mapping[str, Json]) -> dict[str, Json]:
    properties: Mapping[str, Mapping[str, Json]] = declaration["properties"]
    outputs = {
        key: {"Value": {"Fn::GetAtt": [name, key]}} | _renamed(attribute, description="Description")
        for key, attribute in declaration["attributes"].items()
    }
    return {
        "HeatTemplateFormatVersion": "2012-12-12",
        "Description": description,
        "Parameters": {key: dict(_cfn_parameter(property_)) for key, property_ in properties.items()},
        "Resources": {
            name: {
                "Type": declaration["resource_type"],
                "Properties": {
                    key: {"Fn::Split": [",", {"Ref": key}]} if property_["type"] == "list" else {"Ref": key}
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
                yield from ((key, limit[end]) for key, end in ((least, "min"), (most, "max")) if end in limit)
            elif kind in _CFN_PATTERNS:
                yield _CFN_PATTERNS[kind], limit
    if schema["type"] == "boolean":
        yield "AllowedValues", _BOOLEANS

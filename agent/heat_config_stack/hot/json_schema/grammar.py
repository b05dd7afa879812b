"""The JSON Schema of a HOT template as a whole."""

from __future__ import annotations

import re
from collections.abc import Mapping

from heat_config_stack.hot import versions
from heat_config_stack.hot.json_schema import functions
from heat_config_stack.hot.json_schema.functions import CONDITION, VALUE, Schema, either
from heat_config_stack.hot.parameters import TYPES

_TEXT: Schema = {}
"""Text for people, for which Heat takes any value."""

_NUMBER = {"type": ["number", "string", "null"]}

_KEYS: dict[str, tuple[str, Schema]] = {
    "type": ("The type of the resource.", {}),
    "properties": ("The properties of the resource, as its type has them.", {"type": ["object", "null"]}),
    "metadata": (
        "Data that belongs to the resource.",
        either({"type": ["object", "null"], "additionalProperties": VALUE}),
    ),
    "depends_on": (
        "Resources after which this one is created, besides those that it refers to.",
        either({"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}]}),
    ),
    "deletion_policy": (
        "What becomes of the resource when it is deleted.",
        either({"enum": [*versions.VERSIONS["2021-04-16"].deletion_policies, None]}),
    ),
    "update_policy": ("How a group is updated.", either({"type": ["object", "null"]})),
    "description": ("For people.", _TEXT),
    "condition": ("The resource is left out unless this is true.", CONDITION),
    "external_id": ("The id of a resource that exists already.", either({"type": ["string", "null"]})),
}
"""Key of a resource → what it is, and its schema; the type says more of some."""


_TEMPLATE = r"\.(yaml|template)$"
"""Nested templates."""

_OPEN = "^(OS::TripleO::|(?!(OS|AWS)::))"
"""Types that only an environment or a plug-in can have: those outside of Heat's namespaces."""


def schema(types: Mapping[str, Schema]) -> Schema:
    """Return the schema of a template; `types` maps the types of resources to the schemas of such resources."""
    latest = next(reversed(versions.VERSIONS.values()))
    sections = {"heat_template_version": _versions(), **_sections()}
    if missing := latest.sections - sections.keys():
        raise AssertionError(missing)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "HOT",
        "description": "A template of OpenStack Heat, with the resource types of Heat 27.",
        "type": "object",
        "required": ["heat_template_version"],
        "properties": sections,
        "additionalProperties": False,
        "definitions": {
            **functions.definitions(),
            "parameter": _parameter(latest),
            "resource": _resource(latest, types),
            "output": _output(),
            "types": dict(types),
        },
    }


def _versions() -> Schema:
    names = [*reversed(versions.VERSIONS), *reversed(versions.ALIASES)]
    return {"description": "The version of HOT, as a date or a name.", "enum": names}


def _sections() -> dict[str, Schema]:
    group = {
        "type": "object",
        "required": ["parameters"],
        "properties": {
            "label": _described("The heading of the group.", _TEXT),
            "description": _described("For people.", _TEXT),
            "parameters": _described("The names of the parameters.", {"type": "array"}),
        },
    }
    return {
        "description": _described("For people.", {}),
        "parameter_groups": _described(
            "How parameters are shown to people.", {"type": ["array", "null"], "items": group}
        ),
        "parameters": _described("The values that a stack takes, by their names.", _map_of("parameter")),
        "conditions": _described("Conditions by their names.", {"type": "object", "additionalProperties": CONDITION}),
        "resources": _described("What the stack makes, by names.", _map_of("resource")),
        "outputs": _described("The values that a stack gives, by their names.", _map_of("output")),
        "capabilities": _described("What the template can stand for; Heat refuses this section.", {"type": "object"}),
    }


def _described(about: str, schema: Schema) -> Schema:
    return {"description": about, **schema}


def _map_of(definition: str) -> Schema:
    return {"type": ["object", "null"], "additionalProperties": {"$ref": f"#/definitions/{definition}"}}


_FLAG = {"type": ["boolean", "string", "null"]}


def _parameter(version: versions.Version) -> Schema:
    keys: dict[str, Schema] = {
        "type": _described("The type of the value.", {"enum": sorted(TYPES)}),
        "label": _described("The name that is shown to people.", _TEXT),
        "description": _described("For people.", _TEXT),
        "default": _described("The value if none is given.", {}),
        "hidden": _described("If true, the value is a secret, and is not shown.", _FLAG),
        "constraints": _described("What a value has to fulfil.", {"type": ["array", "null"], "items": _constraint()}),
        "immutable": _described("If true, an update may not change the value.", _FLAG),
        "tags": _described("Words for programs that show the parameter.", {"type": "array"}),
        "schema": {},
    }
    return {
        "type": "object",
        "required": ["type"],
        "properties": {key: keys[key] for key in keys if key in version.parameter_keys},
        "additionalProperties": False,
    }


def _constraint() -> Schema:
    ends: Schema = {"type": "object", "properties": {"min": _NUMBER, "max": _NUMBER}, "additionalProperties": False}
    steps: Schema = {"type": "object", "properties": {"step": _NUMBER, "offset": _NUMBER}}
    return {
        "type": "object",
        "properties": {
            "description": _described("The message if a value does not fulfil the constraint.", _TEXT),
            "range": _described("The smallest and the largest number.", ends),
            "length": _described("The smallest and the largest length.", ends),
            "modulo": _described("The value is a multiple of `step`, plus `offset`.", steps),
            "allowed_values": _described("The values of which the value is one.", {"type": ["array", "string"]}),
            "allowed_pattern": _described("A regular expression that the whole value matches.", {"type": "string"}),
            "custom_constraint": _described("A check by name, such as nova.flavor.", {"type": "string"}),
        },
        "additionalProperties": False,
    }


def _resource(version: versions.Version, types: Mapping[str, Schema]) -> Schema:
    keys = {key: _described(about, schema) for key, (about, schema) in _KEYS.items() if key in version.resource_keys}
    return {
        "type": "object",
        "required": ["type"],
        "properties": {**keys, "type": _named(types)},
        "additionalProperties": False,
        "allOf": _choices(types),
    }


def _named(types: Mapping[str, Schema]) -> Schema:
    """Return the schema of the type of a resource."""
    hidden = [name for name, each in types.items() if each.get("doNotSuggest")]
    return {
        "description": "A type of Heat or of a plug-in, a nested template, or a type that an environment maps.",
        "anyOf": [
            {"enum": [name for name in types if name not in hidden]},
            {"enum": hidden, "doNotSuggest": True},
            {"type": "string", "pattern": _TEMPLATE},
            {"type": "string", "pattern": _OPEN},
        ],
    }


def _choices(types: Mapping[str, Schema]) -> list[Schema]:
    """Return the schemas for each type of resource, chosen by its service first because there are hundreds of types."""
    services: dict[str, list[Schema]] = {}
    for name in types:
        then = {"$ref": f"#/definitions/types/{name.replace('~', '~0').replace('/', '~1')}"}
        services.setdefault(name.rpartition("::")[0], []).append(_if({"const": name}, then))
    return [_if({"pattern": f"^{re.escape(name)}::"}, {"allOf": inner}) for name, inner in services.items()]


def _if(type_: Schema, then: Schema) -> Schema:
    return {"if": {"required": ["type"], "properties": {"type": type_}}, "then": then}


def _output() -> Schema:
    return {
        "type": "object",
        "properties": {
            "description": _described("For people.", _TEXT),
            "value": {"description": "The value.", "allOf": [VALUE]},
            "condition": {"description": "The output is left out unless this is true.", "allOf": [CONDITION]},
        },
    }

"""The JSON Schema of HOT templates, for editors: sections, functions, and the resource types that it is given.

`resource.json_schema` has the resource types. The schema is of draft 7, which every editor knows. A schema sees one
template, and neither environments nor values, so it accepts more than `loader.check` does. Of what that accepts
it refuses only what `docs/templates.md` lists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from heat_config_stack.hot import versions
from heat_config_stack.hot.expressions import FACADE
from heat_config_stack.hot.parameters import TYPES

Schema = dict[str, Any]

VALUE: Schema = {"$ref": "#/definitions/value"}
FUNCTION: Schema = {"$ref": "#/definitions/function"}
CALL: Schema = {"$ref": "#/definitions/call"}
CONDITION: Schema = {"$ref": "#/definitions/condition"}


def either(schema: Schema) -> Schema:
    """Return the schema of a value that may be a function instead.

    A map with one key is a function if the key is the name of one. Editors offer functions from the other branch too,
    in which no function is complete yet.
    """
    return {"if": CALL, "then": FUNCTION, "else": {"anyOf": [schema, FUNCTION]}}


def _list(fewest: int, most: int | None = None, *first: Schema) -> Schema:
    """Return the schema of arguments in a list: `first` has the schemas of the first ones, others may be any value."""
    limits = {"minItems": fewest} | ({"maxItems": most} if most else {})
    items: Schema = (
        {"items": [*first], "additionalItems": VALUE} if first else {"items": VALUE}
    )
    return {"type": "array", **limits, **items}


def _map(
    required: list[str], keys: dict[str, Schema], *, others: bool = True
) -> Schema:
    return {
        "type": "object",
        "required": required,
        "properties": keys,
        "additionalProperties": others,
    }


_LISTS = either({"type": "array", "items": VALUE})
_PARAMS = either({"type": "object", "additionalProperties": VALUE})
_REPLACE = _map(["template", "params"], {"template": VALUE, "params": _PARAMS})
_URL = ("scheme", "username", "password", "host", "path", "fragment")

_FUNCTIONS: dict[str, tuple[str, Schema]] = {
    "get_param": (
        "The value of a parameter: its name, or a list of its name and a path into a map or list.",
        VALUE,
    ),
    "get_resource": ("The reference of a resource, usually its id.", VALUE),
    "get_attr": (
        "An attribute of a resource: a list of the resource, the attribute, and a path into its value.",
        {"anyOf": [_list(1), {"type": "string", "minLength": 1, "maxLength": 1}]},
    ),
    "get_file": (
        "The content of a file, which is looked for next to the template.",
        VALUE,
    ),
    "resource_facade": (
        "In a nested template: metadata, deletion_policy or update_policy of the resource that it stands for.",
        {"anyOf": [{"enum": sorted(FACADE)}, FUNCTION]},
    ),
    "list_join": ("A text of lists: a delimiter, and then the lists.", _list(2)),
    "str_replace": (
        "A text with parts replaced. Keys of params that are not in the template are passed over.",
        _REPLACE,
    ),
    "str_replace_strict": (
        "A text with parts replaced. Each key of params has to be in the template.",
        _REPLACE,
    ),
    "str_replace_vstrict": (
        "A text with parts replaced. Each key of params has to be in the template, and no value may be empty.",
        _REPLACE,
    ),
    "str_split": (
        "The parts of a text: a delimiter, the text, and perhaps the place of the one part that is wanted.",
        either({"type": ["array", "null"], "items": VALUE}),
    ),
    "repeat": (
        "A list with a copy of the template for each combination of items, or with permutations false for each place.",
        _map(
            ["template", "for_each"],
            {
                "template": VALUE,
                "for_each": _PARAMS,
                "permutations": {"type": "boolean", "default": True},
            },
        ),
    ),
    "digest": (
        "The hash of a text: an algorithm, such as sha256, and the text.",
        VALUE,
    ),
    "map_merge": ("One map of several: a later key replaces an earlier one.", VALUE),
    "map_replace": (
        "A map with other keys and values: the map, and a map with `keys` and `values`.",
        VALUE,
    ),
    "yaql": (
        "The value of an expression in YAQL, which sees `data` as `$.data`.",
        _map(["expression"], {"expression": VALUE, "data": VALUE}, others=False),
    ),
    "if": (
        "One of two values: a condition, the value if it is true, and the value if it is false.",
        _list(2, 3, CONDITION),
    ),
    "filter": ("A list without some values: these values, and the list.", _list(2, 2)),
    "make_url": (
        "A URL of its parts, each of which is escaped.",
        _map(
            [],
            {
                **dict.fromkeys(_URL, either({"type": "string"})),
                "port": either({"type": ["integer", "string"]}),
                "query": _PARAMS,
            },
            others=False,
        ),
    ),
    "list_concat": ("One list of several.", VALUE),
    "list_concat_unique": ("One list of several, each item once.", VALUE),
    "contains": (
        "Whether a value is in a list, or a text in a text: the value, and the list.",
        _list(2, 2),
    ),
}
"""Function → the description of its result, and the schema of its arguments."""

_CONDITIONS: dict[str, tuple[str, Schema]] = {
    "equals": ("Whether two values are equal.", _list(2, 2)),
    "and": (
        "Whether all of several conditions are true.",
        {"type": "array", "minItems": 2, "items": CONDITION},
    ),
    "or": (
        "Whether one of several conditions is true.",
        {"type": "array", "minItems": 2, "items": CONDITION},
    ),
    "not": ("Whether a condition is false.", CONDITION),
}
"""Function of conditions → the description of its result, and the schema of its arguments."""


def definitions() -> dict[str, Schema]:
    """Return the definitions of functions, values and conditions."""
    former = {
        name: (f"The function of CloudFormation, until {versions.until(name)}.", VALUE)
        for name in _former()
    }
    functions = {**_FUNCTIONS, **former}
    in_conditions = (
        set().union(*(each.condition_functions for each in versions.VERSIONS.values()))
        - _CONDITIONS.keys()
    )
    conditions = {
        **_CONDITIONS,
        **{name: _FUNCTIONS[name] for name in sorted(in_conditions)},
    }
    return {
        "call": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"enum": sorted(functions)},
        },
        "function": _one_of(functions),
        "value": either(
            {
                "anyOf": [
                    {"type": ["string", "number", "boolean", "null"]},
                    {"type": "array", "items": VALUE},
                    {"type": "object", "additionalProperties": VALUE},
                ]
            }
        ),
        "condition": {
            "anyOf": [
                {"type": ["boolean", "string", "null"]},
                _one_of(conditions),
                FUNCTION,
            ]
        },
    }


def _former() -> list[str]:
    """Return the functions of CloudFormation that the first versions have."""
    return [name for name in versions.EVERY if name not in _FUNCTIONS]


def _one_of(functions: dict[str, tuple[str, Schema]]) -> Schema:
    properties = {
        name: {
            "description": f"{about} Since {since}."
            if (since := versions.since(name))
            else about,
            "allOf": [args],
        }
        for name, (about, args) in functions.items()
    }
    return {
        "title": "function",
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "properties": properties,
        "additionalProperties": False,
    }


_TEXT: Schema = {}
"""Text for people, for which Heat takes any value."""

_NUMBER = {"type": ["number", "string", "null"]}

_KEYS: dict[str, tuple[str, Schema]] = {
    "type": ("The type of the resource.", {}),
    "properties": (
        "The properties of the resource, as its type has them.",
        {"type": ["object", "null"]},
    ),
    "metadata": (
        "Data that belongs to the resource.",
        either({"type": ["object", "null"], "additionalProperties": VALUE}),
    ),
    "depends_on": (
        "Resources after which this one is created, besides those that it refers to.",
        either(
            {
                "anyOf": [
                    {"type": ["string", "null"]},
                    {"type": "array", "items": {"type": "string"}},
                ]
            }
        ),
    ),
    "deletion_policy": (
        "The treatment of the resource when it is deleted.",
        either({"enum": [*versions.VERSIONS["2021-04-16"].deletion_policies, None]}),
    ),
    "update_policy": ("How a group is updated.", either({"type": ["object", "null"]})),
    "description": ("For people.", _TEXT),
    "condition": ("The resource is left out unless this is true.", CONDITION),
    "external_id": (
        "The id of a resource that exists already.",
        either({"type": ["string", "null"]}),
    ),
}
"""Key of a resource → its description and its schema; the type refines some."""


_TEMPLATE = r"\.(yaml|template)$"
"""Nested templates."""

_OPEN = "^(OS::TripleO::|(?!(OS|AWS)::))"
"""Types outside Heat's namespaces, which only an environment or a plug-in can define."""


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
            **definitions(),
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
            "How parameters are shown to people.",
            {"type": ["array", "null"], "items": group},
        ),
        "parameters": _described(
            "The values that a stack takes, by their names.", _map_of("parameter")
        ),
        "conditions": _described(
            "Conditions by their names.",
            {"type": "object", "additionalProperties": CONDITION},
        ),
        "resources": _described(
            "The resources of the stack, by name.", _map_of("resource")
        ),
        "outputs": _described(
            "The values that a stack gives, by their names.", _map_of("output")
        ),
        "capabilities": _described(
            "The capabilities of the template; Heat refuses this section.",
            {"type": "object"},
        ),
    }


def _described(about: str, schema: Schema) -> Schema:
    return {"description": about, **schema}


def _map_of(definition: str) -> Schema:
    return {
        "type": ["object", "null"],
        "additionalProperties": {"$ref": f"#/definitions/{definition}"},
    }


_FLAG = {"type": ["boolean", "string", "null"]}


def _parameter(version: versions.Version) -> Schema:
    keys: dict[str, Schema] = {
        "type": _described("The type of the value.", {"enum": sorted(TYPES)}),
        "label": _described("The name that is shown to people.", _TEXT),
        "description": _described("For people.", _TEXT),
        "default": _described("The value if none is given.", {}),
        "hidden": _described(
            "If true, the value is a secret, and is not shown.", _FLAG
        ),
        "constraints": _described(
            "The conditions that a value has to meet.",
            {"type": ["array", "null"], "items": _constraint()},
        ),
        "immutable": _described("If true, an update may not change the value.", _FLAG),
        "tags": _described(
            "Words for programs that show the parameter.", {"type": "array"}
        ),
        "schema": {},
    }
    return {
        "type": "object",
        "required": ["type"],
        "properties": {key: keys[key] for key in keys if key in version.parameter_keys},
        "additionalProperties": False,
    }


def _constraint() -> Schema:
    ends: Schema = {
        "type": "object",
        "properties": {"min": _NUMBER, "max": _NUMBER},
        "additionalProperties": False,
    }
    steps: Schema = {
        "type": "object",
        "properties": {"step": _NUMBER, "offset": _NUMBER},
    }
    return {
        "type": "object",
        "properties": {
            "description": _described(
                "The message if a value does not fulfil the constraint.", _TEXT
            ),
            "range": _described("The smallest and the largest number.", ends),
            "length": _described("The smallest and the largest length.", ends),
            "modulo": _described(
                "The value is a multiple of `step`, plus `offset`.", steps
            ),
            "allowed_values": _described(
                "The values of which the value is one.", {"type": ["array", "string"]}
            ),
            "allowed_pattern": _described(
                "A regular expression that the whole value matches.", {"type": "string"}
            ),
            "custom_constraint": _described(
                "A check by name, such as nova.flavor.", {"type": "string"}
            ),
        },
        "additionalProperties": False,
    }


def _resource(version: versions.Version, types: Mapping[str, Schema]) -> Schema:
    keys = {
        key: _described(about, schema)
        for key, (about, schema) in _KEYS.items()
        if key in version.resource_keys
    }
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
        then = {
            "$ref": f"#/definitions/types/{name.replace('~', '~0').replace('/', '~1')}"
        }
        services.setdefault(name.rpartition("::")[0], []).append(
            _if({"const": name}, then)
        )
    return [
        _if({"pattern": f"^{re.escape(name)}::"}, {"allOf": inner})
        for name, inner in services.items()
    ]


def _if(type_: Schema, then: Schema) -> Schema:
    return {"if": {"required": ["type"], "properties": {"type": type_}}, "then": then}


def _output() -> Schema:
    return {
        "type": "object",
        "properties": {
            "description": _described("For people.", _TEXT),
            "value": {"description": "The value.", "allOf": [VALUE]},
            "condition": {
                "description": "The output is left out unless this is true.",
                "allOf": [CONDITION],
            },
        },
    }

"""The functions of HOT as a JSON Schema."""

from __future__ import annotations

from typing import Any

from heat_config_stack.hot import versions
from heat_config_stack.hot.expressions import FACADE

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
    items: Schema = {"items": [*first], "additionalItems": VALUE} if first else {"items": VALUE}
    return {"type": "array", **limits, **items}


def _map(required: list[str], keys: dict[str, Schema], *, others: bool = True) -> Schema:
    return {"type": "object", "required": required, "properties": keys, "additionalProperties": others}


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
    "get_file": ("The content of a file, which is looked for next to the template.", VALUE),
    "resource_facade": (
        "In a nested template: metadata, deletion_policy or update_policy of the resource that it stands for.",
        {"anyOf": [{"enum": sorted(FACADE)}, FUNCTION]},
    ),
    "list_join": ("A text of lists: a delimiter, and then the lists.", _list(2)),
    "str_replace": (
        "A text with parts replaced. Keys of params that are not in the template are passed over.",
        _REPLACE,
    ),
    "str_replace_strict": ("A text with parts replaced. Each key of params has to be in the template.", _REPLACE),
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
            {"template": VALUE, "for_each": _PARAMS, "permutations": {"type": "boolean", "default": True}},
        ),
    ),
    "digest": ("The hash of a text: an algorithm, such as sha256, and the text.", VALUE),
    "map_merge": ("One map of several: a later key replaces an earlier one.", VALUE),
    "map_replace": ("A map with other keys and values: the map, and a map with `keys` and `values`.", VALUE),
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
    "contains": ("Whether a value is in a list, or a text in a text: the value, and the list.", _list(2, 2)),
}
"""Function → what it returns, and the schema of its arguments."""

_CONDITIONS: dict[str, tuple[str, Schema]] = {
    "equals": ("Whether two values are equal.", _list(2, 2)),
    "and": ("Whether all of several conditions are true.", {"type": "array", "minItems": 2, "items": CONDITION}),
    "or": ("Whether one of several conditions is true.", {"type": "array", "minItems": 2, "items": CONDITION}),
    "not": ("Whether a condition is false.", CONDITION),
}
"""Function of conditions → what it returns, and the schema of its arguments."""


def definitions() -> dict[str, Schema]:
    """Return the definitions of functions, values and conditions."""
    former = {name: (f"The function of CloudFormation, until {versions.until(name)}.", VALUE) for name in _former()}
    functions = {**_FUNCTIONS, **former}
    in_conditions = set().union(*(each.condition_functions for each in versions.VERSIONS.values())) - _CONDITIONS.keys()
    conditions = {**_CONDITIONS, **{name: _FUNCTIONS[name] for name in sorted(in_conditions)}}
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
        "condition": {"anyOf": [{"type": ["boolean", "string", "null"]}, _one_of(conditions), FUNCTION]},
    }


def _former() -> list[str]:
    """Return the functions of CloudFormation that the first versions have."""
    return [name for name in versions.EVERY if name not in _FUNCTIONS]


def _one_of(functions: dict[str, tuple[str, Schema]]) -> Schema:
    properties = {
        name: {"description": f"{about} Since {since}." if (since := versions.since(name)) else about, "allOf": [args]}
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

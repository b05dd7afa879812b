"""The resource types as JSON Schemas: one for each, with its properties and update policy.

They are for a language that has functions: `Language.either` makes the schema of a value that may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heat_config_stack.resource import heat_types, properties, type_schemas
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.support import HIDDEN, SUPPORTED
from heat_config_stack.resource.types import Types

JsonSchema = dict[str, Any]

_INTEGER = {
    "anyOf": [
        {"type": ["number", "boolean", "null"]},
        {"type": "string", "pattern": r"^\s*[-+]?[0-9_]+\s*$"},
    ]
}
_TRUTH = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"
_BOOLEAN = {
    "anyOf": [{"type": ["boolean", "null"]}, {"type": "string", "pattern": _TRUTH}]
}


@dataclass(frozen=True)
class Language:
    """The values of a language."""

    any_value: JsonSchema
    either: Callable[[JsonSchema], JsonSchema]
    """Returns the schema of a value of that schema, or a function."""


def definitions(types: Types, language: Language) -> dict[str, JsonSchema]:
    """Return the schema of a resource of each type, by its name.

    The properties of a plug-in with wrong declarations are any, and hidden types have the key `doNotSuggest`.
    """
    written = _Written(language)
    return {name: written.resource(name, class_) for name, class_ in _known(types)}


def _known(types: Types) -> Iterator[tuple[str, type[Resource]]]:
    for name in type_schemas.names(types):
        if (class_ := types.known(name)) is not None:
            yield name, class_


class _Written:
    """Declarations, written for a language."""

    def __init__(self, language: Language) -> None:
        self._either, self._any = language.either, language.any_value

    def resource(self, name: str, class_: type[Resource]) -> JsonSchema:
        """Return the schema of a resource of one type."""
        status = type_schemas.status(name, class_)
        about = type_schemas.description(class_).partition("\n")[0] or name
        if status.status != SUPPORTED:
            about = f"{about} ({status.status.lower()}{f' since {status.version}' if status.version else ''})"
        schema: JsonSchema = {"description": about} | (
            {"doNotSuggest": True} if status.status == HIDDEN else {}
        )
        try:
            declared = properties.schemata(class_.properties_schema)
            policy = properties.schemata(class_.update_policy_schema)
        except TypeError:
            return schema
        if class_.any_property:
            return schema
        in_place = {
            key for key, property_ in declared.items() if property_.update_allowed
        }
        if class_.is_placeholder:  # which accepts every update
            in_place &= heat_types.updated_in_place(name)
        updated = (
            self._either(self._members(policy, "How members are replaced."))
            if policy
            else {}
        )
        schema["properties"] = {
            "properties": self._members(declared, about, in_place),
            "update_policy": updated,
        }
        return schema | (
            {"required": ["properties"]}
            if any(property_.required for property_ in declared.values())
            else {}
        )

    def _members(
        self,
        declared: Mapping[str, properties.Schema],
        about: str,
        in_place: Container[str] | None = None,
    ) -> JsonSchema:
        """Return the schema of a map with these keys. Null counts as a map without any."""
        offered = {
            name: property_
            for name, property_ in declared.items()
            if property_.implemented
        }
        effects = dict.fromkeys(offered, "")
        if in_place is not None:
            updates = ("an update replaces the resource", "may be updated in place")
            effects = {name: updates[name in in_place] for name in offered}
        return {
            "description": about,
            "type": ["object", "null"],
            "properties": {
                name: self._property(property_, effects[name])
                for name, property_ in offered.items()
            },
            "required": [
                name for name, property_ in offered.items() if property_.required
            ],
            "additionalProperties": False,
        }

    def _property(self, declared: properties.Schema, update: str = "") -> JsonSchema:
        """Return the schema of a property: a value of its type, a function, or null, which counts as no value."""
        schema = {
            "description": _about(declared, update),
            **self._either(self._value(declared)),
        }
        if declared.support_status.status == HIDDEN:
            schema["doNotSuggest"] = True
        if declared.default is not None and not isinstance(
            declared.default, list | dict
        ):
            schema["default"] = declared.default
        return schema

    def _value(self, declared: properties.Schema) -> JsonSchema:
        """Return the schema of a value of a type, or of one that Heat converts to it, but not of a function."""
        if declared.type == properties.Schema.MAP:
            members = properties.schemata(declared.schema) if declared.schema else None
            free = {"type": ["object", "null"], "additionalProperties": self._any}
            schema = self._members(members, "") if members else free
        elif declared.type == properties.Schema.LIST:
            items = (
                self._property(properties.made(declared.schema["*"]))
                if declared.schema
                else self._any
            )
            schema = {"type": ["array", "null"], "items": items}
        elif declared.type == properties.Schema.ANY:
            return self._any
        elif declared.type == properties.Schema.STRING and (
            allowed := _allowed(declared)
        ):
            schema = {
                "anyOf": [{"enum": allowed}, {"type": ["integer", "boolean", "null"]}]
            }
        else:
            schema = _SCALARS[declared.type]
        if declared.allow_conversion:
            schema = {"anyOf": [schema, {"type": ["string", "array", "object"]}]}
        return {**schema, **_limits(declared)}


_SCALARS: dict[str, JsonSchema] = {
    properties.Schema.STRING: {"type": ["string", "integer", "boolean", "null"]},
    properties.Schema.INTEGER: _INTEGER,
    properties.Schema.NUMBER: {"type": ["number", "string", "boolean", "null"]},
    properties.Schema.BOOLEAN: _BOOLEAN,
}

_SIZES = {
    properties.Schema.STRING: ("minLength", "maxLength"),
    properties.Schema.LIST: ("minItems", "maxItems"),
    properties.Schema.MAP: ("minProperties", "maxProperties"),
}


def _allowed(declared: properties.Schema) -> list[str]:
    """Return the texts of which a property is one; nothing if it may be any."""
    found: list[object] = next(
        (each.limit for each in declared.constraints if each.kind == "allowed_values"),
        [],
    )
    texts = [each for each in found if isinstance(each, str)]
    return texts if len(texts) == len(found) else []


def _limits(declared: properties.Schema) -> JsonSchema:
    """Return the limits of a value, as keywords that apply to its own type only."""
    limits: JsonSchema = {}
    for each in declared.constraints:
        keys = {
            "range": ("minimum", "maximum"),
            "length": _SIZES.get(declared.type, ()),
        }.get(each.kind, ())
        for key, end in zip(keys, ("min", "max"), strict=False):
            if isinstance(limit := each.limit.get(end), int | float):
                limits[key] = limit
    return limits


def _about(declared: properties.Schema, update: str) -> str:
    """Return the description of a property for people: its type, whether it is required, and what an update does."""
    status = declared.support_status
    facts = [
        "required" if declared.required else "",
        update,
        "" if status.status == SUPPORTED else status.status.lower(),
        *(
            f"{each.kind}: {each.limit}"
            for each in declared.constraints
            if each.kind not in ("range", "length")
        ),
    ]
    about = f"{declared.description.rstrip('.')}. " if declared.description else ""
    return f"{about}{'; '.join(filter(None, [declared.type, *facts]))}."

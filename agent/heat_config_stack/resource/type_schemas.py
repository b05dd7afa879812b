"""The declaration of resource types as JSON, with the keys of Heat's API."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

from heat_config_agent.model.positions import Json
from heat_config_stack.resource import attributes, constraints, heat_types
from heat_config_stack.resource.properties import Schema, schemata
from heat_config_stack.resource.resource import PLUGINS, Resource
from heat_config_stack.resource.support import HIDDEN, SupportStatus
from heat_config_stack.resource.types import Types

CARRIED_OUT, PLACEHOLDER, NOTHING, PLUGIN = "carried out", "placeholder", "nothing", "plug-in"
"""What this machine does with a resource of a type."""


def names(types: Types) -> list[str]:
    """Return the names of all types: Heat's, our own, and those of plug-ins."""
    return sorted({*types, *heat_types.names()})


def handling(class_: type[Resource]) -> str:
    """Return what this machine does with a resource of a class."""
    if class_.is_placeholder:
        return NOTHING if class_.any_property else PLACEHOLDER
    return PLUGIN if class_.__module__.startswith(PLUGINS) else CARRIED_OUT


def status(name: str, class_: type[Resource]) -> SupportStatus:
    """Return the support status of a type: for a type of Heat that is carried out here, Heat's."""
    facts = None if class_.__module__.startswith(PLUGINS) else heat_types.heat_type(name)
    return facts.status if facts else class_.support_status


def description(class_: type[Resource]) -> str:
    """Return the docstring of a class; empty if it has none of its own."""
    return inspect.getdoc(class_) or "" if class_.__doc__ else ""


def declaration(name: str, class_: type[Resource], *, placeholder: bool = False) -> dict[str, Json]:
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
            key: {**_property(each), "update_allowed": key in in_place if placeholder else each.update_allowed}
            for key, each in properties.items()
            if each.implemented and each.support_status.status != HIDDEN
        },
        "attributes": {key: _attribute(each) for key, each in declared.items() if each.support_status.status != HIDDEN},
        "support_status": status(name, class_).to_dict(),
    }


_SHOW = attributes.Schema("Detailed information about the resource.", type=attributes.Schema.MAP)


def _property(schema: Schema) -> dict[str, Json]:
    values: dict[str, Json] = {"type": schema.type.lower()}
    if schema.description is not None:
        values["description"] = schema.description
    if schema.default is not None:
        values["default"] = schema.default
    if isinstance(schema.schema, Mapping):
        values["schema"] = {key: _property(part) for key, part in schemata(schema.schema).items()}
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
        {key: each for key, each in limit.items() if each is not None} if isinstance(limit, dict) else limit,
    )
    if constraint.description is not None:
        yield "description", constraint.description


def _attribute(schema: attributes.Schema) -> dict[str, Json]:
    values: dict[str, Json] = {} if schema.type is None else {"type": schema.type.lower()}
    return values | ({} if schema.description is None else {"description": schema.description})

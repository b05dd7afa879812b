"""The steps that a function takes into a value: names of properties, keys of maps, positions in lists (section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence

from heat_config_agent.model.positions import Json
from heat_config_stack.tosca.language.report import nearest
from heat_config_stack.tosca.language.types import Schema

_LISTS = frozenset({"list", "range"})
_TEXT_FORMATS = frozenset({"tosca.datatypes.json", "tosca.datatypes.xml"})


def wrong_step(schema: Schema | None, steps: Sequence[Json]) -> tuple[str, str] | None:
    """Return the first step that a value of that schema cannot have, as a problem and a hint; None if there is none."""
    for step in steps:
        type_ = schema.type if schema is not None else None
        if schema is None or type_ is None or type_.is_incomplete:
            return None
        if type_.primitive in _LISTS:
            if not isinstance(step, int) or step < 0:
                return f"a list has positions from 0, not {step}", "count the entries from 0"
            schema = schema.entry
        elif type_.primitive == "map":
            schema = schema.entry
        elif type_.primitive:
            if any(ancestor.name in _TEXT_FORMATS for ancestor in type_.lineage):
                return None
            return f"a value of the type {type_.name} has no part {step}", "end before it"
        elif not type_.properties:  # it says nothing of its values
            return None
        elif step not in type_.properties:
            return f"the type {type_.name} has no property {step}", nearest(str(step), type_.properties)
        else:
            schema = type_.properties[str(step)].schema
    return None

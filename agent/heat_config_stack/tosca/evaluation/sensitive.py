"""Values that are never shown: of sensitive properties, and the tokens and keys of credentials.

A property is sensitive if its metadata say so (`sensitive: "true"`), or if its name does, as that of an input may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from heat_config_agent.masking.names import TELLING
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Parameter, Unresolved
from heat_config_stack.tosca.evaluation.evaluation import (
    NOTHING,
    Evaluator,
    Subject,
    TooDeep,
)
from heat_config_stack.tosca.evaluation.later import static
from heat_config_stack.tosca.language.types import PropertyDefinition, Schema
from heat_config_stack.tosca.topology.topology import Topology

_CREDENTIAL = "tosca.datatypes.Credential"
_HIDDEN = ("token", "keys")
"""The properties of a credential that are secret: its user, protocol and kind of token are not."""

_MOST_NESTED = 20


def is_marked(definition: PropertyDefinition) -> bool:
    """Return whether the metadata of a property or an input say that it is sensitive."""
    return (
        str((definition.get("metadata") or {}).get("sensitive", "")).lower() == "true"
    )


def of_inputs(
    defined: Mapping[str, PropertyDefinition], parameters: Mapping[str, Parameter]
) -> Iterator[Json]:
    """Yield the sensitive parts of the values of inputs, except inputs that are hidden as a whole."""
    for name, definition in defined.items():
        if not parameters[name].schema.secret:
            yield from _of_value(parameters[name].value, definition.schema)


def of_properties(topology: Topology, evaluator: Evaluator) -> Iterator[Json]:
    """Yield the sensitive values of the properties of all nodes, capabilities and relationships, as far as known."""
    selection = _Selection()
    for part in topology.parts.values():
        yield from _of_subject(part, evaluator, selection)
        for name, capability in (
            part.type.capabilities.items() if part.type is not None else ()
        ):
            for key, definition in selection.of(capability.type, capability.properties):
                try:
                    value = evaluator.capability_value(part, name, key)
                except (TooDeep, Unresolved):  # it is reported where it is used
                    continue
                yield from _of_property(value, definition)
    for link in topology.links:
        yield from _of_subject(link, evaluator, selection)


class _Selection:
    """The properties of each type that may be sensitive, looked for once."""

    def __init__(self) -> None:
        self._found: dict[object, list[tuple[str, PropertyDefinition]]] = {}

    def of(
        self, key: object, defined: Mapping[str, PropertyDefinition]
    ) -> list[tuple[str, PropertyDefinition]]:
        """Return the properties of a type that may be sensitive."""
        key = key, id(defined)
        if key not in self._found:
            self._found[key] = [
                (name, of)
                for name, of in defined.items()
                if _may_be_sensitive(name, of)
            ]
        return self._found[key]


def _may_be_sensitive(name: str, definition: PropertyDefinition) -> bool:
    type_ = definition.schema.type
    is_plain = type_ is not None and type_.primitive not in {"", "list", "map"}
    return not is_plain or is_marked(definition) or _tells(name)


def _of_subject(
    subject: Subject, evaluator: Evaluator, selection: _Selection
) -> Iterator[Json]:
    if subject.type is None:
        return
    for name, definition in selection.of(subject.type, subject.type.properties):
        try:
            value = evaluator.property_value(subject, name)
        except (TooDeep, Unresolved):  # it is reported where it is used
            continue
        yield from _of_property(value, definition)


def _of_property(
    value: object, definition: PropertyDefinition, depth: int = 0
) -> Iterator[Json]:
    if value is NOTHING or value is None:
        return
    plain: Json = static(value)
    type_ = definition.schema.type
    is_plain = type_ is None or bool(type_.primitive)
    if is_marked(definition) or (is_plain and _tells(definition.name)):
        yield plain
    else:
        yield from _of_value(plain, definition.schema, depth)


def _of_value(value: Json, schema: Schema | None, depth: int = 0) -> Iterator[Json]:
    """Yield the sensitive parts of a value of a complex type, or of the entries of a list or a map."""
    if schema is None or schema.type is None or depth > _MOST_NESTED:
        return
    if _CREDENTIAL in schema.type.keys and isinstance(value, dict):
        yield from (value[name] for name in _HIDDEN if value.get(name) is not None)
    elif not schema.primitive and isinstance(value, dict):
        for name, definition in schema.type.properties.items():
            yield from _of_property(value.get(name), definition, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _of_value(item, schema.entry, depth + 1)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _of_value(item, schema.entry, depth + 1)


def _tells(name: str) -> bool:
    return bool(re.search(TELLING, name))

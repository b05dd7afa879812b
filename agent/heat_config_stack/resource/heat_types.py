"""The resource types of Heat 27 as facts: the properties, attributes and support status of each.

The file `heat-types.json` has them as Heat's own API gives them. It is read when a template first names a type that
has no class here. A type is that of a property unless the facts name another one: text.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heat_config_agent.model.positions import Path as Keys
from heat_config_stack.definition import Later, Tree
from heat_config_stack.resource import attributes, constraints
from heat_config_stack.resource.properties import Schema
from heat_config_stack.resource.support import SUPPORTED, SupportStatus

FILE = Path(__file__).with_name("heat-types.json")
EXPIRATION = "expiration"
"""The constraint of a time that must not be over. Heat checks it only when a stack is created."""


@dataclass(frozen=True, slots=True)
class HeatType:
    """The facts of one type."""

    name: str
    properties: Mapping[str, Schema]
    attributes: Mapping[str, attributes.Schema]
    update_policy: Mapping[str, Schema]
    status: SupportStatus
    service: str
    """The cloud service that has such resources; empty if none has."""
    is_nothing: bool
    """True if the service is gone: any property is accepted, and each attribute is None."""
    open_attributes: bool
    """True if there may be attributes next to the declared ones."""
    snapshot: bool
    """True if the deletion policy may be Snapshot."""
    translations: tuple[Mapping[str, str], ...]
    """Properties that take their value from an older property: `path`, and `value_path` or `value_name`."""
    expiring: tuple[str, ...]
    """Properties with a time that must not be over when a stack is created."""

    def translated(self, data: Mapping[str, Tree]) -> Mapping[str, Tree]:
        """Return the values of properties, with values of older properties under their new names."""
        for rule in self.translations:
            *containers, name = rule["path"].split(".")
            data = _translated(
                data, containers, name, rule.get("value_name") or rule["value_path"]
            )
        return data

    def conflicts(self, data: Mapping[str, Tree]) -> Iterator[tuple[Keys, str]]:
        """Yield the path of each property that is given together with its older form, and the names of both."""
        for rule in self.translations:
            *containers, name = rule["path"].split(".")
            source = rule.get("value_name") or rule["value_path"]
            names = ", ".join(".".join((*containers, each)) for each in (name, source))
            yield from (
                (path, names) for path in _conflicts(data, containers, name, source)
            )


def _conflicts(
    data: Any, containers: list[str], name: str, source: str, path: Keys = ()
) -> Iterator[Keys]:
    if isinstance(data, list):
        for index, member in enumerate(data):
            yield from _conflicts(member, containers, name, source, (*path, index))
    elif isinstance(data, Mapping) and containers:
        yield from _conflicts(
            data.get(containers[0]),
            containers[1:],
            name,
            source,
            (*path, containers[0]),
        )
    elif isinstance(data, Mapping):
        pair = (data.get(name), data.get(source))
        if all(each and not isinstance(each, Later) for each in pair):
            yield (*path, name)


def _translated(data: Any, containers: list[str], name: str, source: str) -> Any:
    if isinstance(data, list):
        return [_translated(member, containers, name, source) for member in data]
    if not isinstance(data, Mapping):
        return data
    if containers:
        inner, *rest = containers
        return (
            {**data, inner: _translated(data[inner], rest, name, source)}
            if inner in data
            else data
        )
    return {**data, name: data[source]} if name not in data and source in data else data


@functools.cache
def _facts() -> Mapping[str, Any]:
    facts: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return facts


def names() -> list[str]:
    """Return the names of all types, sorted."""
    return sorted(_facts()["types"])


def canonical(name: str) -> str:
    """Return the name that Heat's own environment maps an older name to; any other name as it is."""
    for older, newer in _facts()["aliases"].items():
        if older == name:
            return str(newer)
        if older.endswith("*") and name.startswith(older[:-1]):
            return str(newer[:-1] + name[len(older) - 1 :])
    return name


@functools.cache
def heat_type(name: str) -> HeatType | None:
    """Return the facts of a type; None if Heat has no type of that name."""
    name = canonical(name)
    facts = _facts()["types"].get(name)
    if facts is None:
        return None
    return HeatType(
        name,
        _schemata(facts["properties"]),
        {key: _attribute(fact) for key, fact in facts["attributes"].items()},
        _schemata(facts.get("update_policy", {})),
        _status(facts),
        facts.get("service", ""),
        facts.get("nothing", False),
        facts.get("open_attributes", False),
        facts.get("snapshot", False),
        tuple(
            rule for rule in facts.get("translations", ()) if rule["rule"] == "replace"
        ),
        tuple(key for key, fact in facts["properties"].items() if _expires(fact)),
    )


def updated_in_place(name: str) -> frozenset[str]:
    """Return the properties that Heat updates without a replacement."""
    properties = _facts()["types"][canonical(name)]["properties"]
    return frozenset(
        key for key, each in properties.items() if each.get("update_allowed")
    )


def instead(name: str) -> str:
    """Return the type that replaces an obsolete one; empty if none does."""
    return str(_facts()["types"].get(canonical(name), {}).get("instead", ""))


def former_type(name: str) -> HeatType:
    """Return the facts of a cloud type that Heat does not have: any property is accepted."""
    return HeatType(name, {}, {}, {}, SupportStatus(), "", True, True, False, (), ())


def _expires(facts: Mapping[str, Any]) -> bool:
    return {"custom_constraint": EXPIRATION} in facts.get("constraints", ())


def _schemata(facts: Mapping[str, Any]) -> dict[str, Schema]:
    return {name: _schema(each) for name, each in facts.items()}


def _schema(facts: Mapping[str, Any]) -> Schema:
    """Return the schema of a property. Placeholders accept all updates, except those that Heat refuses."""
    type_, default = facts.get("type", "string").capitalize(), facts.get("default")
    if type_ == Schema.LIST and default == {}:  # one of Heat's types declares it so
        default = []
    return Schema(
        type_,
        default=default,
        schema=_schemata(facts["schema"]) if "schema" in facts else None,
        required=facts.get("required", False),
        constraints=list(_constraints(facts)),
        implemented=facts.get("implemented", True),
        update_allowed=True,
        immutable=facts.get("immutable", False),
        support_status=_status(facts),
    )


def _constraints(facts: Mapping[str, Any]) -> Iterator[constraints.Constraint]:
    for each in facts.get("constraints", ()):
        for kind, limit in each.items():
            if (kind, limit) != ("custom_constraint", EXPIRATION):
                yield constraints.made(kind, limit, "")


def _attribute(facts: Any) -> attributes.Schema:
    type_ = facts if isinstance(facts, str) else facts.get("type", "string")
    status = _status(facts) if isinstance(facts, Mapping) else None
    return attributes.Schema(
        type=None if type_ == "any" else type_.capitalize(), support_status=status
    )


def _status(facts: Mapping[str, Any]) -> SupportStatus:
    previous = None
    for status, version in reversed(facts.get("before", ())):
        previous = SupportStatus(
            status.upper(), version=version, previous_status=previous
        )
    return SupportStatus(
        facts.get("status", SUPPORTED).upper(),
        version=facts.get("since"),
        previous_status=previous,
    )

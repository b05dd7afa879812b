"""Definitions made by hand, and what makes them again of their source: a language of JSON that takes no file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heat_config_agent.diagnostics.mistakes import Invalid
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import (
    Definition,
    Identity,
    Interface,
    Later,
    Look,
    MappedType,
    Need,
    Output,
    ResourceDefinition,
    Tree,
)
from heat_config_stack.records.records import new_id


class Function(Later):
    """`{"ref": NAME}` or `{"attr": [NAME, ATTRIBUTE, …]}`."""

    def __init__(
        self, name: str, attribute: str | None = None, path: tuple[Json, ...] = ()
    ) -> None:
        self.name, self.attribute, self.path = name, attribute, path

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(self.name, self.attribute, ("outputs",)),)

    def resolve(self, look: Look) -> Json:
        if self.attribute is None:
            return look.reference(self.name)
        return look.attribute(self.name, self.attribute, self.path)


class Types:
    """An environment without mappings."""

    def candidates(self, type_: str, _resource: str) -> Iterator[MappedType]:
        yield MappedType(type_)

    def interface(self, template: str) -> Interface:
        raise Invalid([Mistake(f"there is no {template}")], OPEN)

    def nested(
        self,
        resource: str,
        found: MappedType,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
    ) -> Definition:
        raise Invalid(
            [
                Mistake(
                    f"{identity.name}: {resource}: there is no {found.template} {known} {parameters}"
                )
            ],
            OPEN,
        )

    def of_text(
        self,
        resource: str,
        template: str,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
        mappings: Mapping[str, str] | None = None,
    ) -> Definition:
        """Return a stack without resources, whatever the template says."""
        return load(
            {"resources": {}, "of": [resource, template, parameters, known, mappings]},
            identity,
        )

    of_file = of_text

    def inside(self, _resource: str) -> Types:
        return self

    def restricted(self, _resource: str) -> frozenset[str]:
        return frozenset()

    def hooks(self, _resource: str) -> frozenset[str]:
        return frozenset()

    def attributes(self, of: str) -> Mapping[str, Json]:
        return (
            {"mtu": 1400}
            if of == "net"
            else {"accessIPv6": "::1"}
            if of == "OS::Nova::Server"
            else {}
        )


def _tree(value: Any) -> Tree:
    if isinstance(value, dict):
        if value.keys() == {"ref"}:
            return Function(value["ref"])
        if value.keys() == {"attr"}:
            return Function(
                value["attr"][0], value["attr"][1], tuple(value["attr"][2:])
            )
        return {key: _tree(each) for key, each in value.items()}
    return [_tree(each) for each in value] if isinstance(value, list) else value


def load(source: Json, identity: Identity) -> Definition:
    """Return the definition of a source: `{"resources": {NAME: {type, properties, …}}, "outputs": {NAME: value}}`."""
    resources = {}
    for name, each in source.get("resources", {}).items():
        values = {
            key: value
            for key, value in each.items()
            if key not in ("type", "properties", "depends_on")
        }
        resources[name] = ResourceDefinition(
            name,
            each["type"],
            _tree(each.get("properties", {})),
            depends_on=tuple(each.get("depends_on", ())),
            **values,
        )
    outputs = {
        name: Output(name, _tree(value))
        for name, value in source.get("outputs", {}).items()
    }
    return Definition(identity, "", {}, (), resources, outputs, Types(), source)


def made(
    resources: dict[str, Any], outputs: dict[str, Any] | None = None, name: str = "s"
) -> Definition:
    """Return a definition for a new stack."""
    return load(
        {"resources": resources, "outputs": outputs or {}}, Identity(name, new_id())
    )


def script(text: str, *outputs: str, **values: Any) -> dict[str, Any]:
    """Return a config for the script tool."""
    inputs = [{"name": each} for each in values.pop("inputs", ())]
    given = {
        "group": "script",
        "config": text,
        "inputs": inputs,
        "outputs": [{"name": each} for each in outputs],
    }
    return {"type": "OS::Heat::SoftwareConfig", "properties": {**given, **values}}


def deployment(config: str, *actions: str, **values: Any) -> dict[str, Any]:
    """Return a deployment of a config."""
    given: dict[str, Any] = {"config": {"ref": config}, "server": "here", **values}
    return {
        "type": "OS::Heat::SoftwareDeployment",
        "properties": {**given, **({"actions": list(actions)} if actions else {})},
    }


def value(of: Any) -> dict[str, Any]:
    """Return a resource that is a value."""
    return {"type": "OS::Heat::Value", "properties": {"value": of}}


def tried(of: Any = "x", **values: Any) -> dict[str, Any]:
    """Return a resource that does as it is told."""
    return {"type": "OS::Heat::TestResource", "properties": {"value": of, **values}}

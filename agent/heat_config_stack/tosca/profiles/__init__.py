"""The normative types of each version of the profile (chapters 5 and 8.5 of the specification).

Each version is a TOSCA document next to this module, and is read once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from heat_config_stack.tosca.language import entities
from heat_config_stack.tosca.language.grammar import held
from heat_config_stack.tosca.language.primitives import READERS
from heat_config_stack.tosca.language.report import Report
from heat_config_stack.tosca.language.text import VERSIONS, tosca_text
from heat_config_stack.tosca.language.types import SECTIONS, Namespace, Type

ALIASES = {
    "node_types": {
        "tosca.nodes.BlockStorage": "tosca.nodes.Storage.BlockStorage",
        "tosca.nodes.ObjectStorage": "tosca.nodes.Storage.ObjectStorage",
    },
    "capability_types": {
        "EndPoint": "tosca.capabilities.Endpoint",
        "EndPoint.Database": "tosca.capabilities.Endpoint.Database",
    },
}
"""Further names that the specification uses for its definitions; versions differ in the defined name."""

PREFIX = "tosca:"


class Profile(Namespace):
    """The normative types of a version."""

    def __init__(self, version: str, content: Mapping[str, Any]) -> None:
        self.version = version
        self.file = f"the normative types of {version}"
        self.report = Report(None)
        self._types: dict[str, dict[str, Type]] = {
            section: {
                name: Type(section, name, of, self, is_normative=True)
                for name, of in content[section].items()
            }
            for section in SECTIONS
        }
        primitives: dict[str, Type] = {
            name: self._type("data_types", name, {}) for name in READERS
        }
        self._types["data_types"] = {**primitives, **self._types["data_types"]}
        self._short = {section: self._named(section) for section in SECTIONS}

    def _type(self, section: str, name: str, content: Mapping[str, Any]) -> Type:
        return Type(section, name, content, self, is_normative=True)

    def _named(self, section: str) -> dict[str, Type]:
        """Return the types of a section by every name that they have (section 5.2)."""
        types = self._types[section]
        begin = SECTIONS[section]
        shorter = {name.removeprefix(begin): type_ for name, type_ in types.items()}
        last = {
            name.rpartition(".")[2]: type_
            for name, type_ in types.items()
            if name not in READERS
        }
        aliases = {}
        for one, other in ALIASES.get(section, {}).items():
            for alias, name in ((one, other), (other, one)):
                if name in types and alias not in types:
                    aliases[alias] = types[name]
                    aliases[alias.removeprefix(begin)] = types[name]
        return {**last, **aliases, **shorter, **types}

    def names(self, section: str) -> Collection[str]:
        """Return the full names of the types of a section."""
        return self._types[section]

    def types(self, section: str) -> Iterator[Type]:
        """Yield the types of a section."""
        yield from self._types[section].values()

    def own(self, section: str, name: str) -> Type | None:
        """Return the type that this version has by any of its names."""
        return self._short[section].get(name)

    def find(self, section: str, name: str) -> Type | None:
        """Return the type of a name, or of a name that another version has."""
        name = name.removeprefix(PREFIX)
        type_ = self._short[section].get(name)
        if type_ is None:
            for version in reversed(VERSIONS):
                if version != self.version:
                    type_ = profile(version).own(section, name)
                    if type_ is not None:
                        break
        return type_


def is_normative(section: str, name: str) -> bool:
    """Return whether a version has a type of that full name, which documents may define as well."""
    return name.startswith(SECTIONS[section]) and any(
        name in profile(version).names(section) for version in VERSIONS
    )


@cache
def profile(version: str) -> Profile:
    """Return the normative types of a version."""
    name = f"{version}.yaml"
    path = Path(__file__).with_name(name)
    text = tosca_text(name, path.read_bytes())
    return Profile(version, held(text.value, entities.SERVICE, (), Report(text)))

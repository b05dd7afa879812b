"""The values of a definition: JSON, in which a `Later` stands for a value that only a running stack can know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from heat_config_agent.model.positions import Json, Path

Tree: TypeAlias = Any
"""A JSON value in which a `Later` may stand in place of any value, but not of a key."""


class Unresolved(Exception):  # noqa: N818  # the value is not resolved
    """A value cannot be computed; the text is one sentence for the author of the template.

    In a property, the resource fails; if no resource is involved, validation fails. In an output, only the output has
    no value.
    """


class Look(Protocol):
    """A view of the resources of one stack at this moment. All methods raise `Unresolved`.

    During validation no resource exists yet: a reference is the name of the resource, and each attribute is None. The
    language has checked the names of resources, but not those of attributes.
    """

    def reference(self, resource: str) -> Json:
        """Return the value of get_resource: the physical id, or the name of a resource that has none."""

    def attribute(self, resource: str, attribute: str, path: Sequence[Json]) -> Json:
        """Return an attribute, or the part of it at a path of keys and indexes; None if the path leads nowhere.

        The resource interprets the path: groups and nested stacks give special names a meaning.
        """

    def attributes(self, resource: str) -> Json:
        """Return all attributes except `show`, by name."""

    def facade(self, section: str) -> Json:
        """Return `metadata`, `deletion_policy` or `update_policy` of the resource that owns this child stack."""


@dataclass(frozen=True, slots=True)
class Need:
    """A part of a resource that a value depends on: the resource has to be complete first."""

    resource: str
    """The name of the resource; empty for a value that is not known yet, and depends on no resource."""
    attribute: str | None = None
    """None: the reference. An empty name: all attributes. The type of the resource says which attributes exist."""
    path: Path = ()
    """The position of the function that has this dependency: `outputs.o.value.get_attr`."""
    keys: tuple[Json, ...] = ()
    """The path into the attribute, if it is known and the resource resolves it, as groups do."""


class Later:
    """A value that only a running stack can know."""

    __slots__ = ()

    @property
    def requires(self) -> tuple[Need, ...]:
        """All dependencies on resources; empty if resolving the value is certain to raise `Unresolved`."""
        raise NotImplementedError

    def resolve(self, look: Look) -> Json:
        """Return the value, or raise `Unresolved`."""
        raise NotImplementedError


def resolve(tree: Tree, look: Look) -> Json:
    """Return a copy of the tree in which every `Later` is resolved. Raises `Unresolved`."""
    if isinstance(tree, Later):
        return tree.resolve(look)
    if isinstance(tree, dict):
        return {key: resolve(value, look) for key, value in tree.items()}
    if isinstance(tree, list):
        return [resolve(value, look) for value in tree]
    return tree


def select(value: Json, path: Sequence[Json]) -> Json:
    """Return the part of an attribute's value at a path of keys and indexes; None if the path leads nowhere.

    An index is a number; text is not accepted as an index, as in get_param. An index into text gives a character.
    """
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def requires(tree: Tree) -> Iterator[Need]:
    """Yield the dependencies on resources of all values in the tree."""
    if type(tree) is str:  # most values are
        return iter(())
    needs: list[Need] = []
    _collect(tree, needs)
    return iter(needs)


def _collect(tree: Tree, needs: list[Need]) -> None:
    if isinstance(tree, dict):
        for value in tree.values():
            if type(value) is not str:  # most values are: nothing is in them
                _collect(value, needs)
    elif isinstance(tree, list):
        for value in tree:
            _collect(value, needs)
    elif isinstance(tree, Later):
        needs.extend(tree.requires)

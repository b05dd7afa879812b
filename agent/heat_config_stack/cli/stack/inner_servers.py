"""The servers inside of the resources of a template, as a hosts file names them: in nested stacks and in groups."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from heat_config_agent.diagnostics.words import meant
from heat_config_stack.definition import HOST, Definition
from heat_config_stack.lifecycle import validation
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records import placing
from heat_config_stack.records.store import Store
from heat_config_stack.resource.resource import Resource
from heat_config_stack.resource.types import Types
from heat_config_stack.resource_types.groups import ResourceGroup
from heat_config_stack.resource_types.members import Group
from heat_config_stack.resource_types.nested import StackResource

Why = tuple[str, str]
"""The reason why there is no such server, and a hint; both empty if there is one, or if it is not known yet."""

_NOTHING: Why = "", ""

_SERVERS = ("Server", "::Instance")
"""The endings of the types of servers."""


def is_server(type_: str) -> bool:
    """Return whether a type of resources is one of servers."""
    return type_ == HOST or type_.endswith(_SERVERS)


class Inner:
    """The servers inside the resources of a template. Values that are known only later count as valid."""

    def __init__(
        self, definition: Definition, types: Types, stack: Stack | None
    ) -> None:
        """Look into a definition of a stack, which is None if it does not exist yet."""
        self._definition, self._types, self._stack = definition, types, stack

    def missing(self, name: str) -> Why:
        """Return why there is no server at a path."""
        part, *rest = name.split("/")
        return self._within(self._definition, (part,), rest, [part])

    @functools.cached_property
    def _children(self) -> Mapping[tuple[str, ...], Definition]:
        """The definitions of all child stacks by their paths; of a group, the path of the first member."""
        return {
            tuple(
                str(word).partition("<")[0] for word in each.path if word != "resources"
            ): each.definition
            for each in validation.children(self._definition, self._types)
        }

    def _within(
        self,
        definition: Definition,
        key: tuple[str, ...],
        rest: Sequence[str],
        shown: list[str],
    ) -> Why:
        """Return why the last resource of a key, or its content, is not a server. `shown` is its path for people."""
        name = key[-1]
        if name not in definition.resources:
            problem = f"{'/'.join(shown[:-1])} has no resource {name!r}"
            return problem, meant(name, definition.resources)
        resource = self._resource(definition, name)
        if resource is None:
            return _NOTHING
        is_outer = isinstance(resource, StackResource)
        if not rest:
            wrong = (f"{'/'.join(shown)} is not a server", "")
            return _NOTHING if is_server(resource.type()) else wrong
        if not is_outer:
            return f"{'/'.join(shown)} has no resources inside", ""
        child, inner = self._children.get(key), rest[0]
        if child is None:
            return _NOTHING
        if isinstance(resource, Group):
            if why := self._no_member(resource, inner, shown):
                return why
            inner = next(iter(child.resources), inner)
        return self._within(child, (*key, inner), rest[1:], [*shown, rest[0]])

    def _resource(self, definition: Definition, name: str) -> Resource | None:
        try:
            return validation.unmade(definition, self._types).as_defined(name)
        except Exception:  # noqa: BLE001  # a mistake, which is reported elsewhere
            return None

    def _no_member(self, group: Group, name: str, shown: Sequence[str]) -> Why | None:
        """Return why a group has no member of a name; None if it has, or if that is known only later."""
        if not isinstance(group, ResourceGroup):
            return None  # others name their members as they like
        try:
            removes = bool(group.properties["removal_policies"])
            count = len(list(group.members(group.properties)))
        except Exception:  # noqa: BLE001  # a mistake, or a value that is known only later
            return None
        gone = self._removed("/".join(shown))
        numbers = [each for each in range(count + len(gone)) if str(each) not in gone]
        names = [str(each) for each in numbers[:count]]
        if removes or not names or name in names:
            return None
        few = f"{names[0]} to {names[-1]}" if names[1:] else names[0]
        return f"{'/'.join(shown)} has no member {name!r}", f"it has {few}"

    def _removed(self, path: str) -> set[str]:
        """Return the names that a group of the stack does not use again."""
        store = self._stack.world.store if self._stack is not None else None
        if not isinstance(store, Store):
            return set()
        kept = Store(store.folder, write=False)  # this one may be without resources
        for each in kept.resources.values():
            if placing.path_to(kept, each.id) == path:
                return set(map(str, each.data.get("removed") or ()))
        return set()

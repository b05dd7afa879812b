"""The attributes of a resource: their schemas, and the selection of a part by a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from heat_config_stack.resource.support import SupportStatus


class Schema:
    """The declaration of an attribute."""

    STRING, NUMBER, BOOLEAN, MAP, LIST, INTEGER = (
        "String",
        "Number",
        "Boolean",
        "Map",
        "List",
        "Integer",
    )
    TYPES = (STRING, NUMBER, BOOLEAN, MAP, LIST, INTEGER)
    CACHE_LOCAL, CACHE_NONE = "cache_local", "cache_none"

    def __init__(
        self,
        description: str | None = None,
        support_status: SupportStatus | None = None,
        cache_mode: str = CACHE_LOCAL,
        type: str | None = None,  # noqa: A002
    ) -> None:
        """Take the declaration. Values are never cached; `cache_mode` is ignored."""
        self.description, self.type, self.cache_mode = description, type, cache_mode
        self.support_status = support_status or SupportStatus()


def schemata(declared: Any) -> Mapping[str, Schema]:
    """Return the schemas of attributes, some of which may be declared by their descriptions. Raises TypeError."""
    if not isinstance(declared, Mapping):
        raise TypeError("the schemas of attributes must be a dict")
    if all(isinstance(each, Schema) for each in declared.values()):
        return declared
    if wrong := [
        name for name, each in declared.items() if not isinstance(each, Schema | str)
    ]:
        raise TypeError(
            f"the schema of the attribute {wrong[0]} must be an attributes.Schema"
        )
    return {
        name: each if isinstance(each, Schema) else Schema(each)
        for name, each in declared.items()
    }


SHOW = "show"
"""The attribute that every resource has: everything known about the physical resource."""


class Attributes(Mapping[str, Any]):
    """The attributes of one resource, computed on access."""

    def __init__(
        self, schema: Mapping[str, Schema], resolve: Callable[[str], Any]
    ) -> None:
        """Compute attributes with `resolve`."""
        self.schema, self._resolve = schema, resolve

    def __getitem__(self, key: str) -> Any:
        if key not in self.schema and key != SHOW:
            raise KeyError(key)
        return self._resolve(key)

    def __contains__(self, key: object) -> bool:
        return key in self.schema or key == SHOW

    def __iter__(self) -> Iterator[str]:
        return iter(self.schema)

    def __len__(self) -> int:
        return len(self.schema)


def select_from_attribute(value: Any, path: Sequence[Any]) -> Any:
    """Return the part of a value at a path of keys and indexes; None if the path leads nowhere."""
    for each in path:
        if isinstance(value, Mapping):
            value = value.get(each) if isinstance(each, str) else None
        elif isinstance(value, list | str) and isinstance(each, int):
            value = value[each] if -len(value) <= each < len(value) else None
        else:
            return None
    return value

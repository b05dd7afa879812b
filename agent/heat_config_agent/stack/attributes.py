"""What a resource tells of itself once it is there: the attributes that it declares, and where a path leads in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from heat_config_agent.stack.support import SupportStatus


class Schema:
    """What an attribute is declared to be."""

    STRING, NUMBER, BOOLEAN, MAP, LIST, INTEGER = "String", "Number", "Boolean", "Map", "List", "Integer"
    TYPES = (STRING, NUMBER, BOOLEAN, MAP, LIST, INTEGER)
    CACHE_LOCAL, CACHE_NONE = "cache_local", "cache_none"

    def __init__(
        self,
        description: str | None = None,
        support_status: SupportStatus | None = None,
        cache_mode: str = CACHE_LOCAL,
        type: str | None = None,  # noqa: A002
    ) -> None:
        """Take what it is about; nothing is kept of a value that was asked for, whatever `cache_mode` says."""
        self.description, self.type, self.cache_mode = description, type, cache_mode
        self.support_status = support_status or SupportStatus()


SHOW = "show"
"""The attribute that every resource has: all that is known of what it stands for."""


class Attributes(Mapping[str, Any]):
    """The attributes of one resource, each asked for when it is looked at."""

    def __init__(self, schema: Mapping[str, Schema], resolve: Callable[[str], Any]) -> None:
        """Look attributes up with `resolve`."""
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
    """Return what a path of keys and indexes leads to in a value; None where it leads nowhere."""
    for each in path:
        if isinstance(value, Mapping):
            value = value.get(each) if isinstance(each, str) else None
        elif isinstance(value, list | str) and isinstance(each, int):
            value = value[each] if -len(value) <= each < len(value) else None
        else:
            return None
    return value

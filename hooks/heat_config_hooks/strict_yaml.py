"""Reading YAML from elsewhere: as the JSON value that it stands for, and no further than anybody writes by hand.

Of YAML only what JSON can say is used: a date stays text, and no tag makes anything else. What is refused is refused in
one line, which names no part of the text itself: a password that nobody has quoted may be taken for a tag or an alias.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from heat_config_hooks import strict_json
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Any

LARGEST = 1_000_000
"""Values in a document at most, unless it is longer than that: a few lines of aliases can stand for any number."""

LONGEST_NUMBER = 1000
"""Digits of a number at most."""

_TOO_LONG = 10**LONGEST_NUMBER

_MERGE = "tag:yaml.org,2002:merge"

_QUOTED = r""" ?(['"])(?!<)[^'"]{4,}\1"""
"""A part of the text in a message; not a token of YAML's, as '<document start>', nor a character."""


def loads(text: str, *, texts: bool = False) -> object:
    """Return the JSON value that the text stands for; with `texts`, in lists and maps of nothing but text.

    Raises ValueError.
    """
    import yaml  # noqa: PLC0415  # 15 ms, for those who have YAML

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader) if texts else safe
    room = _Room(max(LARGEST, len(text)))

    class Loader(base):  # type: ignore[misc]  # which of the two it is depends on how PyYAML was built
        """YAML's values without those that JSON has not."""

        def flatten_mapping(self, node: Any) -> None:
            for key, merged in node.value:
                if key.tag == _MERGE:  # they multiply like aliases do, and PyYAML copies before anybody can count
                    for each in merged.value if isinstance(merged, yaml.SequenceNode) else [merged]:
                        if isinstance(each, yaml.MappingNode):
                            self.flatten_mapping(each)
                            room.take(len(each.value))
            super().flatten_mapping(node)

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    try:
        _check_depth(yaml.parse(text, Loader=safe))
        value = _json_value(yaml.load(text, Loader=Loader), room)  # noqa: S506  # a SafeLoader with fewer types
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}{re.sub(_QUOTED, '', str(error.problem or error.context))}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None
    except RecursionError:
        raise ValueError("it is nested too deeply, or in itself") from None
    except _Refused:
        raise
    except (ValueError, TypeError, AttributeError, LookupError):  # what PyYAML itself trips over
        raise ValueError("a value is not what its type says") from None
    strict_json.check(value)
    return value


class _Refused(ValueError):  # noqa: N818  # it is the document that was
    """A sentence of ours."""


@dataclass
class _Room:
    """How many more values a document may have."""

    left: int

    def take(self, number: int = 1) -> None:
        self.left -= number
        if self.left < 0:
            raise _Refused(f"with all its aliases it has over {LARGEST:,} values")


def _check_depth(events: Iterable[Any]) -> None:
    """Raise RecursionError where YAML is nested too deeply. libyaml goes down without a limit, and never comes back."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > strict_json.DEPTH + 2:  # the stream's and the document's own
            raise RecursionError


def _json_value(value: object, room: _Room) -> object:
    """Return the value with text for the keys of objects; refuse what JSON cannot say."""
    room.take()
    if isinstance(value, dict):
        return {_key(key): _json_value(each, room) for key, each in value.items()}
    if isinstance(value, list):
        return [_json_value(each, room) for each in value]
    if isinstance(value, int) and abs(value) >= _TOO_LONG:
        raise _Refused(f"a number of over {LONGEST_NUMBER} digits is no JSON value")
    if value is None or isinstance(value, str | int | float):
        return value
    raise _Refused(f"a value of the YAML type {type(value).__name__!r} has no counterpart in JSON")


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)

"""Text → document: JSON or YAML, with the place of every mistake."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from heat_config_agent.errors import UsageError
from heat_config_hooks import strict_json

LARGEST = 5_000_000
"""Values in a YAML document at most."""

LONGEST_NUMBER = 1000
"""Digits of a number at most."""


def load(text: str, name: str) -> object:
    """Return the JSON value that the text stands for. `name` says in messages what was read. Raises UsageError.

    What is JSON is read as JSON, ten times faster; all else as YAML, of which only what JSON can say is used: a date
    stays text.
    """
    try:
        return strict_json.loads(text)
    except json.JSONDecodeError as error:
        if name.endswith(".json") or (text.lstrip()[:1] in ("{", "[") and not _is_flow(text)):
            raise UsageError(f"cannot read {name}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    return _yaml(text, name)


def same(one: object, other: object) -> bool:
    """Whether two JSON values are the same. To Python, 1, 1.0 and true would be."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_flow(text: str) -> bool:
    """Whether text that begins like JSON is YAML in flow style."""
    try:
        _yaml(text, "")
    except UsageError:
        return False
    return True


def _yaml(text: str, name: str) -> object:
    import yaml  # noqa: PLC0415  # 15 ms, for those who write YAML

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # which of the two it is depends on how PyYAML was built
        """YAML's values without those that JSON has not."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    try:
        _check_depth(yaml.parse(text, Loader=base))
        value = _json_value(yaml.load(text, Loader=Loader), name, _Room(LARGEST))  # noqa: S506  # a SafeLoader with fewer types
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UsageError(f"cannot read {name}: {place}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"cannot read {name}: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise UsageError(f"cannot read {name}: it is nested too deeply, or in itself") from None
    except (ValueError, TypeError, AttributeError, LookupError) as error:  # what PyYAML itself trips over
        raise UsageError(f"cannot read {name}: a value is not what its type says: {error}") from None
    try:
        strict_json.check(value)
    except ValueError as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    return value


def _check_depth(events: Iterable[Any]) -> None:
    """Raise RecursionError where YAML is nested too deeply. libyaml goes down without a limit, and never comes back."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > strict_json.DEPTH + 2:  # the stream's and the document's own
            raise RecursionError


@dataclass
class _Room:
    """How many more values a document may have: a few lines of YAML can stand for as many as there are atoms."""

    left: int

    def take(self, name: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise UsageError(f"cannot read {name}: with all its aliases it has over {LARGEST:,} values")


def _json_value(value: object, name: str, room: _Room) -> object:
    """Return the value with text for the keys of objects; refuse what JSON cannot say."""
    room.take(name)
    if isinstance(value, dict):
        return {_key(key): _json_value(each, name, room) for key, each in value.items()}
    if isinstance(value, list):
        return [_json_value(each, name, room) for each in value]
    if isinstance(value, int) and abs(value) >= 10**LONGEST_NUMBER:
        raise UsageError(f"cannot read {name}: a number of over {LONGEST_NUMBER} digits is no JSON value")
    if value is None or isinstance(value, str | int | float):
        return value
    raise UsageError(
        f"cannot read {name}: a value of the YAML type {type(value).__name__!r} has no counterpart in JSON"
    )


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)

"""Text → document: JSON or YAML, with the place of every mistake."""

from __future__ import annotations

import json
from typing import Any

from heat_config_agent.errors import UsageError


def load(text: str, name: str) -> object:
    """Return the JSON value that the text stands for. `name` says in messages what was read. Raises UsageError.

    What is JSON is read as JSON, ten times faster; all else as YAML, of which only what JSON can say is used: a date
    stays text.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise UsageError(f"cannot read {name}: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        if name.endswith(".json") or (text.lstrip()[:1] in ("{", "[") and not _is_flow(text)):
            raise UsageError(f"cannot read {name}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    return _yaml(text, name)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON value")


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
        return _json_value(yaml.load(text, Loader=Loader), name)  # noqa: S506  # a SafeLoader with fewer types
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise UsageError(f"cannot read {name}: {place}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise UsageError(f"cannot read {name}: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise UsageError(f"cannot read {name}: it is nested too deeply, or in itself") from None


def _json_value(value: object, name: str) -> object:
    """Return the value with text for the keys of objects; refuse what JSON cannot say."""
    if isinstance(value, dict):
        return {_key(key): _json_value(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_json_value(each, name) for each in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124  # NaN
        raise UsageError(f"cannot read {name}: {value} is no JSON value")
    if value is None or isinstance(value, str | int | float):
        return value
    raise UsageError(
        f"cannot read {name}: a value of the YAML type {type(value).__name__!r} has no counterpart in JSON"
    )


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)

"""Reads the text of a document, JSON or YAML, and reports each mistake with its position."""

from __future__ import annotations

import json

from heat_config_agent.model.errors import UsageError
from heat_config_hooks import strict_json


def load(text: str, name: str, *, unique: bool = False) -> object:
    """Return the JSON value of a text in JSON or YAML. Messages call the text `name`. Raises UsageError.

    With `unique`, a key that is in a map twice is refused. Otherwise the last one counts, as everywhere in OpenStack.
    JSON is read as JSON, which is ten times faster. Of YAML, only the types of JSON are used: a date stays text.
    """
    try:
        return strict_json.loads(text, unique=unique)
    except json.JSONDecodeError as error:
        wrong = UsageError(
            f"cannot read {name}: line {error.lineno}, column {error.colno}: {error.msg}"
        )
    except ValueError as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    if name.endswith(".json"):
        raise wrong
    from heat_config_hooks import strict_yaml  # noqa: PLC0415  # most documents are JSON

    try:
        return strict_yaml.loads(text, unique=unique)
    except ValueError as error:
        if text.lstrip()[:1] in ("{", "["):
            # it may be YAML in flow style, but is not valid as that either
            raise wrong from None
        raise UsageError(f"cannot read {name}: {error}") from None


def same(first: object, second: object) -> bool:
    """Return True if two JSON values are the same. In Python alone, 1, 1.0 and true would be equal."""
    return first == second and json.dumps(first, sort_keys=True) == json.dumps(
        second, sort_keys=True
    )

"""Text → document: JSON or YAML, with the place of every mistake."""

from __future__ import annotations

import json

from heat_config_agent.errors import UsageError
from heat_config_hooks import strict_json, strict_yaml


def load(text: str, name: str) -> object:
    """Return the JSON value that the text stands for. `name` says in messages what was read. Raises UsageError.

    What is JSON is read as JSON, ten times faster; all else as YAML, of which only what JSON can say is used: a date
    stays text.
    """
    try:
        return strict_json.loads(text)
    except json.JSONDecodeError as error:
        wrong = UsageError(f"cannot read {name}: line {error.lineno}, column {error.colno}: {error.msg}")
    except ValueError as error:
        raise UsageError(f"cannot read {name}: {error}") from None
    if name.endswith(".json"):
        raise wrong
    try:
        return strict_yaml.loads(text)
    except ValueError as error:
        if text.lstrip()[:1] in ("{", "["):  # it may be YAML in flow style, but is no good as that either
            raise wrong from None
        raise UsageError(f"cannot read {name}: {error}") from None


def same(one: object, other: object) -> bool:
    """Whether two JSON values are the same. To Python, 1, 1.0 and true would be."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

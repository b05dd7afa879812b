"""The JSON Schemas that come with the hooks, and whether something is as they say."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import heat_config_hooks

FOLDER = Path(heat_config_hooks.__file__).parent / "schemas"


@functools.cache
def schema(name: str) -> dict[str, Any]:
    """Return the schema of that name."""
    value = json.loads((FOLDER / f"{name}.json").read_bytes())
    assert isinstance(value, dict)
    return value


@functools.cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


def wrong(name: str, value: object) -> list[str]:
    """Return what is wrong with a value that should be as the schema says."""
    return [
        f"{each.json_path}: {each.message}"[:500]
        for each in _validator(name).iter_errors(value)
    ]

"""Names of inputs as variables of the environment (chapter 13 of the specification)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from heat_config_stack.definition import Tree


def variable(name: str) -> str:
    """Return the name of the variable for an input, with underscores for characters that a variable cannot have."""
    if name.isascii() and name.isidentifier():
        return name
    replaced = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{replaced}" if replaced[:1].isdigit() else replaced


def with_variables(inputs: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return inputs, and again by the names of their variables: `db-port` is also `db_port`."""
    renamed: dict[str, Tree] = {}
    for name, value in inputs.items():
        renamed.setdefault(variable(name), value)
    return {**renamed, **inputs}

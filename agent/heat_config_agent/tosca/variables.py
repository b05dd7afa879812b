"""Names as scripts have them: those of variables of the environment (chapter 13 of the specification)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from heat_config_agent.stack.definition import Tree


def variable(name: str) -> str:
    """Return a name as it may begin the name of a variable."""
    if name.isascii() and name.isidentifier():
        return name
    made = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{made}" if made[:1].isdigit() else made


def with_variables(inputs: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return inputs with those whose names cannot be variables under other names as well: `db_port` for `db-port`."""
    renamed: dict[str, Tree] = {}
    for name, value in inputs.items():
        renamed.setdefault(variable(name), value)
    return {**renamed, **inputs}

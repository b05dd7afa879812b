"""The hooks: what carries out a deployment with the tool it names. They know nothing of the agent.

A hook is a module with the two functions of `protocol.Hook` and one row in `HOOKS`. `hooks/README.md` is the protocol.
"""

from __future__ import annotations

import importlib
from typing import cast

from heat_config_hooks.protocol import Hook

HOOKS = {
    "script": "heat_config_hooks.script",
}
"""Tool → module. A tool's name comes from remote metadata: nothing is ever imported by that name."""


def load(tool: str) -> Hook:
    """Return the hook for a tool in `HOOKS`."""
    return cast("Hook", importlib.import_module(HOOKS[tool]))

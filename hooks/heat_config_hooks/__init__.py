"""The hooks: what carries out a deployment with the tool it names. They know nothing of the agent.

A hook is a module that is a `protocol.Hook`, and one row in `HOOKS`. `hooks/README.md` is the protocol.
"""

from __future__ import annotations

import importlib
from typing import cast

from heat_config_hooks.protocol import Hook

HOOKS = {
    "ansible": "heat_config_hooks.ansible",
    "apply-config": "heat_config_hooks.apply_config",
    "cfn-init": "heat_config_hooks.cfn_init",
    "chef": "heat_config_hooks.chef",
    "docker-cmd": "heat_config_hooks.docker_cmd",
    "docker-compose": "heat_config_hooks.docker_compose",
    "hiera": "heat_config_hooks.hiera",
    "json-file": "heat_config_hooks.json_file",
    "kubelet": "heat_config_hooks.kubelet",
    "puppet": "heat_config_hooks.puppet",
    "python": "heat_config_hooks.python",
    "salt": "heat_config_hooks.salt",
    "script": "heat_config_hooks.script",
    "systemd-unit": "heat_config_hooks.systemd_unit",
}
"""Tool → module. A tool's name comes from remote metadata: nothing is ever imported by that name."""


def load(tool: str) -> Hook:
    """Return the hook for a tool in `HOOKS`."""
    return cast("Hook", importlib.import_module(HOOKS[tool]))

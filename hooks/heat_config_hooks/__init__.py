"""The hooks: what carries out a deployment with the tool it names. They know nothing of the agent.

A hook is a module that is a `protocol.Hook`, and one row in `HOOKS`. `hooks/README.md` is the protocol.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.protocol import Hook

HOOKS = {
    "ansible": "heat_config_hooks.tools.ansible",
    "apply-config": "heat_config_hooks.tools.apply_config",
    "cfn-init": "heat_config_hooks.tools.cfn_init",
    "chef": "heat_config_hooks.tools.chef",
    "docker-cmd": "heat_config_hooks.tools.docker_cmd",
    "docker-compose": "heat_config_hooks.tools.docker_compose",
    "hiera": "heat_config_hooks.tools.hiera",
    "json-file": "heat_config_hooks.tools.json_file",
    "kubelet": "heat_config_hooks.tools.kubelet",
    "puppet": "heat_config_hooks.tools.puppet",
    "python": "heat_config_hooks.tools.python",
    "salt": "heat_config_hooks.tools.salt",
    "script": "heat_config_hooks.tools.script",
    "systemd-unit": "heat_config_hooks.tools.systemd_unit",
}
"""Tool → module. A tool's name comes from remote metadata: nothing is ever imported by that name."""


def load(tool: str) -> Hook:
    """Return the hook for a tool in `HOOKS`."""
    import importlib  # noqa: PLC0415  # not for who only wants to know which there are

    return importlib.import_module(HOOKS[tool])

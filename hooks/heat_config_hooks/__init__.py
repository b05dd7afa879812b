"""The built-in hooks, each of which carries out deployments with one tool. They do not depend on the agent.

A hook is a module that implements `protocol.Hook`, and a row in `HOOKS`. `hooks/README.md` describes the protocol.
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
    "tosca": "heat_config_hooks.tools.tosca",
}
"""Tool → module. The name of a tool comes from remote metadata, so nothing is imported by that name itself."""


def load(tool: str) -> Hook:
    """Return the hook of a tool in `HOOKS`."""
    import importlib  # noqa: PLC0415  # callers that only need the names load no more

    return importlib.import_module(HOOKS[tool])

"""The built-in hooks, each of which carries out deployments with one tool. They do not depend on the agent.

A hook is a module that implements `protocol.Hook`, and a row in `HOOKS`. `hooks/README.md` says how to write one.
The rows of `heat_config_compat`, the hooks for older tools, are among them where that package is installed.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_hooks.protocol import Hook

HOOKS = {
    "ansible": "heat_config_hooks.tools.ansible",
    "docker-cmd": "heat_config_hooks.tools.docker_cmd",
    "docker-compose": "heat_config_hooks.tools.docker_compose",
    "json-file": "heat_config_hooks.tools.json_file",
    "puppet": "heat_config_hooks.tools.puppet",
    "python": "heat_config_hooks.tools.python",
    "quadlet": "heat_config_hooks.tools.quadlet",
    "salt": "heat_config_hooks.tools.salt",
    "script": "heat_config_hooks.tools.script",
    "systemd-unit": "heat_config_hooks.tools.systemd_unit",
    "tosca": "heat_config_hooks.tools.tosca",
}
"""Tool → module. The name of a tool comes from remote metadata, so nothing is imported by that name itself."""

COMPAT = frozenset({"apply-config", "cfn-init", "chef", "hiera", "kubelet"})
"""The tools of `heat_config_compat`, whether it is installed or not."""

COMPAT_PACKAGE = "heat-config-agent-compat"
"""The package that contains `heat_config_compat`."""

try:
    from heat_config_compat import HOOKS as _COMPAT_HOOKS
except ModuleNotFoundError:
    pass
else:
    HOOKS |= _COMPAT_HOOKS


def load(tool: str) -> Hook:
    """Return the hook of a tool in `HOOKS`. Raises MissingTool if its package is not installed."""
    if problem := absent(tool):
        from heat_config_hooks.errors import MissingTool  # noqa: PLC0415

        raise MissingTool(problem)
    __import__(HOOKS[tool])  # `importlib` is one more module to load
    return sys.modules[HOOKS[tool]]


def absent(tool: str) -> str:
    """Return which package to install for a tool; empty if its hook is installed, or if there is no such hook."""
    if tool in HOOKS or tool not in COMPAT:
        return ""
    return f"the hook for the tool {tool!r} is not installed; install the package {COMPAT_PACKAGE}"

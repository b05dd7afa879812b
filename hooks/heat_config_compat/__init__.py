"""The hooks for older tools, in a package of their own: heat-config-agent-compat.

`heat_config_hooks` adds these rows to its own where Python finds this package. There is no other connection: the
modules are built-in hooks like the others, and use `heat_config_hooks`.
"""

HOOKS = {
    "apply-config": "heat_config_compat.apply_config",
    "cfn-init": "heat_config_compat.cfn_init",
    "chef": "heat_config_compat.chef",
    "hiera": "heat_config_compat.hiera",
    "kubelet": "heat_config_compat.kubelet",
}
"""Tool → module, as in `heat_config_hooks.HOOKS`."""

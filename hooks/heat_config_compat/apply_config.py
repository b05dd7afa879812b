"""The `apply-config` hook: runs os-apply-config, which renders the templates of the machine.

As in heat-agents' hook of the same name, the config is ignored, and may be empty.
os-apply-config has its own metadata and templates, `$OS_CONFIG_FILES` and `$OS_CONFIG_APPLIER_TEMPLATES`.
"""

from __future__ import annotations

from heat_config_hooks import programs, protocol
from heat_config_hooks.needs import APPLY_CONFIG, NEEDS
from heat_config_hooks.reply import Reply

ABOUT = protocol.About(
    config="none: it is ignored",
    needs=NEEDS["apply-config"],
    variables=(
        "HEAT_APPLY_CONFIG_CMD",
        "HEAT_APPLY_CONFIG_OUTPUTS",
        "OS_CONFIG_FILES",
        "OS_CONFIG_FILES_PATH",
        "OS_CONFIG_APPLIER_TEMPLATES",
    ),
    tested="real os-apply-config",
)


def prepare(
    request: protocol.Request, place: protocol.Workplace
) -> protocol.Command | Reply:
    """Return the command that runs os-apply-config."""
    argv = programs.find(APPLY_CONFIG, place.environment)
    outputs = protocol.clear_outputs(request, place)
    return protocol.Command(
        argv=argv, cwd=place.run, environment={"heat_outputs_path": str(outputs)}
    )


finish = protocol.collect

"""The `apply-config` hook: it runs os-apply-config, which renders the machine's templates.

As heat-agents' hook of that name it reads nothing of the deployment: os-apply-config has metadata and templates of its
own, `$OS_CONFIG_FILES` and `$OS_CONFIG_APPLIER_TEMPLATES`. So it is run whatever the config is, empty or not.
"""

from __future__ import annotations

from heat_config_hooks import programs, protocol
from heat_config_hooks.reply import Reply

PROGRAM = programs.Program(
    names=("os-apply-config",),
    variable="HEAT_APPLY_CONFIG_CMD",
    install="install os-apply-config («pip install os-apply-config» or «apt install python3-os-apply-config»)",
)

ABOUT = protocol.About(
    config="none: it is not looked at",
    program=PROGRAM,
    variables=(
        "HEAT_APPLY_CONFIG_CMD",
        "HEAT_APPLY_CONFIG_OUTPUTS",
        "OS_CONFIG_FILES",
        "OS_CONFIG_FILES_PATH",
        "OS_CONFIG_APPLIER_TEMPLATES",
    ),
    tested="real os-apply-config",
)


def prepare(request: protocol.Request, place: protocol.Workplace) -> protocol.Command | Reply:
    """Say how to run os-apply-config."""
    argv = programs.find(PROGRAM, place.environment)
    outputs = protocol.clear_outputs(request, place)
    return protocol.Command(argv=argv, cwd=place.run, environment={"heat_outputs_path": str(outputs)})


finish = protocol.collect

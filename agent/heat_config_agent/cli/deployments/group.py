"""`heat-config-agent deployment`: the daily commands about deployments, for those who begin with the noun."""

from __future__ import annotations

from heat_config_agent.cli import state_options


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    from heat_config_agent.cli.deployments import (  # noqa: PLC0415  # none of them is needed for the others
        log,
        outputs,
        requests,
        show,
        stop,
    )

    below = state_options.group(
        commands,
        "deployment",
        "list deployments, and show, stop, repeat or forget them",
    )
    outputs.add_list(below)
    show.add(below)
    log.add(below)
    outputs.add(below)
    stop.add(below)
    requests.add_retry(below)
    requests.add_forget(below)

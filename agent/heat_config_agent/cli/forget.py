"""`heat-config-agent forget ID`: Remove everything that is kept of a deployment.

If the deployment is still in the metadata, it counts as new and runs again.
"""

from __future__ import annotations

import argparse

from heat_config_agent.cli import requests, state_options
from heat_config_agent.model.entry import State
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.state.requests import Wish


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(commands, "forget", "remove everything that is kept of a deployment", __doc__)
    state_options.add_id(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Request it."""
    settings = state_options.of(options)
    if requests.take_over(settings, options.id):
        return ExitCode.OK
    entry = state_options.entry(settings, options.id)
    if entry.state is State.RUNNING:
        raise AgentError(
            f"{entry.title} is running, and cannot be forgotten",
            hint=f"`{settings.command('log', '-f', entry.id)}` follows it; forget it when it has ended",
        )
    return requests.wish(settings, entry, Wish.FORGET)

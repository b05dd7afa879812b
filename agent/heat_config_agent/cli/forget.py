"""`heat-config-agent forget ID`: Remove everything that is kept of deployments.

If a deployment is still in the metadata or in the followed document, it counts as new and runs again. One of a stack
counts as never made: the next action of the stack runs it for CREATE.
"""

from __future__ import annotations

import argparse

from heat_config_agent.cli import named, requests, state_options
from heat_config_agent.model.entry import State
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.state.requests import Wish


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(commands, "forget", "remove everything that is kept of deployments", __doc__)
    state_options.add_ids(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Request it. A deployment that cannot be forgotten holds back all."""
    settings = state_options.of(options)
    begun = requests.begun_elsewhere(settings, options.ids)
    chosen = [named.find(settings, each, options.config) for each in options.ids if each not in begun]
    for each in chosen:
        if each.entry.state is State.RUNNING:
            words = each.title if each.follows or each.stack else each.entry.id
            raise AgentError(
                f"{each.title} is running, and cannot be forgotten",
                hint=f"`{settings.command('log', '-f', words)}` follows it; forget it when it has ended",
            )
    requests.take_over(settings, begun)
    requests.wish(settings, chosen, Wish.FORGET)
    return ExitCode.OK

"""`heat-config-agent forget ID`: remove all that is kept of a deployment.

If it is still in the metadata, it is new again.
"""

from __future__ import annotations

import argparse

from heat_config_agent.asked import Wish
from heat_config_agent.cli import chosen, wishing
from heat_config_agent.errors import AgentError
from heat_config_agent.model import State


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "forget", "remove all that is kept of it", __doc__)
    chosen.add_id(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask for it."""
    given = chosen.of(options)
    entry = chosen.entry(given, options.id)
    if entry.state is State.RUNNING:
        raise AgentError(
            f"{entry.name} is running, and cannot be forgotten",
            hint=f"`{given.command('log', '-f', entry.id)}` follows it; forget it once it has ended",
        )
    return wishing.wish(given, entry, Wish.FORGET)

"""`heat-config-agent retry ID`: have a deployment run again, or only its result sent again."""

from __future__ import annotations

import argparse

from heat_config_agent.asked import Wish
from heat_config_agent.cli import chosen, wishing
from heat_config_agent.errors import AgentError
from heat_config_agent.model import UNDELIVERED, State

_WHY = {
    State.SIGNALLED: "it was delivered",
    State.UNASKED: "nobody has asked for it",
}


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(commands, "retry", "have it run, or its result sent, again", __doc__)
    chosen.add_id(parser)
    parser.add_argument("--signal", action="store_true", help="send a result that was not delivered once more")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask for it. The next run that has the deployment in its metadata does it."""
    given = chosen.of(options)
    entry = chosen.entry(given, options.id)
    if entry.state is State.RUNNING:
        raise AgentError(f"{entry.name} is running", hint=f"`{given.command('log', '-f', entry.id)}` follows it")
    if options.signal and entry.state not in UNDELIVERED:
        raise AgentError(
            f"there is no result of {entry.name} to be sent again: {_WHY.get(entry.state, 'it has none yet')}"
        )
    return wishing.wish(given, entry, Wish.SEND if options.signal else Wish.AGAIN)

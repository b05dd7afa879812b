"""`heat-config-agent retry ID`: Run a deployment again, or only send its result again."""

from __future__ import annotations

import argparse

from heat_config_agent.cli import requests, state_options
from heat_config_agent.deployments import cleanup
from heat_config_agent.model.entry import UNDELIVERED, State
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.state.requests import Wish

_WHY = {
    State.SIGNALLED: "it has been delivered",
    State.UNASKED: "its deployment names no address for a result",
}

_HINT = "if the stack still waits, its server has the result: see «Results» in docs/troubleshoot.md"


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(commands, "retry", "run a deployment again, or send its result again", __doc__)
    state_options.add_id(parser)
    parser.add_argument("--signal", action="store_true", help="only send the result again, if it was not delivered")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Request it: the next run whose metadata has the deployment carries it out."""
    settings = state_options.of(options)
    if not options.signal and requests.take_over(settings, options.id):
        return ExitCode.OK
    entry = state_options.entry(settings, options.id)
    if entry.state is State.RUNNING:
        raise AgentError(f"{entry.title} is running", hint=f"`{settings.command('log', '-f', entry.id)}` follows it")
    if entry.left_at is not None and not options.signal and entry.action != cleanup.ACTION:
        raise AgentError(
            f"cannot retry {entry.title}: the deployment is no longer in the metadata",
            hint="let the stack update it, or apply a document that has it",
        )
    if options.signal and entry.state not in UNDELIVERED:
        raise AgentError(
            f"cannot send the result of {entry.title} again: {_WHY.get(entry.state, 'there is none yet')}",
            hint=_HINT if entry.state is State.SIGNALLED else "",
        )
    return requests.wish(settings, entry, Wish.SEND if options.signal else Wish.AGAIN)

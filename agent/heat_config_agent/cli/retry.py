"""`heat-config-agent retry ID`: Run deployments again, or only send their results again.

A deployment of a followed document runs when the revision is carried out again, which this requests too. One of a stack
runs in the next action of the stack.
"""

from __future__ import annotations

import argparse

from heat_config_agent.cli import named, requests, state_options
from heat_config_agent.deployments import cleanup
from heat_config_agent.model.entry import UNDELIVERED, State
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state.requests import Wish

_WHY = {
    State.SIGNALLED: "it has been delivered",
    State.UNASKED: "its deployment names no address for a result",
}

_HINT = "if the stack still waits, its server has the result: see «Results» in docs/troubleshoot.md"


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(commands, "retry", "run deployments again, or send their results again", __doc__)
    state_options.add_ids(parser)
    parser.add_argument("--signal", action="store_true", help="only send the result again, if it was not delivered")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Request it: the next run whose metadata has the deployment carries it out. One that cannot be holds back all."""
    settings = state_options.of(options)
    begun = set() if options.signal else requests.begun_elsewhere(settings, options.ids)
    chosen = [named.find(settings, each, options.config) for each in options.ids if each not in begun]
    for each in chosen:
        _check(settings, each, signal=options.signal)
    requests.take_over(settings, begun)
    requests.wish(settings, chosen, Wish.SEND if options.signal else Wish.AGAIN)
    return ExitCode.OK


def _check(settings: Settings, target: named.Named, *, signal: bool) -> None:
    """Raise AgentError if a deployment cannot be run again, or its result not be sent again."""
    entry = target.entry
    if entry.state is State.RUNNING:
        words = target.title if target.follows or target.stack else entry.id
        raise AgentError(f"{target.title} is running", hint=f"`{settings.command('log', '-f', words)}` follows it")
    if signal and target.stack:
        raise AgentError(f"cannot send the result of {target.title} again: the stack has it")
    if entry.left_at is not None and not signal and not target.stack and entry.action != cleanup.ACTION:
        raise AgentError(
            f"cannot retry {target.title}: the deployment is no longer in the metadata",
            hint="let the stack update it, or apply a document that has it",
        )
    if signal and entry.state not in UNDELIVERED:
        raise AgentError(
            f"cannot send the result of {target.title} again: {_WHY.get(entry.state, 'there is none yet')}",
            hint=_HINT if entry.state is State.SIGNALLED else "",
        )

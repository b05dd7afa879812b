"""`heat-config-agent pause`, `resume` and `poke`: requests to the running agent as a whole."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.command_line import Option, seconds
from heat_config_agent.deployments import plan
from heat_config_agent.model.errors import AgentError, ExitCode, UsageError
from heat_config_agent.state import agents, lock, requests

_PAUSE = """: Begin nothing new until `heat-config-agent resume`, or for the time of --for. This also holds after a
restart or a reboot, for heat-config-apply, and for the commands that change stacks. Runs and actions of stacks that
have begun go on, results are delivered, and sources are asked. --for goes by the machine's clock. Another pause
replaces the one before, with its end.
"""
_RESUME = ": End a pause: deployments begin again."
_POKE = ": Make the running agent ask its sources now, and send the results that wait for their next attempt."


_STATE_EXIT_CODES = """\
exit codes:
  0  {well}
  1  the agent is running as another user, so it could not be told
  2  bad usage or configuration, or a state directory that cannot be used
"""
_POKE_EXIT_CODES = """\
exit codes:
  0  the agent has been told
  1  no agent is running, or it runs as another user
  2  bad usage or configuration
"""


_FOR = Option(
    "--for",
    "end the pause by itself after this time, like 90s, 30m or 2h",
    "TIME",
    read=seconds,
)


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    paused = _STATE_EXIT_CODES.format(well="the agent is paused")
    parser = state_options.command(
        commands, "pause", "begin nothing new until resume", _PAUSE, epilog=paused
    )
    parser.add_argument(
        "--reason",
        default="no reason is given",
        metavar="TEXT",
        help="the reason, which status and doctor show",
    )
    _FOR.add(parser)
    parser.set_defaults(run=pause)
    resumed = _STATE_EXIT_CODES.format(well="the agent is not paused, or no longer")
    parser = state_options.command(
        commands, "resume", "end a pause", _RESUME, epilog=resumed
    )
    parser.set_defaults(run=resume)
    parser = state_options.command(
        commands, "poke", "make the agent poll now", _POKE, epilog=_POKE_EXIT_CODES
    )
    parser.set_defaults(run=poke)


def pause(options: argparse.Namespace) -> int:
    """Pause the agent."""
    settings = state_options.of(options)
    reason = " ".join(options.reason.split())
    if not reason:
        raise UsageError(
            "the reason of the pause is empty", hint="give it with --reason"
        )
    limit = vars(options)[_FOR.variable]
    if limit == 0:
        raise UsageError(
            "a pause cannot last 0 seconds",
            hint="give a longer time with --for, or leave it out",
        )
    until = None if limit is None else time.time() + limit
    requests.pause(settings.state, reason, until)
    wake(settings.state)
    paused = "paused" if until is None else f"paused until {plan.clock(until)}"
    earlier = "" if until is None else " earlier"
    terminal.say(
        f"{paused}: {terminal.line(reason)}; `{terminal.line(settings.command('resume'))}` ends it{earlier}"
    )
    return ExitCode.OK


def resume(options: argparse.Namespace) -> int:
    """End the pause."""
    state = state_options.of(options).state
    if not requests.resume(state):
        terminal.say("the agent was not paused")
        return ExitCode.OK
    terminal.say("resumed" if wake(state) else "resumed; no agent is running")
    return ExitCode.OK


def poke(options: argparse.Namespace) -> int:
    """Make the running agent ask its sources now."""
    settings = state_options.of(options)
    state = settings.state
    process = wake(state)
    if process is None:
        elsewhere = agents.hint(state, settings.options, os.environ, "poke")
        unit = (
            f"heat-config-agent@{agents.user_name(os.geteuid())}"
            if os.geteuid()
            else "heat-config-agent"
        )
        start = "" if settings.options else f"start it: `systemctl start {unit}`"
        raise AgentError(f"no agent is running on {state}", hint=elsewhere or start)
    terminal.say(f"the agent (process {process}) asks its sources now")
    return ExitCode.OK


def wake(state: Path) -> int | None:
    """Make the daemon look for requests at once; return its process id, or None if no daemon is running."""
    holder = lock.holder(state)
    if holder is None or holder[1] != lock.DAEMON:
        return None
    process = holder[0]
    try:
        os.kill(process, signal.SIGUSR1)
    except ProcessLookupError:  # it has just ended
        return None
    except PermissionError as error:
        hint = "run the command as that user, or as root"
        raise AgentError(
            f"the agent (process {process}) runs as another user", hint=hint
        ) from error
    return process

"""`heat-config-agent pause`, `resume` and `poll`: requests to the running agent as a whole."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.cli.command_line import Option, seconds
from heat_config_agent.model import wording
from heat_config_agent.model.errors import (
    AgentError,
    ExitCode,
    NotFoundError,
    UsageError,
)
from heat_config_agent.state import agents, asked, lock, requests

_PAUSE = """: Begin nothing new until `heat-config-agent resume`, or for the time of --for. This also holds after a
restart or a reboot, for heat-config-apply, and for the commands that change stacks. Runs and actions of stacks that
have begun go on, results are delivered, and sources are asked. --for goes by the machine's clock. Another pause
replaces the one before, with its end.
"""
_RESUME = ": End a pause: deployments begin again."
_POLL = ": Make the running agent ask its sources now, and send the results that wait for their next attempt."


_STATE_EXIT_CODES = """\
exit codes:
  0  {well}
  1  the agent is running as another user, so it could not be told
  2  bad usage or settings
  10  a state directory that cannot be used
"""
_POLL_EXIT_CODES = """\
exit codes:
  0  the agent has been told
  1  it runs as another user
  2  bad usage or settings
  8  no agent is running
"""


_FOR = Option(
    "--for",
    "end the pause by itself after this time",
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
    state_options.add_json(parser)
    parser.set_defaults(run=pause, kind="pause")
    resumed = _STATE_EXIT_CODES.format(well="the agent is not paused, or no longer")
    parser = state_options.command(
        commands, "resume", "end a pause", _RESUME, epilog=resumed
    )
    state_options.add_json(parser)
    parser.set_defaults(run=resume, kind="pause")
    parser = state_options.command(
        commands, "poll", "make the agent poll now", _POLL, epilog=_POLL_EXIT_CODES
    )
    state_options.add_json(parser)
    parser.set_defaults(run=poll, kind="poll")


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
    process = wake(settings.state)
    if options.json:
        since = asked.paused(settings.state)
        envelope.result(
            _values(process, paused=True, reason=reason, until=until)
            | {"since": wording.stamp(since[1] if since else None)}
        )
        return ExitCode.OK
    paused = "paused" if until is None else f"paused until {terminal.moment(until)}"
    earlier = "" if until is None else " earlier"
    terminal.say(
        f"{paused}: {terminal.line(reason)}; `{terminal.line(settings.command('resume'))}` ends it{earlier}"
    )
    return ExitCode.OK


def resume(options: argparse.Namespace) -> int:
    """End the pause."""
    state = state_options.of(options).state
    was_paused = requests.resume(state)
    process = wake(state) if was_paused else _daemon(state)
    if options.json:
        envelope.result(_values(process, paused=False))
    elif not was_paused:
        terminal.say("the agent was not paused")
    else:
        terminal.say("resumed" if process else "resumed; no agent is running")
    return ExitCode.OK


def _values(
    process: int | None,
    *,
    paused: bool,
    reason: str | None = None,
    until: float | None = None,
) -> dict[str, object]:
    return {
        "paused": paused,
        "reason": reason,
        "since": None,
        "until": wording.stamp(until),
        "process": process,
    }


def poll(options: argparse.Namespace) -> int:
    """Make the running agent ask its sources now."""
    settings = state_options.of(options)
    state = settings.state
    process = wake(state)
    if process is None:
        elsewhere = agents.hint(state, settings.options, os.environ, "poll")
        unit = (
            f"heat-config-agent@{agents.user_name(os.geteuid())}"
            if os.geteuid()
            else "heat-config-agent"
        )
        start = "" if settings.options else f"start it: `systemctl start {unit}`"
        raise NotFoundError(
            f"no agent is running on {state}",
            hint=elsewhere or start,
            subject=("agent", str(state)),
        )
    if options.json:
        envelope.result({"process": process})
    else:
        terminal.say(f"the agent (process {process}) asks its sources now")
    return ExitCode.OK


def wake(state: Path) -> int | None:
    """Make the daemon look for requests at once; return its process id, or None if no daemon is running."""
    process = _daemon(state)
    if process is None:
        return None
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


def _daemon(state: Path) -> int | None:
    holder = lock.holder(state)
    return holder[0] if holder is not None and holder[1] == lock.DAEMON else None

"""`pause`, `resume` and `poke`: what people tell an agent that is running."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

from heat_config_agent import asked, lock
from heat_config_agent.cli import chosen, terminal
from heat_config_agent.errors import AgentError, ExitCode, UsageError

_PAUSE = """: Begin nothing new until `heat-config-agent resume`: not now, not after a restart or a reboot, and not by
heat-config-apply. What runs goes on; results are delivered, and sources are asked.
"""
_RESUME = ": Begin again what `heat-config-agent pause` has held up."
_POKE = ": Have the agent that is running ask its sources now, and send what waits to be sent."


_STATE_EXIT_CODES = """\
exit codes:
  0  {well}
  1  the agent is running, but as another user: it cannot be told
  2  bad usage or configuration, or a state directory that cannot be used
"""
_POKE_EXIT_CODES = """\
exit codes:
  0  the agent has been told
  1  no agent is running, or it is another user's
  2  bad usage or configuration
"""


def add(commands: chosen.Commands) -> None:
    """Declare the commands."""
    paused = _STATE_EXIT_CODES.format(well="it is paused")
    parser = chosen.command(commands, "pause", "begin nothing new until told to", _PAUSE, epilog=paused)
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, for everybody who asks")
    parser.set_defaults(run=pause)
    resumed = _STATE_EXIT_CODES.format(well="it is not, or no longer, paused")
    parser = chosen.command(commands, "resume", "begin things again", _RESUME, epilog=resumed)
    parser.set_defaults(run=resume)
    parser = chosen.command(commands, "poke", "have the sources asked now", _POKE, epilog=_POKE_EXIT_CODES)
    parser.set_defaults(run=poke)


def pause(options: argparse.Namespace) -> int:
    """Have nothing new begun."""
    given = chosen.of(options)
    reason = " ".join(options.reason.split())
    if not reason:
        raise UsageError("a pause needs a reason", hint="say why with --reason")
    asked.pause(given.state, reason)
    wake(given.state)
    terminal.say(f"paused: {terminal.line(reason)}; `{terminal.line(given.command('resume'))}` ends it")
    return ExitCode.OK


def resume(options: argparse.Namespace) -> int:
    """Have things begun again."""
    state = chosen.of(options).state
    if not asked.resume(state):
        terminal.say("it was not paused")
        return ExitCode.OK
    terminal.say("resumed" if wake(state) else "resumed; no agent is running")
    return ExitCode.OK


def poke(options: argparse.Namespace) -> int:
    """Have the sources asked now."""
    state = chosen.of(options).state
    process = wake(state)
    if process is None:
        raise AgentError(f"no agent is running on {state}", hint="start it: `systemctl start heat-config-agent`")
    terminal.say(f"process {process} asks its sources now")
    return ExitCode.OK


def wake(state: Path) -> int | None:
    """Have the daemon look at once; return its process, None where none is running."""
    found = lock.holder(state)
    if found is None or found[1] != lock.DAEMON:
        return None
    try:
        os.kill(found[0], signal.SIGUSR1)
    except ProcessLookupError:  # it has ended this moment
        return None
    except PermissionError as error:
        raise AgentError(f"process {found[0]}, which is the agent, is somebody else's", hint="be that user") from error
    return found[0]

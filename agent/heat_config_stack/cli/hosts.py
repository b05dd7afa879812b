"""`heat-config-agent hosts`: Check the hosts of a hosts file, which `--hosts` names for the servers of a stack."""

from __future__ import annotations

import argparse

from heat_config_agent.cli import state_options
from heat_config_agent.model.errors import UsageError

_SESSION = """\
: Carry out the deployments of a stack of another machine. Only heat-config-apply starts it there, by ssh, and speaks
with it over its standard input and output.
"""

_SESSION_CODES = """\
exit codes:
  0  the other side has ended the session
  1  the session was refused
"""


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    parser = state_options.stateless(
        commands,
        "hosts",
        "check the hosts of servers",
        (__doc__ or "").partition(": ")[2],
    )
    inner = parser.add_subparsers(metavar="COMMAND", title="commands")
    session = state_options.command(
        inner, "session", "", _SESSION, epilog=_SESSION_CODES
    )
    session.set_defaults(run=serve)


def serve(options: argparse.Namespace) -> int:
    """Carry out the deployments of a stack of another machine."""
    import sys  # noqa: PLC0415  # only for this check

    if sys.stdin.isatty():
        raise UsageError(
            "a session is for a program on another machine, which speaks with it",
            hint="heat-config-apply --hosts starts it",
        )
    from heat_config_stack.hosts import far_side  # noqa: PLC0415  # slow to load

    reader, writer = far_side.inherited()
    return far_side.run(state_options.of(options), reader, writer)

"""`heat-config-agent`: what ran, runs and waits on this machine."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from heat_config_agent import __version__
from heat_config_agent.cli import chosen
from heat_config_agent.errors import ExitCode

COMMANDS = {
    "run": "run",
    "status": "status",
    "show": "show",
    "log": "log",
    "retry": "retry",
    "forget": "forget",
    "prune": "prune",
    "pause": "pausing",
    "resume": "pausing",
    "poke": "pausing",
    "config": "config",
    "doctor": "doctor",
    "hooks": "hooks",
    "stack": "stack",
    "template": "template",
    "migrate": "migrate",
}
"""Command → module beside this one, in the order of `--help`."""

_DESCRIPTION = """\
Run the agent of this machine, and see and steer what it does. Only run and doctor ask Heat: all else is about what is
on this machine, and works with Heat away. To apply a document, use heat-config-apply.
"""

_EPILOG = """\
ID is a deployment's id, a beginning of it that no other has, or its name; of several with one name, show and log take
the newest.

"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    declared = parser(arguments[0] if arguments else "")
    options = declared.parse_args(arguments)
    if not hasattr(options, "run"):
        declared.print_help()
        return ExitCode.USAGE
    code: int = options.run(options)
    return code


def parser(first: str = "") -> argparse.ArgumentParser:
    """Declare the commands and their options: of the one that the line begins with alone, or else of all.

    The manual page and the completion of shells are made of it, too.
    """
    parser = argparse.ArgumentParser(
        prog="heat-config-agent",
        description=_DESCRIPTION,
        epilog=_EPILOG + chosen.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"heat-config-agent {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    named = COMMANDS.get(first)
    for module in [named] if named else dict.fromkeys(COMMANDS.values()):  # one loads much faster than all
        importlib.import_module(f"heat_config_agent.cli.{module}").add(commands)
    return parser

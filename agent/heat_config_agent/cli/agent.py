"""`heat-config-agent`: the command line of the agent, made of one module per command."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from heat_config_agent import __version__
from heat_config_agent.cli import stack_package, state_options
from heat_config_agent.cli.help_format import HelpFormatter, Parser
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_hooks.words import closest

COMMANDS = {
    "run": "heat_config_agent.cli.machine.run",
    "status": "heat_config_agent.cli.deployments.status",
    "show": "heat_config_agent.cli.deployments.show",
    "log": "heat_config_agent.cli.deployments.log",
    "wait": "heat_config_agent.cli.deployments.wait",
    "retry": "heat_config_agent.cli.deployments.requests",
    "forget": "heat_config_agent.cli.deployments.requests",
    "prune": "heat_config_agent.cli.machine.prune",
    "pause": "heat_config_agent.cli.machine.pause",
    "resume": "heat_config_agent.cli.machine.pause",
    "poke": "heat_config_agent.cli.machine.pause",
    "config": "heat_config_agent.cli.machine.config",
    "doctor": "heat_config_agent.cli.machine.doctor",
    "collect-logs": "heat_config_agent.cli.machine.collect_logs",
    "hooks": "heat_config_agent.cli.machine.tools",
    "policy": stack_package.COMMANDS["policy"],
    "sign": stack_package.COMMANDS["sign"],
    "follow": stack_package.COMMANDS["follow"],
    "stack": stack_package.COMMANDS["stack"],
    "template": stack_package.COMMANDS["template"],
    "migrate": "heat_config_agent.cli.machine.migrate",
    "setup": "heat_config_agent.cli.machine.setup",
}
"""Command → the module that declares it, in the order of `--help`."""

_DESCRIPTION = """\
Run the agent of this machine, and inspect and control its work. Only run, doctor and collect-logs contact Heat; all
other commands work without Heat. To apply a document, use heat-config-apply.
"""

_EPILOG = """\
ID is a deployment's id, a unique beginning of it, its name, or the name of its resource in the template. If several
deployments have that name, show and log take the newest one.

"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. Raises UsageError if there is no such command."""
    first = arguments[0] if arguments else ""
    if first and first not in COMMANDS and not first.startswith("-"):
        raise UsageError(f"there is no command {first!r}", hint=_alternatives(first))
    declared = parser(first, arguments[1] if len(arguments) > 1 else "")
    options = declared.parse_args(arguments)
    if not hasattr(options, "run"):
        declared.print_help()
        return ExitCode.USAGE
    code: int = options.run(options)
    return code


_ELSEWHERE = {
    "apply": "heat-config-apply",
    "plan": "heat-config-apply --plan",
    "list": "heat-config-agent status",
    "ls": "heat-config-agent status",
    "ps": "heat-config-agent status",
    "logs": "heat-config-agent log",
    "help": "heat-config-agent --help",
    "version": "heat-config-agent --version",
    "validate": "heat-config-agent template validate",
    "delete": "heat-config-agent stack delete",
    "create": "heat-config-agent stack create",
    "update": "heat-config-agent stack update",
    "start": "systemctl start heat-config-agent",
    "stop": "systemctl stop heat-config-agent",
    "restart": "systemctl restart heat-config-agent",
}
"""Command of other programs → the command here."""


def _alternatives(word: str) -> str:
    """Return the command that was probably meant, or how to list all commands."""
    if word in _ELSEWHERE:
        return f"did you mean `{_ELSEWHERE[word]}`?"
    near = closest(word, COMMANDS)
    return (
        f"did you mean `heat-config-agent {near}`?"
        if near
        else "`heat-config-agent --help` lists all"
    )


def parser(first: str = "", second: str = "") -> argparse.ArgumentParser:
    """Return the parser of the command line: with the command `first` only, or else with all commands.

    Of the commands of `stack`, it has only `second`, if there is such a command. The manual page and the completion are
    generated from it too.
    """
    parser = Parser(
        prog="heat-config-agent",
        description=_DESCRIPTION,
        epilog=_EPILOG + state_options.EXIT_CODES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"heat-config-agent {__version__}"
    )
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    only = COMMANDS.get(first)
    for module in [only] if only else dict.fromkeys(COMMANDS.values()):
        # one loads much faster than all
        importlib.import_module(module).add(
            commands, *([second] if first == "stack" else [])
        )
    return parser

"""`heat-config-agent`: the command line of the agent, made of one module per command."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from heat_config_agent import __version__
from heat_config_agent.cli import runner, stack_package
from heat_config_agent.cli.help_format import HelpFormatter, Parser, command_first

COMMANDS = {
    "apply": "heat_config_agent.cli.apply.command",
    "plan": "heat_config_agent.cli.apply.command",
    "status": "heat_config_agent.cli.deployments.status",
    "show": "heat_config_agent.cli.deployments.show",
    "log": "heat_config_agent.cli.deployments.log",
    "wait": "heat_config_agent.cli.deployments.wait",
    "verify": "heat_config_agent.cli.deployments.verify",
    "stop": "heat_config_agent.cli.deployments.stop",
    "retry": "heat_config_agent.cli.deployments.requests",
    "forget": "heat_config_agent.cli.deployments.requests",
    "events": "heat_config_agent.cli.deployments.events",
    "deployment": "heat_config_agent.cli.deployments.group",
    "stack": stack_package.COMMANDS["stack"],
    "hosts": stack_package.COMMANDS["hosts"],
    "source": stack_package.COMMANDS["source"],
    "tool": "heat_config_agent.cli.machine.tools",
    "template": stack_package.COMMANDS["template"],
    "policy": stack_package.COMMANDS["policy"],
    "sign": stack_package.COMMANDS["sign"],
    "doctor": "heat_config_agent.cli.machine.doctor",
    "config": "heat_config_agent.cli.machine.config",
    "pause": "heat_config_agent.cli.machine.pause",
    "resume": "heat_config_agent.cli.machine.pause",
    "poll": "heat_config_agent.cli.machine.pause",
    "collect-logs": "heat_config_agent.cli.machine.collect_logs",
    "prune": "heat_config_agent.cli.machine.prune",
    "run": "heat_config_agent.cli.machine.run",
    "migrate": "heat_config_agent.cli.machine.migrate",
    "setup": "heat_config_agent.cli.machine.setup",
    "completion": "heat_config_agent.cli.completion.command",
    "help": "heat_config_agent.cli.help_command",
    "version": "heat_config_agent.cli.help_command",
}
"""Command → the module that declares it, in the order of `--help`."""

_GROUPS = ("stack",)
"""The commands whose modules declare only the subcommand that is named: all of them take long to load."""

_DESCRIPTION = """\
heat-config-agent carries out software deployments on this machine, and keeps them so. Only run, doctor, apply and
collect-logs contact Heat; all other commands work without Heat.
"""

_EPILOG = """\
NAME is the name of a deployment, its id or the beginning of its id, its resource in the template, or STACK/RESOURCE. If
several deployments have that name, commands that only show take the newest one.

exit codes:
  0    success
  1    a deployment, a check or a stack has failed, or something could not be done
  2    bad usage or settings, mistakes in a file that someone has written, or a name of several things
  3    no source answered
  4    another program does the work, and holds its lock
  5    every run succeeded, but a result could not be delivered: the next run sends it, unless it was refused for good
  6    a deployment waits for a reboot of the machine: reboot it, and run the command again
  7    the time of --wait-for is over: the work goes on, and the same command continues to wait for it
  8    there is nothing of that name
  9    something is not as its deployment says
  10   the machine lacks something, such as disk space, a permission or a state directory that can be used
  130  interrupted: runs that have begun go on, and the same command follows them

"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. Raises UsageError if there is no such command."""
    if arguments[:1] == ["__complete"]:
        # the words after it are those of another command
        from heat_config_agent.cli.completion import command as completion  # noqa: PLC0415
        from heat_config_agent.cli.completion.line import Tree  # noqa: PLC0415

        return completion.complete(arguments[1:], Tree(COMMANDS, parser))
    words = command_first(arguments)
    first = words[0] if words else ""
    if first in ("apply", "plan"):
        from heat_config_agent.cli.apply import command  # noqa: PLC0415  # it has a program of its own

        return command.main([*words[1:], *(["--plan"] if first == "plan" else [])])
    declared = parser(first, words[1] if len(words) > 1 else "")
    options = declared.parse_args(words)
    if not hasattr(options, "run"):
        from heat_config_agent.cli import help_command  # noqa: PLC0415  # no other command needs it

        if getattr(options, "schema", ""):
            return help_command.show_schema(options.schema)
        asked = [word for word in words if not word.startswith("-")]
        return help_command.show(getattr(options, "words", asked), parser)
    runner.use(options, getattr(options, "kind", "usage"))
    code: int = options.run(options)
    return code


def parser(first: str = "", second: str = "") -> Parser:
    """Return the parser of the command line: with the command `first` only, or else with all commands.

    Of the commands of `stack`, it has only `second`, if there is such a command. The manual page and the completion are
    generated from it too.
    """
    parser = Parser(
        prog="heat-config-agent",
        description=_DESCRIPTION,
        epilog=_EPILOG,
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
            commands, *([second] if first in _GROUPS else [])
        )
    return parser

"""`heat-config-agent help` and `version`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from heat_config_agent import __version__
from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.cli.help_format import Parser
from heat_config_agent.model.errors import ExitCode, UsageError

_BRIEF = """\
heat-config-agent carries out software deployments on this machine, and keeps them so.

  apply FILE    carry out a document, template or service   plan FILE    show what apply would do
  status        what is there, and its state                show NAME    everything about one thing
  log NAME      what it has printed                         wait         until everything is done
  retry NAME    run it again                                events       what happened

  Things    stack  deployment  source  tool  template  policy  sign
  Machine   doctor  config  pause  resume  poll  collect-logs  prune  forget  run  migrate  setup
  Help      help COMMAND, completion SHELL, version

  NAME is a name, the beginning of an id, a resource, or STACK/RESOURCE. Commands have --json.
  First steps: heat-config-agent help start     All options: man heat-config-agent
"""

_START = """\
First steps, as root or in a folder of your own with --state-dir DIR:

  heat-config-agent doctor                  what works here, and what to do about the rest
  heat-config-agent plan FILE               what a document, a template or a service would do
  heat-config-agent apply FILE              do it; again, it does only what has changed
  heat-config-agent status                  what is there, and its state
  heat-config-agent log NAME                what a run has printed
  heat-config-agent retry NAME              run it again

  systemctl enable --now heat-config-agent  take deployments from Heat, or from [follow NAME] in the settings
"""


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    parser = state_options.stateless(
        commands,
        "help",
        "show the help of a command",
        "Show what the commands are for, or the help of one.",
        epilog=state_options.NO_STATE_CODES,
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="COMMAND",
        help="a command, with its group; start shows the first steps",
    )
    parser.add_argument(
        "--schema",
        metavar="KIND",
        help="print the JSON Schema of the data of a kind, or of the object around it: envelope",
    )
    state_options.add_common(parser)
    parser = state_options.stateless(
        commands,
        "version",
        "show the version",
        "Show the version of the agent.",
        epilog=state_options.NO_STATE_CODES,
    )
    state_options.add_json(parser)
    state_options.add_common(parser)
    parser.set_defaults(run=version, kind="version")


def show(words: Sequence[str], parser_of: Callable[[str], Parser]) -> int:
    """Show the help of the command that the words name; without words, which commands there are.

    `parser_of` returns the parser of the program with a command.
    """
    if not words or words == ["start"]:
        terminal.say(_START if words else _BRIEF, end="")
        return ExitCode.OK
    parser: argparse.ArgumentParser = parser_of(words[0])
    for word in words:
        inner = parser.inner() if isinstance(parser, Parser) else None
        if inner is None or word not in inner:
            known = ", ".join(inner or ()) or "none"
            raise UsageError(
                f"there is no command {' '.join(words)!r}", hint=f"there are: {known}"
            )
        parser = inner[word]
    terminal.say(parser.format_help(), end="")
    return ExitCode.OK


def show_schema(kind: str) -> int:
    """Print the schema of a kind of data. Raises UsageError if there is none."""
    import json  # noqa: PLC0415  # few ask for help in this form

    from heat_config_agent.cli import schemas  # noqa: PLC0415

    terminal.say(json.dumps(schemas.read(kind), indent=2))
    return ExitCode.OK


def version(options: argparse.Namespace) -> int:
    """Show the version."""
    if options.json:
        envelope.result({"version": __version__})
    else:
        terminal.say(f"heat-config-agent {__version__}")
    return ExitCode.OK

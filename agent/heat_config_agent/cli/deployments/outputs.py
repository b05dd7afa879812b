"""`heat-config-agent deployment list` and `output`: the deployments alone, and the outputs of one."""

from __future__ import annotations

import argparse
import json

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.deployments import named, show, status
from heat_config_agent.diagnostics.words import among
from heat_config_agent.model.deployment import STANDARD_OUTPUTS
from heat_config_agent.model.errors import ExitCode, NotFoundError

_LIST = """: List the deployments of the agent, of followed documents and of the stacks on this machine. A deployment of
a stack is shown with its last action.
"""

_OUTPUT = """: Print the outputs of a deployment, or the value of one OUTPUT and nothing else. Secrets are masked.
"""

_EPILOG = """\
exit codes:
  0  it is shown
  2  bad usage or settings
  8  there is no such deployment or output
"""


def add_list(commands: state_options.Commands) -> None:
    """Declare the command that lists deployments."""
    parser = state_options.command(
        commands, "list", "list all deployments", _LIST, epilog=_EPILOG
    )
    parser.add_argument(
        "--wide", action="store_true", help="also show ids and sources, and whole names"
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run_list, kind="deployments")


def run_list(options: argparse.Namespace) -> int:
    """List the deployments."""
    settings = state_options.there(options)
    rows = status.deployment_rows(settings.state)
    for name, _ in stack_package.stack_ids(settings):
        place = named.NamedPlace(kind="stack", name=name, settings=settings)
        rows += [
            status.Row(entry=each.entry, title=each.title, state=each.settings.state)
            for each in named.members(place, options.config)
        ]
    if options.json:
        envelope.result({"deployments": [row.values() for row in rows]})
        return ExitCode.OK
    for line in status.table(rows, wide=options.wide):
        terminal.say(line)
    return ExitCode.OK


def add(commands: state_options.Commands) -> None:
    """Declare the command that prints outputs."""
    parser = state_options.command(
        commands, "output", "print the outputs of a deployment", _OUTPUT, epilog=_EPILOG
    )
    state_options.add_id(parser)
    parser.add_argument(
        "output", metavar="OUTPUT", nargs="?", help="the name of an output"
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="outputs")


def run(options: argparse.Namespace) -> int:
    """Print the outputs, or the value of one."""
    settings = state_options.there(options)
    target = named.find(settings, options.id, options.config, newest=True)
    results = show.facts_of(target).results
    values = {
        name: value for name, value in results.items() if name not in STANDARD_OUTPUTS
    }
    if options.output is None:
        if options.json:
            envelope.result({"outputs": [_row(*each) for each in values.items()]})
            return ExitCode.OK
        rows = [(name, _text(value)) for name, value in values.items()]
        empty = f"{target.title} has no outputs"
        for line in terminal.table(rows, ("NAME", "VALUE"), empty):
            terminal.say(line)
        return ExitCode.OK
    if options.output not in results:
        raise NotFoundError(
            f"{target.title} has no output {options.output!r}",
            hint=among(options.output, values),
            subject=("output", options.output),
        )
    value = results[options.output]
    if options.json:
        envelope.begin("output", is_on=True)
        envelope.result(_row(options.output, value))
    else:
        terminal.say(terminal.plain(_text(value)))
    return ExitCode.OK


def _row(name: str, value: object) -> dict[str, object]:
    return {
        "output_key": name,
        "description": None,
        "output_value": value,
        "output_error": None,
    }


def _text(value: object) -> str:
    return (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    ).rstrip("\n")

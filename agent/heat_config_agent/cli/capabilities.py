"""`heat-config-agent template capabilities` and `capabilities-find`: what templates are capable of."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from heat_config_agent.cli import chosen, terminal
from heat_config_agent.cli.template import mistake_line
from heat_config_agent.errors import ExitCode, UsageError
from heat_config_agent.hot import finding
from heat_config_agent.stack.definition import Mistake

_FIND = """\
Print the templates that have all the capabilities which are asked for: those among files, and in folders. In a folder
the files are looked at whose names end with .yaml or .template. What is no template is passed over.
"""
_SHOW = """\
Show what can be required of templates, and which of them has it. Of an environment, those are looked at that its
resource_registry names.
"""
_FIND_CODES = """\
exit codes:
  0  at least one template was found
  1  none was found, or a template has a mistake or cannot be read: the others are printed
  2  bad usage, or a PATH that cannot be read
"""
_SHOW_CODES = """\
exit codes:
  0  all were looked at
  1  a template has a mistake or cannot be read: the others are shown
  2  bad usage, or a FILE that cannot be read, or is neither a template nor an environment
"""


def add(commands: chosen.Commands) -> None:
    """Declare both commands."""
    find = commands.add_parser(
        "capabilities-find",
        help="find templates by what they are capable of",
        description=_FIND,
        epilog=_FIND_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    find.add_argument("path", metavar="PATH", nargs="+", help="a template, or a folder of them")
    find.add_argument("-r", "--recursive", action="store_true", help="look into the folders of a folder as well")
    find.add_argument(
        "-c",
        "--capability",
        metavar="KEY=VALUE",
        action="append",
        required=True,
        help="what the templates are to be capable of; may be repeated, and all of it counts",
    )
    find.add_argument("--json", action="store_true", help="print one JSON object, of files and their capabilities")
    find.set_defaults(run=run_find)
    show = commands.add_parser(
        "capabilities",
        help="show what templates are capable of",
        description=_SHOW,
        epilog=_SHOW_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument(
        "-f",
        "--file",
        metavar="FILE",
        nargs="+",
        action="extend",
        required=True,
        help="a template or an environment; may be repeated",
    )
    show.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object, of keys and values, and of types and templates",
    )
    show.set_defaults(run=run_show)


def run_find(said: argparse.Namespace) -> int:
    """Find templates."""
    found = finding.find(said.path, _wanted(said.capability), recursive=said.recursive)
    if said.json:
        terminal.say(json.dumps(found.capable))
    else:
        for each in found.capable:
            terminal.say(terminal.line(each))
    _complain(found.mistakes)
    return ExitCode.OK if found.capable and not found.mistakes else ExitCode.FAILED


def _wanted(said: Sequence[str]) -> dict[str, tuple[str, ...]]:
    wanted: dict[str, tuple[str, ...]] = {}
    for each in said:
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise UsageError(f"-c takes KEY=VALUE, not {each!r}")
        wanted[key] = (*wanted.get(key, ()), value)
    return wanted


def run_show(said: argparse.Namespace) -> int:
    """Show all capabilities."""
    found = finding.named(said.file)
    if said.json:
        terminal.say(json.dumps(found.summary()))
    elif found.capable:
        _show(found)
    _complain(found.mistakes)
    return ExitCode.FAILED if found.mistakes else ExitCode.OK


def _show(found: finding.Templates) -> None:
    rows = [
        (key, value, ", ".join(files)) for key, values in found.by_value().items() for value, files in values.items()
    ]
    if not rows:
        terminal.say("no template says what it is capable of")
        return
    header, *lines = terminal.table([("CAPABILITY", "VALUE", "TEMPLATES"), *rows])
    terminal.say(terminal.styled(header, "quiet"))
    for line in lines:
        terminal.say(line)


def _complain(mistakes: Sequence[Mistake]) -> None:
    for each in mistakes:
        terminal.say(mistake_line(each, "error", "bad"), error=True)

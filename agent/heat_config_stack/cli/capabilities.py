"""`heat-config-agent template capabilities` and `capabilities-find`: the capabilities of templates."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.help_format import HelpFormatter
from heat_config_agent.cli.mistakes import mistake_line
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_agent.model.mistake import Mistake
from heat_config_hooks.words import CERTAIN

TYPE_CHECKING = False

if TYPE_CHECKING:
    from heat_config_stack.hot import capabilities

_FIND = """\
Print the templates that have all of the required capabilities. A PATH is a template or a folder; in a folder, files
whose names end with .yaml or .template are searched. Files that are not templates are ignored.
"""
_SHOW = """\
Show all capabilities of templates, and the templates that have them. For an environment, the templates in its
resource_registry are read.
"""
_FIND_CODES = """\
exit codes:
  0  at least one template was found
  1  no template was found, or a template has a mistake or cannot be read; the others are printed
  2  bad usage, or a PATH that cannot be read
"""
_SHOW_CODES = """\
exit codes:
  0  all templates were read
  1  a template has a mistake or cannot be read; the others are shown
  2  bad usage, or a FILE that cannot be read, or is neither a template nor an environment
"""


def add(commands: state_options.Commands) -> None:
    """Declare both commands."""
    find = commands.add_parser(
        "capabilities-find",
        help="find templates by their capabilities",
        description=_FIND,
        epilog=_FIND_CODES,
        formatter_class=HelpFormatter,
    )
    find.add_argument(
        "path", metavar="PATH", nargs="+", help="a template, or a folder of them"
    )
    find.add_argument(
        "-r", "--recursive", action="store_true", help="search subfolders too"
    )
    find.add_argument(
        "-c",
        "--capability",
        metavar="KEY=VALUE",
        action="append",
        required=True,
        help="a required capability; may be repeated, and all of them are required",
    )
    find.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object with files and their capabilities",
    )
    state_options.CONFIG.add(find)
    find.set_defaults(run=run_find, state_dir=None)
    show = commands.add_parser(
        "capabilities",
        help="show the capabilities of templates",
        description=_SHOW,
        epilog=_SHOW_CODES,
        formatter_class=HelpFormatter,
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
        help="print one JSON object with keys and values, and with types and templates",
    )
    state_options.CONFIG.add(show)
    show.set_defaults(run=run_show, state_dir=None)


def run_find(options: argparse.Namespace) -> int:
    """Find templates."""
    from heat_config_stack.hot import capabilities  # noqa: PLC0415  # `template validate` needs none of it

    search = capabilities.find(
        options.path, _required(options.capability), recursive=options.recursive
    )
    if options.json:
        terminal.say(json.dumps(search.capable))
    else:
        for each in search.capable:
            terminal.say(terminal.line(each))
    _complain(search.mistakes)
    _doubt(search, options)
    return ExitCode.OK if search.capable and not search.mistakes else ExitCode.FAILED


def _required(pairs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    required: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(f"-c takes KEY=VALUE, not {pair!r}")
        required[key] = (*required.get(key, ()), value)
    return required


def run_show(options: argparse.Namespace) -> int:
    """Show all capabilities."""
    from heat_config_stack.hot import capabilities  # noqa: PLC0415

    search = capabilities.named(options.file)
    if options.json:
        terminal.say(json.dumps(search.summary()))
    elif search.capable:
        _show(search)
    _complain(search.mistakes)
    _doubt(search, options)
    return ExitCode.FAILED if search.mistakes else ExitCode.OK


def _show(templates: capabilities.Templates) -> None:
    rows = [
        (key, value, ", ".join(files))
        for key, values in templates.by_value().items()
        for value, files in values.items()
    ]
    if not rows:
        terminal.say("no template declares capabilities")
        return
    header, *lines = terminal.table([("CAPABILITY", "VALUE", "TEMPLATES"), *rows])
    terminal.say(terminal.styled(header, "quiet"))
    for line in lines:
        terminal.say(line)


def _complain(mistakes: Sequence[Mistake]) -> None:
    for each in mistakes:
        terminal.say(mistake_line(each), error=True)


def _doubt(templates: capabilities.Templates, options: argparse.Namespace) -> None:
    """Warn about a `resource_type` that is probably misspelt: no type, also none of a plug-in, but close to one."""
    named = templates.by_value().get("resource_type", {})
    if not named:
        return
    from heat_config_stack.cli.stack import sessions  # noqa: PLC0415  # only type-based capabilities need the types
    from heat_config_stack.resource import type_schemas  # noqa: PLC0415

    types = sessions.types(state_options.of(options).words("plugin_dirs"))
    for name, files in named.items():
        hint = "" if name in types else meant(name, type_schemas.names(types), CERTAIN)
        if hint:
            sessions.warned(
                f"{', '.join(files)}: there is no resource type {name!r}: {hint}"
            )

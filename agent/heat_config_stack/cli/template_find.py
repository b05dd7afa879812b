"""`heat-config-agent template find`: the templates that have some capabilities, or all capabilities of templates."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.cli.mistakes import mistake_line, mistake_values
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.errors import ExitCode, UsageError
from heat_config_hooks.words import CERTAIN

TYPE_CHECKING = False

if TYPE_CHECKING:
    from heat_config_stack.hot import capabilities

_FIND = """\
Print the templates that have all of the required capabilities. FILE is a template or a folder; in a folder, files
whose names end with .yaml or .template are searched, and files that are not templates are skipped.

With --all, all capabilities of the templates are shown, and the templates that have them. FILE may then also be an
environment, whose resource_registry names the templates.
"""
_FIND_CODES = """\
exit codes:
  0  at least one template was found, or with --all, all templates were read
  1  a template has a mistake or cannot be read; the others are shown
  2  bad usage, or a FILE that cannot be read; with --all, one that is neither a template nor an environment
  8  no template was found
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    find = state_options.stateless(
        commands,
        "find",
        "find templates by their capabilities, or show all capabilities",
        _FIND,
        epilog=_FIND_CODES,
    )
    find.add_argument(
        "file", metavar="FILE", nargs="+", help="a template, or a folder of templates"
    )
    find.add_argument("--recursive", action="store_true", help="search subfolders too")
    find.add_argument(
        "--capability",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a required capability; may be repeated, and all of them are required",
    )
    find.add_argument(
        "--all", action="store_true", help="show all capabilities of the templates"
    )
    state_options.CONFIG.add(find)
    state_options.add_common(find)
    state_options.add_json(find)
    find.set_defaults(run=run, kind="templates", state_dir=None)


def run(options: argparse.Namespace) -> int:
    """Find templates, or show their capabilities."""
    from heat_config_stack.hot import capabilities  # noqa: PLC0415  # `template validate` needs none of it

    required = _required(options.capability)
    if options.all and required:
        raise UsageError("--all and --capability exclude each other")
    if not options.all and not required:
        hint = "name it with --capability KEY=VALUE, or have all shown with --all"
        raise UsageError("no capability is required", hint=hint)
    if options.all:
        search = capabilities.named(options.file, recursive=options.recursive)
    else:
        search = capabilities.find(options.file, required, recursive=options.recursive)
    failure = _failure(search, options)
    if not options.json:
        for line in _lines(search, every=options.all):
            terminal.say(line)
        for mistake in search.mistakes:
            terminal.say(mistake_line(mistake), error=True)
        if failure is not None and not search.mistakes:
            terminal.complain(f"error: {failure.message} ({failure.hint})")
    _doubt(search, options)
    code = _CODES[failure.code] if failure else ExitCode.OK
    if options.json:
        envelope.result(_values(search), code=code, error=failure)
    return code


_CODES = {"template": ExitCode.FAILED, "not_found": ExitCode.NOT_THERE}


def _failure(
    search: capabilities.Templates, options: argparse.Namespace
) -> envelope.Failure | None:
    if search.mistakes:
        count = terminal.count(len(search.mistakes), "mistake")
        mistakes = [mistake_values(mistake) for mistake in search.mistakes]
        return envelope.Failure("template", f"{count} in templates", mistakes=mistakes)
    if search.capable or options.all:
        return None
    required = " and ".join(terminal.line(pair) for pair in options.capability)
    hint = "heat-config-agent template find --all FILE shows all capabilities"
    return envelope.Failure("not_found", f"no template has {required}", hint)


def _required(pairs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    required: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(f"--capability takes KEY=VALUE, not {pair!r}")
        required[key] = (*required.get(key, ()), value)
    return required


def _lines(search: capabilities.Templates, *, every: bool) -> list[str]:
    if not every:
        return [terminal.line(name) for name in search.capable]
    rows = [
        (key, value, ", ".join(files))
        for key, values in search.by_value().items()
        for value, files in values.items()
    ]
    return terminal.table(
        rows,
        header=("CAPABILITY", "VALUE", "TEMPLATES"),
        empty="no template declares capabilities",
    )


def _values(search: capabilities.Templates) -> dict[str, object]:
    return {
        "templates": [
            {
                "file": name,
                "capabilities": {key: list(each) for key, each in values.items()},
            }
            for name, values in search.capable.items()
        ],
        "capabilities": [
            {"name": key, "value": value, "files": files}
            for key, values in search.by_value().items()
            for value, files in values.items()
        ],
    }


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

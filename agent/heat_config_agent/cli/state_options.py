"""The options that name a state directory, and the argument that names a deployment in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.cli import terminal
from heat_config_agent.cli.command_line import Option
from heat_config_agent.deployments import plan
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.model.errors import AgentError, UsageError
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal
from heat_config_agent.state.deployed import kept

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from typing import TypeAlias

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # it has no public name


CONFIG = Option("--config", "read the settings from this file only", "FILE", read=Path)
"""The option that names the file of settings."""

STATE = (
    Option("--state-dir", "the state directory (default /var/lib/heat-config-agent)", "DIR", read=Path),
    CONFIG,
)
"""The options that name the state directory."""

HOOKS = Option(
    "--hooks-dir",
    "look for hooks in this directory before $HEAT_CONFIG_HOOKS and heat-agents' directories; may be repeated",
    "DIR",
    read=Path,
    repeated=True,
)
"""The option that names directories with hooks."""

EXIT_CODES = """\
exit codes:
  0  success
  1  there is no such deployment, or it has no such data
  2  bad usage or configuration
"""


def command(
    commands: Commands, name: str, brief: str, description: str | None, *, epilog: str = EXIT_CODES
) -> argparse.ArgumentParser:
    """Declare a command about a state directory."""
    from heat_config_agent.cli.help_format import HelpFormatter  # noqa: PLC0415  # not for heat-config-apply

    parser = commands.add_parser(
        name,
        help=brief,
        description=(description or brief).partition(": ")[2],
        epilog=epilog,
        formatter_class=HelpFormatter,
    )
    for option in STATE:
        option.add(parser)
    return parser


def add_id(parser: argparse.ArgumentParser) -> None:
    """Add the deployment that a command is about."""
    parser.add_argument(
        "id", metavar="ID", help="a deployment's id, the beginning of its id, its name, or its resource in the template"
    )


def of(options: argparse.Namespace) -> Settings:
    """Return the settings of a command that needs only the state directory.

    Prints mistakes in the settings as a warning. Raises UsageError if they leave in doubt which directory is meant.
    """
    wrong: list[str] = []
    settings = effective.make(os.environ, config=options.config, state=options.state_dir, mistakes=wrong)
    if wrong and not settings.placed:
        raise UsageError(wrong[0], hint=_more(settings))
    if wrong:
        more = f" ({_more(settings)})" if _more(settings) else ""
        terminal.say(f"warning: {terminal.line(wrong[0])}{more}", error=True)
    return settings


def _more(settings: Settings) -> str:
    number = len(settings.mistakes) - 1
    return f"and {number} more: `{settings.command('config')}` shows them" if number > 0 else ""


def deployment(settings: Settings, entry: Entry) -> Deployment | None:
    """Return the deployment of an entry from the journal, or else from `deployed/`; None if neither has it."""
    document = entry.document or kept(settings.deployed / f"{entry.key}.json")
    if not document and entry.removed is not Removed.NOTHING:  # what is left of it has no secrets
        document = {"id": entry.id, "name": entry.name}
    return plan.deployment_of(entry, document) if document else None


def newest(options: argparse.Namespace) -> tuple[Settings, Entry]:
    """Return the newest deployment that the argument of a command names, and the settings with its state directory.

    `STACK/RESOURCE` names a deployment of a stack on this machine; so does `RESOURCE`, unless the agent itself has a
    deployment that this names. Raises AgentError if there is none, or several that are not of one name.
    """
    settings, wanted = of(options), options.id
    entries = journal.read(settings.state)
    if not wanted or matching(entries, wanted):
        return settings, find(entries, wanted, str(settings.state), newest=True, status=settings.command("status"))
    from heat_config_agent.cli import stack_package  # noqa: PLC0415  # only for deployments of stacks

    stack, slash, path = wanted.partition("/")
    if not slash:
        names = stack_package.deployments_named(settings, wanted)
        if len(names) > 1:
            raise AgentError(
                f"{wanted!r} is a deployment of several stacks: {', '.join(names)}", hint="give one of these names"
            )
        if not names:
            return settings, entry(settings, wanted)  # which says that there is none
        stack, _, path = names[0].partition("/")
    folder, deployment = stack_package.deployment_at(settings, stack, path)
    journaled = journal.read(folder).values()
    runs = [each for each in journaled if each.source.endswith(f"/{deployment}") or each.id == deployment]
    if not runs:
        raise AgentError(f"nothing has run for {path} of the stack {stack}")
    return effective.make(os.environ, config=options.config, state=folder), max(runs, key=lambda each: each.accepted)


def entry(settings: Settings, wanted: str, *, newest: bool = False) -> Entry:
    """Return the deployment that an argument names. Raises AgentError if there is none, or several."""
    status = settings.command("status")
    entries = journal.read(settings.state)
    if not entries:
        from heat_config_agent.state import agents  # noqa: PLC0415  # only after a mistake

        if elsewhere := agents.hint(settings.state, settings.options, os.environ, "status"):
            raise AgentError(f"no deployment {wanted!r} in {settings.state}", hint=elsewhere)
    return find(entries, wanted, str(settings.state), newest=newest, status=status)


def find(
    entries: Mapping[str, Entry],
    wanted: str,
    where: str,
    *,
    newest: bool = False,
    status: str = "heat-config-agent status",
) -> Entry:
    """Return the one deployment with that id, name, resource, or beginning of an id.

    Every action of a resource is a deployment of its own with the same name. Of those with one name, `newest` takes the
    newest; otherwise the only one that is still in the metadata is taken. `status` is the command that shows all
    deployments. Raises AgentError if there is none, or several.
    """
    if not wanted:
        raise UsageError("the ID is empty", hint=f"`{status}` shows all of them")
    by_id, by_name, by_resource, begun = _matches(entries, wanted)
    for matches in (by_id, by_name, by_resource, begun):
        current = [entry for entry in matches if entry.left_at is None]
        is_named = matches is by_name or matches is by_resource
        if len(matches) == 1 or (newest and matches and is_named):
            return max(matches, key=lambda entry: entry.accepted)
        if len(current) == 1 and is_named:
            return current[0]
        if matches:
            ids = [entry.id or entry.key for entry in matches]
            unique = len(set(ids)) == len(ids)
            shown = [
                f"{(entry.id if unique else '') or entry.key} ({entry.action or '-'}, {plan.clock(entry.accepted)})"
                for entry in sorted(matches, key=lambda entry: entry.accepted)
            ]
            more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
            raise AgentError(
                f"{wanted!r} is more than one deployment: {', '.join(shown[:_SHOWN])}{more}", hint="give more of the id"
            )
    raise AgentError(f"no deployment {wanted!r} in {where}", hint=f"`{status}` shows all of them")


def matching(entries: Mapping[str, Entry], wanted: str) -> list[Entry]:
    """Return all deployments that an argument names: by id, else by name, by resource, or by the beginning of an id."""
    return next((matches for matches in _matches(entries, wanted) if matches), [])


def _matches(entries: Mapping[str, Entry], wanted: str) -> tuple[list[Entry], list[Entry], list[Entry], list[Entry]]:
    """Return the deployments with that id, with that name, of that resource, and with an id that begins so."""
    every = list(entries.values())
    return (
        [entries[wanted]] if wanted in entries else [each for each in every if each.id == wanted],
        [each for each in every if wanted in (each.name, each.given_name)],
        [each for each in every if each.title == wanted or each.owner.endswith(f"/{wanted}")],
        [each for each in every if each.id.startswith(wanted) or each.key.startswith(wanted)],
    )


_SHOWN = 5
"""Number of candidates that a message lists."""

"""Which deployment of which state directory a command is about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from heat_config_agent import journal, plan, settings
from heat_config_agent.cli import terminal
from heat_config_agent.cli.plain import Option
from heat_config_agent.deployed import kept
from heat_config_agent.errors import AgentError, UsageError
from heat_config_agent.model import Deployment, Entry, Removed
from heat_config_agent.settings import Settings

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from typing import TypeAlias

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001  # it has no public name


STATE = (
    Option("--state-dir", "where the agent keeps its state (default /var/lib/heat-config-agent)", "DIR", read=Path),
    Option("--config", "take the settings from this file alone", "FILE", read=Path),
)
"""The options that name the state directory."""

HOOKS = Option(
    "--hooks-dir",
    "look for hooks here first; may be repeated (after it: $HEAT_CONFIG_HOOKS and heat-agents' directories)",
    "DIR",
    read=Path,
    repeated=True,
)
"""The option that names directories with hooks."""

EXIT_CODES = """\
exit codes:
  0  all is well
  1  there is no such deployment, or nothing of it
  2  bad usage or configuration
"""


def command(
    commands: Commands, name: str, brief: str, description: str | None, *, epilog: str = EXIT_CODES
) -> argparse.ArgumentParser:
    """Declare a command about a state directory."""
    import argparse  # noqa: PLC0415  # not for heat-config-apply, which seldom needs it

    parser = commands.add_parser(
        name,
        help=brief,
        description=(description or brief).partition(": ")[2],
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option in STATE:
        option.add(parser)
    return parser


def add_id(parser: argparse.ArgumentParser) -> None:
    """Add the deployment that a command is about."""
    parser.add_argument("id", metavar="ID", help="a deployment's id, a beginning of it, or its name")


def of(options: argparse.Namespace) -> Settings:
    """Return the settings of a command that needs only the state directory.

    With mistakes in them, too: they are said, unless they leave in doubt which directory it is. Raises UsageError.
    """
    wrong: list[str] = []
    given = settings.make(os.environ, config=options.config, state=options.state_dir, wrong=wrong)
    if wrong and not given.placed:
        raise UsageError(wrong[0], hint=_more(given))
    if wrong:
        more = f" ({_more(given)})" if _more(given) else ""
        terminal.say(f"warning: {terminal.line(wrong[0])}{more}", error=True)
    return given


def _more(given: Settings) -> str:
    number = len(given.mistakes) - 1
    return f"and {number} more: {given.command('config')} shows them" if number > 0 else ""


def deployment(given: Settings, entry: Entry) -> Deployment | None:
    """Return the deployment of an entry: as the journal holds it, else as `deployed/` keeps it, if it does."""
    document = entry.document or kept(given.deployed / f"{entry.key}.json")
    if not document and entry.removed is not Removed.NOTHING:  # then what is left has no secrets
        document = {"id": entry.id, "name": entry.name}
    return plan.deployment_of(entry, document) if document else None


def entry(given: Settings, wanted: str, *, newest: bool = False) -> Entry:
    """Return the deployment that a command is about. Raises AgentError where it is none or several."""
    status = given.command("status")
    return find(journal.read(given.state), wanted, str(given.state), newest=newest, status=status)


def find(
    entries: Mapping[str, Entry],
    wanted: str,
    where: str,
    *,
    newest: bool = False,
    status: str = "heat-config-agent status",
) -> Entry:
    """Return the one deployment with that id, name, or beginning of an id.

    Each action of a resource is a deployment of its own, of the same name: of those the `newest` is meant, where that
    is enough. `status` is the command that shows them. Raises AgentError where it is none or several.
    """
    if not wanted:
        raise UsageError("an ID is needed", hint=f"`{status}` shows them all")
    exact = [entries[wanted]] if wanted in entries else [each for each in entries.values() if each.id == wanted]
    named = [each for each in entries.values() if each.name == wanted]
    begun = [each for each in entries.values() if each.id.startswith(wanted) or each.key.startswith(wanted)]
    for found in (exact, named, begun):
        if len(found) == 1:
            return found[0]
        if found and found is named and newest:
            return max(found, key=lambda each: each.accepted)
        if found:
            ids = [each.id or each.key for each in found]
            names = ", ".join(sorted(ids if len(set(ids)) == len(ids) else (each.key for each in found))[:5])
            raise AgentError(f"{wanted!r} is more than one deployment: {names}", hint="give more of the id")
    raise AgentError(f"no deployment {wanted!r} in {where}", hint=f"`{status}` shows them all")

"""The options that name a state directory, and the argument that names a deployment in it."""

from __future__ import annotations

import os
from pathlib import Path

from heat_config_agent.cli import terminal
from heat_config_agent.cli.command_line import Option, seconds
from heat_config_agent.deployments import plan
from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry, Removed
from heat_config_agent.model.errors import NotFoundError, UsageError
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state.deployed import kept

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from typing import Any, TypeAlias

    Commands: TypeAlias = argparse._SubParsersAction[Any]  # noqa: SLF001  # it has no public name


CONFIG = Option("--config", "read the settings from this file only", "FILE", read=Path)
"""The option that names the file of settings."""

STATE = (
    Option(
        "--state-dir",
        "the state directory (default /var/lib/heat-config-agent, of users ~/.local/state/heat-config-agent)",
        "DIR",
        read=Path,
    ),
    CONFIG,
)
"""The options that name the state directory."""

COMMON = (
    Option("--no-color", "print without colours, as with NO_COLOR"),
    Option("--quiet", "show no progress", short="-q"),
)
"""The options of all commands."""

WAIT_FOR = Option(
    "--wait-for",
    "how long to wait (0: not at all); the work goes on after it, and the command ends with 7",
    "TIME",
    read=seconds,
)
"""The option that limits how long a command waits."""

JSON = Option(
    "--json", "print one JSON object, also for a mistake: docs/schemas describes it"
)
"""The option for output that a program reads."""

DIFF = Option(
    "--diff",
    "with --plan: show what differs, old and new, and what the tools say that they would do",
)
PLAN = Option("--plan", "show what would be done, and do nothing")
"""The option that only shows what a command would do; --dry-run is its other name."""

YES = Option("--yes", "do it without a question", short="-y")
"""The option that answers the question of a command that cannot be undone."""

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
  2  bad usage or settings
"""


NO_STATE_CODES = """\
exit codes:
  0  done
  2  bad usage
"""
"""The exit codes of a command that only prints what is installed."""


def stateless(
    commands: Commands, name: str, brief: str, description: str, *, epilog: str = ""
) -> Any:
    """Declare a command, or a group, without the options that name a state directory.

    Without a `brief` sentence, it is not in the list of commands.
    """
    from heat_config_agent.cli.help_format import HelpFormatter  # noqa: PLC0415  # not for heat-config-apply

    shown: dict[str, Any] = {"help": brief} if brief else {}
    return commands.add_parser(
        name,
        description=description,
        epilog=epilog,
        formatter_class=HelpFormatter,
        **shown,
    )


def command(
    commands: Commands,
    name: str,
    brief: str,
    description: str | None,
    *,
    epilog: str = EXIT_CODES,
) -> argparse.ArgumentParser:
    """Declare a command about a state directory. Without a `brief` sentence, it is not in the list of commands."""
    parser: argparse.ArgumentParser = stateless(
        commands, name, brief, (description or brief).partition(": ")[2], epilog=epilog
    )
    for option in STATE:
        option.add(parser)
    add_common(parser)
    return parser


def group(commands: Commands, name: str, brief: str) -> Commands:
    """Declare a group of commands, and return the object to which its commands are added."""
    description = f"{brief[:1].upper()}{brief[1:]}."
    parser = stateless(commands, name, brief, description)
    inner: Commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    return inner


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options of all commands."""
    for option in COMMON:
        option.add(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option for output that a program reads."""
    JSON.add(parser)


def add_wait_for(parser: argparse.ArgumentParser) -> None:
    """Add the option that limits how long the command waits."""
    WAIT_FOR.add(parser)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the option that only shows what would be done."""
    PLAN.add(parser, "--dry-run")


def add_diff(parser: argparse.ArgumentParser) -> None:
    """Add the option that shows what differs in a plan."""
    DIFF.add(parser)


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add the option that answers the question of a command."""
    YES.add(parser)


_NAME = (
    "a name or an id as the lists show them: a deployment, STACK/RESOURCE, SOURCE/DEPLOYMENT, a stack or a source; "
    "of an id, the first 8 characters are enough"
)


def add_id(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    """Add the thing that a command is about."""
    parser.add_argument("id", metavar="NAME", nargs=None if needed else "?", help=_NAME)


def add_ids(parser: argparse.ArgumentParser) -> None:
    """Add the things that a command is about."""
    parser.add_argument("ids", metavar="NAME", nargs="+", help=_NAME)


def add_some(parser: argparse.ArgumentParser) -> None:
    """Add the things that a command is about; without any, it is about everything."""
    parser.add_argument("names", metavar="NAME", nargs="*", help=_NAME)


def of(
    options: argparse.Namespace, overrides: effective.Overrides | None = None
) -> Settings:
    """Return the settings of a command that needs only the state directory.

    Prints mistakes in the settings as a warning. Raises UsageError if they leave in doubt which directory is meant.
    """
    made: Settings | None = getattr(options, "settings", None)
    if made is not None:
        return made
    wrong: list[str] = []
    settings = effective.make(
        os.environ,
        config=options.config,
        state=options.state_dir,
        overrides=overrides or effective.NO_OVERRIDES,
        mistakes=wrong,
    )
    if wrong and not settings.placed:
        raise UsageError(wrong[0], hint=_more(settings))
    if wrong:
        terminal.warn(wrong[0], hint=_more(settings))
    options.settings = settings
    return settings


def there(
    options: argparse.Namespace, overrides: effective.Overrides | None = None
) -> Settings:
    """Return the settings of a command that only reads. Raises NotFoundError if the directory that it names is missing.

    A directory that nothing names may be missing: nothing was applied there yet.
    """
    settings = of(options, overrides)
    if options.state_dir is not None and not os.path.lexists(settings.state):
        raise NotFoundError(
            f"there is no state directory {settings.state}",
            hint="without --state-dir, the usual one is meant",
            subject=("directory", str(settings.state)),
        )
    return settings


def _more(settings: Settings) -> str:
    number = len(settings.mistakes) - 1
    return (
        f"and {number} more: `{settings.command('config')}` shows them"
        if number > 0
        else ""
    )


def deployment(settings: Settings, entry: Entry) -> Deployment | None:
    """Return the deployment of an entry from the journal, or else from `deployed/`; None if neither has it."""
    document = entry.document or kept(settings.deployed / f"{entry.key}.json")
    if not document and entry.removed is not Removed.NOTHING:
        # what is left of it has no secrets
        document = {"id": entry.id, "name": entry.name}
    return plan.deployment_of(entry, document) if document else None

"""The options of `heat-config-apply`, and the FILE that is a template for certain.

For a template, nothing of what applies documents is loaded.
"""

from __future__ import annotations

import os

from heat_config_agent.cli import command_line, runner, state_options
from heat_config_agent.cli.command_line import Option, environment, number, seconds
from heat_config_agent.model.errors import UsageError
from heat_config_agent.settings import effective, schema
from heat_config_agent.settings.effective import Settings

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import SimpleNamespace

TEMPLATE = (
    Option(
        "--environment",
        "with a template: an environment file; may be repeated",
        "FILE",
        read=environment,
        repeated=True,
        short="-e",
    ),
    Option(
        "--parameter",
        "with a template: the value of a parameter; may be repeated",
        "NAME=VALUE",
        repeated=True,
    ),
    Option(
        "--parameter-file",
        "with a template: a parameter whose value is in a file; may be repeated",
        "NAME=FILE",
        repeated=True,
    ),
    Option(
        "--attribute",
        "with a template: an attribute of a resource that needs a cloud; may be repeated",
        "RESOURCE.NAME=VALUE",
        repeated=True,
    ),
    Option(
        "--input",
        "with a template: the same as --parameter, for inputs of a service template",
        "NAME=VALUE",
        repeated=True,
    ),
    Option(
        "--inputs",
        "with a service template: a YAML file with inputs; may be repeated",
        "FILE",
        repeated=True,
    ),
    Option(
        "--substitute",
        "with a service template: the template that stands in the place of a node; may be repeated",
        "NODE=FILE",
        repeated=True,
    ),
    Option(
        "--name",
        "with a template: the name of the stack (default: the name of the file)",
        "STACK",
    ),
    Option(
        "--server",
        "with a template: carry out only the deployments of this server",
        "NAME",
    ),
    Option(
        "--hosts",
        "with a template: a file with the host of each server, which is reached by ssh; others are this machine",
        "FILE",
    ),
    Option(
        "--max-hosts",
        "with --hosts: the most hosts that work at once (default: all)",
        "N",
        read=number(1),
    ),
    Option(
        "--user-data",
        "with a template: carry out the scripts in the user_data of servers, once for each",
    ),
    Option(
        "--rollback", "with a template: return to the state before if something fails"
    ),
)
"""The options for templates only, in the order of `--help`."""

OPTIONS = (
    Option("--plan", "show each step and its reason, and run nothing"),
    Option(
        "--exit-code",
        "with --plan: end with 9 if there is something to do",
    ),
    state_options.DIFF,
    Option(
        "--strict",
        "also end with 1 if a deployment that is skipped has failed before, and with 9 if one has drifted",
    ),
    Option("--all", "with --plan of a template: show unchanged resources too"),
    Option(
        "--only",
        "apply only this deployment; may be repeated",
        "NAME",
        repeated=True,
    ),
    Option(
        "--json",
        "print one JSON object instead of text; with a template, print one for each event, and then the stack",
    ),
    *state_options.STATE,
    state_options.HOOKS,
    Option(
        "--timeout",
        "timeout of deployments that do not set their own "
        f"(default {schema.number('time_limit'):g}; 0 means no timeout)",
        "TIME",
        read=seconds,
    ),
    Option(
        "--grace",
        f"time between TERM and KILL after a timeout (default {schema.number('grace'):g})",
        "TIME",
        read=seconds,
    ),
    Option(
        "--deliver-for",
        "how long to retry the delivery of a result before leaving it to the next run "
        f"(default {effective.DELIVERY_SECONDS:g})",
        "TIME",
        read=seconds,
    ),
    Option(
        "--signature",
        "the signature of the tree that FILE is in, as heat-config-agent source sync has kept it",
        "FILE",
    ),
    Option("--ca-file", "certificates to trust when delivering results", "FILE"),
    *state_options.COMMON,
    *TEMPLATE,
)
"""The options in the order of `--help`."""

VERSIONS = (b"heat_template_version", b"tosca_definitions_version")
"""The first keys of templates."""


def is_of_template(arguments: Sequence[str]) -> bool:
    """Return whether the only FILE of a command line is certainly a template."""
    options = command_line.read(arguments, OPTIONS, rest="file")
    return (
        options is not None and len(options.file) == 1 and is_template(options.file[0])
    )


def run_template(arguments: Sequence[str]) -> int:
    """Apply the only FILE of a command line, which is a template; return the exit code."""
    options = command_line.read(arguments, OPTIONS, rest="file")
    if options is None:
        raise ValueError("the command line has no template")
    runner.use(options, "plan" if options.plan else "stack")
    return apply_template(settings_of(options), options, None)


def settings_of(options: SimpleNamespace | argparse.Namespace) -> Settings:
    """Return the settings with those of the command line."""
    return effective.make(
        os.environ,
        config=options.config,
        state=options.state_dir,
        overrides=effective.Overrides(
            hooks=tuple(options.hooks_dir),
            limit=options.timeout,
            grace=options.grace,
            delivery=options.deliver_for,
            ca_file=options.ca_file,
        ),
    )


def is_template(name: str) -> bool:
    """Return whether a file is certainly a template, as its first key says, or an archive; not all of it is read."""
    try:
        if name == "-" or not os.path.isfile(name):  # noqa: PTH113  # once for each document
            return False
        with open(name, "rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return False
    if head.startswith(b"PK\x03\x04"):
        return True
    if not any(version in head for version in VERSIONS):
        return False
    lines = (line.strip() for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    first = next(
        (line for line in lines if line and not line.startswith((b"#", b"---", b"%"))),
        b"",
    )
    return first.startswith(tuple(version + b":" for version in VERSIONS))


_HEAD = 4096
"""The bytes of a file among which the first key of a template usually is."""


def apply_template(
    settings: Settings,
    options: SimpleNamespace | argparse.Namespace,
    content: bytes | None,
) -> int:
    """Create or update the stack of a template."""
    if len(options.file) != 1 or options.file == ["-"]:
        template = next(filter(is_template, options.file), "a template")
        problem = f"{template} cannot be applied together with other files, or from standard input"
        raise UsageError(problem, hint="a template is applied alone: name one file")
    if options.only:
        raise UsageError(
            f"--only is for documents, and {options.file[0]} is a template"
        )
    from heat_config_agent.cli import stack_package  # noqa: PLC0415  # documents need none of it

    return stack_package.apply(settings, options.file[0], options, content)

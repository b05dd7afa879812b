"""The options of `heat-config-apply`."""

from __future__ import annotations

from heat_config_agent.cli import state_options
from heat_config_agent.cli.command_line import Option, seconds
from heat_config_agent.settings import effective, schema

TEMPLATE = (
    Option("--environment", "with a template: an environment file; may be repeated", "FILE", repeated=True, short="-e"),
    Option("--parameter", "with a template: the value of a parameter; may be repeated", "NAME=VALUE", repeated=True),
    Option(
        "--parameter-file",
        "with a template: a parameter whose value is in a file; may be repeated",
        "NAME=PATH",
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
    Option("--inputs", "with a service template: a YAML file with inputs; may be repeated", "FILE", repeated=True),
    Option(
        "--substitute",
        "with a service template: the template that stands in the place of a node; may be repeated",
        "NODE=FILE",
        repeated=True,
    ),
    Option("--name", "with a template: the name of the stack (default: the name of the file)", "STACK"),
    Option(
        "--server",
        "with a template: carry out only the deployments of this server (every server is this machine)",
        "NAME",
    ),
    Option("--user-data", "with a template: carry out the scripts in the user_data of servers, once for each"),
    Option("--rollback", "with a template: return to the state before if something fails"),
)
"""The options for templates only, in the order of `--help`."""

OPTIONS = (
    Option("--plan", "show each step and its reason, and run nothing"),
    Option("--only", "apply only this deployment; may be repeated", "NAME|ID", repeated=True),
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
        "SECONDS",
        read=seconds,
    ),
    Option(
        "--grace",
        f"time between TERM and KILL after a timeout (default {schema.number('grace'):g})",
        "SECONDS",
        read=seconds,
    ),
    Option(
        "--deliver-for",
        "how long to retry the delivery of a result before leaving it to the next run "
        f"(default {effective.DELIVERY_SECONDS:g})",
        "SECONDS",
        read=seconds,
    ),
    Option("--signature", "the signature of the tree that FILE is in, as heat-config-agent follow has kept it", "FILE"),
    Option("--ca-file", "certificates to trust when delivering results", "FILE"),
    *TEMPLATE,
)
"""In the order of `--help`."""

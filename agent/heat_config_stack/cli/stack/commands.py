"""The commands of `heat-config-agent stack` and their options. A command loads its module when it runs."""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from heat_config_agent.cli import state_options
from heat_config_agent.cli.command_line import seconds
from heat_config_agent.cli.help_format import HelpFormatter, Parser
from heat_config_stack.cli import template_options

_EXIT_CODES = """\
exit codes:
  0    success
  1    the stack failed or was rolled back, or there is no such output or resource
  2    bad usage or configuration, no such stack, or mistakes in a template: nothing was begun
  4    another program works on the stack
  6    a script has asked for a reboot of the machine, and continues after it
  130  interrupted: runs that have begun go on, and the same command continues the work
"""

_TRUE = {"enable": True, "enabled": True, "true": True, "on": True, "yes": True}
_TRUE |= {
    "disable": False,
    "disabled": False,
    "false": False,
    "off": False,
    "no": False,
}


def add(commands: state_options.Commands, named: str = "") -> None:
    """Declare the command and its subcommands: the one that is named, else all of them, which takes longer."""
    parser = commands.add_parser(
        "stack",
        help="create, inspect and change stacks of HOT templates and TOSCA services",
        description="Stacks of HOT templates and of TOSCA services, with the options of `openstack stack`.",
        epilog=_EXIT_CODES,
        formatter_class=HelpFormatter,
    )
    inner = parser.add_subparsers(
        metavar="COMMAND", title="commands", parser_class=_Parser
    )
    for declare in [_COMMANDS[named]] if named in _COMMANDS else _COMMANDS.values():
        declare(inner)


def _run(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Return a function that loads the module of a command and runs the command."""

    def run(options: argparse.Namespace) -> int:
        code: int = getattr(
            importlib.import_module(f"{__package__}.{module}"), function
        )(options)
        return code

    return run


def _command(
    inner: state_options.Commands,
    name: str,
    brief: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = state_options.command(
        inner,
        name,
        brief,
        f"{name}: {brief[:1].upper()}{brief[1:]}.",
        epilog=_EXIT_CODES,
    )
    parser.set_defaults(run=run)
    return parser


def _worked_on(
    inner: state_options.Commands,
    name: str,
    brief: str,
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Declare a command that changes stacks."""
    parser = _command(inner, name, brief, run)
    parser.add_argument(
        "--wait",
        action="store_true",
        help="accepted and ignored: the command always waits for the end",
    )
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        help="how long to wait: seconds, or a time like 30m or 2h; runs that have begun go on after it",
    )
    parser.add_argument(
        "--server",
        metavar="NAME",
        help="carry out only the deployments of this server (every server is this machine)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object for each event, and then the stack",
    )
    return parser


def _seconds(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Parser(Parser):
    """Parses `--rollback NAME` like `--rollback enable NAME`: the word after it is its value only if it can be."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments of a command."""
        return super().parse_known_args(args and [*_with_value(args)], namespace)


def _with_value(words: Sequence[str]) -> Iterator[str]:
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        yield (
            "--rollback=enable"
            if word == "--rollback" and following.lower() not in _TRUE
            else word
        )


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE:
        raise argparse.ArgumentTypeError(f"expected enable or disable, not {text!r}")
    return _TRUE[text.lower()]


def _add_wanted(parser: argparse.ArgumentParser) -> None:
    template_options.add(parser)
    template_options.add_attributes(parser)
    _add_rollback(parser)
    parser.add_argument(
        "--user-data",
        action="store_true",
        help="carry out the scripts in the user_data of servers, once",
    )
    parser.add_argument(
        "--dry-run",
        "--plan",
        action="store_true",
        help="show the change of each resource, and do nothing",
    )


def _add_rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rollback",
        metavar="enable|disable",
        nargs="?",
        const=True,
        default=False,
        type=_boolean,
        help="return to the state before if something fails (default: disable)",
    )
    parser.add_argument(
        "--enable-rollback",
        dest="rollback",
        action="store_const",
        const=True,
        help="the same",
    )


def _add_create(inner: state_options.Commands) -> None:
    parser = _worked_on(inner, "create", "create a stack", _run("operations", "create"))
    parser.add_argument("name", metavar="NAME", help="the name of the new stack")
    _add_wanted(parser)


def _add_kept(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--existing",
        action="store_true",
        help="keep the template, environments and parameters that are not given",
    )
    parser.add_argument(
        "--clear-parameter",
        metavar="NAME",
        action="append",
        default=[],
        help="with --existing: reset this parameter to its default; may be repeated",
    )


def _add_update(inner: state_options.Commands) -> None:
    parser = _worked_on(inner, "update", "update a stack", _run("operations", "update"))
    parser.add_argument("name", metavar="NAME", help="the stack")
    _add_wanted(parser)
    _add_kept(parser)


def _add_turn(action: str, inner: state_options.Commands) -> None:
    parser = _worked_on(inner, action, f"{action} a stack", _run("operations", "turn"))
    parser.add_argument("name", metavar="NAME", help="the stack")
    parser.set_defaults(turn=action)


def _add_delete(inner: state_options.Commands) -> None:
    parser = _worked_on(
        inner,
        "delete",
        "delete stacks and everything that they created",
        _run("operations", "delete"),
    )
    parser.add_argument("names", metavar="NAME", nargs="+", help="a stack")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask for confirmation"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="go on if the deletion of a resource fails, and forget the resource",
    )


def _add_list(inner: state_options.Commands) -> None:
    _shows(inner, "list", "list all stacks", _run("queries", "stacks"), of_stack=False)


def _add_show(inner: state_options.Commands) -> None:
    _shows(
        inner,
        "show",
        "show a stack with its parameters and outputs",
        _run("queries", "stack"),
    )


def _add_output(inner: state_options.Commands) -> None:
    outputs = _group(inner, "output", "show the outputs of a stack")
    _shows(
        outputs,
        "list",
        "list the outputs with their descriptions",
        _run("queries", "outputs"),
    )
    parser = _shows(
        outputs, "show", "show the value of an output", _run("queries", "output")
    )
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        nargs="?",
        help="the name of an output (default: all)",
    )
    parser.add_argument("--all", action="store_true", help="show all outputs")
    parser.add_argument("--reveal", action="store_true", help="do not mask secrets")


def _add_node(inner: state_options.Commands) -> None:
    of_nodes = _group(inner, "node", "show the nodes of a service")
    _shows(
        of_nodes,
        "list",
        "list the nodes with their types, states and machines",
        _run("queries", "nodes"),
    )
    parser = _shows(
        of_nodes,
        "show",
        "show a node with its attributes and operations",
        _run("queries", "node"),
    )
    parser.add_argument("node", metavar="NODE", help="the node")


def _add_resource(inner: state_options.Commands) -> None:
    resources = _group(inner, "resource", "show the resources of a stack")
    parser = _shows(
        resources,
        "list",
        "list the resources with their states",
        _run("queries", "resources"),
    )
    parser.add_argument(
        "-n",
        "--nested-depth",
        metavar="DEPTH",
        type=int,
        default=0,
        help="include this many levels of nested stacks",
    )
    parser = _shows(
        resources,
        "show",
        "show a resource with its attributes",
        _run("queries", "resource"),
    )
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        help="its name, or GROUP/MEMBER in a nested stack",
    )
    parser = _worked_on(
        resources,
        "signal",
        "signal a resource: the handle of a wait condition, or one of a plug-in",
        _run("operations", "signal"),
    )
    parser.add_argument("name", metavar="NAME", help="the name of the stack")
    parser.add_argument(
        "resource",
        metavar="RESOURCE",
        help="its name, or GROUP/MEMBER in a nested stack",
    )
    parser.add_argument(
        "--data", metavar="JSON", help="the content of the signal (default: none)"
    )
    _add_types(resources)


def _add_event(inner: state_options.Commands) -> None:
    events = _group(inner, "event", "show the events of a stack")
    parser = _shows(
        events, "list", "list the events, oldest first", _run("queries", "events")
    )
    parser.add_argument(
        "--resource", metavar="NAME", help="only the events of this resource"
    )
    parser.add_argument(
        "--limit", metavar="NUMBER", type=int, help="only the last events"
    )


def _add_preview(inner: state_options.Commands) -> None:
    parser = _shows(
        inner,
        "preview",
        "show what create or update would do",
        _run("operations", "preview_"),
        of_stack=False,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="the name of the stack")
    template_options.add(parser)
    template_options.add_attributes(parser)
    _add_kept(parser)


def _add_adopt(inner: state_options.Commands) -> None:
    parser = _worked_on(
        inner,
        "adopt",
        "create a stack of resources that exist already",
        _run("archives", "adopt"),
    )
    parser.add_argument("name", metavar="NAME", help="the name of the stack")
    parser.add_argument(
        "--adopt-file",
        metavar="FILE",
        required=True,
        help="the output of `stack abandon`, of this command or of Heat",
    )
    template_options.add_values(parser)
    template_options.add_attributes(parser)
    _add_rollback(parser)


def _add_abandon(inner: state_options.Commands) -> None:
    brief = "print the state of a stack, and forget the stack without deleting anything"
    parser = _command(inner, "abandon", brief, _run("archives", "abandon"))
    parser.add_argument("name", metavar="NAME", help="the stack")
    parser.add_argument(
        "--output-file",
        metavar="FILE",
        help="write the state to this file (default: print it)",
    )


def _add_snapshot(inner: state_options.Commands) -> None:
    group = _group(inner, "snapshot", "take, show and restore snapshots of a stack")
    parser = _worked_on(
        group, "create", "take a snapshot of a stack", _run("archives", "create")
    )
    parser.add_argument("name", metavar="STACK", help="the stack")
    parser.add_argument(
        "--name", dest="snapshot_name", metavar="NAME", help="the name of the snapshot"
    )
    _shows(group, "list", "list the snapshots of a stack", _run("archives", "list_"))
    parser = _shows(
        group,
        "show",
        "print a snapshot with the state of the stack, as JSON",
        _run("archives", "show"),
    )
    parser.add_argument("snapshot", metavar="SNAPSHOT", help="its id or its name")
    parser.add_argument("--reveal", action="store_true", help="do not mask secrets")
    for name, brief, run in (
        ("restore", "restore a stack to a snapshot", _run("archives", "restore")),
        ("delete", "delete a snapshot of a stack", _run("archives", "delete")),
    ):
        parser = _worked_on(group, name, brief, run)
        parser.add_argument("name", metavar="STACK", help="the stack")
        parser.add_argument("snapshot", metavar="SNAPSHOT", help="its id or its name")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask for confirmation"
    )


def _add_types(resources: state_options.Commands) -> None:
    types = _group(resources, "type", "show the resource types that templates may have")
    parser = _shows(
        types,
        "list",
        "list the resource types, those of plug-ins included",
        _run("type_queries", "list_"),
        of_stack=False,
    )
    parser.add_argument(
        "--filter",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="only types with this support_status, since this version, or whose name begins with a match of this "
        "regular expression: a KEY is name, version or support_status; may be repeated",
    )
    parser.add_argument("--long", action="store_true", help="show descriptions too")
    parser = _shows(
        types,
        "show",
        "show the properties and attributes of a resource type",
        _run("type_queries", "show"),
        of_stack=False,
    )
    parser.add_argument("type", metavar="TYPE", help="the name of a resource type")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--long", action="store_true", help="with --json, print the description too"
    )
    kinds.add_argument(
        "--template-type",
        metavar="KIND",
        type=str.lower,
        choices=("hot", "cfn"),
        help="print a template with a resource of the type instead, a parameter for each property and an output for "
        "each attribute; a KIND is hot, or cfn for the format of CloudFormation",
    )


def _add_workflow(inner: state_options.Commands) -> None:
    of_workflows = _group(
        inner, "workflow", "show and carry out the workflows of a service"
    )
    _shows(
        of_workflows,
        "list",
        "list the workflows with their inputs and their last runs",
        _run("workflows", "list_"),
    )
    parser = _worked_on(
        of_workflows, "run", "carry out a workflow", _run("workflows", "run")
    )
    parser.add_argument("name", metavar="NAME", help="the name of the stack")
    parser.add_argument("workflow", metavar="WORKFLOW", help="the workflow")
    _add_input(parser)


def _add_trigger(inner: state_options.Commands) -> None:
    parser = _worked_on(
        inner,
        "trigger",
        "start the action of a trigger of a policy",
        _run("workflows", "trigger"),
    )
    parser.add_argument("name", metavar="NAME", help="the name of the stack")
    parser.add_argument("trigger", metavar="POLICY.TRIGGER", help="the trigger")
    _add_input(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="the value of an input of the workflow; may be repeated",
    )


def _shows(
    inner: state_options.Commands,
    name: str,
    brief: str,
    run: Callable[[argparse.Namespace], int],
    *,
    of_stack: bool = True,
) -> argparse.ArgumentParser:
    """Declare a command that shows something."""
    parser = _command(inner, name, brief, run)
    if of_stack:
        parser.add_argument("name", metavar="NAME", help="the stack")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _group(
    inner: state_options.Commands, name: str, brief: str
) -> state_options.Commands:
    parser = inner.add_parser(
        name, help=brief, description=f"{brief[:1].upper()}{brief[1:]}."
    )
    inner_: state_options.Commands = parser.add_subparsers(
        metavar="COMMAND", title="commands"
    )
    return inner_


def _add_graph(inner: state_options.Commands) -> None:
    parser = _command(
        inner,
        "graph",
        "draw the dependencies of resources, or their times",
        _run("drawing", "graph"),
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="a stack; alternatively, give a template with -t",
    )
    template_options.add(parser)
    parser.add_argument(
        "--timeline",
        action="store_true",
        help="draw when each resource was last worked on",
    )
    parser.add_argument(
        "--format", choices=("text", "dot", "svg"), default="text", help="default: text"
    )


_COMMANDS: dict[str, Callable[[state_options.Commands], None]] = {
    "create": _add_create,
    "update": _add_update,
    "suspend": functools.partial(_add_turn, "suspend"),
    "resume": functools.partial(_add_turn, "resume"),
    "check": functools.partial(_add_turn, "check"),
    "delete": _add_delete,
    "adopt": _add_adopt,
    "abandon": _add_abandon,
    "snapshot": _add_snapshot,
    "list": _add_list,
    "show": _add_show,
    "output": _add_output,
    "node": _add_node,
    "workflow": _add_workflow,
    "trigger": _add_trigger,
    "resource": _add_resource,
    "event": _add_event,
    "preview": _add_preview,
    "graph": _add_graph,
}
"""Subcommand → the function that declares it, in the order of `--help`."""

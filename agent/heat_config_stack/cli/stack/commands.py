"""The commands of `heat-config-agent stack` and their options. A command loads its module when it runs."""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from heat_config_agent.cli import state_options
from heat_config_agent.cli.command_line import Option, number
from heat_config_agent.cli.help_format import Parser
from heat_config_stack.cli import template_options

_MEANINGS = {
    0: "success",
    1: "the stack failed, or was rolled back",
    2: "bad usage or settings, or mistakes in a template: nothing was begun",
    4: "another program works on the stack",
    6: "a script has asked for a reboot of the machine, and continues after it",
    7: "the time of --wait-for is over; runs that have begun go on, and the same command continues the work",
    8: "there is no such stack, or no such thing of it",
    10: "the machine lacks something, such as space on the disk",
    130: "interrupted: runs that have begun go on, and the same command continues the work",
}
"""The exit codes of commands that work on a stack."""

_NEW = {8: ""}
"""The exit code that a command without an existing stack does not have."""

_TEMPLATE = "bad usage or settings, or mistakes in a template"

_ASKS = "or the answer to the question was no"


def _codes(special: Mapping[int, str] | None = None, *, works: bool = True) -> str:
    """Return the list of exit codes of a command; `special` meanings are its own, and it has no code without one."""
    usual = (
        _MEANINGS if works else {0: "success", 2: "bad usage or settings", **_of(8, 10)}
    )
    meanings = dict(sorted({**usual, **(special or {})}.items()))
    rows = [f"  {code:<4} {text}\n" for code, text in meanings.items() if text]
    return f"exit codes:\n{''.join(rows)}"


def _of(*codes: int) -> dict[int, str]:
    return {code: _MEANINGS[code] for code in codes}


_GROUP = {
    1: "the stack or the workflow failed or was rolled back, or an output has no value",
    9: "check: something has drifted",
}
"""The exit codes of all commands together."""

_CHECK = """\
Verify whether the machine still is as the deployments of a stack say, those of nested stacks included.

Nothing is changed on the machine. The stack is CHECK_COMPLETE or CHECK_FAILED after it; of a stack that has failed the
check, the next update runs again what has drifted.
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
    """Declare the command, and the named subcommand or else all subcommands, which takes longer."""
    parser = state_options.stateless(
        commands,
        "stack",
        "create, inspect and change stacks of HOT templates and TOSCA services",
        "Stacks of HOT templates and of TOSCA services, with the options of `openstack stack`.",
        epilog=_codes(_GROUP),
    )
    inner = parser.add_subparsers(
        metavar="COMMAND", title="commands", parser_class=_Parser
    )
    for declare in [_COMMANDS[named]] if named in _COMMANDS else _COMMANDS.values():
        declare(inner)


def _run(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Return a function that loads the module of a command and runs the command."""

    def run(options: argparse.Namespace) -> int:
        if getattr(options, "of_stack", False):
            _name_stacks(options)
        code: int = getattr(
            importlib.import_module(f"{__package__}.{module}"), function
        )(options)
        return code

    return run


def _name_stacks(options: argparse.Namespace) -> None:
    """Replace the ids of stacks on the command line by the names of the stacks. Raises NotFoundError."""
    from heat_config_stack.records import listing  # noqa: PLC0415  # not for new stacks

    state = state_options.of(options).state
    if "names" in options:
        options.names = [listing.named(state, each) for each in options.names]
    elif options.name is not None:
        options.name = listing.named(state, options.name)


def _command(
    inner: state_options.Commands,
    name: str,
    brief: str,
    run: Callable[[argparse.Namespace], int],
    kind: str = "stack",
) -> argparse.ArgumentParser:
    parser = state_options.command(
        inner,
        name,
        brief,
        f"{name}: {brief[:1].upper()}{brief[1:]}.",
        epilog=_codes(),
    )
    parser.set_defaults(run=run, kind=kind)
    return parser


def _worked_on(
    inner: state_options.Commands,
    name: str,
    brief: str,
    run: Callable[[argparse.Namespace], int],
    kind: str = "stack",
) -> argparse.ArgumentParser:
    """Declare a command that works on stacks."""
    parser = _command(inner, name, brief, run, kind)
    parser.add_argument(
        "--wait",
        action="store_true",
        help="accepted and ignored: the command always waits for the end",
    )
    state_options.add_wait_for(parser)
    parser.add_argument(
        "--server",
        metavar="NAME",
        help="carry out only the deployments of this server",
    )
    _add_hosts(parser)
    Option(
        "--max-hosts",
        "the most other hosts that work at once (default: all)",
        "N",
        read=number(1),
    ).add(parser)
    state_options.add_json(parser)
    return parser


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    Option(
        "--hosts",
        "a file with the host of each server, which is reached by ssh; others are this machine; only create and "
        "update move a server (default: the hosts that the stack has)",
        "FILE",
    ).add(parser)


def _changes(
    inner: state_options.Commands,
    name: str,
    brief: str,
    run: Callable[[argparse.Namespace], int],
    *,
    of_stack: bool = True,
) -> argparse.ArgumentParser:
    """Declare a command that changes a stack, and shows what it would do with --plan."""
    parser = _worked_on(inner, name, brief, run)
    if of_stack:
        _add_stack(parser)
    state_options.add_plan(parser)
    _add_all(parser)
    return parser


def _add_all(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="with --plan: show unchanged resources too"
    )
    state_options.add_diff(parser)


_STACK = "the name of a stack, its id, or a unique beginning of its id of 8 characters or more"
_RESOURCE = "its name, or GROUP/MEMBER for one of a child stack"


def _add_stack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="STACK", help=_STACK)
    parser.set_defaults(of_stack=True)


def _add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="STACK", help="the name of the new stack")


class _Parser(Parser):
    """Parses `--rollback NAME` like `--rollback enable NAME`: the word after it is its value only if it can be."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments of a command."""
        return super().parse_known_args(args and [*_with_value(args)], namespace)


def _with_value(words: Sequence[str]) -> Iterator[str]:
    former = ""
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if former == "--rollback" and word.lower() in _TRUE:
            pass  # it is a part of the word before
        elif word == "--rollback":
            value = following if following.lower() in _TRUE else "enable"
            yield f"--rollback={value}"
        else:
            yield word
        former = word


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
        help="the same as --rollback",
    )


def _add_create(inner: state_options.Commands) -> None:
    run = _run("operations", "create")
    parser = _changes(inner, "create", "create a stack", run, of_stack=False)
    _add_new(parser)
    _add_wanted(parser)
    parser.epilog = _codes(_NEW)


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
    parser = _changes(inner, "update", "update a stack", _run("operations", "update"))
    _add_wanted(parser)
    _add_kept(parser)


def _add_turn(action: str, inner: state_options.Commands) -> None:
    parser = _changes(inner, action, f"{action} a stack", _run("operations", "turn"))
    parser.set_defaults(turn=action)
    if action == "check":
        parser.description = _CHECK
        parser.epilog = _codes(
            {
                1: "a deployment has failed earlier, or cannot be checked",
                9: "something has drifted: the next update runs it again",
            }
        )


def _add_delete(inner: state_options.Commands) -> None:
    parser = _changes(
        inner,
        "delete",
        "delete stacks and everything that they created",
        _run("operations", "delete"),
        of_stack=False,
    )
    parser.add_argument("names", metavar="STACK", nargs="+", help=_STACK)
    parser.set_defaults(of_stack=True)
    state_options.add_yes(parser)
    parser.add_argument(
        "--force",
        action="store_true",
        help="go on if the deletion of a resource fails, and forget the resource",
    )
    parser.epilog = _codes({1: f"a stack could not be deleted, {_ASKS}"})


def _add_cancel(inner: state_options.Commands) -> None:
    parser = _command(
        inner,
        "cancel",
        "end the running action of a stack, and the runs of its scripts",
        _run("cancel", "cancel"),
    )
    _add_stack(parser)
    parser.add_argument(
        "--no-rollback",
        action="store_true",
        help="let the stack fail, also where its action was begun with --rollback",
    )
    _add_hosts(parser)
    state_options.add_wait_for(parser)
    state_options.add_json(parser)
    parser.epilog = _codes(
        {
            1: "the rollback failed, or the command that works on the stack runs as another user",
            2: "bad usage or settings, or the stack has no running action",
            4: "the command that works on the stack does not end",
        }
    )


def _add_list(inner: state_options.Commands) -> None:
    parser = _shows(
        inner,
        "list",
        "list all stacks",
        _run("queries", "stacks"),
        "stacks",
        of_stack=False,
    )
    _add_wide(parser, "show the times and ids too")
    parser.epilog = _codes(_NEW, works=False)


def _add_wide(parser: argparse.ArgumentParser, brief: str) -> None:
    """Add the option for more columns, under the names that people know it by."""
    parser.add_argument("--wide", "--long", action="store_true", help=brief)


def _add_show(inner: state_options.Commands) -> None:
    parser = _shows(
        inner,
        "show",
        "show a stack with its parameters and outputs",
        _run("queries", "stack"),
        "stack",
    )
    parser.add_argument(
        "--all", action="store_true", help="show the parameters of Heat itself too"
    )


def _add_output(inner: state_options.Commands) -> None:
    outputs = state_options.group(inner, "output", "show the outputs of a stack")
    _shows(
        outputs,
        "list",
        "list the outputs with their descriptions",
        _run("queries", "outputs"),
        "outputs",
    )
    parser = _shows(
        outputs,
        "show",
        "show the value of an output",
        _run("queries", "output"),
        "output",
    )
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        nargs="?",
        help="the name of an output (default: all)",
    )
    parser.add_argument("--all", action="store_true", help="show all outputs")
    parser.add_argument("--reveal", action="store_true", help="do not mask secrets")
    parser.epilog = _codes({1: "the output has no value"}, works=False)


def _add_node(inner: state_options.Commands) -> None:
    of_nodes = state_options.group(inner, "node", "show the nodes of a service")
    _shows(
        of_nodes,
        "list",
        "list the nodes with their types, states and machines",
        _run("queries", "nodes"),
        "nodes",
    )
    parser = _shows(
        of_nodes,
        "show",
        "show a node with its attributes and operations",
        _run("queries", "node"),
        "node",
    )
    parser.add_argument("node", metavar="NODE", help="the node")


def _add_resource(inner: state_options.Commands) -> None:
    resources = state_options.group(inner, "resource", "show the resources of a stack")
    parser = _shows(
        resources,
        "list",
        "list the resources with their states",
        _run("queries", "resources"),
        "resources",
    )
    Option(
        "--nested-depth",
        "include this many levels of nested stacks",
        "N",
        read=number(0),
        short="-n",
    ).add(parser)
    parser.set_defaults(nested_depth=0)
    _add_wide(parser, "show the ids too")
    parser = _shows(
        resources,
        "show",
        "show a resource with its attributes",
        _run("queries", "resource"),
        "resource",
    )
    parser.add_argument("resource", metavar="RESOURCE", help=_RESOURCE)
    parser = _worked_on(
        resources,
        "signal",
        "signal a resource: the handle of a wait condition, or one of a plug-in",
        _run("operations", "signal"),
    )
    _add_stack(parser)
    parser.add_argument("resource", metavar="RESOURCE", help=_RESOURCE)
    parser.add_argument(
        "--data", metavar="JSON", help="the content of the signal (default: none)"
    )
    _add_types(resources)


def _add_event(inner: state_options.Commands) -> None:
    events = state_options.group(inner, "event", "show the events of a stack")
    parser = _shows(
        events,
        "list",
        "list the events, oldest first",
        _run("queries", "events"),
        "events",
    )
    parser.add_argument(
        "--resource", metavar="RESOURCE", help="only the events of this resource"
    )
    Option("--limit", "only the last N events", "N", read=number(1)).add(parser)
    parser.add_argument(
        "--follow",
        action="store_true",
        help="go on with new events until the stack has no running action",
    )
    parser.epilog = _codes(
        {0: "the events were shown", 130: "--follow was interrupted"}, works=False
    )


def _add_failures(inner: state_options.Commands) -> None:
    failures = state_options.group(inner, "failures", "show why a stack has failed")
    parser = _shows(
        failures,
        "list",
        "list the resources that have failed, with the last lines of their output",
        _run("queries", "failures"),
        "failures",
    )
    _add_wide(parser, "show more lines of their output")


def _add_template(inner: state_options.Commands) -> None:
    group = state_options.group(inner, "template", "show the template of a stack")
    _shows(
        group,
        "show",
        "print the template that a stack has",
        _run("definitions", "template"),
        "template",
    )


def _add_environment(inner: state_options.Commands) -> None:
    group = state_options.group(inner, "environment", "show the environment of a stack")
    parser = _shows(
        group,
        "show",
        "print the parameters and the environment that a stack has",
        _run("definitions", "environment"),
        "environment",
    )
    parser.add_argument("--reveal", action="store_true", help="do not mask secrets")


def _add_preview(inner: state_options.Commands) -> None:
    parser = _shows(
        inner,
        "preview",
        "",
        _run("operations", "preview_"),
        "plan",
        of_stack=False,
    )
    parser.description = (
        "Another name of `stack create --plan` and `stack update --plan`."
    )
    parser.add_argument("name", metavar="STACK", nargs="?", help=_STACK)
    template_options.add(parser)
    template_options.add_attributes(parser)
    _add_kept(parser)
    _add_all(parser)
    parser.epilog = _codes({2: _TEMPLATE}, works=False)


def _add_adopt(inner: state_options.Commands) -> None:
    parser = _changes(
        inner,
        "adopt",
        "create a stack of resources that exist already",
        _run("archives", "adopt"),
        of_stack=False,
    )
    _add_new(parser)
    parser.add_argument(
        "--adopt-file",
        metavar="FILE",
        required=True,
        help="the output of `stack abandon`, of this command or of Heat",
    )
    template_options.add_values(parser)
    template_options.add_attributes(parser)
    _add_rollback(parser)
    parser.epilog = _codes(_NEW)


def _add_abandon(inner: state_options.Commands) -> None:
    brief = "print the state of a stack, and forget the stack without deleting anything"
    parser = _command(inner, "abandon", brief, _run("archives", "abandon"))
    _add_stack(parser)
    state_options.add_yes(parser)
    parser.add_argument(
        "-o",
        "--output-file",
        metavar="FILE",
        help="write the state to this file (default: print it)",
    )
    parser.epilog = _codes(
        {
            1: f"the state could not be written: nothing was abandoned; {_ASKS}",
            6: "",
            7: "",
        }
    )


def _add_snapshot(inner: state_options.Commands) -> None:
    group = state_options.group(
        inner, "snapshot", "take, show and restore snapshots of a stack"
    )
    parser = _worked_on(
        group,
        "create",
        "take a snapshot of a stack",
        _run("archives", "create"),
        "snapshot",
    )
    _add_stack(parser)
    parser.add_argument(
        "--name", dest="snapshot_name", metavar="NAME", help="the name of the snapshot"
    )
    parser.epilog = _codes({1: "the snapshot failed"})
    _shows(
        group,
        "list",
        "list the snapshots of a stack",
        _run("archives", "list_"),
        "snapshots",
    )
    parser = _shows(
        group,
        "show",
        "print a snapshot with the state of the stack, as JSON",
        _run("archives", "show"),
        "snapshot",
    )
    parser.add_argument(
        "snapshot", metavar="SNAPSHOT", help="the id or the name of a snapshot"
    )
    parser.add_argument("--reveal", action="store_true", help="do not mask secrets")
    parser = _changes(
        group,
        "restore",
        "restore a stack to a snapshot",
        _run("archives", "restore"),
    )
    parser.add_argument(
        "snapshot", metavar="SNAPSHOT", help="the id or the name of a snapshot"
    )
    state_options.add_yes(parser)
    parser.epilog = _codes({1: f"{_MEANINGS[1]}, {_ASKS}"})
    parser = _worked_on(
        group,
        "delete",
        "delete a snapshot of a stack",
        _run("archives", "delete"),
        "snapshot",
    )
    _add_stack(parser)
    parser.add_argument(
        "snapshot", metavar="SNAPSHOT", help="the id or the name of a snapshot"
    )
    state_options.add_yes(parser)
    parser.epilog = _codes({1: f"the snapshot could not be deleted, {_ASKS}"})


def _add_types(resources: state_options.Commands) -> None:
    types = state_options.group(
        resources, "type", "show the resource types that templates may have"
    )
    parser = _shows(
        types,
        "list",
        "list the resource types, those of plug-ins included",
        _run("type_queries", "list_"),
        "resource_types",
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
    parser.epilog = _codes(_NEW, works=False)
    parser = _shows(
        types,
        "show",
        "show the properties and attributes of a resource type",
        _run("type_queries", "show"),
        "resource_type",
        of_stack=False,
    )
    parser.add_argument("type", metavar="TYPE", help="the name of a resource type")
    parser.epilog = _codes(
        {1: "the class of a plug-in cannot be used", 8: "there is no such type"},
        works=False,
    )
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
    of_workflows = state_options.group(
        inner, "workflow", "show and carry out the workflows of a service"
    )
    _shows(
        of_workflows,
        "list",
        "list the workflows and triggers with their inputs and their last runs",
        _run("workflows", "list_"),
        "workflows",
    )
    parser = _worked_on(
        of_workflows,
        "run",
        "carry out a workflow",
        _run("workflows", "run"),
        "workflow",
    )
    _add_stack(parser)
    parser.add_argument("workflow", metavar="WORKFLOW", help="the workflow")
    _add_input(parser)


def _add_trigger(inner: state_options.Commands) -> None:
    parser = _worked_on(
        inner,
        "trigger",
        "start the action of a trigger of a policy",
        _run("workflows", "trigger"),
        "workflow",
    )
    _add_stack(parser)
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
    parser.epilog = _codes({1: "the workflow failed"})


def _shows(
    inner: state_options.Commands,
    name: str,
    brief: str,
    run: Callable[[argparse.Namespace], int],
    kind: str,
    *,
    of_stack: bool = True,
) -> argparse.ArgumentParser:
    """Declare a command that shows something."""
    parser = _command(inner, name, brief, run, kind)
    parser.epilog = _codes(works=False)
    if of_stack:
        _add_stack(parser)
    state_options.add_json(parser)
    return parser


def _add_graph(inner: state_options.Commands) -> None:
    parser = _command(
        inner,
        "graph",
        "draw the dependencies of resources, or their times",
        _run("drawing", "graph"),
        "graph",
    )
    parser.set_defaults(of_stack=True)
    parser.add_argument(
        "name",
        metavar="STACK",
        nargs="?",
        help=f"{_STACK}; default: the template of --template",
    )
    template_options.add(parser)
    parser.add_argument(
        "--timeline",
        action="store_true",
        help="draw when each resource was last worked on",
    )
    parser.add_argument(
        "--format",
        choices=("text", "dot", "mermaid", "svg"),
        default="text",
        help="default: text",
    )
    parser.epilog = _codes({2: _TEMPLATE}, works=False)
    state_options.add_json(parser)


_COMMANDS: dict[str, Callable[[state_options.Commands], None]] = {
    "create": _add_create,
    "update": _add_update,
    "suspend": functools.partial(_add_turn, "suspend"),
    "resume": functools.partial(_add_turn, "resume"),
    "check": functools.partial(_add_turn, "check"),
    "delete": _add_delete,
    "cancel": _add_cancel,
    "adopt": _add_adopt,
    "abandon": _add_abandon,
    "snapshot": _add_snapshot,
    "list": _add_list,
    "show": _add_show,
    "failures": _add_failures,
    "output": _add_output,
    "node": _add_node,
    "workflow": _add_workflow,
    "trigger": _add_trigger,
    "resource": _add_resource,
    "event": _add_event,
    "template": _add_template,
    "environment": _add_environment,
    "preview": _add_preview,
    "graph": _add_graph,
}
"""Subcommand → the function that declares it, in the order of `--help`."""

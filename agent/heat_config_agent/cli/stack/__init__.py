"""`heat-config-agent stack`: Stacks of HOT templates on this machine, with the options of `openstack stack`.

| module | what lives there |
|---|---|
| `wanted` | what a command line names, or is kept → what a stack is to be |
| `opened` | a stack, to look at or to work on |
| `doing` | create, update, suspend, resume, check, delete, preview; what `heat-config-apply` does with a template |
| `shown` | what is shown meanwhile |
| `showing`, `values` | list, show, outputs, resources, events; what is said of each |
| `drawing`, `svg` | the graph of a stack, and when each of its resources was worked on |
| `secrets` | what is not shown |
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from heat_config_agent.cli import chosen, given
from heat_config_agent.cli.stack import doing, drawing, showing

_EXIT_CODES = """\
exit codes:
  0    the stack is as it was to be
  1    it has failed, or was rolled back; or there is no such output or resource
  2    bad usage or configuration, no such stack, or mistakes in a template: nothing was begun
  4    another program works on the stack
  130  interrupted: what is running goes on, and the same command again goes on with it
"""

_TRUE = {"enable": True, "enabled": True, "true": True, "on": True, "yes": True}
_TRUE |= {"disable": False, "disabled": False, "false": False, "off": False, "no": False}


def add(commands: chosen.Commands) -> None:
    """Declare the command, and those that it has."""
    parser = commands.add_parser(
        "stack",
        help="make stacks of HOT templates, see and change them",
        description="Stacks of HOT templates on this machine, with the options of `openstack stack`.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    inner = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    _add_create(inner)
    _add_update(inner)
    for turn, brief in (("suspend", "put it to rest"), ("resume", "wake it up"), ("check", "look whether it is well")):
        made = _worked_on(inner, turn, brief, doing.turn)
        made.add_argument("name", metavar="NAME", help="the stack")
        made.set_defaults(turn=turn)
    made = _worked_on(inner, "delete", "remove stacks, and all that they have made", doing.delete)
    made.add_argument("names", metavar="NAME", nargs="+", help="a stack")
    made.add_argument("-y", "--yes", action="store_true", help="do not ask")
    _add_shown(inner)
    _add_graph(inner)


def _command(
    inner: chosen.Commands, name: str, brief: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    made = chosen.command(inner, name, brief, f"{name}: {brief[:1].upper()}{brief[1:]}.", epilog=_EXIT_CODES)
    made.set_defaults(run=run)
    return made


def _worked_on(
    inner: chosen.Commands, name: str, brief: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """Declare a command that works on stacks."""
    made = _command(inner, name, brief, run)
    made.add_argument("--wait", action="store_true", help="as it does in any case: return when it is done")
    made.add_argument("--timeout", metavar="MINUTES", type=float, help="how long to wait; what runs then goes on")
    made.add_argument("--server", metavar="NAME", help="do only what is for this server; every server is this machine")
    made.add_argument("--json", action="store_true", help="print an object for each event, and at last the stack")
    return made


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE:
        raise argparse.ArgumentTypeError(f"expected enable or disable, not {text!r}")
    return _TRUE[text.lower()]


def _add_wanted(made: argparse.ArgumentParser) -> None:
    given.add(made)
    given.add_attributes(made)
    made.add_argument(
        "--rollback",
        metavar="enable|disable",
        nargs="?",
        const=True,
        default=False,
        type=_boolean,
        help="go back to what was before when something fails (default: disable)",
    )
    made.add_argument("--enable-rollback", dest="rollback", action="store_const", const=True, help="the same")
    made.add_argument("--dry-run", action="store_true", help="show what would become of each resource, and do nothing")


def _add_create(inner: chosen.Commands) -> None:
    made = _worked_on(inner, "create", "make a stack", doing.create)
    made.add_argument("name", metavar="NAME", help="what it is to be called")
    _add_wanted(made)


def _add_kept(made: argparse.ArgumentParser) -> None:
    made.add_argument("--existing", action="store_true", help="keep what is not given anew")
    made.add_argument(
        "--clear-parameter",
        metavar="NAME",
        action="append",
        default=[],
        help="with --existing: have this parameter be its default again; may be repeated",
    )


def _add_update(inner: chosen.Commands) -> None:
    made = _worked_on(inner, "update", "have a stack be something else", doing.update)
    made.add_argument("name", metavar="NAME", help="the stack")
    _add_wanted(made)
    _add_kept(made)


def _add_shown(inner: chosen.Commands) -> None:
    made = _shows(inner, "list", "all stacks", showing.stacks, of_stack=False)
    _shows(inner, "show", "a stack, with its parameters and outputs", showing.stack)
    outputs = _group(inner, "output", "what a stack has for whoever asks")
    _shows(outputs, "list", "the outputs and what they are", showing.outputs)
    made = _shows(outputs, "show", "the value of an output", showing.output)
    made.add_argument("output", metavar="OUTPUT", nargs="?", help="which one; all without it")
    made.add_argument("--all", action="store_true", help="all of them")
    made.add_argument("--reveal", action="store_true", help="show it although it is a secret")
    resources = _group(inner, "resource", "what a stack is made of")
    made = _shows(resources, "list", "the resources and how they are", showing.resources)
    made.add_argument("-n", "--nested-depth", metavar="DEPTH", type=int, default=0, help="those of nested stacks, too")
    made = _shows(resources, "show", "a resource and its attributes", showing.resource)
    made.add_argument("resource", metavar="RESOURCE", help="its name; of a nested one GROUP/MEMBER")
    events = _group(inner, "event", "what has happened")
    made = _shows(events, "list", "what has happened, the oldest first", showing.events)
    made.add_argument("--resource", metavar="NAME", help="only to this one")
    made.add_argument("--limit", metavar="NUMBER", type=int, help="only the last ones")
    made = _shows(inner, "preview", "what create would make, or update would change", doing.preview_, of_stack=False)
    made.add_argument("name", metavar="NAME", nargs="?", help="what it would be called, or is")
    given.add(made)
    given.add_attributes(made)
    _add_kept(made)


def _shows(
    inner: chosen.Commands, name: str, brief: str, run: Callable[[argparse.Namespace], int], *, of_stack: bool = True
) -> argparse.ArgumentParser:
    """Declare a command that shows something."""
    made = _command(inner, name, brief, run)
    if of_stack:
        made.add_argument("name", metavar="NAME", help="the stack")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def _group(inner: chosen.Commands, name: str, brief: str) -> chosen.Commands:
    made = inner.add_parser(name, help=brief, description=f"{brief[:1].upper()}{brief[1:]}.")
    return made.add_subparsers(metavar="COMMAND", title="commands", required=True)


def _add_graph(inner: chosen.Commands) -> None:
    made = _command(inner, "graph", "draw which resource needs which, or when each was worked on", drawing.graph)
    made.add_argument("name", metavar="NAME", nargs="?", help="a stack; or give a template with -t")
    given.add(made)
    made.add_argument("--timeline", action="store_true", help="draw when each resource was worked on last")
    made.add_argument("--format", choices=("text", "dot", "svg"), default="text", help="default: text")

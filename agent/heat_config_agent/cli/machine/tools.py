"""`heat-config-agent tool`: Show the tools of this machine, and whether their programs are installed."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import heat_config_hooks
from heat_config_agent.cli import envelope, state_options, terminal
from heat_config_agent.cli.apply import ready
from heat_config_agent.cli.apply.ready import State
from heat_config_agent.model.deployment import Tool
from heat_config_agent.model.errors import ExitCode, NotFoundError, StateError
from heat_config_agent.runs import tools
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal
from heat_config_hooks import options
from heat_config_hooks.options import Option
from heat_config_hooks.protocol import About

_LIST = ": Show all tools of this machine, with the hook and the program of each."

_SHOW = (
    ": Show the hook of a tool, its program, and the options that a deployment can set."
)

_LIST_CODES = """\
exit codes:
  0  the tools are shown, even if programs are missing
  2  bad usage or settings
"""

_SHOW_CODES = """\
exit codes:
  0  the tool is shown, even if its program is missing
  2  bad usage or settings
  8  there is no hook for TOOL
"""


def add(commands: state_options.Commands) -> None:
    """Declare the commands."""
    parser = state_options.stateless(
        commands,
        "tool",
        "show the tools, and which programs are missing",
        (__doc__ or "").partition(": ")[2],
    )
    inner = parser.add_subparsers(metavar="COMMAND", title="commands")
    command = state_options.command(
        inner,
        "list",
        "show all tools, and which programs are missing",
        _LIST,
        epilog=_LIST_CODES,
    )
    command.add_argument(
        "--missing",
        action="store_true",
        help="show only the tools without a hook that deployments of this machine need, and what to install",
    )
    _finish(command, run_list, "tools")
    command = state_options.command(
        inner, "show", "show one tool with its options", _SHOW, epilog=_SHOW_CODES
    )
    command.add_argument("tool", metavar="TOOL", help="the name of a tool")
    _finish(command, run_show, "tool")


def _finish(
    parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int], kind: str
) -> None:
    state_options.HOOKS.add(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind=kind)


def run_list(arguments: argparse.Namespace) -> int:
    """Show all tools, or the missing ones."""
    settings = _settings(arguments)
    installed = tools.Tools(settings.hooks, terminal.warn).installed()
    missing = _missing(settings.state, installed, required=arguments.missing)
    if arguments.missing:
        listed: list[dict[str, object]] = []
    else:
        states = ready.states(list(installed.values()), settings.environment)
        listed = [
            _values(tool, state)
            for tool, state in zip(installed.values(), states, strict=True)
        ]
    more = sorted(heat_config_hooks.COMPAT.difference(installed))
    if arguments.json:
        envelope.result(
            {
                "tools": listed,
                "missing": [
                    {"name": name, "message": message, "package": package}
                    for name, (message, package) in missing.items()
                ],
                "more": {"package": heat_config_hooks.COMPAT_PACKAGE, "tools": more},
            }
        )
        return ExitCode.OK
    if arguments.missing:
        rows = [(name, message) for name, (message, _) in missing.items()]
        _say_table(rows, ("NAME", "DETAILS"), "no tool is missing")
        return ExitCode.OK
    _show_all(listed)
    if more:
        package = heat_config_hooks.COMPAT_PACKAGE
        text = f"\nthe package {package} has more tools: {', '.join(more)}"
        terminal.say(terminal.styled(text, "quiet"))
    for name, (_, package) in missing.items():
        problem = f"a deployment on this machine needs {name}: install {package}"
        terminal.say(terminal.styled(problem, "warn"))
    return ExitCode.OK


def run_show(arguments: argparse.Namespace) -> int:
    """Show one tool."""
    settings = _settings(arguments)
    tool = tools.Tools(settings.hooks, terminal.warn).find(arguments.tool)
    if tool is None:
        problem = heat_config_hooks.absent(arguments.tool)
        raise NotFoundError(
            problem or f"no hook for tool {arguments.tool!r}",
            hint="" if problem else "heat-config-agent tool list",
            subject=("tool", arguments.tool),
        )
    [state] = ready.states([tool], settings.environment)
    about = ready.about(tool)
    declared = (
        {**about.options, **options.COMMON, **about.options}
        if about is not None
        else {}
    )
    if arguments.json:
        envelope.result(
            {
                **_values(tool, state),
                "config": about.config if about is not None else None,
                "options": [_option(name, option) for name, option in declared.items()],
                "variables": list(about.variables) if about is not None else [],
                "tested": about.tested if about is not None else None,
                "deprecated": (about.deprecated or None) if about is not None else None,
            }
        )
        return ExitCode.OK
    _show_one(tool, state, about, declared)
    return ExitCode.OK


def _settings(arguments: argparse.Namespace) -> Settings:
    overrides = effective.Overrides(hooks=tuple(arguments.hooks_dir))
    return state_options.of(arguments, overrides=overrides)


def _missing(
    state: Path, installed: Collection[str], *, required: bool
) -> dict[str, tuple[str, str]]:
    """Return the sentence and the package of each tool that deployments here need, and that has no hook.

    Anybody may list the tools, and only the agent's user can read the journal: an unreadable one is an error only if
    the answer is `required`.
    """
    try:
        entries = journal.read(state)
    except StateError:
        if required:
            raise
        return {}
    package = heat_config_hooks.COMPAT_PACKAGE
    return {
        name: (message, package)
        for name, message in ready.absent(entries, installed).items()
    }


def _show_all(listed: list[dict[str, object]]) -> None:
    rows = [
        (
            str(tool["name"]),
            "yes" if tool["ready"] else "no",
            "built-in"
            if str(tool["hook"]).startswith("builtin:")
            else str(tool["hook"]),
            str(tool["program"] or "-"),
            str(tool["version"] or "-"),
            _details(tool),
        )
        for tool in listed
    ]
    header = ("NAME", "READY", "HOOK", "PROGRAM", "VERSION", "DETAILS")
    _say_table(rows, header, "no tools")


def _say_table(
    rows: Sequence[Sequence[str]], header: Sequence[str], empty: str = ""
) -> None:
    for line in terminal.table(rows, header=header, empty=empty):
        terminal.say(line)


def _show_one(
    tool: Tool, state: State, about: About | None, declared: Mapping[str, Option]
) -> None:
    values = _values(tool, state)
    facts = [
        ("name", tool.name),
        ("ready", "yes" if values["ready"] else "no"),
        ("hook", "built-in" if tool.builtin else tool.hook),
        ("program", " ".join(filter(None, (state.program, state.version)))),
        ("details", _details(values)),
    ]
    if about is not None:
        facts += [
            ("config", about.config),
            ("variables", ", ".join(about.variables)),
            ("tested", f"against {about.tested}"),
            ("deprecated", about.deprecated),
        ]
    else:
        facts.append(
            (
                "options",
                "all are passed to the hook; the agent uses `timeout`, `idempotent`, `retry` and `artifacts`",
            )
        )
    for line in terminal.table([fact for fact in facts if fact[1]]):
        terminal.say(terminal.plain(line))
    if declared:
        rows = [
            (name, option.expected, _default(option) or "-", option.says)
            for name, option in declared.items()
        ]
        terminal.say("")
        _say_table(rows, ("OPTION", "VALUE", "DEFAULT", "MEANING"))


def _values(tool: Tool, state: State) -> dict[str, object]:
    """Return a tool as JSON."""
    return {
        "name": tool.name,
        "ready": not state.problem,
        "hook": tool.hook,
        "overrides_builtin": not tool.builtin and tool.name in heat_config_hooks.HOOKS,
        "program": state.program or None,
        "version": state.version or None,
        "message": state.problem or None,
    }


def _option(name: str, option: Option) -> dict[str, object]:
    return {
        "name": name,
        "value": option.expected,
        "default": option.default,
        "message": option.says,
    }


def _default(option: Option) -> str:
    return "" if option.default is None else json.dumps(option.default)


def _details(tool: Mapping[str, object]) -> str:
    overrides = "it overrides the built-in hook" if tool["overrides_builtin"] else ""
    return "; ".join(filter(None, (str(tool["message"] or ""), overrides)))

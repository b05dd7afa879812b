"""`heat-config-agent hooks [TOOL]`: Show the tools of this machine, and whether their programs are installed."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import heat_config_hooks
from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.apply import ready
from heat_config_agent.cli.apply.ready import State
from heat_config_agent.cli.help_format import HelpFormatter
from heat_config_agent.model.deployment import Tool
from heat_config_agent.model.errors import AgentError, ExitCode, StateError
from heat_config_agent.runs import tools
from heat_config_agent.settings import effective
from heat_config_agent.state import journal
from heat_config_hooks import options
from heat_config_hooks.options import Option

_EXIT_CODES = """\
exit codes:
  0  the hooks are shown, even if programs are missing
  1  there is no hook for TOOL
  2  bad usage or configuration
"""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "hooks",
        help="show the tools, and which programs are missing",
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EXIT_CODES,
        formatter_class=HelpFormatter,
    )
    parser.add_argument(
        "tool",
        metavar="TOOL",
        nargs="?",
        help="show everything about one hook, with its options",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--absent",
        action="store_true",
        help="only say which package to install for tools of this machine's deployments that have no hook",
    )
    for option in (state_options.HOOKS, *state_options.STATE):
        option.add(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show all hooks, or one."""
    overrides = effective.Overrides(hooks=tuple(arguments.hooks_dir))
    settings = effective.make(
        os.environ,
        config=arguments.config,
        state=arguments.state_dir,
        overrides=overrides,
    )
    installed = tools.Tools(settings.hooks, terminal.warn)
    if arguments.tool is not None:
        tool = installed.find(arguments.tool)
        if tool is None:
            problem = heat_config_hooks.absent(arguments.tool)
            hint = (
                "" if problem else "`heat-config-agent hooks` shows the installed ones"
            )
            raise AgentError(
                problem or f"no hook for tool {arguments.tool!r}", hint=hint
            )
        [state] = ready.states([tool], settings.environment)
        _show_one(tool, state, as_json=arguments.json)
        return ExitCode.OK
    hooks = list(installed.installed().values())
    if arguments.absent:
        for problem in ready.absent(
            journal.read(settings.state), installed.installed()
        ).values():
            terminal.say(problem)
        return ExitCode.OK
    absent = sorted(heat_config_hooks.COMPAT.difference(tool.name for tool in hooks))
    states = ready.states(hooks, settings.environment)
    if arguments.json:
        values = [
            _values(tool, state) for tool, state in zip(hooks, states, strict=True)
        ]
        terminal.say(
            json.dumps(
                {
                    "hooks": values,
                    "absent": dict.fromkeys(absent, heat_config_hooks.COMPAT_PACKAGE),
                }
            )
        )
        return ExitCode.OK
    rows = [("TOOL", "HOOK", "PROGRAM", "VERSION", "DETAILS")]
    rows += [
        (
            tool.name,
            _hook(tool),
            state.program or "-",
            state.version or "-",
            _details(tool, state),
        )
        for tool, state in zip(hooks, states, strict=True)
    ]
    header, *lines = terminal.table([tuple(map(terminal.line, row)) for row in rows])
    terminal.say(terminal.styled(header, "quiet"))
    for state, line in zip(states, lines, strict=True):
        terminal.say(terminal.styled(line, "warn" if state.problem else ""))
    if absent:
        _show_absent(absent, settings.state, installed)
    return ExitCode.OK


def _show_absent(names: Sequence[str], state: Path, installed: tools.Tools) -> None:
    """Print which package has more tools, and which of them deployments of this machine need."""
    more = f"the package {heat_config_hooks.COMPAT_PACKAGE} has more tools: {', '.join(names)}"
    terminal.say(terminal.styled(f"\n{more}", "quiet"))
    with contextlib.suppress(StateError):
        # anybody may list the hooks, and only the agent's user can read the journal
        for name in ready.absent(journal.read(state), installed.installed()):
            problem = f"a deployment on this machine needs {name}: install {heat_config_hooks.COMPAT_PACKAGE}"
            terminal.say(terminal.styled(problem, "warn"))


def _show_one(tool: Tool, state: State, *, as_json: bool) -> None:
    about = ready.about(tool)
    declared = (
        {**about.options, **options.COMMON, **about.options}
        if about is not None
        else {}
    )
    if as_json:
        values = {
            **_values(tool, state),
            "config": about.config if about is not None else None,
            "options": [_option(name, option) for name, option in declared.items()],
            "variables": list(about.variables) if about is not None else [],
            "tested": about.tested if about is not None else None,
        }
        terminal.say(json.dumps(values))
        return
    facts = [
        ("tool", tool.name),
        ("hook", _hook(tool)),
        ("program", " ".join(filter(None, (state.program, state.version)))),
        ("", _details(tool, state)),
    ]
    if about is not None:
        facts += [
            ("config", about.config),
            ("variables", ", ".join(about.variables)),
            ("tested", f"against {about.tested}"),
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
        rows = [("OPTION", "VALUE", "DEFAULT", "MEANING")]
        rows += [
            (name, option.expected, _default(option) or "-", option.says)
            for name, option in declared.items()
        ]
        header, *lines = terminal.table(rows)
        terminal.say(f"\n{terminal.styled(header, 'quiet')}")
        for line in lines:
            terminal.say(line)


def _values(tool: Tool, state: State) -> dict[str, object]:
    """Return a hook as JSON."""
    return {
        "tool": tool.name,
        "hook": tool.hook,
        "hides_ours": _hides(tool),
        "program": state.program or None,
        "version": state.version or None,
        "ready": not state.problem,
        "problem": state.problem or None,
    }


def _option(name: str, option: Option) -> dict[str, object]:
    return {
        "name": name,
        "value": option.expected,
        "default": option.default,
        "what": option.says,
    }


def _default(option: Option) -> str:
    return "" if option.default is None else json.dumps(option.default)


def _hook(tool: Tool) -> str:
    return "built-in" if tool.builtin else tool.hook


def _hides(tool: Tool) -> bool:
    """Return whether an executable overrides a built-in hook."""
    return not tool.builtin and tool.name in heat_config_hooks.HOOKS


def _details(tool: Tool, state: State) -> str:
    hides = ["it overrides the built-in hook"] if _hides(tool) else []
    return "; ".join([state.problem or "ready", *hides])

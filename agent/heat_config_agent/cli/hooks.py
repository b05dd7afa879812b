"""`heat-config-agent hooks [TOOL]`: Show the tools of this machine, and whether their programs are installed."""

from __future__ import annotations

import argparse
import json
import os

import heat_config_hooks
from heat_config_agent.cli import ready, state_options, terminal
from heat_config_agent.cli.ready import State
from heat_config_agent.model.deployment import Tool
from heat_config_agent.model.errors import AgentError, ExitCode
from heat_config_agent.runs import tools
from heat_config_agent.settings import effective
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
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="show everything about one hook, with its options")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    state_options.HOOKS.add(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show all hooks, or one."""
    settings = effective.make(os.environ, hooks=tuple(arguments.hooks_dir))
    installed = tools.Tools(settings.hooks, terminal.warn)
    if arguments.tool is not None:
        tool = installed.find(arguments.tool)
        if tool is None:
            raise AgentError(
                f"no hook for tool {arguments.tool!r}", hint="`heat-config-agent hooks` shows the installed ones"
            )
        [state] = ready.states([tool], settings.environment)
        _show_one(tool, state, as_json=arguments.json)
        return ExitCode.OK
    hooks = list(installed.installed().values())
    states = ready.states(hooks, settings.environment)
    if arguments.json:
        values = [_values(tool, state) for tool, state in zip(hooks, states, strict=True)]
        terminal.say(json.dumps({"hooks": values}))
        return ExitCode.OK
    rows = [("TOOL", "HOOK", "PROGRAM", "VERSION", "DETAILS")]
    rows += [
        (tool.name, _hook(tool), state.program or "-", state.version or "-", _details(tool, state))
        for tool, state in zip(hooks, states, strict=True)
    ]
    header, *lines = terminal.table([tuple(map(terminal.line, row)) for row in rows])
    terminal.say(terminal.styled(header, "quiet"))
    for state, line in zip(states, lines, strict=True):
        terminal.say(terminal.styled(line, "warn" if state.problem else ""))
    return ExitCode.OK


def _show_one(tool: Tool, state: State, *, as_json: bool) -> None:
    about = ready.about(tool)
    declared = {**about.options, **options.COMMON, **about.options} if about is not None else {}
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
            ("options", "all are passed to the hook; the agent uses `timeout`, `idempotent`, `retry` and `artifacts`")
        )
    for line in terminal.table([fact for fact in facts if fact[1]]):
        terminal.say(terminal.plain(line))
    if declared:
        rows = [("OPTION", "VALUE", "DEFAULT", "MEANING")]
        rows += [(name, option.expected, _default(option) or "-", option.says) for name, option in declared.items()]
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
    return {"name": name, "value": option.expected, "default": option.default, "what": option.says}


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

"""`heat-config-agent hooks [TOOL]`: the tools of this machine, and whether the programs that they need are there."""

from __future__ import annotations

import argparse
import json
import os

import heat_config_hooks
from heat_config_agent import settings, tools
from heat_config_agent.cli import chosen, ready, terminal
from heat_config_agent.cli.ready import State
from heat_config_agent.errors import AgentError, ExitCode
from heat_config_agent.model import Tool
from heat_config_hooks import options
from heat_config_hooks.options import Option

_EXIT_CODES = """\
exit codes:
  0  the hooks are shown, whatever they lack
  1  there is no hook for TOOL
  2  bad usage or configuration
"""


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "hooks",
        help="which tools there are, and what they lack",
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="show all about one hook, its options for one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen.HOOKS.add(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Show all hooks, or one."""
    found = settings.make(os.environ, hooks=tuple(given.hooks_dir))
    installed = tools.Tools(found.hooks)
    if given.tool is not None:
        tool = installed.find(given.tool)
        if tool is None:
            raise AgentError(f"no hook for the tool {given.tool!r}", hint="`heat-config-agent hooks` shows them all")
        [state] = ready.states([tool], found.environment)
        _show_one(tool, state, as_json=given.json)
        return ExitCode.OK
    # A file whose name is no tool's is nobody's hook.
    every = [tool for name in installed.installed() if (tool := installed.find(name)) and tool.name == name]
    states = ready.states(every, found.environment)
    if given.json:
        values = [_values(tool, state) for tool, state in zip(every, states, strict=True)]
        terminal.say(json.dumps({"hooks": values}))
        return ExitCode.OK
    rows = [("TOOL", "HOOK", "PROGRAM", "VERSION", "WHAT")]
    rows += [
        (tool.name, _hook(tool), state.program or "-", state.version or "-", _what(tool, state))
        for tool, state in zip(every, states, strict=True)
    ]
    header, *lines = terminal.table([tuple(map(terminal.line, row)) for row in rows])
    terminal.say(terminal.styled(header, "quiet"))
    for state, line in zip(states, lines, strict=True):
        terminal.say(terminal.styled(line, "warn" if state.problem else ""))
    return ExitCode.OK


def _show_one(tool: Tool, state: State, *, as_json: bool) -> None:
    about = ready.about(tool)
    known = {**about.options, **options.COMMON, **about.options} if about is not None else {}
    if as_json:
        values = {
            **_values(tool, state),
            "config": about.config if about is not None else None,
            "options": [_option(name, each) for name, each in known.items()],
            "variables": list(about.variables) if about is not None else [],
            "tested": about.tested if about is not None else None,
        }
        terminal.say(json.dumps(values))
        return
    facts = [
        ("tool", tool.name),
        ("hook", _hook(tool)),
        ("program", " ".join(filter(None, (state.program, state.version)))),
        ("", _what(tool, state)),
    ]
    if about is not None:
        facts += [
            ("config", about.config),
            ("variables", ", ".join(about.variables)),
            ("tested", f"against {about.tested}"),
        ]
    else:
        facts.append(
            ("options", "its own: they are handed on as they are, and `timeout` and `idempotent` are ours too")
        )
    for line in terminal.table([fact for fact in facts if fact[1]]):
        terminal.say(terminal.plain(line))
    if known:
        rows = [("OPTION", "VALUE", "DEFAULT", "WHAT")]
        rows += [(name, each.expected, _default(each) or "-", each.says) for name, each in known.items()]
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
    return "ours" if tool.builtin else tool.hook


def _hides(tool: Tool) -> bool:
    """Whether an executable has taken the place of a hook of ours."""
    return not tool.builtin and tool.name in heat_config_hooks.HOOKS


def _what(tool: Tool, state: State) -> str:
    hides = ["it hides ours"] if _hides(tool) else []
    return "; ".join([state.problem or "ready", *hides])

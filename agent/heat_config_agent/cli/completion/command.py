"""`heat-config-agent completion SHELL`: Print what has a shell complete our commands.

For bash, put `eval "$(heat-config-agent completion bash)"` into ~/.bashrc; for zsh, the same with zsh into ~/.zshrc,
after compinit; for fish, `heat-config-agent completion fish | source` into ~/.config/fish/config.fish. Packages do
this already.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.completion.line import Tree
from heat_config_agent.model.errors import ExitCode

SECONDS = 1.0
"""The time that an answer may take; `$HEAT_CONFIG_AGENT_COMPLETION` sets another one."""

_LINE = "--line"
"""The option before a line as it was typed and the part that bash replaces; without it, the words follow one by one."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.stateless(
        commands,
        "completion",
        "print what has a shell complete our commands",
        (__doc__ or "").partition(": ")[2],
        epilog=state_options.NO_STATE_CODES,
    )
    parser.add_argument(
        "shell",
        metavar="SHELL",
        choices=("bash", "zsh", "fish"),
        help="the shell: bash, zsh or fish",
    )
    state_options.add_common(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the stub of a shell."""
    from heat_config_agent.cli.completion import shells  # noqa: PLC0415  # `__complete` needs less

    terminal.say(shells.stub(options.shell), end="")
    return ExitCode.OK


def complete(arguments: Sequence[str], tree: Tree) -> int:
    """Answer a shell: print what may stand at the end of a line. Silent on any failure, and when the time is over."""
    limit = os.environ.get("HEAT_CONFIG_AGENT_COMPLETION", "")
    seconds = float(limit) if limit.replace(".", "", 1).isdecimal() else SECONDS
    signal.signal(signal.SIGALRM, lambda _number, _frame: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, seconds or SECONDS)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        text = _text(arguments, tree)
    except Exception:  # noqa: BLE001  # a person who types has no use for what is wrong
        return ExitCode.OK
    signal.setitimer(signal.ITIMER_REAL, 0)
    terminal.say(text, end="")
    return ExitCode.OK


def _text(arguments: Sequence[str], tree: Tree) -> str:
    from heat_config_agent.cli.completion import shells  # noqa: PLC0415
    from heat_config_agent.cli.completion.answer import answer  # noqa: PLC0415

    if arguments[0] != _LINE:
        return shells.text(answer(arguments, tree))
    _, line, tail = arguments
    typed = shells.split(line)
    return shells.for_bash(answer(typed.words, tree, brief=True), typed.raw, tail)

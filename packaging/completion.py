"""Shell completion for the commands, generated from their declarations.

Only for the names of deployments and stacks, a command of ours is started.

`python completion.py FOLDER` writes it there, for bash, zsh and fish.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import shtab

import fish_completion
import heat_config_hooks
from heat_config_agent.cli import agent
from heat_config_agent.cli.apply import command as apply

FILES = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
"""The kind of a value, by its name in the help."""

_DEPLOYMENTS = (
    "command heat-config-agent status --json 2>/dev/null | sed 's/^.*\"deployments\": \\[//' "
    '| grep -oE \'"(id|name)": "[A-Za-z0-9._-]+"\' | cut -d\'"\' -f4 | sort -u'
)
_STACKS = (
    "command heat-config-agent stack list --json 2>/dev/null "
    '| grep -oE \'"stack_name": "[A-Za-z0-9._-]+"\' | cut -d\'"\' -f4 | sort -u'
)
"""Shell commands that print the ids and names of deployments, and the names of stacks."""

PREAMBLE = {
    "bash": f"""
_heat_config_deployments() {{
  compgen -W "$({_DEPLOYMENTS})" -- "$1"
}}
_heat_config_stacks() {{
  compgen -W "$({_STACKS})" -- "$1"
}}
""",
    "zsh": f"""
_heat_config_deployments() {{
  compadd -- ${{(f)"$({_DEPLOYMENTS})"}}
}}
_heat_config_stacks() {{
  compadd -- ${{(f)"$({_STACKS})"}}
}}
""",
    "fish": f"""
function __heat_config_deployments
    {_DEPLOYMENTS}
end
function __heat_config_stacks
    {_STACKS}
end
""",
}
"""Shell → its functions that complete the names of deployments and stacks."""

DEPLOYMENT, STACK = (
    {"bash": f"_heat_config_{kind}", "zsh": f"_heat_config_{kind}"}
    for kind in ("deployments", "stacks")
)

FISH = {
    id(shtab.FILE): "-F",
    id(shtab.DIRECTORY): "-a '(__fish_complete_directories)'",
    id(DEPLOYMENT): "-a '(__heat_config_deployments)'",
    id(STACK): "-a '(__heat_config_stacks)'",
}
"""The kinds of values: the identity of the entry for shtab → the words for fish."""

NAMES = {"bash": "{}", "zsh": "_{}", "fish": "{}.fish"}
"""Shell → what the file for a command is called."""


def hook() -> argparse.ArgumentParser:
    """Declare what `heat-config-hook` takes."""
    parser = argparse.ArgumentParser(
        prog="heat-config-hook", description="Carry out one deployment with one hook."
    )
    parser.add_argument(
        "name", choices=sorted(heat_config_hooks.HOOKS), help="the hook"
    )
    return parser


def told(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Say of each argument which files are meant, or which tools."""
    for action in parser._actions:  # noqa: SLF001  # there is no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                told(each)
        elif action.metavar in FILES:
            action.complete = FILES[str(action.metavar)]  # type: ignore[attr-defined]  # it is what shtab looks for
        elif action.metavar == "ID":
            action.complete = DEPLOYMENT  # type: ignore[attr-defined]
        elif (
            action.metavar == "NAME"
            and action.dest in ("name", "names")
            and " stack " in parser.prog
        ):
            action.complete = STACK  # type: ignore[attr-defined]
        elif action.metavar == "TOOL":
            action.choices = sorted(heat_config_hooks.HOOKS)
    return parser


def _for_bash(text: str) -> str:
    """Return what shtab has written, with what it lacks.

    In a folder, completion goes on with what is in that. Versions before 1.7, such as that of Debian 12, complete only
    the first of several choices.
    """
    text = text.replace("complete -o bashdefault", "complete -o filenames")
    text = text.replace(
        '_choices_var="${current_action}_choices"',
        '_choices_var="${current_action}_choices[@]"',
    )
    return text.replace(
        'compgen -W "${current_action_choices}"',
        "compgen -W \"${current_action_choices// /$'\\n'}\"",
    )


def _for_zsh(text: str, parser: argparse.ArgumentParser) -> str:
    """Return what shtab has written, with the arguments that may be repeated: versions before 1.7 leave some out."""
    for each in _parsers(parser):
        name = f"_shtab_{re.sub('[^A-Za-z0-9]', '_', each.prog)}"
        before, begin, after = text.partition(f"\n{name}_options=(\n")
        options, end, rest = after.partition("\n)\n")
        for action in each._actions:  # noqa: SLF001  # there is no other way to them
            if (
                action.nargs == "*"
                and not action.option_strings
                and '"(*)::' not in options
            ):
                values = getattr(action, "complete", {}).get("zsh", "")
                options += f'\n  "(*)::{action.metavar or action.dest}:{values}"'
                rest = re.sub(
                    rf"(\${name}_options) \\\n.*\\\n +'\*::: :->.*'", r"\1", rest
                )
        text = before + begin + options + end + rest
    return text


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser, and those of its commands."""
    yield parser
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                yield from _parsers(each)


def main() -> int:
    """Write what completes each command into the folder that the command line names."""
    for parser in (agent.parser(), apply.parser(), hook()):
        for shell, name in NAMES.items():
            path = Path(sys.argv[1]) / shell / name.format(parser.prog)
            path.parent.mkdir(parents=True, exist_ok=True)
            if shell == "fish":
                text = fish_completion.complete(told(parser), PREAMBLE[shell], FISH)
            else:
                text = shtab.complete(told(parser), shell, preamble=PREAMBLE[shell])
            if shell == "bash":
                text = _for_bash(text)
            if shell == "zsh":
                text = _for_zsh(text, parser)
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The layout of `--help`, which fits the width of the terminal, and of mistakes in a command line."""

from __future__ import annotations

import argparse
import re
import textwrap

from heat_config_hooks.words import closest

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import NoReturn

_WIDEST = 100
"""Number of columns of the longest lines of a paragraph: longer ones are hard to read."""

_ITEM = re.compile(r" +\S+  +(?=\S)")
"""The beginning of an item of a list, such as an exit code before its meaning."""


_MANY = 60
"""Number of characters of a list of choices that is too long for a message."""


class Parser(argparse.ArgumentParser):
    """Names the word that was meant, and the help instead of a long list of choices."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the command line, and exit."""
        from heat_config_agent.model import wording  # noqa: PLC0415  # only for a mistake

        # an argument may come from elsewhere, such as the name of a file
        message = wording.line(message)
        start, choices, rest = message.partition(" (choose from ")
        word = re.search(r"invalid choice: '([^']*)'", start)
        near = closest(word[1], re.findall(r"[\w-]+", rest)) if choices and word else ""
        if near:
            message = f"{start} (did you mean {near}?)"
        elif choices and len(message) - len(start) > _MANY:
            message = f"{start} (`{self.prog} --help` lists all)"
        elif option := self._misspelt(message):
            self.exit(2, f"{self.prog}: error: {option}\n")
        super().error(message)

    def _misspelt(self, message: str) -> str:
        """Return a sentence about an unknown option that is close to a known one; empty if there is none."""
        _, unknown, rest = message.partition("unrecognized arguments: ")
        word = rest.split()[0].partition("=")[0] if unknown and rest.split() else ""
        near = closest(word, _options(self)) if word.startswith("--") else ""
        if near and near == word:  # that of another command, or it comes after `--`
            return f"{word} does not belong there (`{self.prog} --help`)"
        return f"there is no option {word} (did you mean {near}?)" if near else ""


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """Return the long options of a parser and of the commands below it."""
    names: list[str] = []
    for action in parser._actions:  # noqa: SLF001  # argparse has no public list of them
        names += [option for option in action.option_strings if option.startswith("--")]
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                names += _options(inner)
    return names


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs, and keeps lines that are indented: lists, with their meanings wrapped, and commands."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        width = min(width, _WIDEST)
        blocks = re.split(r"\n\s*\n", text.strip("\n"))
        return (
            "\n\n".join(
                textwrap.indent(_wrapped(block, width - len(indent)), indent)
                for block in blocks
            )
            + "\n"
        )


def _wrapped(block: str, width: int) -> str:
    """Return a block of lines without an empty one between them, wrapped to a width."""
    lines: list[str] = []
    paragraph: list[str] = []
    for line in [*block.split("\n"), ""]:
        if line and not line.startswith(" "):
            paragraph.append(line)
            continue
        lines += textwrap.wrap(" ".join(paragraph), width, break_on_hyphens=False)
        paragraph.clear()
        item = _ITEM.match(line)
        if item:
            hanging = " " * item.end()
            lines += textwrap.wrap(
                line, width, subsequent_indent=hanging, break_on_hyphens=False
            )
        elif line:
            lines.append(line)
    return "\n".join(lines)

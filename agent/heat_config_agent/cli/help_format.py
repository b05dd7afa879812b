"""The parser of a command line: its mistakes in one sentence, and the layout of `--help` at the terminal's width."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence

from heat_config_agent.model.errors import UsageError
from heat_config_hooks.words import closest

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Any, NoReturn


def _untranslated(message: str) -> str:
    """Return a message of argparse as it is. There is no translation of any, and each search for one takes 0.1 ms."""
    return message


argparse._ = _untranslated  # type: ignore[attr-defined]  # the only way to it

_WIDEST = 100
"""Number of columns of the longest lines of a paragraph: longer ones are hard to read."""

_ITEM = re.compile(r" +\S+  +(?=\S)")
"""The beginning of an item of a list, such as an exit code before its meaning."""


class Parser(argparse.ArgumentParser):
    """A command: its arguments and options in any order, in full, and one sentence for a mistake.

    Options that all commands have may also stand before the command.
    """

    is_command = False
    """True for a group that is a command too: words that do not begin with one of its commands are its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take the arguments of argparse. Options cannot be abbreviated, so that new options break no command line."""
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self.before_argument = ""
        """An option that may stand before an argument and changes nothing, such as -f before a FILE."""

    def parse_known_args(  # type: ignore[override]  # as argparse has it, with fewer forms
        self,
        args: Sequence[str] | None = None,
        namespace: Any = None,
    ) -> tuple[Any, list[str]]:
        """Parse the words of a command. Raises UsageError."""
        words = list(sys.argv[1:] if args is None else args)
        inner = self.inner()
        if inner is not None and self.is_command:
            return self._parse_own(words, inner, namespace)
        if inner is not None:
            words = command_first(words)
            self._check_command(words, inner)
        elif not any(
            action.nargs in (argparse.REMAINDER, argparse.PARSER)
            for action in self._actions
        ):
            words = self._options_first(words)
        parsed, others = super().parse_known_args(words, namespace)
        if others and inner is None:
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return parsed, others

    def _parse_own(
        self,
        words: Sequence[str],
        inner: Mapping[str, argparse.ArgumentParser],
        namespace: Any,
    ) -> tuple[Any, list[str]]:
        """Parse the words of a group that is a command too."""
        ordered = command_first(words)
        if ordered and ordered[0] in inner:
            return inner[ordered[0]].parse_known_args(ordered[1:], namespace)
        if not self._get_positional_actions():
            self._check_command(ordered, inner)
        own = self._options_first(words)
        parsed, others = super().parse_known_args(own, namespace)
        if others:
            self.error(f"unrecognized arguments: {' '.join(others)}")
        return parsed, others

    def _get_positional_actions(self) -> list[argparse.Action]:
        """Return the arguments; the commands of a group that is a command too are none."""
        return [
            action
            for action in super()._get_positional_actions()
            if not self.is_command or not isinstance(action, argparse._SubParsersAction)  # noqa: SLF001  # as below
        ]

    def inner(self) -> Mapping[str, argparse.ArgumentParser] | None:
        """Return the commands of a group; None for a command."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # it has no public name
                return action.choices
        return None

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with the mistake in the command line."""
        sentence, hint = _plain(message)
        raise UsageError(
            f"{self.place()}{sentence}",
            hint=hint or f"`{self.prog} --help` shows how it is used",
        )

    def place(self) -> str:
        """Return the beginning of an error, which names the command."""
        command = self.prog.partition(" ")[2]
        return f"{command}: " if command else ""

    def _check_command(
        self, words: Sequence[str], inner: Mapping[str, argparse.ArgumentParser]
    ) -> None:
        word = words[0] if words else ""
        if word.startswith("-") and word not in self._option_string_actions:
            if word in _COMMON:
                raise UsageError(
                    f"{self.place()}a command is missing",
                    hint=f"`{self.prog} --help` lists all",
                )
            self._unknown(word, words[1:])
        if not word or word in inner or word.startswith("-"):
            return
        from heat_config_agent.cli import foreign_words  # noqa: PLC0415  # only after a mistake

        path = self.prog.split()[1:]
        meant = foreign_words.command_meant([*path, *words])
        if not meant and (near := foreign_words.spelt_alike(word, inner)):
            meant = f"{self.prog} {near}"
        hint = (
            f"did you mean `{meant}`?" if meant else f"`{self.prog} --help` lists all"
        )
        raise UsageError(f"{self.place()}there is no command {word!r}", hint=hint)

    def _options_first(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command with its options before its arguments. Raises UsageError."""
        by_name = self._option_string_actions
        options: list[str] = []
        arguments: list[str] = []
        left = list(words)
        while left:
            word = left.pop(0)
            if word == "--":
                arguments += left
                break
            if word == self.before_argument and left:
                continue
            action = _option_of(word, by_name)
            if action is None and word.startswith("-") and len(word) > 1:
                self._unknown(word, left)
            if action is None:
                arguments.append(word)
                continue
            options.append(word)
            if (
                action.nargs is None
                and left
                and "=" not in word
                and word in by_name
                and _is_value(left[0])
            ):
                options.append(left.pop(0))
        has_dashes = any(word.startswith("-") and word != "-" for word in arguments)
        return [*options, *(["--"] if has_dashes else []), *arguments]

    def _unknown(self, word: str, following: Sequence[str]) -> NoReturn:
        from heat_config_agent.cli import foreign_words  # noqa: PLC0415  # only after a mistake

        name = word.partition("=")[0]
        hint = foreign_words.option_meant(name, self._option_string_actions)
        if name in ("-o", "-f", "--format", "--output") and "json" in (
            *following[:1],
            word.partition("=")[2],
        ):
            hint = "--json prints JSON"
        raise UsageError(
            f"{self.place()}there is no option {name}",
            hint=hint or f"`{self.prog} --help` lists all",
        )


def _is_value(word: str) -> bool:
    """Return whether a word may be the value of the option before it: `-` and a negative number may be."""
    return not word.startswith("-") or word == "-" or word[1:].isdecimal()


def command_first(words: Sequence[str]) -> list[str]:
    """Return the words with the options that stand before the command after all others."""
    before: list[str] = []
    left = list(words)
    while left and left[0].startswith("-") and left[0] not in ("-", "--", "--version"):
        word = left.pop(0)
        before.append(word)
        if word in _WITH_VALUE and left:
            before.append(left.pop(0))
    end = left.index("--") if "--" in left else len(left)
    return [*left[:end], *before, *left[end:]]


_WITH_VALUE = ("--state-dir", "--config")
"""Options with a value that may stand before the command."""

_COMMON = (*_WITH_VALUE, "--json", "--no-color", "--quiet", "-q")
"""Options of most commands."""


def _option_of(
    word: str, by_name: Mapping[str, argparse.Action]
) -> argparse.Action | None:
    """Return the option that a word is: --name, --name=value, -n, -nVALUE."""
    if not word.startswith("-") or word == "-":
        return None
    name = word.partition("=")[0]
    return by_name.get(name) or (
        by_name.get(word[:2]) if not word.startswith("--") else None
    )


def _plain(message: str) -> tuple[str, str]:
    """Return a message of argparse as a plain sentence and a hint."""
    _, missing, names = message.partition("the following arguments are required: ")
    if missing:
        return f"{names} is missing", ""
    _, extra, rest = message.partition("unrecognized arguments: ")
    if extra:
        word = rest.split()[0]
        hint = "options stand before `--`" if word.startswith("-") else ""
        return f"{word!r} is one argument too many", hint
    about, _, problem = message.removeprefix("argument ").partition(": ")
    about = about.rpartition("/")[2]
    if re.fullmatch(r"expected (one|at least one|\d+) arguments?", problem):
        return f"{about}: its value is missing", ""
    start, choices, rest = problem.partition(" (choose from ")
    choice = re.search(r"invalid choice: '([^']*)'", start)
    if choices and choice:
        known = re.findall(r"[\w.-]+", rest)
        near = closest(choice[1], known)
        hint = f"did you mean {near}?" if near else f"it is one of {', '.join(known)}"
        return f"{about}: {choice[1]!r} is not possible", hint
    return message.removeprefix("argument "), ""


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

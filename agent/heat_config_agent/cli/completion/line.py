"""A command line, of which the shell wants to complete the last word, as the parser of its command reads it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from heat_config_hooks.values import dataclass, field

BEFORE = {"--state-dir": "DIR", "--config": "FILE"}
"""The options with a value that may stand before the command, and the names of their values."""


@dataclass(frozen=True)
class Offer:
    """A word that may stand at a place."""

    word: str
    about: str = ""
    """A few words about it, for people."""


@dataclass(frozen=True)
class Tree:
    """The commands of `heat-config-agent`."""

    modules: Mapping[str, str]
    """Command → the module that declares it."""
    parser: Callable[[str, str], argparse.ArgumentParser]
    """Returns the parser with one command only, or of a group with one of its commands; with all for empty names."""


@dataclass
class Line:
    """A command line up to the word that is completed."""

    parser: argparse.ArgumentParser
    """The parser of its command."""
    tree: Tree
    """The commands of which it may name one."""
    given: dict[str, list[str]] = field(default_factory=dict)
    """The values so far: of options by their names, and of arguments by the names of their values."""
    used: set[str] = field(default_factory=set)
    """The destinations of the options so far."""
    awaited: argparse.Action | None = None
    """The option whose value comes next."""
    possible: argparse.Action | None = None
    """The option whose value may come next; it may do without."""
    arguments: list[str] = field(default_factory=list)
    """The arguments of the command so far."""
    is_plain: bool = False
    """True after `--`: no word is an option."""
    is_lost: bool = False
    """True if there is no such command."""

    @property
    def name(self) -> str:
        """The command with its group, such as `stack show`."""
        return self.parser.prog.partition(" ")[2] or self.parser.prog

    def first(self, *names: str) -> str:
        """Return the first value that one of these options or arguments has; empty if none has one."""
        return next((text for name in names for text in self.given.get(name, ())), "")

    def read(self, word: str) -> None:
        """Take in the next word."""
        possible, self.possible = self.possible, None
        if possible is not None and word in choices(possible):
            self._keep(possible, word)
        elif self.awaited is not None:
            self._keep(self.awaited, word)
            self.awaited = None
        elif self.is_plain or not word.startswith("-") or word == "-":
            self._read_argument(word)
        elif word == "--":
            self.is_plain = True
        else:
            self._read_option(word)

    def _read_option(self, word: str) -> None:
        name, sign, value = word.partition("=")
        action = self.option(name)
        if action is None and not word.startswith("--") and len(word) > 2:
            action, sign, value = self.option(word[:2]), "=", word[2:]
        if action is None:
            return
        self.used.add(action.dest)
        if sign:
            self._keep(action, value)
        elif action.nargs == "?":
            self.possible = action
        elif action.nargs != 0:
            self.awaited = action

    def _read_argument(self, word: str) -> None:
        inner = commands_of(self.parser)
        if inner is not None and word in inner and not self.arguments:
            self.parser = inner[word]
            return
        action = self.argument()
        self.arguments.append(word)
        if action is not None:
            self.given.setdefault(shown_name(action), []).append(word)
        elif inner is not None:
            self.is_lost = True

    def _keep(self, action: argparse.Action, value: str) -> None:
        for name in action.option_strings:
            self.given.setdefault(name, []).append(value)

    def option(self, name: str) -> argparse.Action | None:
        """Return the option of a name."""
        known = self.parser._option_string_actions  # noqa: SLF001  # there is no other way to them
        if name in known or name not in BEFORE or commands_of(self.parser) is None:
            return known.get(name)
        return argparse.Action([name], name, metavar=BEFORE[name])

    def argument(self) -> argparse.Action | None:
        """Return the argument that comes next; None if the command takes no more."""
        place = len(self.arguments)
        for action in self.parser._get_positional_actions():  # noqa: SLF001
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                continue
            most = 1 if action.nargs in (None, "?") else action.nargs
            if not isinstance(most, int) or place < most:
                return action
            place -= most
        return None

    def options(self) -> Iterator[Offer]:
        """Yield the options that the command takes and does not have yet, with their long names."""
        for action in self.parser._actions:  # noqa: SLF001
            names = action.option_strings
            is_over = action.dest in self.used and not may_be_repeated(action)
            if names and action.help != argparse.SUPPRESS and not is_over:
                for name in [each for each in names if each.startswith("--")] or names:
                    yield Offer(name, brief(action))

    def commands(self) -> Iterator[Offer]:
        """Yield the commands of a group."""
        for action in self.parser._actions:  # noqa: SLF001
            if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
                for each in action._choices_actions:  # noqa: SLF001
                    if each.help != argparse.SUPPRESS:
                        yield Offer(each.dest, brief(each))


def read(parser: argparse.ArgumentParser, words: Iterable[str], tree: Tree) -> Line:
    """Return the line of a program with the words before the one that is completed."""
    line = Line(parser, tree)
    for word in words:
        line.read(word)
    return line


def leading(words: Sequence[str]) -> list[str]:
    """Return the words of a line of `heat-config-agent` from the command on, without the options before it."""
    left = list(words)
    while left and left[0].startswith("-"):
        del left[: 2 if left[0] in BEFORE else 1]
    return left


def commands_of(
    parser: argparse.ArgumentParser,
) -> dict[str, argparse.ArgumentParser] | None:
    """Return the parsers of the commands of a group by name; None for a command."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return None


def choices(action: argparse.Action) -> list[str]:
    """Return the words of which a value is one; none if it may be anything."""
    if action.choices is not None:
        return [str(each) for each in action.choices]
    name = shown_name(action)
    return (
        name.strip("{}").split("|")
        if re.fullmatch(r"\{?[a-z]+(\|[a-z]+)+\}?", name)
        else []
    )


def may_be_repeated(action: argparse.Action) -> bool:
    """Return whether an option may stand in a line several times."""
    return isinstance(action, argparse._AppendAction)  # noqa: SLF001


def shown_name(action: argparse.Action) -> str:
    """Return the name of a value as the help shows it."""
    return str(action.metavar or action.dest)


def brief(action: argparse.Action) -> str:
    """Return the first part of a help text, up to a semicolon outside of parentheses."""
    text = argparse.HelpFormatter("")._expand_help(action) if action.help else ""  # noqa: SLF001
    return " ".join(re.split(r";(?![^(]*\))", text)[0].split())

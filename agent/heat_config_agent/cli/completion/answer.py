"""The answer to a line: the words that may stand at its end, or the files of which the shell completes the names."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Iterator, Sequence

from heat_config_agent.cli.completion import values
from heat_config_agent.cli.completion.line import (
    Line,
    Offer,
    Tree,
    choices,
    leading,
    may_be_repeated,
    read,
    shown_name,
)
from heat_config_agent.cli.completion.values import Files
from heat_config_hooks.values import dataclass


@dataclass(frozen=True)
class Answer:
    """The words or files that may stand at the end of a line."""

    offers: tuple[Offer, ...] = ()
    """Whole words, sorted, each of which begins with the word on the line."""
    files: Files | None = None
    """The files whose names are completed."""
    begin: str = ""
    """The part of the word before the name of a file, such as `--template=`."""
    rest: str = ""
    """The part of the word after that."""


def answer(words: Sequence[str], tree: Tree, *, brief: bool = False) -> Answer:
    """Return the completions of the last word; the first word is the program. It may raise any Exception.

    A `brief` answer may lack the descriptions of commands, for which all of them would have to be loaded.
    """
    program, *before, word = words
    is_command = program.endswith("heat-config-agent") and not word.startswith("-")
    if brief and is_command and not before:
        return _beginning(map(Offer, tree.modules), word)
    parser = _parser(program.rpartition("/")[2], before, word, tree)
    line = read(parser, before, tree)
    if line.is_lost:
        return Answer()
    if line.awaited is not None:
        return _value(line, line.awaited, "", word)
    possible = _possible(line, word)
    if not line.is_plain and word.startswith("-"):
        name, sign, rest = word.partition("=")
        action = line.option(name)
        if sign and action is not None:
            return _value(line, action, f"{name}=", rest)
        return _beginning((*possible, *line.options(), *_before(line)), word)
    if commands := list(_commands(line, word)):
        return _beginning((*possible, *commands), word)
    action = line.argument()
    if action is None:
        options = () if line.is_plain or word or possible else line.options()
        return _beginning((*possible, *options), word)
    found = _value(line, action, "", word)
    if possible:
        return _beginning((*possible, *found.offers), word)
    return found


def _parser(
    program: str, before: Sequence[str], word: str, tree: Tree
) -> argparse.ArgumentParser:
    """Return the parser of a program, of whose commands only those are declared that the line may name."""
    if program == "heat-config-apply":
        from heat_config_agent.cli.apply import command  # noqa: PLC0415  # each line needs one program

        return command.parser()
    if program == "heat-config-hook":
        return _hook()
    named = leading(before)
    if named:
        return tree.parser(named[0], named[1] if len(named) > 1 else "")
    parser = tree.parser("completion", "")
    likely = (name for name in tree.modules if name.startswith(word))
    modules = dict.fromkeys(map(tree.modules.__getitem__, ("completion", *likely)))
    for action in parser._actions:  # noqa: SLF001  # there is no other way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for module in list(modules)[1:]:
                importlib.import_module(module).add(action)
    return parser


def _hook() -> argparse.ArgumentParser:
    from heat_config_hooks import HOOKS  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="heat-config-hook")
    parser.add_argument("name", choices=sorted(HOOKS))
    return parser


def _before(line: Line) -> Iterator[Offer]:
    """Yield the options that may stand before a command."""
    if line.parser.prog == "heat-config-agent":
        for name in ("--config", "--json", "--no-color", "--state-dir"):
            if name not in line.parser._option_string_actions:  # noqa: SLF001
                yield Offer(name, "an option of the command that follows")


def _commands(line: Line, word: str) -> Iterator[Offer]:
    """Yield the commands of a group that begin with the word; none where an argument of the group is meant."""
    if line.arguments or (not word and line.argument() is not None):
        return
    for offer in line.commands():
        if offer.word.startswith(word):
            yield offer


def _possible(line: Line, word: str) -> tuple[Offer, ...]:
    """Return the values of an option that may do without one."""
    listed = choices(line.possible) if line.possible is not None else []
    return tuple(Offer(each) for each in listed if each.startswith(word))


def _value(line: Line, action: argparse.Action, begin: str, word: str) -> Answer:
    """Return the completions of a value, which stands in its word after `begin`."""
    listed, name = choices(action), shown_name(action)
    if listed:
        return _beginning(map(Offer, listed), word, begin)
    offers: Iterable[Offer] = ()
    if offered := values.values(line, action.option_strings, name):
        offers = _fresh(line, action, name, offered(line, word))
    found = _beginning(offers, word, begin)
    if found.offers:
        return found
    files = values.files(line, action.option_strings, name)
    if files is None:
        return found
    key, sign, rest = word.partition("=")
    if "=" in name:
        return (
            Answer(files=files, begin=f"{begin}{key}=", rest=rest) if sign else Answer()
        )
    return Answer(files=files, begin=begin, rest=word)


def _fresh(
    line: Line, action: argparse.Action, name: str, offers: Iterable[Offer]
) -> Iterator[Offer]:
    """Yield the offers that are not on the line already."""
    if action.option_strings:
        there = (
            line.given.get(action.option_strings[-1], [])
            if may_be_repeated(action)
            else []
        )
    else:
        there = line.given.get(name, [])
    for offer in offers:
        is_pair = offer.word.endswith("=")
        if not any(
            each == offer.word or (is_pair and each.startswith(offer.word))
            for each in there
        ):
            yield offer


def _beginning(offers: Iterable[Offer], word: str, begin: str = "") -> Answer:
    """Return the offers that begin with a word, sorted, each once; those with control characters cannot be typed."""
    chosen = {
        offer.word: offer
        for offer in offers
        if offer.word.startswith(word) and offer.word.isprintable()
    }
    ordered = (chosen[name] for name in sorted(chosen))
    return Answer(tuple(Offer(f"{begin}{each.word}", each.about) for each in ordered))

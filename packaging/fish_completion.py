"""Completion for fish, from the declarations that bash and zsh use too.

shtab writes it only in versions that releases of Debian and Ubuntu do not have yet.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping

_SCAN = """\
# Returns whether the command line has the subcommand $argv[1], and as many words after it as $argv[2] says: a number,
# or `N+` for N or more.
function __{id}_at
    set -l words (commandline -opc)
    if test "$words" != "$__{id}_words"
        set -g __{id}_words $words
        set -g __{id}_command ''
        set -g __{id}_after 0
        set -l is_value 0
        for word in $words[2..-1]
            if test $is_value = 1
                set is_value 0
            else if contains -- $word {options}
                set is_value 1
            else if not string match -q -- '-*' $word
                set -l longer (string trim "$__{id}_command $word")
                if test $__{id}_after = 0; and contains -- $longer {commands}
                    set -g __{id}_command $longer
                else
                    set -g __{id}_after (math $__{id}_after + 1)
                end
            end
        end
    end
    test "$__{id}_command" = "$argv[1]"; or return
    if string match -q -- '*+' "$argv[2]"
        test $__{id}_after -ge (string trim -c + -- $argv[2])
    else if test (count $argv) = 2
        test $__{id}_after = $argv[2]
    end
end
"""


def complete(
    parser: argparse.ArgumentParser, preamble: str, kinds: Mapping[int, str]
) -> str:
    """Return what completes a command.

    `kinds` has the options of `complete` for each kind of value, by the identity of what an argument's `complete` is.
    """
    parsers = dict(_parsers(parser))
    name = parser.prog.replace("-", "_")
    options = sorted(
        {
            word
            for one in parsers.values()
            for action in one._actions  # noqa: SLF001  # there is no other way to them
            if action.option_strings and action.nargs not in (0, "?")
            for word in action.option_strings
        }
    )
    scan = _SCAN.format(
        id=name,
        options=_words(options),
        commands=_words([path for path in parsers if path]),
    )
    lines = [f"complete -c {parser.prog} -f"]
    for path, one in parsers.items():
        place = 0
        for action in one._actions:  # noqa: SLF001
            if action.help == argparse.SUPPRESS:
                continue
            if action.option_strings:
                at = f"__{name}_at {_quoted(path)}"
                lines.append(_line(parser.prog, at, _option(action, kinds)))
            else:
                many = action.nargs in ("*", "+")
                at = f"__{name}_at {_quoted(path)} {place}{'+' if many else ''}"
                lines += [
                    _line(parser.prog, at, values)
                    for values in _positional(action, kinds)
                ]
                place += 1
    return "\n".join([preamble.strip(), "", scan, *lines, ""])


def _parsers(
    parser: argparse.ArgumentParser, path: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Return the parser of a command and those of its subcommands, by their words."""
    yield path, parser
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for word, each in action.choices.items():
                yield from _parsers(each, f"{path} {word}".strip())


def _line(command: str, at: str, values: str) -> str:
    return f"complete -c {command} -n {_quoted(at)} {values}"


def _option(action: argparse.Action, kinds: Mapping[int, str]) -> str:
    """Return the options of `complete` for an option."""
    words = [
        f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
        for word in action.option_strings
    ]
    if action.nargs not in (0, "?"):
        words += ["-r", _values(action, kinds)]
    return " ".join([*filter(None, words), f"-d {_quoted(_help(action))}"])


def _positional(action: argparse.Action, kinds: Mapping[int, str]) -> Iterator[str]:
    """Return the options of `complete` for an argument: for each subcommand those with its help."""
    if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
        for each in action._choices_actions:  # noqa: SLF001
            yield f"-a {each.dest} -d {_quoted(_help(each))}"
    elif values := _values(action, kinds):
        yield f"{values} -d {_quoted(_help(action))}"


def _values(action: argparse.Action, kinds: Mapping[int, str]) -> str:
    """Return the options of `complete` for the values that an argument takes; empty for any."""
    if action.choices is not None:
        return f"-a {_quoted(' '.join(map(str, action.choices)))}"
    return kinds.get(id(getattr(action, "complete", None)), "")


def _help(action: argparse.Action) -> str:
    """Return the first part of an argument's help, up to a semicolon outside of parentheses."""
    return re.split(r";(?![^(]*\))", argparse.HelpFormatter("")._expand_help(action))[0]  # noqa: SLF001


def _words(words: list[str]) -> str:
    return " ".join(map(_quoted, words)) or "''"


def _quoted(text: str) -> str:
    r"""Return a text as a word of fish, in which `\'` and `\\` are in single quotes what they are in double ones."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"

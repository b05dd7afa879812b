"""The stubs of the shells, and the answers in the form that each of them takes.

A stub hands over the whole line, and gets a line for each word. The last line says what the words are, and is always
there if anything can be completed: `:words`, `:files` or `:folders`, with a tab before the part of the word that stands
before the name of a file, and before the endings of names that are meant.
"""

from __future__ import annotations

import os
import string
from pathlib import Path

from heat_config_agent.cli.completion.answer import Answer
from heat_config_agent.cli.completion.values import Files
from heat_config_hooks.values import dataclass

STUBS = {
    "bash": "bash/heat-config-agent",
    "zsh": "zsh/_heat-config-agent",
    "fish": "fish/heat-config-agent.fish",
}
"""Shell → the file in `stubs` that has it complete our commands."""

_BARE = frozenset(string.ascii_letters + string.digits + "_./:=@%+,-~")
"""The characters of ASCII that bash takes as they are."""

_LIVE = {"'": "'", '"': '"\\$`'}
"""Quote → the characters that have a meaning inside of it."""


def stub(shell: str) -> str:
    """Return the code with which a shell completes our commands."""
    return (Path(__file__).parent / "stubs" / STUBS[shell]).read_text(encoding="utf-8")


def text(answer: Answer) -> str:
    """Return an answer as zsh and fish take it; empty if there is none."""
    if answer.files is not None:
        kind = ":folders" if answer.files.only_folders else ":files"
        return f"{kind}\t{answer.begin}\t{' '.join(answer.files.endings)}\n"
    lines = [
        f"{offer.word}\t{' '.join(offer.about.split())}" for offer in answer.offers
    ]
    return "\n".join([*lines, ":words"]) + "\n" if lines else ""


def for_bash(answer: Answer, raw: str, tail: str) -> str:
    """Return an answer as bash takes it; empty if there is none.

    `raw` is the last word as it was typed, and `tail` the part of it that bash replaces, from the last `=` or `:` on.
    """
    kept = raw[: len(raw) - len(tail)] if raw.endswith(tail) else ""
    before = split(kept)
    begin = before.words[-1]
    if answer.files is not None:
        names = [f"{answer.begin}{name}" for name in listed(answer.files, answer.rest)]
        lines = [name.removeprefix(begin) for name in names if name.startswith(begin)]
        return "\n".join([*lines, ":files"]) + "\n" if lines else ""
    left = [offer.word for offer in answer.offers if offer.word.startswith(begin)]
    lines = [quoted(word.removeprefix(begin), before.quote) for word in left]
    is_open = any(word.endswith(("=", ".", "/")) for word in left)
    return "\n".join([*lines, ":open" if is_open else ":words"]) + "\n" if lines else ""


def quoted(word: str, quote: str) -> str:
    """Return a word, or its end, as bash takes it after an open quote, or without one."""
    if quote == "'":
        return word.replace("'", "'\\''")
    if quote:
        return "".join(f"\\{sign}" if sign in _LIVE[quote] else sign for sign in word)
    plain = "".join(
        sign if sign in _BARE or ord(sign) > 127 else f"\\{sign}" for sign in word
    )
    return f"\\{plain}" if plain.startswith("~") else plain


@dataclass(frozen=True)
class Typed:
    """A line as it was typed."""

    words: list[str]
    """Its words as the shell understands them; the last one is empty after a blank."""
    raw: str
    """The last word as it was typed."""
    quote: str
    """The quote that is open at the end; empty if none is."""


def split(line: str) -> Typed:
    """Return the words of a line as bash would, except that variables stay as they are."""
    words, word, begin, quote, position = list[str](), "", 0, "", 0
    while position < len(line):
        sign, after = line[position], line[position + 1 : position + 2]
        position += 1
        if sign == "\\" and quote != "'" and (not quote or after in _LIVE[quote]):
            word += after
            position += 1
        elif sign == quote:
            quote = ""
        elif sign in _LIVE and not quote:
            quote = sign
        elif sign.isspace() and not quote:
            if begin < position - 1:
                words.append(word)
            word, begin = "", position
        else:
            word += sign
    return Typed([*words, word], line[begin:], quote)


def listed(files: Files, begin: str) -> list[str]:
    """Return the files and folders whose paths begin with a text, as far as they are meant; else any that do."""
    folder, slash, start = begin.rpartition("/")
    place = os.path.expanduser(f"{folder}{slash}") or "."  # noqa: PTH111  # the text is kept as it is
    folders: list[str] = []
    meant: list[str] = []
    others: list[str] = []
    for entry in os.scandir(place):
        if not entry.name.startswith(start) or (
            entry.name.startswith(".") and not start
        ):
            continue
        ending = entry.name.rpartition(".")[2]
        into = (
            folders if entry.is_dir() else meant if ending in files.endings else others
        )
        into.append(f"{folder}{slash}{entry.name}")
    if files.only_folders:
        return sorted(folders)
    return sorted(
        [*folders, *meant] if meant or (folders and not others) else [*folders, *others]
    )

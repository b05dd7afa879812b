"""The kinds of values that settings can have, with the function that reads each kind."""

from __future__ import annotations

import re
from collections.abc import Callable

from heat_config_hooks.values import dataclass

LONGEST = 366 * 24 * 3600.0
"""The longest time in seconds that a setting can have."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of values. It is an object of its own: an enumeration would be built at every start, which takes long."""

    words: str
    """The values in words, for people."""
    read: Callable[[object], object]
    """Returns the value for the text or JSON value of a place; None if that is not valid."""


def _text(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) and "\0" not in value else None


def _flag(value: object) -> object:
    words = {
        "true": True,
        "yes": True,
        "on": True,
        "1": True,
        "false": False,
        "no": False,
        "off": False,
        "0": False,
    }
    return value if isinstance(value, bool) else words.get(str(value).strip().lower())


def _seconds(value: object) -> object:
    try:
        number = (
            float(value)
            if isinstance(value, str | int | float) and not isinstance(value, bool)
            else float("nan")
        )
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= LONGEST else None


def _limit(value: object) -> object:
    return _seconds(value) or None


def _count(value: object) -> object:
    number = _seconds(value)
    return (
        int(number)
        if isinstance(number, float) and number.is_integer() and number >= 1
        else None
    )


_SIZE = r"(?i)(\d{1,15})\s*([kmgt]?)(i?b)?"


def _size(value: object) -> object:
    text = (
        str(value)
        if isinstance(value, str | int) and not isinstance(value, bool)
        else ""
    )
    size = re.fullmatch(_SIZE, text.strip())
    return (
        int(size[1]) * 1024 ** " kmgt".index(size[2].lower() or " ") if size else None
    )


def _texts(value: object) -> list[str] | None:
    """Return the texts of a value that may be one text or a list of them; None if it is something else."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(
        isinstance(item, str) and "\0" not in item for item in items
    ):
        return None
    return items


def _words(value: object) -> object:
    texts = _texts(value)
    return (
        None
        if texts is None
        else tuple(word for text in texts for word in text.replace(",", " ").split())
    )


def _lines(value: object) -> object:
    texts = _texts(value)
    lines = [line.strip() for text in texts or () for line in text.splitlines()]
    return None if texts is None else tuple(line for line in lines if line)


def _command(value: object) -> object:
    import shlex  # noqa: PLC0415  # few settings are commands

    text = _text(value)
    try:
        return text if isinstance(text, str) and shlex.split(text) else None
    except ValueError:
        return None


def _path(value: object) -> object:
    text = _text(value)
    return (
        text if isinstance(text, str) and (text == "" or text.startswith("/")) else None
    )


def _paths(value: object) -> object:
    words = _words(value)
    return (
        words
        if isinstance(words, tuple) and all(word.startswith("/") for word in words)
        else None
    )


TEXT = Kind("text", _text)
FLAG = Kind("true or false", _flag)
SECONDS = Kind("a number of seconds, 0 or more", _seconds)
LIMIT = Kind("a number of seconds, more than 0", _limit)
COUNT = Kind("a whole number, 1 or more", _count)
SIZE = Kind("a number of bytes, or of K, M or G of them, 0 or more", _size)
WORDS = Kind("one or more words", _words)
LINES = Kind("one or more lines", _lines)
PATH = Kind("an absolute path", _path)
PATHS = Kind("one or more absolute paths", _paths)
CHOICE = Kind("one of", _text)
COMMAND = Kind("a command and its arguments, quoted as in a shell", _command)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The declaration of one setting."""

    section: str
    name: str
    kind: Kind
    description: str
    """The description for people, without a full stop."""
    default: object = ""
    example: str = ""
    """An example value as written in a file; empty for none."""
    choices: tuple[str, ...] = ()
    """The values that `CHOICE` accepts, or the words that `WORDS` accepts; empty for any."""
    secret: bool = False
    required: bool = False
    """True if the section of a transport is not valid without it."""
    shared: bool = False
    """True if os-collect-config has it too, in `[DEFAULT]` and in the metadata."""
    replaced_by: str = ""
    """The setting to use instead of this one, which still works; empty unless this one is deprecated."""

    @property
    def expected(self) -> str:
        """The values that are accepted, in words."""
        if self.kind is CHOICE:
            return f"one of {', '.join(self.choices)}"
        return (
            f"{self.kind.words} of: {', '.join(self.choices)}"
            if self.choices
            else self.kind.words
        )


def written(kind: Kind, value: object) -> str:
    """Return a value as text for a file of settings; empty text for an empty value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and kind is SIZE and value:
        unit = next((power for power in (3, 2, 1) if value % 1024**power == 0), 0)
        return f"{value // 1024**unit}{' KMG'[unit].strip()}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:.15g}" if isinstance(value, int | float) else str(value)

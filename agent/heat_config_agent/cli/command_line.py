"""The options of a command: an argparse parser is made of them, and a plain command line is parsed without argparse.

A line is plain if it has full option names with their values, and all other words next to each other. argparse does
the rest: mistakes, abbreviations and `--help`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace

from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    import argparse
    from typing import Any


@dataclass(frozen=True)
class Option:
    """One option of a command."""

    name: str
    help: str
    metavar: str = ""
    """The name of its value in the help; empty for an option without a value."""
    read: Callable[[str], object] = str
    """Converts the text into the value. A ValueError says what was expected."""
    repeated: bool = False
    """True if it may be given several times: its value is a list then."""
    short: str = ""
    """Another name with one letter."""

    @property
    def variable(self) -> str:
        """The name of its attribute in the parsed command line."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def default(self) -> object:
        """The value if the option is not given."""
        return [] if self.repeated else None if self.metavar else False

    def add(self, parser: argparse.ArgumentParser, *others: str) -> None:
        """Add it to a parser. `others` are its other names."""
        names = [name for name in (self.short, self.name, *others) if name]
        if not self.metavar:
            parser.add_argument(*names, action="store_true", help=self.help)
            return
        action = "append" if self.repeated else "store"
        parser.add_argument(
            *names,
            action=action,
            default=self.default,
            type=self._value,
            metavar=self.metavar,
            help=self.help,
        )

    def _value(self, text: str) -> object:
        try:
            return self.read(text)
        except ValueError as error:
            import argparse  # noqa: PLC0415  # it is loaded already: only argparse calls this

            raise argparse.ArgumentTypeError(str(error)) from None


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """Return a time in seconds: 90, 90s, 1.5m, 2h, 1h30m or 7d. Raises ValueError."""
    total, number = 0.0, ""
    try:
        if text[-1:] not in _UNITS:
            return _amount(text)
        for sign in text:
            if sign in _UNITS:
                total += _amount(number) * _UNITS[sign]
            number = "" if sign in _UNITS else number + sign
    except ValueError:
        raise ValueError(
            f"expected a time, such as 90, 90s, 5m, 1h30m or 7d, and not {text!r}"
        ) from None
    return total


def _amount(text: str) -> float:
    if (
        len(text) > _DIGITS
        or not text.isascii()
        or not text.replace(".", "", 1).isdecimal()
    ):
        raise ValueError(text)
    return float(text)


_DIGITS = 12
"""Characters of the number of a time."""


def number(least: int) -> Callable[[str], int]:
    """Return a function that reads a whole number not below a minimum. The function raises ValueError."""

    def read_number(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise ValueError(f"expected a number, {least} or more, not {text!r}")
        return int(text)

    return read_number


def environment(text: str) -> str:
    """Return the name of a file with an environment. Raises ValueError for the value of a parameter."""
    name, equals, _ = text.partition("=")
    if equals and "/" not in name and not os.path.exists(text):  # noqa: PTH110  # pathlib takes long to load
        raise ValueError(f"it takes a file; --parameter {name}=VALUE sets a parameter")
    return text


def read(
    words: Sequence[str], options: Sequence[Option], *, rest: str
) -> SimpleNamespace | None:
    """Return the result of argparse for a plain line, with the other words in the attribute `rest`; else None."""
    by_name = {option.name: option for option in options}
    values: dict[str, Any] = {option.variable: option.default for option in options}
    others: list[str] = []
    in_one_piece = True
    left = iter(words)
    for word in left:
        name, equals, value = word.partition("=")
        if word == "-" or not word.startswith("-"):
            others.append(word)
            if not in_one_piece:
                return None
            continue
        in_one_piece = not others
        option = by_name.get(name)
        if option is None or (equals and not option.metavar):
            return None
        if not option.metavar:
            values[option.variable] = True
            continue
        text = value if equals else next(left, "")
        if not text or text.startswith("-"):
            return None
        try:
            value_read = option.read(text)
        except ValueError:
            return None
        values[option.variable] = (
            [*values[option.variable], value_read] if option.repeated else value_read
        )
    return SimpleNamespace(**values, **{rest: others})

"""The options of a command: argparse is made of them, and a plain command line is read without loading that.

Plain is a line that has options by their full names, with what they need, and its other words in one piece. All else is
argparse's business: what is wrong, abbreviations, `--help`.
"""

from __future__ import annotations

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
    """What its value is called; empty where it takes none, and is true or false."""
    read: Callable[[str], object] = str
    """Makes the value of the text. A ValueError says what would be right."""
    repeated: bool = False
    """Whether it may be given several times: the value is a list then."""
    short: str = ""
    """Another name, of one letter."""

    @property
    def variable(self) -> str:
        """What its value is called in what comes of a command line."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def usual(self) -> object:
        """The value where it is not given."""
        return [] if self.repeated else None if self.metavar else False

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add it to a parser."""
        if not self.metavar:
            parser.add_argument(self.name, action="store_true", help=self.help)
            return
        names = [each for each in (self.short, self.name) if each]
        action = "append" if self.repeated else "store"
        parser.add_argument(
            *names, action=action, default=self.usual, type=self._value, metavar=self.metavar, help=self.help
        )

    def _value(self, text: str) -> object:
        try:
            return self.read(text)
        except ValueError as error:
            import argparse  # noqa: PLC0415  # it is loaded: who else would ask

            raise argparse.ArgumentTypeError(str(error)) from None


def read(words: Sequence[str], options: Sequence[Option], *, rest: str) -> SimpleNamespace | None:
    """Return what argparse would make of a plain line, with the other words under the name `rest`; else None."""
    known = {each.name: each for each in options}
    found: dict[str, Any] = {each.variable: each.usual for each in options}
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
        option = known.get(name)
        if option is None or (equals and not option.metavar):
            return None
        if not option.metavar:
            found[option.variable] = True
            continue
        text = value if equals else next(left, "")
        if not text or text.startswith("-"):
            return None
        try:
            made = option.read(text)
        except ValueError:
            return None
        found[option.variable] = [*found[option.variable], made] if option.repeated else made
    return SimpleNamespace(**found, **{rest: others})

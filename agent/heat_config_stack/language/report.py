"""The mistakes and warnings of one text, collected while it is examined."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from heat_config_agent.masking.redaction import OPEN, Concealer
from heat_config_stack.language.mistakes import Invalid, Mistake
from heat_config_stack.language.positions import Path, Place
from heat_config_stack.language.text import Text

_LONGEST_WORD = 100
"""Characters of a name that may be misspelt: to compare longer ones takes too long."""


class Report:
    """The mistakes and warnings of one text; those of the text itself are in it from the beginning."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.mistakes: list[Mistake] = list(text.mistakes)
        self.warnings: list[Mistake] = list(text.warnings)

    def wrong(
        self,
        problem: str,
        path: Path,
        hint: str = "",
        kind: str = "validate",
        at: Path | Place | None = None,
        *,
        code: str = "",
    ) -> None:
        """Add a mistake. `at`: its position or the path of its position, if that is not `path`."""
        place = at if isinstance(at, Place) else self._text.place(path if at is None else at)
        self.mistakes.append(Mistake(problem, path, place, hint, kind, code))

    def odd(self, problem: str, path: Path, hint: str = "", code: str = "") -> None:
        """Add a warning, unless it is there already."""
        warning = Mistake(problem, path, self._text.place(path), hint, code=code)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def refuse(self, problem: str, path: Path) -> Invalid:
        """Return the error that ends the validation at once. `problem` names a limit, and no value."""
        return Invalid([Mistake(problem, path, self._text.place(path))], OPEN)

    def finish(self, conceal: Concealer) -> None:
        """Raise `Invalid` if there are mistakes."""
        if self.mistakes:
            raise Invalid(ordered(self.mistakes), conceal)


def ordered(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Return mistakes without repetitions, those of one file in the order of its text."""
    files: dict[str, int] = {}
    unique = list(dict.fromkeys(mistakes))
    for mistake in unique:
        files.setdefault(mistake.place.file if mistake.place else "", len(files))

    def position(mistake: Mistake) -> tuple[int, int, int]:
        place = mistake.place
        return (files[place.file], place.line, place.column) if place else (-1, 0, 0)

    return sorted(unique, key=position)


def among(word: str, names: Iterable[str], there: str = "it has") -> str:
    """Return the hint for an unknown name on a command line: a close name, or else all of them."""
    known = list(names)
    return meant(word, known) or f"{there} {', '.join(known) or 'none'}"


def meant(word: object, known: Iterable[str], closeness: float = 0.7) -> str:
    """Return the hint that another word may have been meant, or nothing."""
    if len(str(word)) > _LONGEST_WORD:
        return ""
    candidates = [name for name in known if len(name) <= _LONGEST_WORD]
    close = difflib.get_close_matches(str(word), candidates, 1, closeness)
    return f"did you mean {close[0]}?" if close else ""

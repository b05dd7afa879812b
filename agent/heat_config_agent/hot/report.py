"""What is wrong with a text, and what is odd about it, collected while it is looked through."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from heat_config_agent.hot.text import Text
from heat_config_agent.stack.definition import Invalid, Mistake, Path, Place


class Report:
    """The mistakes and warnings of one text."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.mistakes: list[Mistake] = []
        self.warnings: list[Mistake] = list(text.warnings)

    def wrong(
        self, problem: str, path: Path, hint: str = "", kind: str = "validate", at: Path | Place | None = None
    ) -> None:
        """Take down a mistake; `at`: where it is, if that is not what its path says."""
        place = at if isinstance(at, Place) else self._text.place(path if at is None else at)
        self.mistakes.append(Mistake(problem, path, place, hint, kind))

    def odd(self, problem: str, path: Path, hint: str = "") -> None:
        """Take down a warning, once."""
        warning = Mistake(problem, path, self._text.place(path), hint)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def finish(self) -> None:
        """Raise `Invalid` where there are mistakes."""
        if self.mistakes:
            raise Invalid(ordered(self.mistakes))


def ordered(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Return mistakes without repetitions, those of one file in the order of its text."""
    files: dict[str, int] = {}
    unique = list(dict.fromkeys(mistakes))
    for each in unique:
        files.setdefault(each.place.file if each.place else "", len(files))
    return sorted(
        unique,
        key=lambda each: (files[each.place.file], each.place.line, each.place.column) if each.place else (-1, 0, 0),
    )


def meant(word: object, known: Iterable[str], closeness: float = 0.7) -> str:
    """Return the hint that another word may have been meant, or nothing."""
    close = difflib.get_close_matches(str(word), list(known), 1, closeness)
    return f"did you mean {close[0]}?" if close else ""

"""The mistakes and warnings of one text, collected while it is examined."""

from __future__ import annotations

from collections.abc import Iterable

from heat_config_agent.diagnostics.mistakes import Invalid, ordered
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.diagnostics.words import meant
from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Path, Place

HINTS = 100
"""References of one text for which a similar name is looked for: among long names that are alike that takes 20 ms."""


class Diagnostics:
    """The mistakes and warnings of one text; those of the text itself are in it from the beginning."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.mistakes: list[Mistake] = list(text.mistakes)
        self.warnings: list[Mistake] = list(text.warnings)
        self._hints = HINTS

    def wrong(
        self,
        problem: str,
        path: Path,
        hint: str = "",
        *,
        kind: str = "validate",
        at: Path | Place | None = None,
        code: str = "",
    ) -> None:
        """Add a mistake. `at`: its position or the path of its position, if that is not `path`."""
        place = (
            at
            if isinstance(at, Place)
            else self._text.place(path if at is None else at)
        )
        self.mistakes.append(Mistake(problem, path, place, hint, kind, code))

    def meant(self, name: object, names: Iterable[str]) -> str:
        """Return the hint that another name may have been meant; empty if none is close, or after many hints."""
        if self._hints <= 0:
            return ""
        self._hints -= 1
        return meant(name, names)

    def warn(self, problem: str, path: Path, hint: str = "", *, code: str = "") -> None:
        """Add a warning, unless it is there already."""
        warning = Mistake(problem, path, self._text.place(path), hint, code=code)
        if warning not in self.warnings:
            self.warnings.append(warning)

    def refuse(self, problem: str, path: Path) -> Invalid:
        """Return the error that ends the validation at once. `problem` names a limit, and no value."""
        return Invalid([Mistake(problem, path, self._text.place(path))])

    def finish(self, conceal: Concealer) -> None:
        """Raise `Invalid` if there are mistakes."""
        if self.mistakes:
            raise Invalid(ordered(self.mistakes), conceal)

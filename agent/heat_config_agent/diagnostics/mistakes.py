"""The error that carries the mistakes of a text, in the order of the text."""

from __future__ import annotations

from collections.abc import Iterable

from heat_config_agent.masking.redaction import OPEN, Concealer
from heat_config_agent.model.errors import UsageError
from heat_config_agent.model.mistake import Mistake

OF_VALUE = "value"
"""The code of a mistake in a value: Heat finds it when a stack is created, and not when only a template is checked."""


class Invalid(UsageError):  # noqa: N818  # the text is invalid
    """A text has mistakes; nothing was begun."""

    def __init__(self, mistakes: Iterable[Mistake], conceal: Concealer = OPEN) -> None:
        """Take at least one mistake, in the order of the text, and what hides secrets in them.

        The latter is `Definition.conceal`, or `masking.redaction.OPEN` while no parameter has a value.
        """
        self.conceal = conceal
        self.mistakes = tuple(mistake.concealed(conceal.text) for mistake in mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


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

"""Mistakes of a template: the problem, and the position in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model.errors import UsageError
from heat_config_stack.language.positions import Path, Place, dotted

OF_VALUE = "value"
"""The code of a mistake in a value: Heat finds it when a stack is created, and not when only a template is checked."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A problem that the author has to fix, in one sentence; or a warning about something that is surely not meant."""

    problem: str
    path: Path = ()
    place: Place | None = None
    hint: str = ""
    kind: str = "validate"
    """The stage in which Heat finds it: `template_format`, `environment_format`, `template`, `parameters`,
    `environment`, `stack` or `validate`."""
    code: str = ""
    """A stable name for this kind of mistake, if the language has one."""

    def __str__(self) -> str:
        where = [str(self.place)] if self.place else []
        where += [dotted(self.path)] if self.path else []
        return ": ".join([*where, self.problem]) + (f" ({self.hint})" if self.hint else "")

    def concealed(self, conceal: Concealer) -> Mistake:
        """Return the mistake as it may be shown: without the secret values that it repeats."""
        path = tuple(conceal.text(part) if isinstance(part, str) else part for part in self.path)
        return replace(self, problem=conceal.text(self.problem), path=path, hint=conceal.text(self.hint))

    def under(self, *prefix: str | int) -> Mistake:
        """Return the mistake with a longer path: `resources`, `c<child.yaml>` for one of a child stack."""
        return replace(self, path=(*prefix, *self.path))


class Invalid(UsageError):  # noqa: N818  # the template is invalid
    """A template has mistakes; nothing was begun."""

    def __init__(self, mistakes: Sequence[Mistake], conceal: Concealer) -> None:
        """Take at least one mistake, in the order of the text, and what hides secrets in them.

        The latter is `Definition.conceal`, or `masking.redaction.OPEN` while no parameter has a value.
        """
        self.conceal = conceal
        self.mistakes = tuple(mistake.concealed(conceal) for mistake in mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))

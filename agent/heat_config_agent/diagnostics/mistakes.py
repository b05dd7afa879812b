"""Mistakes in a file, each with its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from heat_config_agent.model.errors import UsageError
from heat_config_hooks.values import dataclass

_LONGEST_WORD = 100
"""Characters of a name that may be misspelt: to compare longer ones takes too long."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A mistake in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int
    problem: str
    path: str = ""
    """The part of the file that is wrong, e.g. `web.inputs[0].valu`; empty if the mistake is about all of it."""
    hint: str = ""

    @property
    def place(self) -> str:
        """The place as compilers write it."""
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def sentence(self) -> str:
        """The mistake without its place."""
        path = f"{self.path}: " if self.path else ""
        return f"{path}{self.problem}" + (f" ({self.hint})" if self.hint else "")

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


class Mistaken(UsageError):  # noqa: N818  # the file is mistaken
    """A file has mistakes; nothing was begun."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        """Take at least one finding; those of one file are put into the order of its text."""
        self.findings = ordered(findings)
        super().__init__("; ".join(map(str, self.findings)))


def ordered(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Return findings without repetitions, those of one file in the order of its text."""
    unique = list(dict.fromkeys(findings))
    files = {file: number for number, file in enumerate(dict.fromkeys(each.file for each in unique))}
    return sorted(unique, key=lambda each: (files[each.file], each.line, each.column))


def meant(word: str, names: Iterable[str], closeness: float = 0.6) -> str:
    """Return the hint that another name may have been meant; empty if none is close."""
    if len(word) > _LONGEST_WORD:
        return ""
    import difflib  # noqa: PLC0415  # slow to load

    close = difflib.get_close_matches(word.lower(), names, 1, closeness)
    return f"did you mean {close[0]}?" if close else ""

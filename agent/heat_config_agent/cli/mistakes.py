"""Mistakes in files as lines of output, and as JSON."""

from __future__ import annotations

from heat_config_agent.cli import terminal
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import dotted


def mistake_line(mistake: Mistake, severity: str = "error", style: str = "bad") -> str:
    """Return a mistake without secrets in the form of compilers (FILE:LINE:COLUMN), which editors understand."""
    place = f"{terminal.line(str(mistake.place))}: " if mistake.place else ""
    path = f"{terminal.line(dotted(mistake.path))}: " if mistake.path else ""
    hint = f" ({terminal.line(mistake.hint)})" if mistake.hint else ""
    begin = terminal.columns(f"{place}{severity}")
    text = f": {path}{terminal.line(mistake.problem)}{hint}"
    text = terminal.wrapped(text, 4, terminal.room(error=True), begin=begin)
    return f"{place}{terminal.styled(severity, style)}{text}"


def mistake_values(mistake: Mistake) -> dict[str, object]:
    """Return a mistake without secrets as JSON."""
    place = mistake.place
    return {
        "code": mistake.code or None,
        "problem": mistake.problem,
        "hint": mistake.hint or None,
        "path": dotted(mistake.path),
        "file": place.file if place else None,
        "line": place.line if place else None,
        "column": place.column if place else None,
    }

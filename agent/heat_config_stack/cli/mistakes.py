"""Mistakes in a template as lines of output."""

from __future__ import annotations

from heat_config_agent.cli import terminal
from heat_config_agent.masking.redaction import Concealer
from heat_config_stack.language.mistakes import Mistake
from heat_config_stack.language.positions import dotted


def mistake_line(mistake: Mistake, severity: str, style: str, conceal: Concealer) -> str:
    """Return a mistake with secrets masked, in the form of compilers (FILE:LINE:COLUMN), which editors understand."""
    mistake = mistake.concealed(conceal)
    place = f"{terminal.line(str(mistake.place))}: " if mistake.place else ""
    path = f"{terminal.line(dotted(mistake.path))}: " if mistake.path else ""
    hint = f" ({terminal.line(mistake.hint)})" if mistake.hint else ""
    begin = terminal.columns(f"{place}{severity}")
    text = f": {path}{terminal.line(mistake.problem)}{hint}"
    text = terminal.wrapped(text, 4, terminal.room(error=True), begin=begin)
    return f"{place}{terminal.styled(severity, style)}{text}"

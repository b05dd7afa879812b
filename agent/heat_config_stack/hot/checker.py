"""The mistakes in a template, its environments and its nested templates, without a stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heat_config_agent.diagnostics.mistakes import ordered
from heat_config_agent.masking.redaction import OPEN, Concealer
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition, Identity
from heat_config_stack.hot import loader, reader
from heat_config_stack.hot.source import Source

NAME = "stack"
"""The name of the stack for which the template is checked; it is never created."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check."""

    source: Source
    definition: Definition | None
    """None if the template cannot be read at all."""
    mistakes: list[Mistake]
    warnings: list[Mistake]

    @property
    def conceal(self) -> Concealer:
        """The concealer that hides secrets in every text about the template."""
        return self.definition.conceal if self.definition else OPEN


def check(template: str, environments: Sequence[str], parameters: Mapping[str, Json]) -> Checked:
    """Return the result of checking a template with the given values of parameters.

    The properties of types are checked by the stack. Raises `UsageError` if the template or an environment cannot be
    read.
    """
    source, missing = reader.read(template, environments, parameters)
    made, mistakes, warnings = loader.examine(source, Identity(NAME, ""), known=False)
    if made is not None:
        wrong, odd = loader.check_children(made)
        mistakes, warnings = [*mistakes, *wrong], [*warnings, *odd]
    places = {each.place for each in missing}  # a missing file is reported once
    mistakes = [*missing, *(each for each in mistakes if each.place not in places)]
    return Checked(source, made, ordered(mistakes), ordered(warnings))

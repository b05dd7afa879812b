"""What is wrong with a template, its environments and its nested templates, before anybody makes a stack of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heat_config_agent.hot import loading, reading
from heat_config_agent.hot.report import ordered
from heat_config_agent.hot.source import Source
from heat_config_agent.stack.definition import Definition, Identity, Json, Mistake

NAME = "stack"
"""What the stack is called that nobody makes."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What has come of it."""

    source: Source
    definition: Definition | None
    """None where the template cannot be looked into at all."""
    mistakes: list[Mistake]
    warnings: list[Mistake]


def check(template: str, environments: Sequence[str], parameters: Mapping[str, Json]) -> Checked:
    """Look at everything, with the values of parameters as far as they are given.

    Whether a type has the properties that it is given is for the stack to say. Raises `UsageError` where the template
    or an environment cannot be read.
    """
    source, missing = reading.read(template, environments, parameters)
    made, mistakes, warnings = loading.examine(source, Identity(NAME, ""), known=False)
    if made is not None:
        wrong, odd = loading.check_children(made)
        mistakes, warnings = [*mistakes, *wrong], [*warnings, *odd]
    places = {each.place for each in missing}  # where something is missing, that is all that is wrong
    mistakes = [*missing, *(each for each in mistakes if each.place not in places)]
    return Checked(source, made, ordered(mistakes), ordered(warnings))

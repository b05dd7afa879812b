"""The capabilities that templates declare, and the ones that environments require.

    capabilities:                          # in a template
      deployment: puppet
      resource_type: [My::Web, My::Database]

    requires: {deployment: puppet}         # in an environment

Heat has a specification of this, but no implementation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from heat_config_agent.diagnostics.diagnostics import Diagnostics
from heat_config_agent.diagnostics.text import Text
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path

Capabilities = Mapping[str, tuple[str, ...]]
"""Key → its values, as text."""

NOT_HEATS = "Heat refuses this section: it has specified capabilities, and does not have them"
CODE = "capabilities"
"""The code of that warning, which `validate --strict` lets pass: a template with capabilities cannot avoid it."""


def read(section: Json, report: Diagnostics, path: Path, kind: str) -> dict[str, tuple[str, ...]]:
    """Return the section `capabilities` or `requires` without the entries that have mistakes.

    `kind` is the stage of the mistakes.
    """
    if section is None:
        return {}
    if not isinstance(section, dict):
        report.wrong(f'"{path[-1]}" is a map of keys and values, such as deployment: puppet', path, kind=kind)
        return {}
    capabilities = {}
    for key, said in section.items():
        values = said if isinstance(said, list) else [said]
        wrong = [index for index, each in enumerate(values) if not isinstance(each, str | bool | int | float)]
        for index in wrong:
            at = (*path, key, index) if isinstance(said, list) else (*path, key)
            report.wrong(f"a capability is text, a number or a boolean, not {json.dumps(values[index])}", at, kind=kind)
        if not values:
            report.wrong(f"{key} has no value", (*path, key), "remove it", kind=kind)
        elif not wrong:
            capabilities[key] = tuple(dict.fromkeys(map(_text, values)))
    return capabilities


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def of(template: Text, report: Diagnostics) -> dict[str, tuple[str, ...]]:
    """Return the capabilities of a template."""
    return read(template.value.get("capabilities"), report, ("capabilities",), "template")


def once(warnings: Iterable[Mistake]) -> list[Mistake]:
    """Return warnings; those about capabilities appear once for all environments, and once for all templates."""
    kept: list[Mistake] = []
    sections: set[object] = set()
    for warning in warnings:
        section = warning.path[-1] if warning.path else ""
        if warning.code != CODE or section not in sections:
            kept.append(warning)
        if warning.code == CODE:
            sections.add(section)
    return kept


def fits(capabilities: Capabilities, requires: Capabilities) -> bool:
    """Return whether the capabilities have every required value."""
    return all(set(values) <= set(capabilities.get(key, ())) for key, values in requires.items())


def written(capabilities: Capabilities) -> str:
    """Return capabilities as text for a command line: `key=value, key=value`."""
    return ", ".join(f"{key}={value}" for key, values in capabilities.items() for value in values)

"""Definitions of stacks for tests, and what a stack would know of its resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Definition, Identity, Unresolved, select
from heat_config_stack.definition.files import File
from heat_config_stack.hot import loader
from heat_config_stack.hot.source import Source

IDENTITY = Identity("s1", "the-id", "the-project")
VERSION = "heat_template_version: 2018-08-31\n"


@dataclass
class Known:
    """A `Look` at given resources."""

    values: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)

    def reference(self, resource: str) -> Json:
        return f"id-of-{resource}"

    def attribute(self, resource: str, attribute: str, path: Sequence[Json]) -> Json:
        if attribute not in self.values.get(resource, {}):
            raise Unresolved(
                f"The Referenced Attribute ({resource} {attribute}) is incorrect."
            )
        return select(self.values[resource][attribute], path)

    def attributes(self, resource: str) -> Json:
        return dict(self.values[resource])

    def facade(self, what: str) -> Json:
        return f"the parent's {what}"


def source(
    template: str,
    *environments: str,
    files: Mapping[str, str] | None = None,
    **parameters: Any,
) -> Source:
    """Return what a stack is made of; a template without a version gets one."""
    text = dedent(template)
    text = text if "heat_template_version" in text else VERSION + text
    sent = tuple(
        File(f"env{index}.yaml", dedent(each))
        for index, each in enumerate(environments)
    )
    return Source(
        File("t.yaml", text),
        sent,
        {name: dedent(each) for name, each in (files or {}).items()},
        parameters,
    )


def define(
    template: str,
    *environments: str,
    files: Mapping[str, str] | None = None,
    **parameters: Any,
) -> Definition:
    """Return what a stack is to be."""
    return loader.define(
        source(template, *environments, files=files, **parameters), IDENTITY
    )


def examined(
    template: str,
    *environments: str,
    files: Mapping[str, str] | None = None,
    **parameters: Any,
) -> tuple[list[str], list[str]]:
    """Return the mistakes and the warnings, as they are said."""
    _, mistakes, warnings = loader.examine(
        source(template, *environments, files=files, **parameters), IDENTITY
    )
    return _said(mistakes), _said(warnings)


def _said(mistakes: list[Mistake]) -> list[str]:
    return [str(each) for each in mistakes]

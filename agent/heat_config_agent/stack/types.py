"""Which class works on which type of resource: ours, those of plug-ins, nested templates, placeholders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from heat_config_agent.stack.definition import Environment, Found, ResourceDefinition
from heat_config_agent.stack.exception import EntityNotFound

if TYPE_CHECKING:
    from heat_config_agent.stack.resource import Resource

_CLOUD = re.compile(r"(OS::(?!Heat::)[A-Za-z]+|AWS|Rackspace|Docker|DockerInc|Microsoft|Senlin)::\w+(::\w+)*")
"""Types of which every cloud has some: there is nothing behind them here."""


class Types:
    """The types that are known."""

    def __init__(self, plugins: Mapping[str, type[Resource]] | None = None) -> None:
        """Know our own types, and those of plug-ins, which go first."""
        from heat_config_agent.stack import resources  # noqa: PLC0415  # they know this module

        self._classes = {**resources.TYPES, **(plugins or {})}
        self._template, self._placeholder = resources.TEMPLATE, resources.PLACEHOLDER

    def __contains__(self, type_: object) -> bool:
        return isinstance(type_, str) and (type_ in self._classes or bool(_CLOUD.fullmatch(type_)))

    def found(self, wanted: ResourceDefinition, environment: Environment) -> Found:
        """Return what the type of a resource stands for. Raises EntityNotFound."""
        for each in environment.candidates(wanted.type, wanted.name):
            if each.template or each.type in self:
                return each
        raise EntityNotFound(entity="Resource Type", name=wanted.type)

    def class_of(self, found: Found) -> type[Resource]:
        """Return the class that works on a type. Raises EntityNotFound."""
        if found.template:
            return self._template
        if found.type in self._classes:
            return self._classes[found.type]
        if found.type in self:
            return self._placeholder
        raise EntityNotFound(entity="Resource Type", name=found.type)

    def is_placeholder(self, resource: Resource) -> bool:
        """Whether a resource stands for something in a cloud, of which there is nothing here."""
        return isinstance(resource, self._placeholder)

    def in_whose_place(self, wanted: ResourceDefinition, environment: Environment) -> type[Resource] | None:
        """Return the class of the known type in whose place a template stands; None where it stands in none's."""
        candidates = iter(environment.candidates(wanted.type, wanted.name))
        first = next(candidates, None)
        if first is None or not first.template:
            return None
        return next((self._classes[each.type] for each in candidates if each.type in self._classes), None)

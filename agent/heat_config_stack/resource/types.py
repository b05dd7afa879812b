"""The class for each type of resource: our own types, those of plug-ins, nested templates, and placeholders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from heat_config_stack.definition import Environment, MappedType, ResourceDefinition
from heat_config_stack.records.exception import EntityNotFound

if TYPE_CHECKING:
    from heat_config_stack.resource.resource import Resource

HANDLES = {
    "AWS::CloudFormation::WaitConditionHandle",
    "OS::Heat::SwiftSignalHandle",
    "OS::Heat::UpdateWaitConditionHandle",
    "OS::Heat::WaitConditionHandle",
}
"""The types of the handles of wait conditions, which scripts signal."""


class Types:
    """The types that are known."""

    def __init__(
        self,
        builtin: Mapping[str, type[Resource]],
        plugins: Mapping[str, type[Resource]],
        service: Mapping[str, type[Resource]],
        *,
        template: Callable[[], type[Resource]],
        unusable: Callable[[], type[Resource]],
        of_cloud: Callable[[str], type[Resource] | None],
        former: Callable[[str], type[Resource] | None],
    ) -> None:
        """Take our own types, those of plug-ins, which take precedence, and those of services.

        `template` returns the class for templates, and `unusable` that of resources whose own class cannot be used.
        `of_cloud` returns the placeholder for a cloud resource; None for any other type. `former` does the same for
        cloud types that only existing stacks may contain.
        """
        self.unusable = unusable
        self._builtin, self._plugins, self._service = builtin, plugins, service
        self._template, self._of_cloud, self._former = template, of_cloud, former

    def __contains__(self, type_: object) -> bool:
        return isinstance(type_, str) and self.known(type_) is not None

    def __iter__(self) -> Iterator[str]:
        """Yield the types that are carried out here."""
        return iter(dict.fromkeys((*self._builtin, *self._plugins)))

    def known(self, type_: str) -> type[Resource] | None:
        """Return the class for a type that is not a template; None if there is no such type."""
        return (
            self._plugins.get(type_)
            or self._builtin.get(type_)
            or self._of_cloud(type_)
        )

    def mapped_type(
        self, resource: ResourceDefinition, environment: Environment
    ) -> MappedType:
        """Return the mapping of a resource's type that applies. Raises EntityNotFound."""
        for candidate in environment.candidates(resource.type, resource.name):
            if candidate.template or candidate.of_service or candidate.type in self:
                return candidate
        raise EntityNotFound(entity="Resource Type", name=resource.type)

    def class_of(self, mapped: MappedType) -> type[Resource]:
        """Return the class for a mapped type. Raises EntityNotFound."""
        if mapped.template:
            return self._template()
        class_ = (
            self._service.get(mapped.type)
            if mapped.of_service
            else self.known(mapped.type)
        )
        if class_ is not None:
            return class_
        raise EntityNotFound(entity="Resource Type", name=mapped.type)

    def class_of_record(self, mapped: MappedType) -> type[Resource]:
        """Return the class for the type of a resource that was created earlier. Raises EntityNotFound."""
        if not mapped.template and mapped.type in self._service:
            return self._service[mapped.type]
        try:
            return self.class_of(mapped)
        except EntityNotFound:
            if (former := self._former(mapped.type)) is None:
                raise
            return former

    def replaced(
        self, resource: ResourceDefinition, environment: Environment
    ) -> type[Resource] | None:
        """Return the class of the known type that a template replaces; None if it replaces none."""
        candidates = iter(environment.candidates(resource.type, resource.name))
        first = next(candidates, None)
        if first is None or not first.template:
            return None
        known = (self.known(each.type) for each in candidates if not each.template)
        return next((class_ for class_ in known if class_ is not None), None)

"""Templates of child stacks, as plug-ins make them with `heat.engine.template` and the modules next to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from heat_config_stack import definition
from heat_config_stack.plugins.facade import cloudformation
from heat_config_stack.plugins.facade.absent import NeedsEngineError
from heat_config_stack.resource.properties import shown
from heat_config_stack.resource.snippet import Snippet

VERSION_KEY, VERSION = "heat_template_version", "2015-04-30"
SECTIONS = ("parameters", "resources", "outputs", "conditions")


class ResourceDefinition(Snippet):
    """The definition of a resource that a plug-in makes, for a template of its own."""

    def __init__(  # noqa: PLR0917  # plug-ins call it so
        self,
        name: str | None,
        resource_type: str,
        properties: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        depends: str | Iterable[str] | None = None,
        deletion_policy: str | None = None,
        update_policy: Mapping[str, Any] | None = None,
        description: str | None = None,
        external_id: str | None = None,
        condition: str | bool | None = None,
    ) -> None:
        """Take the parts of the definition."""
        inner = definition.ResourceDefinition(
            name=name or "",
            type=resource_type,
            properties=dict(properties or {}),
            metadata=dict(metadata or {}),
            depends_on=(depends,) if isinstance(depends, str) else tuple(depends or ()),
            deletion_policy=deletion_policy or "Delete",
            update_policy=dict(update_policy or {}),
            external_id=external_id,
            description=description or "",
            condition=condition,
        )
        super().__init__(inner, copy.deepcopy)

    def freeze(self, **changes: Any) -> Snippet:
        """Return the definition with some parts replaced, under the names that plug-ins use."""
        changed = super().freeze(**changes)
        return of_definition(changed.definition)

    def render_hot(self) -> dict[str, Any]:
        """Return the definition as a template has it."""
        inner = self.definition
        parts = {
            "properties": inner.properties,
            "metadata": inner.metadata,
            "depends_on": list(inner.depends_on),
            "deletion_policy": ""
            if inner.deletion_policy == "Delete"
            else inner.deletion_policy,
            "update_policy": inner.update_policy,
            "description": inner.description,
            "external_id": inner.external_id,
        }
        given = {name: copy.deepcopy(value) for name, value in parts.items() if value}
        return {
            "type": inner.type,
            **given,
            **({} if inner.condition is None else {"condition": inner.condition}),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResourceDefinition):
            return NotImplemented
        return self.render_hot() == other.render_hot()

    def __hash__(self) -> int:
        return hash(json.dumps(self.render_hot(), sort_keys=True, default=str))


def of_definition(found: definition.ResourceDefinition) -> ResourceDefinition:
    """Return the definition of a resource in the form of a plug-in's definitions."""
    made = ResourceDefinition(found.name, found.type)
    Snippet.__init__(made, found, copy.deepcopy)
    return made


class OutputDefinition:
    """An output of a template that a plug-in makes."""

    def __init__(self, name: str, value: Any, description: str | None = None) -> None:
        """Take the name, and the value with its functions."""
        self.name, self._value, self._description = name, value, description

    def description(self) -> str:
        """Return the description."""
        return self._description or "No description given"

    def get_value(self) -> Any:
        """Return the value with its functions."""
        return self._value

    def render_hot(self) -> dict[str, Any]:
        """Return the output as a template has it."""
        described = (
            {} if self._description is None else {"description": self._description}
        )
        return {**described, "value": copy.deepcopy(self._value)}


def _map(what: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a map; got {shown(value)}")
    return value


def _function(stack: object, name: str, arguments: Any) -> dict[str, Any]:  # noqa: ARG001  # a plug-in's
    """Return a function as a template has it."""
    return {name: arguments}


class Template(Mapping[str, Any]):
    """A template in HOT, as data."""

    SECTIONS = (
        VERSION,
        DESCRIPTION,
        PARAMETER_GROUPS,
        PARAMETERS,
        RESOURCES,
        OUTPUTS,
        CONDITIONS,
    ) = (
        *(VERSION_KEY, "description", "parameter_groups", "parameters"),
        *("resources", "outputs", "conditions"),
    )
    functions: Mapping[str, Callable[..., Any]] = dict.fromkeys(
        ("get_attr", "get_resource"), _function
    )

    def __init__(
        self,
        template: Mapping[str, Any],
        template_id: object = None,
        files: Mapping[str, str] | None = None,
        env: Any = None,
    ) -> None:
        """Take the sections; those in CloudFormation's format are rewritten. Raises NotSupported, TypeError."""
        sections = dict(_map("a template", template))
        if any(key in sections for key in cloudformation.KEYS):
            sections = cloudformation.rewritten(sections)
        self.t: dict[str, Any] = sections
        self.id, self.files, self.env = template_id, dict(files or {}), env

    @classmethod
    def create_empty_template(
        cls,
        version: tuple[str, str] = (VERSION_KEY, VERSION),
        from_template: Template | None = None,
    ) -> Template:
        """Return a template without resources."""
        if from_template is None:
            return cls({version[0]: version[1]})
        rest = {
            name: value
            for name, value in from_template.t.items()
            if name != cls.RESOURCES
        }
        return cls(
            copy.deepcopy(rest), files=from_template.files, env=from_template.env
        )

    @classmethod
    def load(cls, context: object, template_id: object, t: object = None) -> Template:  # noqa: ARG003  # a plug-in's
        """Raise NeedsEngineError: no database has templates."""
        raise NeedsEngineError("heat.engine.template.Template.load")

    def store(self, context: object) -> None:  # noqa: ARG002
        """Raise NeedsEngineError: no database has templates."""
        raise NeedsEngineError("heat.engine.template.Template.store")

    def __getitem__(self, key: str) -> Any:
        name = self.get_section_name(key)
        return self.t.get(name, {}) if name in SECTIONS else self.t[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.t)

    def __len__(self) -> int:
        return len(self.t)

    @staticmethod
    def get_section_name(section: str) -> str:
        """Return the name of a section in this format."""
        return section.lower()

    @property
    def version(self) -> tuple[str, str]:
        """Return the key of the version, and the version."""
        return VERSION_KEY, str(self.t.get(VERSION_KEY, VERSION))

    def add_resource(self, made: ResourceDefinition, name: str | None = None) -> None:
        """Add a resource, or replace one."""
        self.t.setdefault(self.RESOURCES, {})[name or made.name] = made.render_hot()

    def add_output(self, made: OutputDefinition) -> None:
        """Add an output, or replace one."""
        self.t.setdefault(self.OUTPUTS, {})[made.name] = made.render_hot()

    def remove_resource(self, name: str) -> None:
        """Remove a resource."""
        self.t.get(self.RESOURCES, {}).pop(name)

    def remove_all_resources(self) -> None:
        """Remove all resources."""
        self.t.pop(self.RESOURCES, None)

    def resource_definitions(
        self,
        stack: object = None,  # noqa: ARG002
    ) -> dict[str, ResourceDefinition]:
        """Return the definition of each resource."""
        return {
            name: _read(name, each)
            for name, each in (self.t.get(self.RESOURCES) or {}).items()
        }

    def outputs(self, stack: object = None) -> dict[str, OutputDefinition]:  # noqa: ARG002
        """Return the definition of each output."""
        found = self.t.get(self.OUTPUTS) or {}
        return {
            name: OutputDefinition(name, each.get("value"), each.get("description"))
            for name, each in found.items()
        }

    def parse(self, stack: object, snippet: Any, path: str = "") -> Any:  # noqa: ARG002
        """Return a part of a template as it is: its functions are resolved when the stack is carried out."""
        return snippet

    @staticmethod
    def _rsrc_defn_args(
        stack: object,  # noqa: ARG004
        name: str,  # noqa: ARG004
        data: Mapping[str, Any],
    ) -> Iterator[tuple[str, Any]]:
        """Yield the arguments of a ResourceDefinition, except the name, from a part of a template."""
        names = {"type": "resource_type", "depends_on": "depends"}
        keys = (
            "type",
            "properties",
            "metadata",
            "depends_on",
            "deletion_policy",
            "update_policy",
            "description",
        )
        return (
            (names.get(key, key), data[key])
            for key in keys
            if data.get(key) is not None
        )

    def validate(self) -> None:
        """Do nothing: the template is checked before the stack is created."""

    def text(self) -> str:
        """Return the template as text."""
        return json.dumps({VERSION_KEY: VERSION, **self.t}, default=str)


def _read(name: str, content: Mapping[str, Any]) -> ResourceDefinition:
    return ResourceDefinition(
        name,
        content["type"],
        content.get("properties"),
        content.get("metadata"),
        content.get("depends_on"),
        content.get("deletion_policy"),
        content.get("update_policy"),
        content.get("description"),
        content.get("external_id"),
        content.get("condition"),
    )


class Environment:
    """The parameters and mappings of a child stack, under the names of `heat.engine.environment`."""

    def __init__(
        self,
        env: Mapping[str, Any] | None = None,
        user_env: bool = True,  # noqa: ARG002
    ) -> None:
        """Take the sections of an environment, or parameters alone."""
        sections = dict(
            _map("the parameters of a template", {} if env is None else env)
        )
        if sections and not any(
            name in sections
            for name in ("parameters", "resource_registry", "parameter_defaults")
        ):
            sections = {"parameters": sections}
        self.params: dict[str, Any] = dict(sections.get("parameters") or {})
        self.param_defaults: dict[str, Any] = dict(
            sections.get("parameter_defaults") or {}
        )
        self.mappings = {
            name: each
            for name, each in (sections.get("resource_registry") or {}).items()
            if isinstance(each, str)
        }

    def user_env_as_dict(self) -> dict[str, Any]:
        """Return the sections."""
        return {
            "parameters": self.params,
            "parameter_defaults": self.param_defaults,
            "resource_registry": self.mappings,
        }

    env_as_dict = user_env_as_dict


def get_child_environment(
    parent_env: object,  # noqa: ARG001  # that of the stack is used
    child_params: Mapping[str, Any] | None,
    item_to_remove: object = None,  # noqa: ARG001
    child_resource_name: str | None = None,  # noqa: ARG001
) -> Environment:
    """Return the environment of a child stack, without that of its parent, which it has anyway."""
    return Environment(child_params)


def member_definitions(  # noqa: PLR0917  # plug-ins call it so
    old_resources: list[tuple[str, ResourceDefinition]],
    new_definition: Any,
    num_resources: int,
    num_new: int,
    get_new_id: Callable[[], str],
    customise: Callable[[str, Any], ResourceDefinition] = lambda _name, found: found,
) -> Iterator[tuple[str, ResourceDefinition]]:
    """Yield the members of a group at its next size: the newest of the old ones, some of them changed, and new ones."""
    kept = old_resources[-num_resources:] if num_resources else []
    to_change = num_new - (num_resources - len(kept))
    for name, old in kept:
        new = customise(name, new_definition)
        is_changed = old != new and to_change > 0
        to_change -= is_changed
        yield name, new if is_changed else old
    for _ in range(num_resources - len(kept)):
        name = get_new_id()
        yield name, customise(name, new_definition)


def make_template(
    resource_definitions: Iterable[tuple[str, ResourceDefinition]],
    version: tuple[str, str] = (VERSION_KEY, VERSION),
    child_env: object = None,
) -> Template:
    """Return a template with resources."""
    made = Template({version[0]: version[1]}, env=child_env)
    for name, each in resource_definitions:
        made.add_resource(each, name)
    return made

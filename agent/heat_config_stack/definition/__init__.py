"""The definition of a stack: the plain data that a template language hands to the stack that carries it out.

In: what a language has made of a template. Out: the same, as trees that a stack can resolve.
It knows no language and no stack.

The language reads text, checks it, decides conditions, and resolves every function whose value is known without any
resource. The result is a tree of JSON values. Where only a running stack can know a value, the tree has an object, a
`Later`: `requires` names the resources that it depends on, and `resolve` returns its value once a `Look` can answer for
those. So the stack knows no functions, conditions or positions, and the language knows no states.

    text ─► language ─► Definition ─► stack ─► child stacks: Environment.nested ─► Definition ─► …

While the stack works, it calls the language in two places: `Environment.nested` makes the child stack of a resource
whose type is a template, and `Environment.inside` looks up types for the child stacks of groups and chains. A process
that continues a stack makes the definition again from `Definition.source`, which is plain JSON with everything that was
read: the files of the template are no longer needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Protocol, TypeAlias

from heat_config_agent.diagnostics.names import is_stack_name, rule
from heat_config_agent.masking.redaction import Concealer, is_secret
from heat_config_agent.model.deployment import Input
from heat_config_agent.model.mistake import Mistake
from heat_config_agent.model.positions import Json, Path, Place
from heat_config_stack.definition import limits
from heat_config_stack.definition.procedures import Procedure
from heat_config_stack.definition.values import (
    Later,
    Look,
    Need,
    Tree,
    Unresolved,
    requires,
    resolve,
    select,
)

__all__ = [
    "HOST",
    "NODE",
    "OPERATION",
    "ROOT",
    "Constraint",
    "Definition",
    "Environment",
    "Identity",
    "Interface",
    "Later",
    "Loader",
    "Look",
    "MappedType",
    "Need",
    "NodeDefinition",
    "Output",
    "Parameter",
    "ParameterGroup",
    "Procedure",
    "ResourceDefinition",
    "Schema",
    "Tree",
    "Unresolved",
    "circle",
    "requires",
    "resolve",
    "select",
]


# The declarations of a template.


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that a value must meet; `definition.constraints` checks values against it."""

    kind: str
    """`length`, `range`, `modulo`, `allowed_values`, `allowed_pattern` or `custom_constraint`."""
    value: Json
    """The value after the kind: `{"min": 1}`, a list, a pattern, or a name."""
    description: str = ""
    """The message that replaces the standard one if a value does not meet the condition."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The declaration of a parameter; in a nested template, also the schema of a property."""

    name: str
    type: str
    """`string`, `number`, `comma_delimited_list`, `json` or `boolean`."""
    label: str = ""
    description: str = ""
    default: Json = None
    """The default, after the `parameter_defaults` of the environment; None if a value is required."""
    hidden: bool = False
    """True if the value is shown as `******`."""
    immutable: bool = False
    """True if an update that changes the value is refused."""
    constraints: tuple[Constraint, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def secret(self) -> bool:
        """True if the value is never shown: it is hidden, or the name says that it is a secret."""
        return is_secret(Input(name=self.name, value=None, hidden=self.hidden))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter and its value, converted to its type."""

    schema: Schema
    value: Json
    given: bool = False
    """True if a value was given; otherwise it is the default."""


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that are shown together."""

    label: str
    description: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """The definition of a resource, from a template, or from a group or chain for one of its members."""

    name: str
    type: str
    """The type as written; `Environment.candidates` maps it."""
    properties: Mapping[str, Tree] = field(default_factory=dict)
    metadata: Tree = field(default_factory=dict)
    """A map, like the sections below, or a `Later` for the whole map."""
    depends_on: tuple[str, ...] = ()
    """The names as written."""
    deletion_policy: Tree = "Delete"
    """`Delete`, `Retain` or `Snapshot`, or a `Later` for it."""
    update_policy: Tree = field(default_factory=dict)
    external_id: str | None = None
    """The id of a resource that exists already; it is never created, changed or deleted."""
    description: str = ""
    omitted: frozenset[str] = frozenset()
    """The properties that conditions have left out."""
    condition: str | bool | None = None
    """The name of its condition; True for one without a name."""
    written: frozenset[str] = frozenset()
    """The sections, besides the properties, that the template has: an update compares also that, as in Heat."""

    def requirements(self) -> frozenset[str]:
        """Return the names of the resources that this one depends on; as in Heat, its policies do not count.

        A name in depends_on may belong to a resource that a condition has removed; it is ignored.
        """
        if self.external_id is not None:  # it exists already, so it waits for nothing
            return frozenset()
        needs = [*requires(self.properties), *requires(self.metadata)]
        return frozenset(
            (*self.depends_on, *(need.resource for need in needs if need.resource))
        )


def circle(resources: Mapping[str, ResourceDefinition]) -> tuple[str, ...]:
    """Return resources that each depend on the next, the last one on the first; empty if there is no such circle."""
    graph = {
        name: [other for other in resource.requirements() if other in resources]
        for name, resource in resources.items()
    }
    sound: set[str] = set()
    for order in (list(graph), list(reversed(graph))):
        # nearly all templates are in one order or the other
        for name in order:
            if sound.issuperset(graph[name]):
                sound.add(name)
    try:
        TopologicalSorter(
            {name: needs for name, needs in graph.items() if name not in sound}
        ).prepare()
    except CycleError as error:
        names: list[str] = error.args[1]
        return tuple(reversed(names[1:]))
    return ()


@dataclass(frozen=True, slots=True)
class Output:
    """An output of the stack."""

    name: str
    value: Tree
    description: str = ""


# Types and child stacks.


@dataclass(frozen=True, slots=True)
class Identity:
    """The name and ids of a stack: the values of the pseudo parameters."""

    name: str
    id: str
    project: str = ""

    @property
    def mistake(self) -> Mistake | None:
        """The mistake that no stack can have this name; None for a valid name."""
        if is_stack_name(self.name):
            return None
        return Mistake(
            f"Invalid stack name {self.name}", (), None, f"it {rule()}", "stack"
        )


@dataclass(frozen=True, slots=True)
class MappedType:
    """A type after all mappings: a type of the stack, or a nested template."""

    type: str
    """The name of the type after all mappings; for a template, the name that led to it."""
    template: str = ""
    """The file of a nested template; empty for a type of the stack or an unknown type."""
    mapping: Path = ()
    """The position of the mapping in the resource_registry. The child stack does not see that entry, so a template can
    use the type that it replaces."""
    of_service: bool = False
    """True if it is one of the types for services: `HOST`, `NODE` or `OPERATION`."""


@dataclass(frozen=True, slots=True)
class Interface:
    """The parameters and outputs of a nested template, for the stack that uses it."""

    properties: Mapping[str, Schema]
    """The parameters, in order."""
    attributes: Mapping[str, str]
    """The description of each output, by name."""
    description: str = ""
    is_final: bool = True
    """True if the stack is created as it is. Else its environments may still give more default values."""


class Environment(Protocol):
    """The questions that a running stack asks the language; the answers never change."""

    def candidates(self, type_: str, resource: str) -> Iterator[MappedType]:
        """Yield the mappings of the type of a resource, the preferred one first, the type itself last.

        The first one with a template or a known type applies. If it is a template, and a later one is a known type,
        the template replaces that type and must have its properties and attributes.
        Raises `Invalid` if a mapping leads back to itself.
        """

    def interface(self, template: str) -> Interface:
        """Return the parameters and outputs of a nested template. Raises `Invalid`, also if it does not exist."""

    def nested(
        self,
        resource: str,
        type_: MappedType,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
    ) -> Definition:
        """Return the definition of the child stack of a resource whose type is a template.

        `parameters` are the resolved properties of the resource, without those that are not set. The language converts
        lists and maps to the types of the parameters.
        While the parent is validated, `known` is False: values that are not known yet are missing, and are neither
        required nor checked. Raises `Invalid`, with paths and places in the child's own template.
        """

    def of_text(
        self,
        resource: str,
        template: str,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
        mappings: Mapping[str, str] | None = None,
    ) -> Definition:
        """Return the definition of a stack whose template is text. Raises `Invalid`, as `nested` does.

        `mappings` are types with the types that stand for them in this stack; they precede those of the environment.
        """

    def of_file(
        self,
        resource: str,
        template: str,
        identity: Identity,
        parameters: Mapping[str, Json],
        *,
        known: bool = True,
    ) -> Definition:
        """Return the definition of a stack whose template is a file. Raises `Invalid`, as `nested` does."""

    def inside(self, resource: str) -> Environment:
        """Return the environment of the child stack of a group or a chain."""

    def restricted(self, resource: str) -> frozenset[str]:
        """Return the actions that the environment forbids for a resource: `update`, `replace`, or both."""

    def hooks(self, resource: str) -> frozenset[str]:
        """Return the hooks that the environment sets for a resource, such as `pre-create`."""

    def attributes(self, resource: str) -> Mapping[str, Json]:
        """Return the attributes that were given for a cloud resource, by its path (`web`, `group/0`) or its type."""


HOST, NODE, OPERATION = "Service::Host", "Service::Node", "Service::Operation"
"""The types of resources for the nodes of a service and their operations; no template can name them itself."""


ROOT = "{the folder of the files}"
"""The text that stands, in the inputs of an operation, for the folder in which its files are laid out."""


@dataclass(frozen=True, slots=True)
class NodeDefinition:
    """A node of a service: a part that people know, and that several resources may make."""

    name: str
    """The name of the node, and of its own resource."""
    type: str
    """The type as written."""
    host: str = ""
    """The name of the node that is the machine it is on; empty if it is on none."""
    operations: Mapping[str, str] = field(default_factory=dict)
    """The kind of each of its operations by the name of the resource, in their order."""
    attributes: Callable[[], Mapping[str, Tree]] = dict
    """Returns its attributes."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of a stack."""

    identity: Identity
    description: str
    parameters: Mapping[str, Parameter]
    """The parameters in the order of the template, without the pseudo parameters."""
    groups: tuple[ParameterGroup, ...]
    resources: Mapping[str, ResourceDefinition]
    """The resources in the order of the template, without those that a condition has removed."""
    outputs: Mapping[str, Output]
    """The outputs in the order of the template; an output that a condition has removed has the value None."""
    environment: Environment
    source: Json
    """Everything that was read, as JSON. A `Loader` makes the same definition from it."""
    warnings: tuple[Mistake, ...] = ()
    """Harmless constructs that are surely not meant."""
    place: Callable[[Path], Place | None] = lambda _path: None
    """Returns the position of a part of the template in its text, or of the next larger part that has one."""
    nodes: Mapping[str, NodeDefinition] = field(default_factory=dict)
    """The nodes of a service, in the order of the template; none of a stack that is not a service."""
    in_turn: bool = False
    """True if the resources are worked on one after the other. After a failure, nothing more is begun, except that a
    removal goes on."""
    files: Mapping[str, Json] = field(default_factory=dict)
    """The files of a service that are copied next to the files of each operation, by path: text, or `{"base64": …}`."""
    procedures: Mapping[str, Procedure] = field(default_factory=dict)
    """The procedures that people start, by name; `deploy` and `undeploy` are carried out to create and delete it."""
    triggers: Mapping[str, Procedure] = field(default_factory=dict)
    """The actions of triggers, as `POLICY.TRIGGER`: people start them, as nothing watches for their events."""
    largest: int = limits.MOST_RESOURCES
    """The maximum of resources."""
    conditional: frozenset[str] = frozenset()
    """The names of the resources that a condition may remove."""
    secrets: tuple[Json, ...] = ()
    """Values that are hidden in addition to secret parameters: sensitive properties of a service."""

    @property
    def conceal(self) -> Concealer:
        """Hides the values of secret parameters: those that are hidden, or whose name says that they are secret."""
        values = {
            name: parameter.value
            for name, parameter in self.parameters.items()
            if parameter.schema.secret
        }
        items = [*values.items(), *(("secret", value) for value in self.secrets)]
        return Concealer(
            Input(name=name, value=value, hidden=True) for name, value in items
        )

    def immutable_changes(self, new: Definition) -> list[str]:
        """Return the parameters that the new definition calls immutable, and whose values it changes."""
        former = self.parameters
        return sorted(
            name
            for name, parameter in new.parameters.items()
            if parameter.schema.immutable
            and name in former
            and former[name].value != parameter.value
        )

    def mistake(self, problem: str, path: Path, hint: str = "") -> Mistake:
        """Return a mistake in a part of the template, with its place."""
        return Mistake(problem, path, self.place(path), hint)


Loader: TypeAlias = Callable[[Json, Identity], Definition]
"""Makes a definition from its `source`. Raises `Invalid`."""

"""What a stack is to be: the plain data in which a language of templates and the stack that carries them out meet.

A language reads text, checks it, decides conditions, and resolves every function whose value is known without any
resource. What is left is a tree of JSON values in which only what a running stack can know is an object, a `Later`:
`requires` says of which resources it needs something, `resolve` gives its value as soon as a `Look` can answer for
those. So the stack never sees a function, a condition or a position, and a language never sees a state.

    text ─► language ─► Definition ─► stack ─► child stacks: Environment.nested ─► Definition ─► …

Two things come back from the stack to the language while it works: a child stack of a template of its own is made by
`Environment.nested`, and one that a resource makes of definitions that it computes (groups, chains) looks up its types
in `Environment.inside`. A stack that is taken up again later is defined anew from `Definition.source`, which is plain
JSON and holds everything that was read: no file needs to be there any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol, TypeAlias

from heat_config_agent.errors import UsageError

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list of such, dict of str to such."""

Tree: TypeAlias = Any
"""A JSON value in which a `Later` may stand in the place of any value (not of a key)."""

Path: TypeAlias = tuple[str | int, ...]
"""Where something stands in a template: `("resources", "r", "properties", "inputs", 0)`."""


def dotted(path: Path) -> str:
    """Return a path as Heat writes it: `resources.r.properties.inputs[0]`."""
    text = ""
    for each in path:
        text += f"[{each}]" if isinstance(each, int) else f".{each}" if text else each
    return text


# What is wrong, and where.


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a text; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Mistake:
    """What somebody has to mend, in one sentence; or, as a warning, what they surely did not mean."""

    problem: str
    path: Path = ()
    place: Place | None = None
    hint: str = ""
    kind: str = "validate"
    """In which of Heat's stages it is found: `template_format`, `environment_format`, `template`, `parameters`,
    `environment`, `stack` or `validate`."""

    def __str__(self) -> str:
        where = [str(self.place)] if self.place else []
        where += [dotted(self.path)] if self.path else []
        return ": ".join([*where, self.problem]) + (f" ({self.hint})" if self.hint else "")

    def under(self, *prefix: str | int) -> Mistake:
        """Return it as one of a part: of a child stack, say, with `resources`, `c<child.yaml>` before its path."""
        return replace(self, path=(*prefix, *self.path))


class Invalid(UsageError):  # noqa: N818  # it is the template that is
    """There are mistakes: nothing has been begun."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        """Take all mistakes that were found, in the order of the text, at least one."""
        super().__init__("\n".join(map(str, mistakes)))
        self.mistakes = tuple(mistakes)


class Unresolved(Exception):  # noqa: N818  # it is the value that is
    """A value cannot be had; the text is one sentence for the author.

    In a property the resource fails (or, where no resource is needed for it, validation), in an output that output.
    """


# Values that are known only at run time.


class Look(Protocol):
    """What is known of the resources of one stack at this moment. All raise `Unresolved`.

    While a stack is validated, nothing is there yet: then a reference is the resource's name, and each attribute is
    None. Names of resources have been checked by the language, names of attributes have not.
    """

    def reference(self, resource: str) -> Json:
        """Return what get_resource gives: the physical id, or the name of a resource that has none."""

    def attribute(self, resource: str, attribute: str, path: Sequence[Json]) -> Json:
        """Return an attribute, or what is found in it by a path of keys and indexes; None where that leads nowhere.

        The path is the resource's own business: groups and nested stacks have names of their own for it.
        """

    def attributes(self, resource: str) -> Json:
        """Return all attributes but `show`, by name."""

    def facade(self, what: str) -> Json:
        """Return `metadata`, `deletion_policy` or `update_policy` of the resource whose child this stack is."""


@dataclass(frozen=True, slots=True)
class Need:
    """Something of a resource, without which a value cannot be had: that resource has to be there before."""

    resource: str
    attribute: str | None = None
    """None: its reference. An empty name: all its attributes. The type of the resource says which there are."""
    path: Path = ()
    """Where the function stands that needs it: `outputs.o.value.get_attr`."""


class Later:
    """A value that only a running stack can know."""

    __slots__ = ()

    @property
    def requires(self) -> tuple[Need, ...]:
        """All that is needed of resources; nothing, where it is a mistake that shows when the value is asked for."""
        raise NotImplementedError

    def resolve(self, look: Look) -> Json:
        """Return the value, or raise `Unresolved`."""
        raise NotImplementedError


def resolve(tree: Tree, look: Look) -> Json:
    """Return the tree with every `Later` resolved; a copy. Raises `Unresolved`."""
    if isinstance(tree, Later):
        return tree.resolve(look)
    if isinstance(tree, dict):
        return {key: resolve(value, look) for key, value in tree.items()}
    if isinstance(tree, list):
        return [resolve(value, look) for value in tree]
    return tree


def select(value: Json, path: Sequence[Json]) -> Json:
    """Return what get_attr finds in an attribute's value by a path of keys and indexes; None where that leads nowhere.

    An index is a number: text is none, as it would be in get_param. An index into text gives a character.
    """
    for each in path:
        try:
            value = value[each]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def requires(tree: Tree) -> Iterator[Need]:
    """Yield all that is needed of resources before the tree can be resolved."""
    if isinstance(tree, Later):
        yield from tree.requires
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from requires(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from requires(value)


# What a template declares.


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that a value must meet. `heat_config_agent.constraints` knows what each means."""

    kind: str
    """`length`, `range`, `modulo`, `allowed_values`, `allowed_pattern` or `custom_constraint`."""
    value: Json
    """As it is written after the kind: `{"min": 1}`, a list, a pattern, a name."""
    description: str = ""
    """What is said instead, where a value does not meet it."""


@dataclass(frozen=True, slots=True)
class Schema:
    """What a parameter is declared to be. Of a nested template it is the property's schema as well."""

    name: str
    type: str
    """`string`, `number`, `comma_delimited_list`, `json` or `boolean`."""
    label: str = ""
    description: str = ""
    default: Json = None
    """With the parameter_defaults of the environment; None where a value is required."""
    hidden: bool = False
    """Its value is shown to nobody."""
    immutable: bool = False
    """An update that changes its value is refused."""
    constraints: tuple[Constraint, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter and its value, in its own type."""

    schema: Schema
    value: Json
    given: bool = False
    """Whether somebody has given the value; otherwise it is the default."""


@dataclass(frozen=True, slots=True)
class ParameterGroup:
    """Parameters that are shown together."""

    label: str
    description: str
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """What a resource is to be. Groups and chains make such of their members."""

    name: str
    type: str
    """As it is written. `Environment.candidates` says what it stands for."""
    properties: Mapping[str, Tree] = field(default_factory=dict)
    metadata: Tree = field(default_factory=dict)
    """A map, as are those below."""
    depends_on: tuple[str, ...] = ()
    """As it is written."""
    deletion_policy: str = "Delete"
    """`Delete`, `Retain` or `Snapshot`."""
    update_policy: Tree = field(default_factory=dict)
    external_id: str | None = None
    """Of a resource that is there already, and is never made, changed or removed."""
    description: str = ""

    def requirements(self) -> frozenset[str]:
        """Return the names of the resources that have to be there before this one, if they are to be there at all.

        A name in depends_on may be that of a resource that a condition has taken away: nobody waits for it.
        """
        if self.external_id is not None:  # it is there already, whatever its properties say
            return frozenset()
        needs = [*requires(self.properties), *requires(self.metadata)]
        return frozenset((*self.depends_on, *(need.resource for need in needs)))


def circle(resources: Mapping[str, ResourceDefinition]) -> tuple[str, ...]:
    """Return resources of which each needs the next, and the last one the first; nothing where there are none such."""
    graph = {name: [each for each in of.requirements() if each in resources] for name, of in resources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return tuple(reversed(found[1:]))
    return ()


@dataclass(frozen=True, slots=True)
class Output:
    """A value that the stack has for whoever asks."""

    name: str
    value: Tree
    description: str = ""


# Where types and child stacks come from.


@dataclass(frozen=True, slots=True)
class Identity:
    """Which stack it is: what the pseudo parameters of a template give."""

    name: str
    id: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a type stands for: another type, or a nested template."""

    type: str
    """The name of the type, after all mappings; of a template the name by which it was reached."""
    template: str = ""
    """The file of a nested template; otherwise the type is one that the stack has, or does not know."""
    mapping: Path = ()
    """Where in the resource_registry that is said; its child stack does not see that line, so that a template may use
    the very type in whose place it stands."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What a nested template looks like to the stack that uses it."""

    properties: Mapping[str, Schema]
    """Its parameters, in order."""
    attributes: Mapping[str, str]
    """Its outputs by name, and what their description is."""
    description: str = ""


class Environment(Protocol):
    """What a stack needs of the language while it runs. It does not change."""

    def candidates(self, type_: str, resource: str) -> Iterator[Found]:
        """Yield what the type of that resource may stand for, the preferred one first, at last the type itself.

        Take the first that has a template, or a type that you know. Where the first is a template, and one of the rest
        a type that you know, the template stands in its place and has to look like it.
        Raises `Invalid` where a mapping leads back to itself.
        """

    def interface(self, template: str) -> Interface:
        """Return the parameters and outputs of a nested template. Raises `Invalid`, also where it is not there."""

    def nested(
        self, resource: str, found: Found, identity: Identity, parameters: Mapping[str, Json], *, known: bool = True
    ) -> Definition:
        """Return what the child stack of a resource is to be, whose type is a template.

        `parameters` are the resource's properties, as they were resolved; those that nobody has set are left out. What
        becomes of a list or a map on its way into a parameter is the language's business.
        While the parent is validated, `known` is False: then values that nobody can know yet are left out, and are
        neither asked for nor checked. Raises `Invalid`, with paths and places in the child's own template.
        """

    def inside(self, resource: str) -> Environment:
        """Return the environment for the child stack that a resource makes of definitions of its own."""

    def restricted(self, resource: str) -> frozenset[str]:
        """Return which of `update` and `replace` the environment forbids for a resource."""

    def hooks(self, resource: str) -> frozenset[str]:
        """Return the hooks that the environment sets for a resource, such as `pre-create`."""

    def attributes(self, of: str) -> Mapping[str, Json]:
        """Return what is given for something that takes a cloud, by its path (`web`, `group/0`) or its type."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a stack is to be."""

    identity: Identity
    description: str
    parameters: Mapping[str, Parameter]
    """In the order of the template; pseudo parameters are left out."""
    groups: tuple[ParameterGroup, ...]
    resources: Mapping[str, ResourceDefinition]
    """In the order of the template; those that a condition has taken away are not there."""
    outputs: Mapping[str, Output]
    """Likewise; one that a condition has taken away is there, and its value is None."""
    environment: Environment
    source: Json
    """All that was read, as JSON. The language makes the same definition of it again (`Loader`)."""
    warnings: tuple[Mistake, ...] = ()
    """What does no harm to the machine, and was surely not meant."""
    place: Callable[[Path], Place | None] = lambda _path: None
    """Where a part of the template stands in its text; or else what it is a part of."""

    def mistake(self, problem: str, path: Path, hint: str = "") -> Mistake:
        """Return a mistake in that part of the template, with its place."""
        return Mistake(problem, path, self.place(path), hint)


Loader: TypeAlias = Callable[[Json, Identity], Definition]
"""What makes a definition again of its `source`. Raises `Invalid`."""

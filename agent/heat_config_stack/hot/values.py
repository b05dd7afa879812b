"""Functions of a template that cannot be resolved yet, because they depend on resources or missing parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from heat_config_agent.model.positions import Json, Path
from heat_config_stack.definition import Later, Look, Need, Tree, Unresolved, requires, resolve, select

NOTHING = object()
"""The value of an `if` without an else: the entry or item with it is left out."""


class Call(Later):
    """A function with its arguments."""

    __slots__ = ("args", "compute", "name", "path")

    def __init__(self, name: str, args: Tree, path: Path, compute: Callable[[Json], Tree]) -> None:
        self.name, self.args, self.path, self.compute = name, args, path, compute

    @property
    def requires(self) -> tuple[Need, ...]:
        return tuple(requires(self.args))

    def resolve(self, look: Look) -> Json:
        return resolve(self.compute(resolve(self.args, look)), look)


class Chosen(Later):
    """The chosen branch of an `if`. Other functions treat it as a function."""

    __slots__ = ("value",)

    def __init__(self, value: Tree) -> None:
        self.value = value


class Failing(Later):
    """A function that surely fails."""

    __slots__ = ("fatal", "path", "problem", "reported")

    def __init__(self, problem: str, path: Path, *, reported: bool = False, fatal: bool = False) -> None:
        """Take the reason; `reported` if it is a mistake already, `fatal` if it is a mistake in outputs too."""
        self.problem, self.path, self.reported, self.fatal = problem, path, reported, fatal

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, _look: Look) -> Json:
        raise Unresolved(self.problem)


class Unknown(Later):
    """A value that depends on a parameter without a value."""

    __slots__ = ("needs",)

    def __init__(self, needs: tuple[Need, ...] = ()) -> None:
        """Take the resources that it depends on besides."""
        self.needs = needs

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(""), *self.needs)  # no resource makes it known

    def resolve(self, _look: Look) -> Json:
        return None


UNKNOWN = Unknown()


class Reference(Later):
    """get_resource."""

    __slots__ = ("path", "resource")

    def __init__(self, resource: str, path: Path) -> None:
        self.resource, self.path = resource, path

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(self.resource, None, self.path),)

    def resolve(self, look: Look) -> Json:
        return look.reference(self.resource)


class Attribute(Later):
    """get_attr. An empty `attribute` means all of them; with `inner`, the resource itself resolves the path."""

    __slots__ = ("attribute", "inner", "keys", "path", "resource")

    def __init__(self, resource: str, attribute: str, keys: list[Tree], path: Path, *, inner: bool) -> None:
        self.resource, self.attribute, self.keys, self.path, self.inner = resource, attribute, keys, path, inner

    @property
    def requires(self) -> tuple[Need, ...]:
        if not self.keys:
            return (Need(self.resource, self.attribute, self.path),)
        known = self.inner and all(isinstance(each, str | int) for each in self.keys)
        keys = tuple(self.keys) if known else ()
        return (Need(self.resource, self.attribute, self.path, keys), *requires(self.keys))

    def resolve(self, look: Look) -> Json:
        if not self.attribute:
            return look.attributes(self.resource)
        keys = resolve(self.keys, look)
        if self.inner:
            if any(isinstance(key, list | dict) for key in keys):
                raise Unresolved("the path of get_attr is one of keys and indexes, not of lists and maps")
            return look.attribute(self.resource, self.attribute, keys)
        return select(look.attribute(self.resource, self.attribute, ()), keys)


class Facade(Later):
    """resource_facade."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, look: Look) -> Json:
        return look.facade(self.what)


def open_values(tree: Tree) -> Iterator[Later]:
    """Yield every `Later` in a tree, also those in arguments of functions."""
    if isinstance(tree, Later):
        yield tree
        if isinstance(tree, Call):
            yield from open_values(tree.args)
        elif isinstance(tree, Attribute):
            yield from open_values(tree.keys)
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from open_values(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from open_values(value)


def is_settled(tree: Tree) -> bool:
    """Return whether a tree is plain JSON."""
    return next(open_values(tree), None) is None

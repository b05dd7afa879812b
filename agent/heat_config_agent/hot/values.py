"""Values of a template that are functions still: what is left of them once all that can be known is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from heat_config_agent.stack.definition import (
    Json,
    Later,
    Look,
    Need,
    Path,
    Tree,
    Unresolved,
    requires,
    resolve,
    select,
)

NOTHING = object()
"""What an `if` without an else gives: the entry or item that it stands in is not there."""


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
    """The branch of an `if` that has been decided on. To other functions it is a function."""

    __slots__ = ("value",)

    def __init__(self, value: Tree) -> None:
        self.value = value


class Failing(Later):
    """A value of which it is known that it cannot be had."""

    __slots__ = ("fatal", "path", "problem", "reported")

    def __init__(self, problem: str, path: Path, *, reported: bool = False, fatal: bool = False) -> None:
        """Take why; `reported` where it is among the mistakes already, `fatal` where it is one in an output as well."""
        self.problem, self.path, self.reported, self.fatal = problem, path, reported, fatal

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, _look: Look) -> Json:
        raise Unresolved(self.problem)


class Unknown(Later):
    """The value of a parameter that nobody has given yet."""

    __slots__ = ()

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

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
    """get_attr. `attribute` is empty for all of them; `inner`: whether the path is the resource's own business."""

    __slots__ = ("attribute", "inner", "keys", "path", "resource")

    def __init__(self, resource: str, attribute: str, keys: list[Tree], path: Path, *, inner: bool) -> None:
        self.resource, self.attribute, self.keys, self.path, self.inner = resource, attribute, keys, path, inner

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(self.resource, self.attribute, self.path), *requires(self.keys))

    def resolve(self, look: Look) -> Json:
        if not self.attribute:
            return look.attributes(self.resource)
        keys = resolve(self.keys, look)
        if self.inner:
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
    """Yield every value in a tree that is not settled."""
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
    """Whether a tree is plain JSON."""
    return next(open_values(tree), None) is None

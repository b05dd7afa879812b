"""What a function of HOT is made of: a look at its arguments as they are written, and its value."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from heat_config_agent.stack.definition import Json, Later, Tree, Unresolved


class Wrong(ValueError):  # noqa: N818  # it is the argument that is
    """Arguments that no function of that name can have; the text says why. The template is refused."""


def _anything(_args: Tree, _name: str) -> None:
    """Take arguments of every shape: what is wrong with them shows when the value is made."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function, in one of its forms."""

    compute: Callable[[Json, str], Json]
    """Makes the value of resolved arguments, for the function of that name. Raises `Unresolved`."""
    check: Callable[[Tree, str], None] = _anything
    """Looks at the arguments as they are written, functions in them being functions still. Raises `Wrong`."""


def is_function(value: Tree) -> bool:
    """Whether there is a function in the place of a value."""
    return isinstance(value, Later)


def shape(name: str, example: str) -> str:
    """Return a sentence on arguments of the wrong shape."""
    return f'Incorrect arguments to "{name}" should be: "{name}" : {example}'


def need_list(args: Tree, name: str, example: str) -> None:
    """Refuse what is not written as a list."""
    if not isinstance(args, list):
        raise Wrong(shape(name, example))


def need_map(args: Tree, name: str) -> None:
    """Refuse what is not written as a map."""
    if not isinstance(args, dict):
        raise Wrong(f'Arguments to "{name}" must be a map')


def text(value: Json) -> str:
    """Return a value as JSON in one line, as functions put maps and lists into text: keys in order, ASCII only."""
    return json.dumps(value, sort_keys=True)


def shown(value: Json) -> str:
    """Return a value for a sentence, not too long."""
    return repr(value)[:200]


def as_list(value: Json, problem: str) -> list[Json]:
    """Return a list, nothing for null; refuse everything else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Unresolved(problem)
    return value

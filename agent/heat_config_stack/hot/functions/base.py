"""The parts of a HOT function: a check of its arguments as written, and the computation of its value."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, Tree, Unresolved

LONGEST = 200
"""The largest number of characters of a value that a message repeats."""

_OF = {str: "characters", int: "digits"}


class Wrong(ValueError):  # noqa: N818  # it is the argument that is
    """Arguments that the function cannot have; the text says why. The template is refused."""


def _anything(_args: Tree, _name: str) -> None:
    """Accept all arguments: mistakes in them are found when the value is computed."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function, as one or more versions of HOT have it."""

    compute: Callable[[Json, str], Json]
    """Returns the value for resolved arguments and the name of the function. Raises `Unresolved`."""
    check: Callable[[Tree, str], None] = _anything
    """Checks the arguments before functions in them are resolved. Raises `Wrong`."""


def is_function(value: Tree) -> bool:
    """Return whether a value is a function that is not resolved yet."""
    return isinstance(value, Later)


def shape(name: str, example: str) -> str:
    """Return the message for arguments of the wrong form."""
    return f'Incorrect arguments to "{name}" should be: "{name}" : {example}'


def need_list(args: Tree, name: str, example: str) -> None:
    """Raise `Wrong` unless the arguments are a list."""
    if not isinstance(args, list):
        raise Wrong(shape(name, example))


def need_map(args: Tree, name: str) -> None:
    """Raise `Wrong` unless the arguments are a map."""
    if not isinstance(args, dict):
        raise Wrong(f'Arguments to "{name}" must be a map')


def text(value: Json) -> str:
    """Return a value as JSON in one line with sorted keys, ASCII only: functions put maps and lists into text so."""
    return json.dumps(value, sort_keys=True)


def shown(value: Json) -> str:
    """Return a value for a message; only the type and length of a long one, as half of a secret would not be masked."""
    text = repr(value)
    if len(text) <= LONGEST:
        return text
    size = len(value) if isinstance(value, str | list | dict) else len(text)
    return f"a {type(value).__name__} of {size:,} {_OF.get(type(value), 'items')}"


def as_list(value: Json, problem: str) -> list[Json]:
    """Return a list; an empty one for null. Raises `Unresolved` for other values."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Unresolved(problem)
    return value

"""Values that only a run can know, and what is made of values: parts of them, and text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import (
    Later,
    Look,
    Need,
    Tree,
    Unresolved,
    requires,
    resolve,
)
from heat_config_stack.tosca.language.text import WrittenFloat, WrittenInteger, written
from heat_config_stack.tosca.language.values import is_call


@dataclass(frozen=True, slots=True)
class Computed(Later):
    """A value that is computed from values which only a run can know."""

    arguments: Tree
    compute: Callable[[Json], Json]
    function: str = ""
    """The name of the function; empty if templates cannot name it."""

    @property
    def requires(self) -> tuple[Need, ...]:
        return tuple(requires(self.arguments))

    def resolve(self, look: Look) -> Json:
        return self.compute(resolve(self.arguments, look))


@dataclass(frozen=True, slots=True)
class Attribute(Later):
    """An attribute of a resource."""

    resource: str
    attribute: str
    path: tuple[Json, ...] = ()
    is_awaited: bool = True
    """True if the resource has to be complete first; otherwise the value is null until it is there."""

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(self.resource, self.attribute),) if self.is_awaited else ()

    def resolve(self, look: Look) -> Json:
        return look.attribute(self.resource, self.attribute, self.path)


@dataclass(frozen=True, slots=True)
class Soft(Later):
    """A value as far as it is known at the moment: nothing is awaited for it."""

    tree: Tree

    @property
    def requires(self) -> tuple[Need, ...]:
        return ()

    def resolve(self, look: Look) -> Json:
        try:
            return resolve(self.tree, look)
        except Unresolved:
            return None


def is_known(tree: Tree) -> bool:
    """Return whether a value is known before anything runs."""
    if isinstance(tree, Later):
        return False
    if isinstance(tree, dict):
        return all(map(is_known, tree.values()))
    return all(map(is_known, tree)) if isinstance(tree, list | tuple) else True


def selected(tree: Tree, path: Sequence[Json]) -> Tree:
    """Return the part of a value at a path of keys and indexes; None where that leads nowhere."""
    for position, key in enumerate(path):
        if isinstance(tree, Later):
            rest = [*path[position:]]
            return Computed(
                tree, partial(_selected, path=rest), f"select {json.dumps(rest)}"
            )
        tree = _selected(tree, [key])
    return tree


def _selected(value: Json, path: Sequence[Json]) -> Json:
    for key in path:
        if isinstance(value, list):
            index = (
                int(key)
                if isinstance(key, str) and re.fullmatch(r"[0-9]{1,9}", key)
                else key
            )
            value = (
                value[index]
                if isinstance(index, int) and -len(value) <= index < len(value)
                else None
            )
        else:
            value = (
                value.get(key, value.get(str(key))) if isinstance(value, dict) else None
            )
    return value


def as_text(value: Json) -> str:
    """Return a value within a text: numbers as they are written, nothing for null, lists and maps as JSON (4)."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return written(value)


def computed(arguments: Tree, compute: Callable[[Json], Json], function: str) -> Tree:
    """Return the result for arguments: a value, or a `Later` if an argument is one."""
    return (
        compute(arguments)
        if is_known(arguments)
        else Computed(arguments, compute, function)
    )


def static(tree: Tree) -> Json:
    """Return a value with null in place of parts that only a run can know."""
    if isinstance(tree, Later):
        return None
    if isinstance(tree, dict):
        return {key: static(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(static(value) for value in tree)
    return tree


def written_out(tree: Tree) -> Tree:
    """Return a value for an operation: a float is text, as it is written; lists and maps have plain numbers (13)."""
    return tree.text if isinstance(tree, WrittenFloat) else _plain(tree)


def _plain(tree: Tree) -> Tree:
    if isinstance(tree, dict):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_plain(value) for value in tree]
    if isinstance(tree, WrittenFloat):
        return float(tree)
    return int(tree) if isinstance(tree, WrittenInteger) else tree


def as_variable(tree: Tree) -> Tree:
    """Return a value for the environment of an operation (chapter 13).

    A list or a map with floats that Python would write otherwise is JSON text with the floats as they are written.
    """
    if isinstance(tree, dict | list) and is_known(tree) and _has_written(tree):
        return _json(tree)
    return written_out(tree)


def _has_written(tree: Tree) -> bool:
    if isinstance(tree, dict | list):
        return any(map(_has_written, tree.values() if isinstance(tree, dict) else tree))
    return isinstance(tree, WrittenFloat)


def _json(tree: Json) -> str:
    if isinstance(tree, dict):
        return (
            "{"
            + ",".join(
                f"{as_text([key])[1:-1]}:{_json(value)}" for key, value in tree.items()
            )
            + "}"
        )
    if isinstance(tree, list):
        return "[" + ",".join(map(_json, tree)) + "]"
    if isinstance(tree, WrittenFloat) and _FLOAT.fullmatch(tree.text):
        return tree.text
    return as_text([_plain(tree)])[1:-1]


_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
"""A float as JSON may have it."""


def is_of_states(tree: Tree) -> bool:
    """Return whether a value lacks only states of nodes, which change with every run."""
    return not any(True for _ in requires(tree)) and _has_state(tree)


def _has_state(tree: Tree) -> bool:
    if isinstance(tree, Computed):
        return _has_state(tree.arguments)
    if isinstance(tree, dict | list):
        return any(map(_has_state, tree.values() if isinstance(tree, dict) else tree))
    return (
        isinstance(tree, Attribute)
        and tree.attribute == "state"
        and not tree.is_awaited
    )


def uses(tree: Json, keyword: str) -> bool:
    """Return whether a function in a value begins with a keyword: TARGET, say (chapter 13)."""
    if isinstance(tree, dict):
        if is_call(tree):
            arguments = next(iter(tree.values()))
            if isinstance(arguments, list) and arguments and arguments[0] == keyword:
                return True
        return any(uses(value, keyword) for value in tree.values())
    return (
        any(uses(value, keyword) for value in tree) if isinstance(tree, list) else False
    )


_STATES = (
    "error",
    "initial",
    "creating",
    "created",
    "configuring",
    "configured",
    "starting",
    "started",
    "stopping",
)
"""States of nodes (section 3.3.1), the least far first; others come after them."""


def least_state(states: list[Json]) -> Json:
    """Return the state of a substituted node: that of the inner node which has come the least far."""
    known = [state for state in states if state is not None]
    return min(
        known,
        key=lambda state: _STATES.index(state) if state in _STATES else len(_STATES),
        default=None,
    )

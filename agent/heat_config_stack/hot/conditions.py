"""Conditions: which hold. A condition is evaluated when it is first needed, and only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heat_config_agent.diagnostics.words import meant
from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, Tree, Unresolved
from heat_config_stack.hot.values import UNKNOWN, Call, Failing


class Undecided(Exception):  # noqa: N818  # no error
    """The condition depends on a parameter whose value is not given yet."""


class Wanting(Exception):  # noqa: N818  # it is the condition that is
    """A condition has a mistake, so it cannot be evaluated."""

    def __init__(self, problem: str, hint: str = "", *, reported: bool = False) -> None:
        super().__init__(problem)
        self.hint, self.reported = hint, reported


class Conditions:
    """The conditions of one template, by name."""

    def __init__(self, definitions: Mapping[str, Callable[[], Tree]]) -> None:
        """Take for each name a function that returns the parsed definition."""
        self._definitions = definitions
        self._known: dict[str, bool] = {}
        self._asked: list[str] = []

    def holds(self, condition: Tree) -> bool:
        """Return whether a condition holds: a name, a boolean, a function, or null, which holds.

        Raises `Wanting` or `Undecided`.
        """
        value = self._data(condition)
        if isinstance(value, bool) or value is None:
            return value is not False
        if not isinstance(value, str) or value not in self._definitions:
            hint = meant(value, self._definitions) if isinstance(value, str) else ""
            raise Wanting(
                f'Invalid condition "{value}"', hint or "it takes a condition's name, true, false or a function"
            )
        return self._named(value)

    def _named(self, name: str) -> bool:
        if name in self._known:
            return self._known[name]
        if name in self._asked:
            way = " → ".join([*self._asked[self._asked.index(name) :], name])
            raise Wanting(f'Circular definition for condition "{name}"', way)
        self._asked.append(name)
        try:
            value = self._value(self._definitions[name]())
        finally:
            self._asked.remove(name)
        if not isinstance(value, bool):
            raise Wanting(
                f'The definition of condition "{name}" is invalid: {value}', "its result must be true or false"
            )
        self._known[name] = value
        return value

    def _value(self, tree: Tree) -> Json:
        """Return the value of a function, or the tree itself if it is not a function."""
        if isinstance(tree, Failing):
            raise Wanting(tree.problem, reported=tree.reported)
        if not isinstance(tree, Call):
            return tree
        if tree.name == "not":
            return not self.holds(tree.args)
        if tree.name in {"and", "or"}:
            # As in Heat, functions are computed before the first condition is asked for, and names after it.
            held = (self.holds(each) for each in self._data(tree.args))
            return all(held) if tree.name == "and" else any(held)
        try:
            value = tree.compute(self._data(tree.args))
        except Unresolved as error:
            raise Wanting(str(error)) from None
        if value is UNKNOWN:
            raise Undecided
        return value

    def _data(self, tree: Tree) -> Json:
        if isinstance(tree, Later):
            return self._value(tree)
        if isinstance(tree, dict):
            return {key: self._data(each) for key, each in tree.items()}
        if isinstance(tree, list):
            return [self._data(each) for each in tree]
        return tree

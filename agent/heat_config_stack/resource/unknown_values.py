"""Values that are not known yet, while a stack is checked."""

from __future__ import annotations

from heat_config_agent.model.positions import Json
from heat_config_stack.definition import Later, Look, Need, Tree


class Unknown(Later):
    """A value that is not known yet, so that only its type can be checked."""

    __slots__ = ("now",)

    def __init__(self, now: Json = None) -> None:
        """Take the value that Heat validates: with the names of resources for their ids, and null for attributes."""
        self.now = now

    def __repr__(self) -> str:
        return "(not known yet)"

    @property
    def requires(self) -> tuple[Need, ...]:
        return (Need(""),)

    def resolve(self, look: Look) -> Json:  # noqa: ARG002
        return None


def as_far_as_known(tree: Tree, look: Look) -> Tree:
    """Return a tree in which every value that depends on a resource is `Unknown`, and the rest is resolved.

    Raises `Unresolved`, also where a function does not take null in the place of an attribute: Heat, too, validates
    properties while attributes are null.
    """
    if type(tree) is str:
        return tree
    if isinstance(tree, Later):
        needs = tree.requires
        value = tree.resolve(look) if all(need.resource for need in needs) else None
        return Unknown(value) if needs else value
    if isinstance(tree, dict):
        return {key: as_far_as_known(value, look) for key, value in tree.items()}
    return [as_far_as_known(each, look) for each in tree] if isinstance(tree, list) else tree

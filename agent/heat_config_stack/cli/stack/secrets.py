"""The secrets of a stack: parameters that are hidden, and parameters and outputs with the name of a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heat_config_agent.masking.redaction import Concealer, is_secret
from heat_config_agent.model.deployment import Input

if TYPE_CHECKING:
    from heat_config_agent.model.positions import Json
    from heat_config_stack.lifecycle.live import Stack

HIDDEN = "******"
"""The text that replaces a hidden value, as in Heat."""


def parameters(stack: Stack) -> dict[str, Json]:
    """Return the parameters of a stack with secrets masked."""
    if stack.defined is None:
        return {}
    shown = {"OS::stack_id": stack.id, "OS::stack_name": stack.name}
    declared = stack.defined.parameters
    conceal = stack.world.conceal
    return shown | {
        name: HIDDEN if each.schema.secret else listed(conceal, each.value) for name, each in declared.items()
    }


def listed(conceal: Concealer, value: Json) -> Json:
    """Return a value for a listing: hidden values are masked as a whole, and distinctive ones inside other text."""
    return conceal.distinctive(conceal.whole(value, HIDDEN))


def is_hidden(name: str) -> bool:
    """Return whether the name of an output says that it is a secret."""
    return is_secret(Input(name=name, value=None))

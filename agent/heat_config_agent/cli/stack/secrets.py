"""What is not shown of a stack: parameters that are hidden, or whose name says that they are secret, anywhere."""

from __future__ import annotations

from collections.abc import Callable

from heat_config_agent.model import Input
from heat_config_agent.redaction import hider, is_secret
from heat_config_agent.stack.definition import Definition, Json
from heat_config_agent.stack.live import Stack
from heat_config_hooks.reply import changed

HIDDEN = "******"
"""What stands in the place of a hidden value, as with Heat."""


def parameters(stack: Stack) -> dict[str, Json]:
    """Return the parameters of a stack as they may be shown."""
    if stack.defined is None:
        return {}
    shown = {"OS::stack_id": stack.id, "OS::stack_name": stack.name}
    given = stack.defined.parameters
    return shown | {name: HIDDEN if each.schema.hidden else each.value for name, each in given.items()}


def is_hidden(name: str) -> bool:
    """Whether the name of an output says that it is a secret."""
    return is_secret(Input(name=name, value=None))


def concealer(definition: Definition | None) -> Callable[[Json], Json]:
    """Return what hides a stack's secret parameters in a value that is shown."""
    given = definition.parameters if definition else {}
    inputs = [Input(name=name, value=each.value, hidden=each.schema.hidden) for name, each in given.items()]
    hide = hider(each for each in inputs if is_secret(each))
    return lambda value: changed(value, hide)

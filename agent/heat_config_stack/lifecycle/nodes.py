"""The states of the nodes of a service, derived from what was done with their operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from heat_config_stack.records.records import (
    COMPLETE,
    DELETE,
    FAILED,
    IN_PROGRESS,
    INIT,
    RESUME,
    SUSPEND,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from heat_config_agent.model.positions import Json
    from heat_config_stack.definition import NodeDefinition
    from heat_config_stack.lifecycle.live import Stack
    from heat_config_stack.records.records import ResourceRecord

STATE = "state"
"""The data of a node's resource: the state that a workflow has set."""

OUTPUTS = "outputs"
"""The data of a resource: the outputs of each operation, of a node by `INTERFACE.OPERATION`.

Earlier versions of the agent named these by the operation alone.
"""

INITIAL, CONFIGURED, STARTED, ERROR = "initial", "configured", "started", "error"

_MAKING = {
    "create": "creating",
    "configure": "configuring",
    "start": "starting",
    "add": "starting",
}
_MADE = {
    "create": "created",
    "configure": "configured",
    "start": "started",
    "add": "started",
}
_UNDOING = {"create": "deleting", "start": "stopping"}


def state(stack: Stack, name: str) -> str:
    """Return the state of a node: as a workflow has set it, or according to its operations."""
    return states(stack, (name,)).get(name, INITIAL)


def states(stack: Stack, names: Iterable[str] | None = None) -> dict[str, str]:
    """Return the states of nodes by name: of all of them, or of some."""
    defined = stack.defined.nodes if stack.defined else {}
    by_name = {record.name: record for record in stack.records()}
    node_states = {}
    for name in defined if names is None else names:
        if name in defined:
            own = by_name.get(name)
            chosen = own.data.get(STATE) if own is not None else None
            node_states[name] = (
                str(chosen) if chosen else _derived(stack, defined[name], by_name)
            )
    return node_states


def choose(stack: Stack, name: str, state: str) -> None:
    """Give a node a state, which it has until one of its operations runs."""
    resource = stack.resources.get(name)
    if resource is not None:
        resource.record.data[STATE] = state
        stack.keep(resource.record)


def forget(stack: Stack, name: str, state: str = "") -> None:
    """Let the state of a node be that of its operations again; with a state, only if it was given that one."""
    resource = stack.resources.get(name)
    if (
        resource is not None
        and resource.record.data.get(STATE)
        and state in ("", resource.record.data[STATE])
    ):
        del resource.record.data[STATE]
        stack.keep(resource.record)


def kept_outputs(record: ResourceRecord, operation: str) -> Json:
    """Return the outputs of an operation that a node keeps, maybe since an earlier version; None if it has not run."""
    kept = record.data.get(OUTPUTS) or {}
    return kept.get(operation, kept.get(operation.rpartition(".")[2]))


def of_operation(stack: Stack, operation: str) -> str:
    """Return the name of the node that an operation's resource belongs to; nothing where that is not known."""
    name, dot, _ = operation.partition(".")
    defined = stack.defined.nodes if stack.defined else {}
    while dot and name not in defined:
        rest, dot, _ = operation[len(name) + 1 :].partition(".")
        name = f"{name}.{rest}"
    return name if dot else ""


def _derived(
    stack: Stack, node: NodeDefinition, by_name: dict[str, ResourceRecord]
) -> str:
    names = (*node.operations, node.name)
    failure = stack.record.failure
    if failure is not None and failure.path[1:2] and failure.path[1] in names:
        return ERROR
    if any(name in by_name and by_name[name].status == FAILED for name in names):
        return ERROR
    reached = INITIAL
    for name, kind in node.operations.items():
        record = by_name.get(name)
        if record is None or (record.action == INIT and record.status == COMPLETE):
            return reached
        if record.status == IN_PROGRESS:
            undoing = record.action in (DELETE, SUSPEND)
            return (
                _UNDOING.get(kind, "stopping")
                if undoing
                else _MAKING.get(kind, reached)
            )
        if kind == "start" and record.action == SUSPEND:
            return CONFIGURED
        reached = _MADE.get(kind, reached)
    own = by_name.get(node.name)
    if own is None or (own.action == INIT and own.status == COMPLETE):
        return reached
    return STARTED if own.status == COMPLETE or own.action == RESUME else reached

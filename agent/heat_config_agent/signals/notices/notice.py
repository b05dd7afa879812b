"""Notices: what has happened to a deployment, in a form that may leave the agent. They have no secrets."""

from __future__ import annotations

import time
from collections.abc import Mapping

from heat_config_hooks.values import dataclass, field

BEGUN, ENDED, REBOOT, DELIVERED = "begun", "ended", "reboot", "delivered"
DRIFTED = "drifted"
"""The changes of a deployment's state that a notice may be about."""

NOTE = "note"
"""The subject of a notice about anything else."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One thing that has happened to a deployment."""

    change: str
    """The change of its state, or `NOTE`."""
    text: str
    """One line for people, which begins with the name of the deployment."""
    priority: int
    """The priority, as syslog has it."""
    id: str
    name: str
    action: str
    tool: str
    source: str
    stack: str
    """The name of its stack; empty if the deployment does not say."""
    state: str
    """`running`, `reboot`, `ok`, `failed`, `drifted`; `accepted` if it has not begun, or `skipped` if it does not."""
    reason: str = ""
    """The reason of its failure, a note about its success, or the drift."""
    delivery: str = ""
    """The fate of its result: `accepted`, `refused`, `replaced`, or `waiting` to be sent again."""
    started: float | None = None
    ended: float | None = None
    """When its run began and ended, in seconds since the epoch."""
    trace: str = ""
    """See `Deployment.trace`."""
    at: float = field(default_factory=time.time)
    """When this happened, in seconds since the epoch."""


def facts(notice: Notice) -> dict[str, str]:
    """Return the deployment of a notice and its state, with the keys of events; values may be empty."""
    return {
        "id": notice.id,
        "name": notice.name,
        "action": notice.action,
        "tool": notice.tool,
        "stack": notice.stack,
        "source": notice.source,
        "state": notice.state,
    }


def fields(notice: Notice) -> dict[str, str]:
    """Return the fields of a notice for the journal of the system; those without a value are left out."""
    values = {
        "DEPLOYMENT_ID": notice.id,
        "DEPLOYMENT_NAME": notice.name,
        "STACK": notice.stack,
        "ACTION": notice.action,
        "TOOL": notice.tool,
        "STATE": notice.state,
    }
    return {name: value for name, value in values.items() if value}


def stack_of(document: Mapping[str, object]) -> str:
    """Return the name of the stack that the entry of a document names; empty if it names none."""
    items = document.get("inputs")
    for item in items if isinstance(items, list) else ():
        value = (
            item.get("value")
            if isinstance(item, Mapping) and item.get("name") == "deploy_stack_id"
            else None
        )
        if isinstance(value, str):
            return value.partition("/")[0]
    return ""

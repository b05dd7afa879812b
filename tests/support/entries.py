"""Entries of the journal, as the agent makes them of deployments, for tests that decide by them and run nothing."""

from __future__ import annotations

from typing import Any

from heat_config_agent.model.deployment import Deployment
from heat_config_agent.model.entry import Entry, Run, State
from heat_config_hooks.values import replace

RUN = Run(
    boot="b",
    pid=1,
    ticks=2,
    began=3.0,
    limit=None,
    hook="builtin:script",
    working="/w",
    outputs="/o",
)
"""A run of the script hook."""


def run_of(hook: str) -> Run:
    """Return a run of another hook."""
    return replace(RUN, hook=hook)


def entry(deployment: Deployment | str, state: State, **fields: Any) -> Entry:
    """Return what the journal knows of a deployment in a state: accepted and begun at 1000, ended at 1001.

    A text is the id of a deployment for CREATE whose document does not matter.
    """
    values: dict[str, Any] = {"source": "test", "addressee": "", "document": {}}
    if isinstance(deployment, str):
        values |= {"key": deployment, "id": deployment, "name": deployment}
        values |= {"action": "CREATE", "tool": "script"}
    else:
        values = {
            name: getattr(deployment, name)
            for name in ("key", "id", "name", "action", "source", "owner", "document")
        }
        values |= {"tool": deployment.group, "addressee": deployment.target.addressee}
    values |= {"state": state, "at": 1000.0, "accepted": 1000.0}
    if state is not State.ACCEPTED:
        values |= {"started": 1000.0, "run": RUN}
        if state is not State.RUNNING:
            values |= {"ended": 1001.0, "values": {}}
    return Entry(**{**values, **fields})

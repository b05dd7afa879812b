"""The failures of a stack: the resources that have failed, each with its reason and the end of its output."""

from __future__ import annotations

from typing import Any

from heat_config_agent.model.states import Shown
from heat_config_agent.settings.effective import Settings
from heat_config_stack.cli.stack import values
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.records.records import FAILED

_LINES = 5
"""Lines of standard error that are shown of a failed run."""


def failures(
    settings: Settings, root: Stack, *, all_lines: bool = False
) -> list[dict[str, Any]]:
    """Return the resources of a stack and its child stacks that have failed, and the runs before a rollback."""
    shown = []
    runs = {
        each.resource: str(each.outputs.get("deploy_stderr") or "")
        for each in root.world.store.deployments.values()
        if each.status == FAILED
    }
    for path, member in values.every(root, -1):
        if member.record.status != FAILED or _is_outer(member.record.id, root):
            continue
        said = root.conceal.text(runs.get(member.record.id, ""))
        log = settings.command("log", f"{root.name}/{path}")
        shown.append(
            {
                **values.resource(path, member),
                "last_lines": _last(said, all_lines=all_lines),
                "log": log if member.record.id in runs else None,
            }
        )
    undone = (root.record.undone or {"runs": []})["runs"]
    return shown + [
        _undone(settings, root, each, all_lines=all_lines) for each in undone
    ]


def _undone(
    settings: Settings, root: Stack, run: dict[str, Any], *, all_lines: bool
) -> dict[str, Any]:
    """Return a run that failed before the stack was rolled back."""
    why = run.get("why") or "its run has failed"
    return {
        "resource_name": run["path"],
        "physical_resource_id": None,
        "resource_type": None,
        "resource_status": None,
        "updated_time": None,
        "state": str(Shown.FAILED),
        "action": root.record.action,
        "since": None,
        "message": f"{why} (before the rollback)",
        "last_lines": _last(run["stderr"], all_lines=all_lines),
        "log": settings.command("log", f"{root.name}/{run['id']}"),
    }


def _is_outer(resource: str, root: Stack) -> bool:
    """Return whether the resource has a child stack in which a resource has failed: that one says why."""
    store = root.world.store
    return any(
        stack.owner == resource and each.status == FAILED
        for stack in store.stacks.values()
        for each in store.resources_of(stack.id)
    )


def _last(text: str, *, all_lines: bool) -> list[str]:
    lines = text.rstrip().splitlines()
    return lines if all_lines else lines[-_LINES:]

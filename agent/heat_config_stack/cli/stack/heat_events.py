"""Events of stacks and resources as JSON, with the keys of Heat's API and the words of the other lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heat_config_agent.masking.redaction import Concealer
from heat_config_agent.model import states
from heat_config_agent.model.positions import Json
from heat_config_agent.model.states import Shown
from heat_config_agent.model.wording import stamp
from heat_config_stack.records.records import COMPLETE, LEFT_OUT


def event(
    record: Mapping[str, Any], stack_name: str, conceal: Concealer
) -> dict[str, Json]:
    """Return an event with the path of its resource, or with the name of the stack."""
    path, physical = record["path"], record.get("physical")
    of_stack = {"kind": "stack", "name": stack_name, "id": physical}
    of_resource = {"kind": "resource", "name": path, "id": physical}
    return {
        "event_time": stamp(record["time"]),
        "resource_name": path or stack_name,
        "physical_resource_id": physical,
        "resource_status": f"{record['action']}_{record['status']}",
        "resource_status_reason": conceal.text(record["reason"]),
        "stack_name": stack_name,
        "subject": {**(of_resource if path else of_stack), "stack": stack_name},
        "state": str(state_of(record)),
        "action": record["action"],
        "message": conceal.text(str(record.get("why") or record["reason"])),
    }


def state_of(record: Mapping[str, Any]) -> Shown:
    """Return the state that an event has brought about."""
    if record["status"] == COMPLETE and record["reason"].startswith(LEFT_OUT):
        return Shown.SKIPPED
    return states.of_stack(record["status"])

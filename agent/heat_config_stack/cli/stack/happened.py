"""The events of a stack, for the command that shows those of the whole machine."""

from __future__ import annotations

from collections.abc import Iterator

from heat_config_agent.model import states, wording
from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.positions import Json
from heat_config_agent.settings.effective import Settings
from heat_config_stack.cli.stack import sessions, values


def events(settings: Settings, name: str) -> Iterator[dict[str, Json]]:
    """Yield the events of a stack that are kept, oldest first; none of a stack that cannot be read."""
    try:
        root = sessions.look(settings, name, lambda _text: None)
    except AgentError:
        return
    conceal = root.world.conceal
    for record in root.world.store.events:
        path, physical = record["path"], record.get("physical")
        yield {
            "physical_resource_id": physical,
            "stack_name": name,
            "subject": {
                "kind": "resource" if path else "stack",
                "name": path or name,
                "id": physical,
                "stack": name,
            },
            "state": states.of_stack(record["status"]).value,
            "action": record["action"],
            "message": conceal.text(str(record.get("why") or record["reason"])),
            **values.event(record, name, conceal),
            "event_time": wording.stamp(record["time"]),
        }

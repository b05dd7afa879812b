"""The events of a stack, for the command that shows those of the whole machine."""

from __future__ import annotations

from collections.abc import Iterator

from heat_config_agent.model.errors import AgentError
from heat_config_agent.model.positions import Json
from heat_config_agent.settings.effective import Settings
from heat_config_stack.cli.stack import heat_events, sessions


def events(settings: Settings, name: str) -> Iterator[dict[str, Json]]:
    """Yield the events of a stack that are kept, oldest first; none of a stack that cannot be read."""
    try:
        root = sessions.look(settings, name, lambda _text: None)
    except AgentError:
        return
    for record in root.world.store.events:
        yield heat_events.event(record, name, root.world.conceal)

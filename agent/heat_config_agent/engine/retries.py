"""The option `retry` of a deployment, in words."""

from __future__ import annotations

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.wording import duration
from heat_config_hooks import processes


def next_attempt(entry: Entry) -> str:
    """Return in words when the command of a deployment is run again."""
    same_boot = entry.run is not None and entry.run.boot == processes.boot_id()
    delay = entry.due - processes.since_boot() if same_boot else 0.0
    return f"attempt {entry.attempts + 1} begins {f'in {duration(delay)}' if delay > 0 else 'now'}"

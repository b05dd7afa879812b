"""How it is with a daemon, for others to read: a file beside the journal, and metrics for Prometheus.

The file is written when something changes and now and then, and is not flushed: it says how it was a moment ago.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from heat_config_agent.model import Entry, Removed, State
from heat_config_hooks import files
from heat_config_hooks.values import dataclass, field

FILE = "health.json"


@dataclass(frozen=True, kw_only=True)
class Health:
    """What a daemon says of itself."""

    process: int
    version: str
    started: float
    """This and the next in seconds since the epoch."""
    ended: float | None = None
    """None while it runs."""
    at: float = field(default_factory=time.time)
    doing: str = ""
    """One line for people."""
    next_poll: float = 0.0
    """Seconds until a source is asked again, from `at`."""
    waiting: int = 0
    """Deployments that wait for their turn."""
    paused: str = ""
    reboot: tuple[str, ...] = ()
    """Names of deployments that wait for a reboot."""
    sources: tuple[Mapping[str, object], ...] = ()
    """`name`, `from` (who says so), `working`, `since`, `answered`, `failures`, `trouble`."""
    troubles: tuple[str, ...] = ()
    """What else is not as it should be."""


def write(state: Path, health: Health) -> None:
    """Keep it. Raises OSError."""
    files.replace(state / FILE, json.dumps(vars(health)).encode())


def read(state: Path) -> dict[str, object]:
    """Return what a daemon has said last; nothing where none has."""
    try:
        found = json.loads(files.read(state / FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def metrics(health: Health, entries: Iterable[Entry]) -> str:
    """Return metrics in Prometheus' text format."""
    states = dict.fromkeys((each.value for each in State), 0)
    failed = undelivered = 0
    for entry in entries:
        if entry.removed is Removed.ALL:
            continue
        states[entry.state.value] += 1
        failed += entry.failed and entry.ended is not None
        undelivered += entry.state is State.FINISHED
    lines = [
        *_metric("up", "gauge", "1 while the agent runs", [("", int(health.ended is None))]),
        *_metric("start_time_seconds", "gauge", "When the agent was started", [("", health.started)]),
        *_metric("updated_time_seconds", "gauge", "When these metrics were written", [("", health.at)]),
        *_metric("paused", "gauge", "1 while nothing new is begun", [("", int(bool(health.paused)))]),
        *_metric("reboot_pending", "gauge", "Deployments that wait for a reboot", [("", len(health.reboot))]),
        *_metric("deployments_waiting", "gauge", "Deployments that wait for their turn", [("", health.waiting)]),
        *_metric(
            "deployments", "gauge", "Deployments on record", [(f'state="{name}"', n) for name, n in states.items()]
        ),
        *_metric("deployments_failed", "gauge", "Deployments on record that have failed", [("", failed)]),
        *_metric("results_undelivered", "gauge", "Results that wait to be delivered", [("", undelivered)]),
        *_metric("source_working", "gauge", "1 where a source answers", _each(health, "working")),
        *_metric("source_failures", "gauge", "Failures of a source in a row", _each(health, "failures")),
        *_metric("source_answered_time_seconds", "gauge", "When a source last answered", _each(health, "answered")),
    ]
    return "\n".join(lines) + "\n"


def _each(health: Health, what: str) -> list[tuple[str, float]]:
    found: dict[str, float] = {}
    for each in health.sources:
        value = each[what]
        if isinstance(value, int | float):
            label = f'source="{each["name"]}"'
            found[label] = max(float(value), found.get(label, 0.0))
    return list(found.items())


def _metric(name: str, kind: str, says: str, values: Iterable[tuple[str, float]]) -> list[str]:
    full = f"heat_config_agent_{name}"
    samples = [f"{full}{f'{{{labels}}}' if labels else ''} {float(value)!r}" for labels, value in values]
    return [f"# HELP {full} {says}.", f"# TYPE {full} {kind}", *samples] if samples else []

"""The state of a daemon for others to read: a file next to the journal, and metrics for Prometheus.

The file is written when something changes and from time to time. It is not flushed to disk.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_hooks import files, processes
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.state.followed import Followed

FILE = "health.json"

MOST_DEPLOYMENTS = 100
"""The number of deployments that have metrics of their own: those that changed last."""

_LONGEST_LABEL = 200
"""The most characters of a label's value."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """The content of the health file."""

    process: int
    boot: str = ""
    """The kernel's boot id. With this and the next, the report of an earlier process is known by itself."""
    ticks: int | None = None
    """The start time of the process in clock ticks since boot."""
    version: str
    started: float
    """When the daemon started, in seconds since the epoch."""
    ended: float | None = None
    """When it ended, in seconds since the epoch; None while it runs."""
    at: float = field(default_factory=time.time)
    """When this was written, in seconds since the epoch."""
    doing: str = ""
    """One line for people."""
    next_poll: float = 0.0
    """Seconds from `at` until the next poll."""
    waiting: int = 0
    """The number of deployments that wait for their turn."""
    current: bool = False
    """True if a source has answered this daemon, and the journal has every deployment of the documents in force."""
    paused: str = ""
    """The reason why the agent is paused; empty if it is not."""
    reboot: tuple[str, ...] = ()
    """The names of deployments that wait for a reboot."""
    sources: tuple[Mapping[str, object], ...] = ()
    """For each source: `name`, `from` (where its settings come from), `working`, `since`, `answered`, `failures` and
    `trouble`."""
    skipped: tuple[Mapping[str, object], ...] = ()
    """For each deployment that the last plan skipped and the journal does not have: `key`, `id`, `name`, `action` and
    `reason`."""
    channels: tuple[Mapping[str, object], ...] = ()
    """For each channel to those outside (the settings `console` and `report_url`): `name`, `waiting`, `lost` and
    `trouble`."""
    troubles: tuple[str, ...] = ()
    """Everything else that is wrong."""


def write(state: Path, health: Health) -> None:
    """Write the health file. Raises OSError."""
    files.replace(state / FILE, json.dumps(vars(health)).encode())


def read(state: Path) -> dict[str, object]:
    """Return what a daemon has written last; an empty object if there is none."""
    try:
        content = json.loads(files.read(state / FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def is_from(report: Mapping[str, object], process: int) -> bool:
    """Return whether a report was written by the living process with this id, and not by an earlier one."""
    author = report.get("process"), report.get("boot"), report.get("ticks")
    return author == (process, processes.boot_id(), processes.ticks(process))


def metrics(health: Health, entries: Iterable[Entry], followed: Iterable[Followed] = ()) -> str:
    """Return metrics in Prometheus' text format; `followed` are the records of stacks that follow sources."""
    entries = tuple(entries)
    states = dict.fromkeys((state.value for state in State), 0)
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
        *_metric("source_working", "gauge", "1 where a source answers", _per_source(health, "working")),
        *_metric("source_failures", "gauge", "Failures of a source in a row", _per_source(health, "failures")),
        *_metric(
            "source_answered_time_seconds", "gauge", "When a source last answered", _per_source(health, "answered")
        ),
        *_metric(
            "notices_lost_total",
            "counter",
            "Notices that a channel to the outside did not accept",
            [(f'channel="{channel["name"]}"', _number(channel["lost"])) for channel in health.channels],
        ),
        *_metrics_of_deployments(_newest(entries), health.at),
        *_metrics_of_followed(tuple(followed)),
    ]
    return "\n".join(lines) + "\n"


def _newest(entries: Iterable[Entry]) -> list[tuple[str, Entry]]:
    """Return the labels and entries of the deployments with metrics of their own, those that changed last first.

    An action of a deployment that was deployed again has one sample, for its last run.
    """
    newest: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        name = (entry.name, entry.action, entry.tool)
        if entry.removed is not Removed.ALL and (name not in newest or newest[name].accepted <= entry.accepted):
            newest[name] = entry
    chosen = sorted(newest.items(), key=lambda item: item[1].at, reverse=True)[:MOST_DEPLOYMENTS]
    labels = (dict(zip(("name", "action", "tool"), name, strict=True)) for name, _ in chosen)
    return [(_labels(each), entry) for each, (_, entry) in zip(labels, chosen, strict=True)]


def _metrics_of_deployments(newest: Sequence[tuple[str, Entry]], now: float) -> list[str]:
    states = [(f'{labels},state="{_outcome(entry)}"', 1) for labels, entry in newest]
    begun = [(labels, entry, entry.started) for labels, entry in newest if entry.started is not None]
    started = [(labels, moment) for labels, _, moment in begun]
    lasted = [(labels, max((entry.ended or now) - moment, 0.0)) for labels, entry, moment in begun]
    return [
        *_metric("deployment_state", "gauge", "1 for the state of each of the deployments that changed last", states),
        *_metric("deployment_start_time_seconds", "gauge", "When the last run of a deployment began", started),
        *_metric("deployment_duration_seconds", "gauge", "How long the last run took, or has taken so far", lasted),
    ]


def _outcome(entry: Entry) -> str:
    if entry.ended is None:
        return entry.state.value
    return "failed" if entry.failed else "ok"


def _labels(values: Mapping[str, str]) -> str:
    """Return labels in Prometheus' text format. Long values keep their beginning."""
    return ",".join(f'{name}="{_escaped(value[:_LONGEST_LABEL])}"' for name, value in values.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _metrics_of_followed(records: tuple[Followed, ...]) -> list[str]:
    labels = [(f'stack="{record.name}"', record) for record in records]
    answered = [(label, record.answered) for label, record in labels if record.answered]
    refused = [(label, int(bool(record.refused))) for label, record in labels]
    current = [(label, int(not record.problem and not record.begun)) for label, record in labels]
    text = "1 where the newest revision of a followed source is in force"
    return [
        *_metric("follow_current", "gauge", text, current),
        *_metric("follow_refused", "gauge", "1 where the newest revision is refused or has failed", refused),
        *_metric("follow_answered_time_seconds", "gauge", "When a followed source last answered", answered),
    ]


def _per_source(health: Health, key: str) -> list[tuple[str, float]]:
    """Return the value of a field for each source, with its label. Of several with one name, the largest counts."""
    values: dict[str, float] = {}
    for source in health.sources:
        value = source[key]
        if isinstance(value, int | float):
            label = f'source="{source["name"]}"'
            values[label] = max(float(value), values.get(label, 0.0))
    return list(values.items())


def _metric(name: str, kind: str, description: str, values: Iterable[tuple[str, float]]) -> list[str]:
    full = f"heat_config_agent_{name}"
    samples = [f"{full}{f'{{{labels}}}' if labels else ''} {float(value)!r}" for labels, value in values]
    return [f"# HELP {full} {description}.", f"# TYPE {full} {kind}", *samples] if samples else []

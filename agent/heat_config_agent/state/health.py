"""The state of a daemon for others to read: a file next to the journal, and metrics for Prometheus.

The file is written when something changes and from time to time. It is not flushed to disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from heat_config_agent import __version__
from heat_config_agent.model.entry import Entry, Removed, State
from heat_config_agent.state import lock
from heat_config_hooks import files, processes
from heat_config_hooks.values import dataclass, field

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.state.followed import Followed

FILE = "health.json"

MOST_DEPLOYMENTS = 100
"""The number of last changed deployments that have metrics of their own."""

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
    up: float = field(default_factory=processes.since_boot)
    """The same in seconds since boot, which tell its age even if the clock was set."""
    doing: str = ""
    """One line for people."""
    next_poll: float = 0.0
    """Seconds from `at` until the next poll."""
    waiting: int = 0
    """The number of deployments that wait for their turn."""
    blocked: tuple[Mapping[str, object], ...] = ()
    """For each cause that keeps work from beginning: `cause`, `since` and `next_try` in seconds since the epoch,
    `deployments` (the reason of each, by its key), and `reason`, if nothing can be recorded at all."""
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
    """For each channel to those outside (the settings `console`, `report_url` and `trace_url`): `name`, `waiting`,
    `lost` and `trouble`."""
    verifications: tuple[Mapping[str, object], ...] = ()
    """For each verification on a schedule: `name` (of the followed source; empty for the agent itself), `interval`,
    `repair`, `at` and `next` in seconds since the epoch, `ok`, `drifted`, `unknown`, `passes` and `repairs` (numbers),
    and `trouble`."""
    followed: Mapping[str, str] = field(default_factory=dict)
    """Troubles of followed sources that could not be written into their records, by name."""
    troubles: tuple[str, ...] = ()
    """Everything else that is wrong."""


def write(state: Path, health: Health) -> None:
    """Write the health file. Raises OSError."""
    files.replace(state / FILE, json.dumps(vars(health)).encode())


class Spare:
    """A place in memory for the health of a daemon that cannot write its file, on a full disk, for example.

    Other processes find it among the open files of the daemon, if they may look at these.
    """

    def __init__(self, state: Path) -> None:
        """Reserve the place: later there may be no open file left. A kernel that has none has no spare."""
        self._descriptor = -1
        self._used = False
        with contextlib.suppress(OSError, AttributeError):
            self._descriptor = os.memfd_create(_spare(state))

    def write(self, health: Health) -> None:
        """Write the health to the reserved place."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(vars(health)).encode(), 0)
            self._used = True

    def clear(self) -> None:
        """Remove it: the file is newer."""
        if self._used:
            os.ftruncate(self._descriptor, 0)
            self._used = False


def _spare(state: Path) -> str:
    """Return the name of the place of a state directory, which its daemon may see elsewhere."""
    return f"heat-config-agent:{state.absolute()}"[-200:]


def read(state: Path, process: int = 0) -> dict[str, object]:
    """Return the last report of a daemon; empty if there is none.

    `process` is the daemon that runs now, if there is one, which may not have been able to write the file.
    """
    content = _parsed(state / FILE)
    for path in _spares(state, process) if process else ():
        spare = _parsed(path)
        content = spare or content
    return content


def _spares(state: Path, process: int) -> Iterator[Path]:
    folder, wanted = Path(f"/proc/{process}/fd"), f"/memfd:{_spare(state)}"
    try:
        for path in folder.iterdir():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                if path.readlink().as_posix().startswith(wanted):
                    yield path
    except OSError:  # this user may not look at it
        return


def _parsed(path: Path) -> dict[str, object]:
    try:
        content = json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def age(report: Mapping[str, object]) -> float:
    """Return how many seconds ago a report of this boot was written. Changes of the clock make no difference."""
    up = report.get("up")
    same_boot = report.get("boot") == processes.boot_id()
    return (
        processes.since_boot() - up
        if isinstance(up, int | float) and same_boot
        else 0.0
    )


SILENCE = 180.0
"""Seconds after its time from which a daemon counts as stuck; it writes the file at least once a minute, or when it
polls next."""


SETTLING = 30.0
"""Seconds after the start in which a source need not have answered yet."""


def is_settled(report: Mapping[str, object]) -> bool:
    """Return whether a daemon was started long enough ago for its sources to have answered."""
    at, started = report.get("at"), report.get("started")
    if not isinstance(at, int | float) or not isinstance(started, int | float):
        return False
    return at - started + age(report) > SETTLING


def silence(report: Mapping[str, object]) -> float:
    """Return for how many seconds a living daemon has reported nothing, if it should have; else 0."""
    poll = report.get("next_poll")
    due = min(poll, _LONGEST) if isinstance(poll, int | float) else 0.0
    silent = age(report)
    return silent if silent > SILENCE + due else 0.0


_LONGEST = 86400.0


def outdated(report: Mapping[str, object]) -> str:
    """Return a sentence about a running daemon of another version than the installed files; empty if it is theirs."""
    version = report.get("version")
    if not isinstance(version, str) or version == __version__:
        return ""
    return f"the running agent is version {version}, and its files are version {__version__}"


def is_from(report: Mapping[str, object], process: int) -> bool:
    """Return whether a report was written by the living process with this id, and not by an earlier one."""
    author = report.get("process"), report.get("boot"), report.get("ticks")
    return author == (process, processes.boot_id(), processes.ticks(process))


def unrecorded(state: Path) -> dict[str, str]:
    """Return the trouble of each source whose record cannot be written, as the running daemon knows it."""
    holder = lock.holder(state)
    if holder is None or holder[1] != lock.DAEMON:
        return {}
    report = read(state, holder[0])
    troubles = report.get("followed")
    if not is_from(report, holder[0]) or not isinstance(troubles, dict):
        return {}
    return {
        name: trouble for name, trouble in troubles.items() if isinstance(trouble, str)
    }


def metrics(
    health: Health, entries: Iterable[Entry], followed: Iterable[Followed] = ()
) -> str:
    """Return metrics in Prometheus' text format; `followed` are the records of stacks that follow sources."""
    entries = tuple(entries)
    lines = [
        *_metrics_of_agent(health),
        *_metrics_of_obstacles(health.blocked),
        *_metrics_of_journal(entries),
        *_metrics_of_sources(health),
        *_metric(
            "notices_lost_total",
            "counter",
            "Notices that a channel to the outside did not accept",
            [
                (f'channel="{channel["name"]}"', _number(channel["lost"]))
                for channel in health.channels
            ],
        ),
        *_metrics_of_verifications(health.verifications),
        *_metrics_of_deployments(_newest(entries), health.at),
        *_metrics_of_followed(tuple(followed)),
    ]
    return "\n".join(lines) + "\n"


def _metrics_of_agent(health: Health) -> list[str]:
    """Return the metrics of the daemon itself."""
    gauges: tuple[tuple[str, str, float], ...] = (
        ("up", "1 while the agent runs", int(health.ended is None)),
        ("start_time_seconds", "When the agent was started", health.started),
        ("updated_time_seconds", "When these metrics were written", health.at),
        ("paused", "1 while nothing new is begun", int(bool(health.paused))),
        ("reboot_pending", "Deployments that wait for a reboot", len(health.reboot)),
        ("deployments_waiting", "Deployments that wait for their turn", health.waiting),
    )
    return [
        line
        for name, about, value in gauges
        for line in _metric(name, "gauge", about, [("", value)])
    ]


def _metrics_of_journal(entries: Iterable[Entry]) -> list[str]:
    """Return the numbers of deployments on record, by state, and of those that failed or wait for their delivery."""
    states = dict.fromkeys((state.value for state in State), 0)
    failed = undelivered = 0
    for entry in entries:
        if entry.removed is Removed.ALL:
            continue
        states[entry.state.value] += 1
        failed += entry.failed and entry.ended is not None and not entry.is_follow_up
        undelivered += entry.state is State.FINISHED
    return [
        *_metric(
            "deployments",
            "gauge",
            "Deployments on record",
            [(f'state="{name}"', n) for name, n in states.items()],
        ),
        *_metric(
            "deployments_failed",
            "gauge",
            "Deployments on record that have failed",
            [("", failed)],
        ),
        *_metric(
            "results_undelivered",
            "gauge",
            "Results that wait to be delivered",
            [("", undelivered)],
        ),
    ]


def _metrics_of_sources(health: Health) -> list[str]:
    """Return whether each source answers, how often it failed in a row, and when it last answered."""
    return [
        *_metric(
            "source_working",
            "gauge",
            "1 where a source answers",
            _per_source(health, "working"),
        ),
        *_metric(
            "source_failures",
            "gauge",
            "Failures of a source in a row",
            _per_source(health, "failures"),
        ),
        *_metric(
            "source_answered_time_seconds",
            "gauge",
            "When a source last answered",
            _per_source(health, "answered"),
        ),
    ]


def _metrics_of_obstacles(blocked: Sequence[Mapping[str, object]]) -> list[str]:
    """Return whether anything keeps work from beginning, since when, and when it is tried again."""
    deployments = {
        key
        for each in blocked
        if isinstance(each["deployments"], dict)
        for key in each["deployments"]
    }
    since = [each["since"] for each in blocked if isinstance(each["since"], float)]
    tries = [
        each["next_try"] for each in blocked if isinstance(each["next_try"], float)
    ]
    return [
        *_metric(
            "blocked",
            "gauge",
            "1 while something keeps work from beginning",
            [("", int(bool(blocked)))],
        ),
        *_metric(
            "deployments_blocked",
            "gauge",
            "Deployments that cannot begin",
            [("", len(deployments))],
        ),
        *_metric(
            "blocked_since_time_seconds",
            "gauge",
            "Since when",
            [("", min(since))] if since else [],
        ),
        *_metric(
            "next_try_time_seconds",
            "gauge",
            "When it is tried again",
            [("", min(tries))] if tries else [],
        ),
    ]


def _metrics_of_verifications(reports: Sequence[Mapping[str, object]]) -> list[str]:
    """Return how many deployments have drifted, and how often they were verified and repaired."""

    def values(name: str) -> list[tuple[str, float]]:
        return [
            (_labels({"source": str(each["name"])}), float(value))
            for each in reports
            if isinstance(value := each[name], int | float)
        ]

    return [
        *_metric(
            "deployments_drifted",
            "gauge",
            "Deployments that had drifted at the last verification on a schedule",
            values("drifted"),
        ),
        *_metric(
            "deployments_unverified",
            "gauge",
            "Deployments of which it could not say so",
            values("unknown"),
        ),
        *_metric(
            "verified_time_seconds",
            "gauge",
            "When that verification ended",
            values("at"),
        ),
        *_metric(
            "verifications_total",
            "counter",
            "Verifications on a schedule",
            values("passes"),
        ),
        *_metric(
            "repairs_total",
            "counter",
            "Repairs that they have requested",
            values("repairs"),
        ),
    ]


def _newest(entries: Iterable[Entry]) -> list[tuple[str, Entry]]:
    """Return the labels and entries of the deployments with metrics of their own, those that changed last first.

    An action of a deployment that was deployed again has one sample, for its last run.
    """
    newest: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        name = (entry.name, entry.action, entry.tool)
        if entry.removed is not Removed.ALL and (
            name not in newest or newest[name].accepted <= entry.accepted
        ):
            newest[name] = entry
    chosen = sorted(newest.items(), key=lambda item: item[1].at, reverse=True)[
        :MOST_DEPLOYMENTS
    ]
    labels = (
        dict(zip(("name", "action", "tool"), name, strict=True)) for name, _ in chosen
    )
    return [
        (_labels(each), entry) for each, (_, entry) in zip(labels, chosen, strict=True)
    ]


def _metrics_of_deployments(
    newest: Sequence[tuple[str, Entry]], now: float
) -> list[str]:
    states = [(f'{labels},state="{_outcome(entry)}"', 1) for labels, entry in newest]
    begun = [
        (labels, entry, entry.started)
        for labels, entry in newest
        if entry.started is not None
    ]
    started = [(labels, moment) for labels, _, moment in begun]
    lasted = [
        (labels, max((entry.ended or now) - moment, 0.0))
        for labels, entry, moment in begun
    ]
    return [
        *_metric(
            "deployment_state",
            "gauge",
            "1 for the state of each of the deployments that changed last",
            states,
        ),
        *_metric(
            "deployment_start_time_seconds",
            "gauge",
            "When the last run of a deployment began",
            started,
        ),
        *_metric(
            "deployment_duration_seconds",
            "gauge",
            "How long the last run took, or has taken so far",
            lasted,
        ),
    ]


def _outcome(entry: Entry) -> str:
    if entry.ended is None:
        return entry.state.value
    return "failed" if entry.failed else "ok"


def _labels(values: Mapping[str, str]) -> str:
    """Return labels in Prometheus' text format. Long values keep their beginning."""
    return ",".join(
        f'{name}="{_escaped(value[:_LONGEST_LABEL])}"' for name, value in values.items()
    )


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _metrics_of_followed(records: tuple[Followed, ...]) -> list[str]:
    labels = [(f'stack="{record.name}"', record) for record in records]
    answered = [(label, record.answered) for label, record in labels if record.answered]
    refused = [(label, int(record.state == "refused")) for label, record in labels]
    failed = [(label, int(record.state == "failed")) for label, record in labels]
    drifted = [(label, int(bool(record.drift))) for label, record in labels]
    current = [
        (label, int(record.state == "ok" and not record.trouble))
        for label, record in labels
    ]
    text = "1 where the newest revision of a followed source is in force"
    return [
        *_metric("follow_current", "gauge", text, current),
        *_metric(
            "follow_refused", "gauge", "1 where the newest revision is refused", refused
        ),
        *_metric(
            "follow_failed", "gauge", "1 where the newest revision has failed", failed
        ),
        *_metric(
            "follow_drifted",
            "gauge",
            "1 where the machine is out of step with its revision",
            drifted,
        ),
        *_metric(
            "follow_answered_time_seconds",
            "gauge",
            "When a followed source last answered",
            answered,
        ),
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


def _metric(
    name: str, kind: str, description: str, values: Iterable[tuple[str, float]]
) -> list[str]:
    full = f"heat_config_agent_{name}"
    samples = [
        f"{full}{f'{{{labels}}}' if labels else ''} {float(value)!r}"
        for labels, value in values
    ]
    return (
        [f"# HELP {full} {description}.", f"# TYPE {full} {kind}", *samples]
        if samples
        else []
    )

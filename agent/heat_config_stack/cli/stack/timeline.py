"""When each resource of a stack waited, and when it was worked on."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from heat_config_agent.cli import terminal
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.runs import supervisor
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass
from heat_config_stack.cli.stack.live_view import Earlier
from heat_config_stack.lifecycle import deployments
from heat_config_stack.lifecycle.live import Stack
from heat_config_stack.lifecycle.session import Session
from heat_config_stack.records import listing
from heat_config_stack.records.records import COMPLETE, IN_PROGRESS, INIT

_NOTICEABLE = 0.5
"""Seconds of waiting that are worth showing."""


@dataclass(frozen=True)
class Span:
    """When a resource was worked on, in seconds since the work on the stack began."""

    path: str
    action: str
    status: str
    begin: float
    work: float
    """When its work began: that of a deployment begins with its run, for which it may have to wait."""
    end: float

    @property
    def waited(self) -> float:
        """The seconds that it waited for its run; 0 if that took no noticeable time."""
        return self.work - self.begin if self.work - self.begin > _NOTICEABLE else 0.0

    def times(self) -> str:
        """Return how long it was worked on, and how long it waited, for people."""
        worked = terminal.duration(self.end - self.work)
        if not self.waited:
            return terminal.duration(self.end - self.begin)
        waited = terminal.duration(self.waited)
        return (
            f"waiting for {waited}"
            if self.work == self.end
            else f"{worked} after waiting {waited}"
        )


def spans(root: Stack, entries: Iterable[Entry]) -> list[Span]:
    """Return when each resource was worked on in the last operation on the stack; `entries` are of its deployments."""
    events = _last_operation(root)
    if not events:
        return []
    latest = {
        _path(root, entry): entry
        for entry in sorted(entries, key=lambda entry: entry.accepted)
    }
    beginnings: dict[str, tuple[float, Mapping[str, Any]]] = {}
    finished, now = list[Span](), 0.0
    for before, event in zip([events[0], *events], events):  # noqa: B905  # the last one is before none
        now += _passed(before, event)
        path = event["path"]
        if event["status"] == IN_PROGRESS:
            beginnings[path] = now, event
        elif path:
            begin, first = beginnings.pop(path, (now, event))
            work = _work(begin, first, latest.get(path), now)
            finished.append(
                Span(
                    path,
                    event["action"],
                    event["status"],
                    begin,
                    begin if work is None else work,
                    now,
                )
            )
    alive = any(
        entry.state is State.RUNNING and entry.run and supervisor.going_on(entry.run)
        for entry in latest.values()
    )
    present = (
        now
        + max(processes.since_boot() - float(events[-1].get("since_boot", 0.0)), 0.0)
        if alive
        else now
    )
    waiting = {
        _path(root, entry) for entry in latest.values() if entry.state is State.ACCEPTED
    }
    for path, (begin, first) in beginnings.items():
        work = _work(begin, first, latest.get(path), present)
        if path:
            work = present if path in waiting else begin if work is None else work
            finished.append(
                Span(path, first["action"], IN_PROGRESS, begin, work, present)
            )
    return sorted(finished, key=lambda span: (span.begin, span.end))


def earlier(settings: Settings, session: Session) -> dict[str, Earlier]:
    """Return the work of a command before its interruption, by the paths of the resources."""
    root = session.root
    if root is None or not session.interrupted:
        return {}
    entries = journal.read(listing.folder(settings.state, root.name)).values()
    # By the action too: of the same name may be one that was replaced and deleted.
    past = {
        (each.path, each.action): each.end - each.work for each in spans(root, entries)
    }
    work = {
        path: Earlier("running", action, seconds)
        for path, (action, seconds) in _unfinished(root).items()
    }
    for name, each in ((name, each.record) for name, each in root.resources.items()):
        if each.status != COMPLETE or each.revision != root.record.revision:
            continue
        if each.action == root.record.action or (
            each.passed == root.record.attempt and each.action != INIT
        ):
            if each.updated < root.record.updated:
                work[name] = Earlier("ok", reason="unchanged")
                continue
            work[name] = Earlier("ok", each.action, past.get((name, each.action)))
    return work


def _unfinished(root: Stack) -> dict[str, tuple[str, float]]:
    """Return the resources whose work has begun and not ended: the path of each → its action, and seconds so far."""
    last = {event["path"]: event for event in _last_operation(root) if event["path"]}
    now = {"time": time.time(), "since_boot": processes.since_boot()}
    return {
        path: (event["action"], _passed(event, now))
        for path, event in last.items()
        if event["status"] == IN_PROGRESS
    }


def _last_operation(root: Stack) -> list[Mapping[str, Any]]:
    """Return the events of the last operation on the stack."""
    events = root.world.store.events
    begins = [
        place
        for place, event in enumerate(events)
        if not event["path"] and event["status"] == IN_PROGRESS
    ]
    return events[begins[-1] :] if begins else events


def _path(root: Stack, entry: Entry) -> str:
    return deployments.path_of(root.world.store, entry.source.rpartition("/")[2])


def _work(
    begin: float, event: Mapping[str, Any], entry: Entry | None, end: float
) -> float | None:
    """Return when the run of a resource began whose first event was at `begin`; None if no run began since."""
    if entry is None or entry.run is None:
        return None
    moment = begin + entry.run.began - float(event.get("since_boot", 0.0))
    return moment if begin <= moment <= end else None


def _passed(before: Mapping[str, Any], event: Mapping[str, Any]) -> float:
    """Return the seconds between two events, by the time since boot if the machine was not rebooted in between."""
    up = event.get("since_boot", 0.0) - before.get("since_boot", float("inf"))
    return float(up if up > 0 else max(event["time"] - before["time"], 0.0))

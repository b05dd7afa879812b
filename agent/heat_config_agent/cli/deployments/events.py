"""`heat-config-agent events`: Show what happened to the deployments, stacks and sources of this machine.

Nothing is written for it: the events are those that the journals, the kept runs, the records of the stacks and of the
sources have. So of a deployment there are its last run and the earlier ones whose output is kept, and of a stack the
last 1000 events.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.command_line import Option, number, seconds
from heat_config_agent.cli.deployments import named
from heat_config_agent.model import states, wording
from heat_config_agent.model.entry import Entry, State
from heat_config_agent.model.errors import ExitCode
from heat_config_agent.model.states import Shown
from heat_config_agent.runs import earlier
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import followed, journal

_DESCRIPTION = """: Show what happened to the deployments, stacks and sources of this machine, oldest first. With NAME,
only what happened to that. Of a deployment, the last run and the earlier ones whose output is kept are shown; of a
stack, its last 1000 events.
"""

_EPILOG = """\
exit codes:
  0    the events were shown
  2    bad usage or settings
  8    there is nothing of that name
  10   the state directory cannot be used
  130  --follow was interrupted
"""

_PAUSE = 0.5
"""Seconds between two looks with --follow."""

_MOST = 1000
"""The number of events that are shown if --limit does not say how many."""

_WIDTHS = (24, 24, 8, 8)
"""The widths of the columns of events that are printed one after the other."""

_HEADER = ("TIME", "NAME", "STATE", "ACTION", "DETAILS")

_LIMIT = Option(
    "--limit",
    f"show only the last N events (default {_MOST})",
    "N",
    read=number(1),
)
_SINCE = Option(
    "--since",
    "show only what happened in this time until now, such as 1h",
    "TIME",
    read=seconds,
)

_DELIVERED = {
    states.Delivery.SENT: "the result was sent",
    states.Delivery.REFUSED: "the server has refused the result",
    states.Delivery.REPLACED: "the result is not sent any more",
}


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands, "events", "show what happened", _DESCRIPTION, epilog=_EPILOG
    )
    state_options.add_some(parser)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on with new events until ^C; with --json, a line for each",
    )
    _SINCE.add(parser)
    _LIMIT.add(parser)
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="events")


def run(options: argparse.Namespace) -> int:
    """Show the events, and with --follow go on until the command is interrupted."""
    settings = state_options.there(options)
    wanted = _Wanted(settings, options)
    begin = time.time() - options.since if options.since is not None else 0.0
    seen = _Seen()
    events = _last(seen.new(wanted.events()), options.limit or _MOST, begin)
    if options.follow:
        _follow(wanted, seen, events, as_json=options.json)
    if options.json:
        envelope.result({"events": events})
        return ExitCode.OK
    rows = [_cells(each) for each in events]
    for line in terminal.table(rows, _HEADER, "no events"):
        terminal.say(line)
    return ExitCode.OK


def _last(
    events: Iterable[dict[str, Any]], limit: int, begin: float
) -> list[dict[str, Any]]:
    """Return the last events since a time, oldest first. No more of them are held in memory."""
    after = wording.stamp(begin) or ""
    recent = (each for each in events if str(each["event_time"]) >= after)
    numbered = ((str(each["event_time"]), n, each) for n, each in enumerate(recent))
    return [each for _, _, each in sorted(heapq.nlargest(limit, numbered))]


def _follow(
    selection: _Wanted, seen: _Seen, events: list[dict[str, Any]], *, as_json: bool
) -> None:
    """Print events, and new ones as they happen. It ends when it is interrupted."""
    while True:
        for each in events:
            if as_json:
                envelope.event(each)
            else:
                _say(each)
        time.sleep(_PAUSE)
        events = (
            _last(seen.new(selection.events()), _MOST, 0.0)
            if selection.has_changed()
            else []
        )


def _cells(event: Mapping[str, Any]) -> tuple[str, ...]:
    when = datetime.fromisoformat(str(event["event_time"]).replace("Z", "+00:00"))
    return (
        terminal.moment(when.timestamp()),
        _name(event["subject"]),
        str(event["state"] or "-"),
        str(event["action"] or "-"),
        str(event["message"]).replace("\n", "; "),
    )


def _name(subject: Mapping[str, Any]) -> str:
    """Return the name that every command takes; a stack and a source may have that of a deployment."""
    if subject["kind"] == "resource":
        return f"{subject['stack']}/{subject['name']}"
    if subject["kind"] == "deployment":
        return str(subject["name"])
    return f"{subject['kind']} {subject['name']}"


def _say(event: Mapping[str, Any]) -> None:
    *cells, details = map(terminal.line, _cells(event))
    line = "  ".join(
        terminal.padded(cell, room) for cell, room in zip(cells, _WIDTHS, strict=True)
    )
    terminal.say(f"{line}  {details}".rstrip())


class _Seen:
    """The newest event seen of each thing; later events are new."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str], tuple[str, int]] = {}

    def new(self, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the events that were not there before. The events of a thing come in their order."""
        before = dict(self._last)
        for event in events:
            subject, when = event["subject"], str(event["event_time"])
            key = (
                str(subject["kind"]),
                str(subject["stack"] or ""),
                str(subject["id"] or subject["name"]),
            )
            last, number = self._last.get(key, ("", 0))
            self._last[key] = (when, number + 1 if when == last else 1)
            if self._last[key] > before.get(key, ("", 0)):
                yield event


class _Wanted:
    """The events of a machine, or those of the things that were named."""

    def __init__(self, settings: Settings, options: argparse.Namespace) -> None:
        """Find the things that were named. Raises NotFoundError."""
        self._settings = settings
        self._entries: set[tuple[Path, str]] | None = None
        self._stacks: set[tuple[str, str]] | None = None
        self._sources: set[str] | None = None
        self._changed: object = None
        if options.names:
            self._entries, self._stacks, self._sources = set(), set(), set()
        for name in options.names:
            thing = named.find_any(settings, name, options.config, newest=True)
            self._want(thing, options.config)

    def _want(self, thing: named.Named | named.NamedPlace, config: Path | None) -> None:
        entries, stacks, sources = self._entries, self._stacks, self._sources
        if entries is None or stacks is None or sources is None:
            return
        if isinstance(thing, named.Named):
            if thing.stack:
                stacks.add((thing.stack, thing.title.partition("/")[2]))
            entries.update((thing.settings.state, each.key) for each in thing.same)
        elif thing.kind == "source":
            sources.add(thing.name)
            entries.update(
                (each.settings.state, each.entry.key)
                for each in named.members(thing, config)
            )
        else:
            stacks.add((thing.stack or thing.name, thing.name if thing.stack else ""))
            sources.add(thing.name)

    def has_changed(self) -> bool:
        """Return whether anything may have happened since the last call."""
        from heat_config_agent.cli.deployments import wait  # noqa: PLC0415  # only with --follow

        changed = wait.fingerprint(self._settings.state)
        is_new, self._changed = changed != self._changed, changed
        return is_new

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield all events: of each thing, oldest first."""
        state = self._settings.state
        yield from self._of_journal(state, "")
        for name, place in followed.documents(state):
            yield from self._of_journal(place, name)
        for name in stack_package.names(state):
            if self._stacks is None or any(each == name for each, _ in self._stacks):
                yield from self._of_stack(name)
        for record in followed.records(state):
            if record.since and (self._sources is None or record.name in self._sources):
                yield _event(
                    record.since,
                    ("source", record.name, None),
                    Shown.OK,
                    message=f"revision {followed.short(record.revision)} is in force",
                )

    def _of_journal(self, state: Path, follows: str) -> Iterator[dict[str, Any]]:
        for entry in journal.read(state).values():
            if self._entries is None or (state, entry.key) in self._entries:
                title = f"{follows}/{entry.title}" if follows else entry.title
                # a deployment that is run again is accepted again
                yield from sorted(
                    _of_entry(entry, title, state), key=lambda each: each["event_time"]
                )

    def _of_stack(self, name: str) -> Iterator[dict[str, Any]]:
        paths = (
            {""}
            if self._stacks is None
            else {path for each, path in self._stacks if each == name}
        )
        for event in stack_package.events(self._settings, name):
            subject: Any = event["subject"]
            path = subject["name"] if subject["kind"] == "resource" else ""
            if "" in paths or path in paths:
                yield event


def _of_entry(entry: Entry, title: str, state: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a deployment: it was accepted, it was run, and its result was delivered."""
    subject = ("deployment", title, entry.id or entry.key)
    yield _event(entry.accepted, subject, Shown.WAITING, entry.action, "it is accepted")
    for each in earlier.listed(state / "runs" / entry.key):
        action = each.action or entry.action
        if each.started:
            yield _event(each.started, subject, Shown.RUNNING, action)
        if each.ended:
            word = Shown.FAILED if each.failed else Shown.OK
            yield _event(each.ended, subject, word, action, each.reason)
    if entry.started:
        yield _event(entry.started, subject, Shown.RUNNING, entry.action)
    shown = states.of_entry(entry)
    if entry.state in (State.RETRY, State.REBOOT, State.DAMAGED):
        yield _event(entry.at, subject, shown, entry.action, entry.reason)
    if entry.ended is None:
        return
    yield _event(entry.ended, subject, shown, entry.action, entry.reason)
    result = states.result_of(entry)
    if result in _DELIVERED:
        said = _DELIVERED[result]
        yield _event(entry.at, subject, shown, entry.action, said, result=result.value)


def _event(
    moment: float,
    subject: tuple[str, str, str | None],
    state: Shown,
    action: str = "",
    message: str = "",
    *,
    result: str | None = None,
) -> dict[str, Any]:
    """Return an event as JSON; `subject` is the kind, the name and the id of what it is about."""
    kind, name, identity = subject
    return {
        "event_time": wording.stamp(moment) or wording.stamp(0.0),
        "subject": {"kind": kind, "name": name, "id": identity, "stack": None},
        "state": state.value,
        "action": action or None,
        "message": message,
        "result": result,
    }

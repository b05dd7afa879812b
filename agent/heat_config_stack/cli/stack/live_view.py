"""The progress of work on a stack: a tree on a terminal, lines elsewhere, or one JSON object for each event."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from heat_config_agent.cli import terminal
from heat_config_agent.cli.canvas import Canvas
from heat_config_agent.deployments.plan import Step
from heat_config_agent.engine import events
from heat_config_agent.engine.events import Event, Report
from heat_config_agent.masking.redaction import OPEN
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass
from heat_config_stack.cli.stack import values
from heat_config_stack.records.records import COMPLETE, FAILED, IN_PROGRESS, LEFT_OUT

_WORKING, _RUNNING, _OK = "working", "running", "ok"

_STYLES = {_OK: "good", "FAILED": "bad", _RUNNING: "live", _WORKING: "live"}
"""Word of a row → its style; all other words are quiet."""

_ROOM = 24
"""Minimum width of the column of names."""

_READABLE = 12
"""Columns below which a reason is left out of its row: it stands below the rows in any case."""

_FIXED = 33
"""Width of all columns before the reason, without the name: word, action and time."""


@dataclass(frozen=True)
class Earlier:
    """The work of an interrupted command on a resource."""

    word: str
    action: str = ""
    seconds: float | None = None
    """The seconds that the work took, or has taken so far; None if they are not known."""

    @property
    def is_over(self) -> bool:
        """True if the resource is complete."""
        return self.word != _WORKING


class View:
    """Only warnings; the subclasses show the progress too."""

    interval = 60.0
    """Seconds between calls of `refresh`."""

    def expect(self, names: Collection[str], earlier: Mapping[str, Earlier]) -> None:
        """Show resources that have not begun, except those in `earlier`, which an interrupted command worked on."""

    def happened(self, event: Mapping[str, Any]) -> None:
        """Show an event: `{"time", "path", "action", "status", "reason"}`, in which secrets are masked.

        An event of a failed deployment has `why`, too: the reason in the words of its tool.
        """

    def left_unchanged(self, path: str) -> None:
        """Show that an update does not have to change a resource."""

    def queued(self, path: str, action: str) -> None:
        """Show that a deployment waits for its run."""

    def began(self, path: str, moment: float) -> None:
        """Show that the run of a deployment began, perhaps before this command, at a time in seconds since boot."""

    def ended(self, path: str, seconds: float | None, problem: str) -> None:
        """Show that the run of a deployment ended, perhaps before this command, with the time that it took.

        The time is None if nothing ran. `problem` is the reason why it failed.
        """

    def refresh(self) -> None:
        """Draw the progress again."""

    def finish(self, existing: Collection[str]) -> None:
        """Show the final state; `existing` are the resources that the stack has, and as its definition has them."""

    def clear(self) -> None:
        """Leave the last state on the screen, and draw no more."""

    def make_room(self) -> None:
        """Remove what is drawn until it is drawn again: other output follows."""

    def warn(self, text: str) -> None:
        """Show a warning."""
        self.make_room()
        terminal.say(
            terminal.styled(f"warning: {terminal.line(text)}", "warn"), error=True
        )


class Progress(Report):
    """Passes the beginning and the end of runs, and warnings, on to a view."""

    def __init__(self, view: View) -> None:
        """Pass events on to the view, once `path_of` is set."""
        self._view = view
        self.path_of: Callable[[str], str] = lambda _deployment: ""
        """Returns the path of the resource of a deployment, by its id."""

    def event(self, event: Event) -> None:
        match event:
            case events.Begun():
                if path := self._path(event.step):
                    self._view.began(path, event.run.began)
            case events.Ended() | events.Resent():
                if path := self._path(event.step):
                    entry = event.entry
                    seconds = (
                        None
                        if entry.started is None or entry.ended is None
                        else entry.ended - entry.started
                    )
                    self._view.ended(
                        path, seconds, entry.reason if entry.failed else ""
                    )
            case events.Message(is_warning=True):
                self._view.warn(event.text)

    def _path(self, step: Step) -> str:
        return self.path_of(step.deployment.source.rpartition("/")[2])


class Objects(View):
    """One JSON object for each event, in a line of its own."""

    def __init__(self, name: str) -> None:
        """Show events of the stack of that name."""
        self._name = name

    def happened(self, event: Mapping[str, Any]) -> None:
        """Print the event."""
        terminal.say(json.dumps(values.event(event, self._name, OPEN)))


@dataclass
class _Row:
    """The progress of one resource. Times are in seconds since boot."""

    action: str = ""
    word: str = "waiting"
    since: float | None = None
    """When the work or the run began; None while there is none."""
    ended: float | None = None
    reason: str = ""
    deployed: bool = False
    """True if a deployment belongs to it: then only the time of its run counts."""
    outcome: str = ""
    """The word for how the work on the resource ended, which may be before its run does; empty until then."""

    @classmethod
    def of(cls, earlier: Earlier | None) -> _Row:
        """Return the row of a resource on which an interrupted command may have worked."""
        if earlier is None:
            return cls()
        row = cls(action=earlier.action, word=earlier.word)
        if earlier.seconds is not None:
            now = processes.since_boot()
            row.since, row.ended = (
                now - earlier.seconds,
                now if earlier.is_over else None,
            )
        return row

    def happened(self, event: Mapping[str, Any]) -> None:
        """Take over the state of an event."""
        now = processes.since_boot()
        self.action, self.reason = event["action"], event["reason"]
        if event["status"] == IN_PROGRESS:
            self.word, self.since, self.ended, self.deployed, self.outcome = (
                _WORKING,
                now,
                None,
                False,
                "",
            )
            return
        self.reason = event.get("why") or self.reason
        self.word = self.outcome = {COMPLETE: _OK, FAILED: "FAILED"}.get(
            event["status"], event["status"]
        )
        if event["status"] == COMPLETE and event["reason"].startswith(LEFT_OUT):
            self.word = self.outcome = LEFT_OUT
            self.reason = self.reason.removeprefix(f"{LEFT_OUT}: ")
        if self.since is None and not self.deployed:
            # nothing came before it: it is a state that was set
            self.since = now
        self.ended = now

    def queued(self, action: str) -> None:
        """Wait for the run of a deployment."""
        self.action, self.word, self.since, self.ended, self.deployed = (
            action,
            "queued",
            None,
            None,
            True,
        )

    def began(self, moment: float) -> None:
        """Run since a moment."""
        self.word, self.since, self.ended, self.deployed = _RUNNING, moment, None, True

    def run_ended(self, seconds: float | None, problem: str) -> bool:
        """Take over the time of a run; return True if the resource did not wait for it, so that no event follows.

        A run that could not begin is of interest only if it has failed.
        """
        now = processes.since_boot()
        if self.since is None and seconds is not None:
            # it began and ended while no command was there
            self.since = now - max(seconds, 0.0)
        if not self.outcome or (
            self.word != _RUNNING and not (problem and self.outcome == _OK)
        ):
            return False
        self.word, self.ended = self.outcome, now
        self.reason = self.reason or (
            f"its run has failed: {problem}" if problem else ""
        )
        return True

    @property
    def took(self) -> str:
        """The time of the work so far, for people."""
        if self.since is None:
            return ""
        return terminal.duration(
            (processes.since_boot() if self.ended is None else self.ended) - self.since
        )


class _Rows(View):
    """A row for each resource."""

    def __init__(self) -> None:
        """Begin without resources."""
        self._rows: dict[str, _Row] = {}
        self._earlier: Mapping[str, Earlier] = {}

    def _row(self, path: str) -> _Row:
        if path not in self._rows:
            self._rows[path] = _Row.of(self._earlier.get(path))
        return self._rows[path]

    def queued(self, path: str, action: str) -> None:
        self._row(path).queued(action)

    def began(self, path: str, moment: float) -> None:
        self._row(path).began(moment)

    def ended(self, path: str, seconds: float | None, problem: str) -> None:
        self._row(path).run_ended(seconds, problem)


class Lines(_Rows):
    """A line for each run that begins, and for each resource that is done."""

    def __init__(self) -> None:
        """Begin without resources."""
        super().__init__()
        self._expected: list[str] = []

    def expect(self, names: Collection[str], earlier: Mapping[str, Earlier]) -> None:
        self._earlier = earlier
        self._expected = [name for name in names if name not in earlier]

    def happened(self, event: Mapping[str, Any]) -> None:
        path = event["path"]
        if not path:
            return
        row = _Row() if _is_of_replaced(event) else self._row(path)
        row.happened(event)
        if event["status"] != IN_PROGRESS:
            terminal.say(_line(path, row))

    def left_unchanged(self, path: str) -> None:
        if path in self._expected and path not in self._rows:
            self._rows[path] = row = _Row(word="unchanged")
            terminal.say(_line(path, row))

    def began(self, path: str, moment: float) -> None:
        super().began(path, moment)
        row = self._rows[path]
        took = "" if processes.since_boot() - moment < 1 else row.took
        terminal.say(_line(path, row, duration=took))

    def ended(self, path: str, seconds: float | None, problem: str) -> None:
        row = self._row(path)
        if row.run_ended(seconds, problem):
            terminal.say(_line(path, row))

    def finish(self, existing: Collection[str]) -> None:
        for name in self._expected:
            if name not in self._rows:
                terminal.say(_line(name, _Row(word=_left(name, existing))))


class Tree(_Rows):
    """All resources in their order, drawn again and again; if they do not fit, only those with news, and a count."""

    interval = 0.2

    def __init__(self) -> None:
        """Begin without resources."""
        super().__init__()
        self._canvas = Canvas()
        self._next = 0.0
        """When to draw again at the earliest, by `time.monotonic`."""

    def expect(self, names: Collection[str], earlier: Mapping[str, Earlier]) -> None:
        self._earlier = earlier
        for name in names:
            self._row(name)

    def happened(self, event: Mapping[str, Any]) -> None:
        if event["path"] and not _is_of_replaced(event):
            self._row(event["path"]).happened(event)

    def left_unchanged(self, path: str) -> None:
        row = self._rows.get(path)
        if row is not None and row.word == "waiting":
            row.word = "unchanged"

    def refresh(self) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.interval / 2
        lines = self._lines()
        room = terminal.height() - 2
        if len(lines) > room:
            news = [
                path
                for path in self._ordered()
                if self._rows[path].word in (_RUNNING, _WORKING, "FAILED")
            ]
            words = Counter(row.word for row in self._rows.values())
            count = f"{words['ok']} of {len(self._rows)} resources are ok"
            count += "".join(
                f", {words[word]} {word}"
                for word in ("unchanged", LEFT_OUT)
                if words[word]
            )
            lines = [*self._drawn_lines(news[: max(room - 1, 0)]), count]
        self._canvas.draw(lines)

    def finish(self, existing: Collection[str]) -> None:
        for name, row in self._rows.items():
            if row.word == "waiting":
                row.word = _left(name, existing)
        self.clear()

    def clear(self) -> None:
        self._canvas.leave(self._lines())
        self._rows.clear()

    def make_room(self) -> None:
        self._canvas.erase()
        self._next = 0.0

    def _lines(self) -> list[str]:
        return self._drawn_lines(self._ordered())

    def _ordered(self) -> list[str]:
        """Return the paths, with the members of a resource below it."""
        places = {path: place for place, path in enumerate(self._rows)}
        return sorted(
            self._rows,
            key=lambda path: [places.get(start, 0) for start in _beginnings(path)],
        )

    def _drawn_lines(self, paths: Sequence[str]) -> list[str]:
        """Return the lines of some resources, with one column for their names."""
        width = max(terminal.width() - 1, _FIXED + 8)
        longest = max((terminal.columns(_indented(path)) for path in paths), default=0)
        room = min(max(longest, _ROOM), width - _FIXED)
        return [_line(path, self._rows[path], width=width, room=room) for path in paths]


def _is_of_replaced(event: Mapping[str, Any]) -> bool:
    """True if an event is of a resource that another has replaced, and that now has the row; failures are shown."""
    return bool(event.get("replaced")) and event["status"] != FAILED


def _left(name: str, existing: Collection[str]) -> str:
    """Return the word for a resource without any event."""
    return "unchanged" if name in existing else "not begun"


def _beginnings(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(1, len(names) + 1)]


def _indented(path: str) -> str:
    """Return the name of a resource, indented as in a tree."""
    *parents, name = path.split("/")
    return terminal.line("  " * len(parents) + name)


def _line(
    path: str,
    row: _Row,
    *,
    duration: str | None = None,
    width: int = 0,
    room: int = _ROOM,
) -> str:
    """Return the line of a resource, with `room` for its name.

    With a `width`, the name is indented as in a tree, and the line has that width at most.
    """
    name = (
        terminal.squeezed(_indented(path), width - _FIXED)
        if width
        else terminal.line(path)
    )
    duration = row.took if duration is None else duration
    about = f"{terminal.padded(name, room)} {row.action:<8} {duration:>10}"
    left = width - 13 - terminal.columns(about)
    reason = terminal.line(row.reason)
    if width and left < _READABLE:
        reason = ""
    rest = f"{about}  {terminal.clipped(reason, left) if width else reason}".rstrip()
    return f"{terminal.styled(f'{row.word:<9}', _STYLES.get(row.word, 'quiet'))} {rest}"


def view_of(name: str, *, as_json: bool) -> View:
    """Return the view for standard output and the command line."""
    return Objects(name) if as_json else Tree() if terminal.is_live() else Lines()

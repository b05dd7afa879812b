"""The progress of work on a stack: a tree on a terminal, lines elsewhere, or one JSON object for each event."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from heat_config_agent.cli import envelope, terminal
from heat_config_agent.cli.canvas import Canvas
from heat_config_agent.deployments.plan import Step
from heat_config_agent.engine import events
from heat_config_agent.engine.events import Event, Report
from heat_config_agent.masking.redaction import OPEN
from heat_config_agent.model.states import Shown
from heat_config_hooks import processes
from heat_config_hooks.values import dataclass
from heat_config_stack.cli.stack import heat_events
from heat_config_stack.records.records import FAILED, IN_PROGRESS, LEFT_OUT

_WAITING, _RUNNING, _OK = str(Shown.WAITING), str(Shown.RUNNING), str(Shown.OK)

_UNCHANGED = "unchanged"
"""The reason of a resource that is ok, and that did not have to be changed."""

_HERE = "(this machine)"
"""The reason of a server of the cloud, which this machine stands in for."""

_WORD = max(map(len, Shown))
"""Width of the column of states."""

_ROOM, _MOST_ROOM = 9, 40
"""The least and the greatest width of the column of names outside a terminal."""

_STDERR_LINES = 5
"""Number of lines of standard error that are shown of a failed deployment."""

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
    reason: str = ""

    @property
    def is_over(self) -> bool:
        """True if the resource is complete."""
        return self.word != _RUNNING


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

    def finish(
        self, existing: Collection[str], needs: Mapping[str, Collection[str]]
    ) -> None:
        """Show the final state; `existing` are the resources that the stack has, and as its definition has them.

        `needs` are the names of the resources that a resource depends on, by its name.
        """

    def clear(self) -> None:
        """Leave the last state on the screen, and draw no more."""

    def make_room(self) -> None:
        """Erase the display so that other output can be printed; it is drawn again afterwards."""

    def warn(self, text: str) -> None:
        """Show a warning."""
        self.make_room()
        terminal.warn(text)


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
    """A line of JSON for each event."""

    def __init__(self, name: str) -> None:
        """Show events of the stack of that name."""
        self._name = name

    def happened(self, event: Mapping[str, Any]) -> None:
        """Print the event."""
        envelope.event(heat_events.event(event, self._name, OPEN))


@dataclass
class _Row:
    """The progress of one resource. Times are in seconds since boot."""

    action: str = ""
    word: str = _WAITING
    since: float | None = None
    """When the work or the run began; None while there is none."""
    ended: float | None = None
    reason: str = ""
    deployed: bool = False
    """True if a deployment belongs to it: then only the time of its run counts."""
    outcome: str = ""
    """The word for how the work on the resource ended, which may be before its run does; empty until then."""
    is_new: bool = True
    """True until there is an event of the resource, or of its deployment."""
    said: tuple[str, ...] = ()
    """The last lines that its failed run has printed."""

    @classmethod
    def of(cls, earlier: Earlier | None) -> _Row:
        """Return the row of a resource on which an interrupted command may have worked."""
        if earlier is None:
            return cls()
        row = cls(earlier.action, earlier.word, reason=earlier.reason, is_new=False)
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
        self.action, self.reason, self.is_new = event["action"], event["reason"], False
        if event["status"] == IN_PROGRESS:
            self.word, self.since, self.ended, self.deployed, self.outcome = (
                _RUNNING,
                now,
                None,
                False,
                "",
            )
            return
        self.reason = event.get("why") or self.reason
        self.word = self.outcome = str(heat_events.state_of(event))
        self.said = tuple(
            event.get("stderr", "").rstrip().splitlines()[-_STDERR_LINES:]
        )
        if not self.reason and (event.get("host") or event.get("stands_in")):
            self.reason = _host(event.get("host"))
        self.reason = self.reason.removeprefix(f"{LEFT_OUT}: ")
        if self.since is None and not self.deployed:
            # nothing came before it: it is a state that was set
            self.since = now
        self.ended = now

    def queued(self, action: str) -> None:
        """Wait for the run of a deployment."""
        self.action, self.word, self.since, self.ended, self.deployed = (
            action,
            _WAITING,
            None,
            None,
            True,
        )
        self.is_new = False

    def began(self, moment: float) -> None:
        """Run since a moment."""
        self.word, self.since, self.ended, self.deployed = _RUNNING, moment, None, True
        self.is_new = False

    def left_unchanged(self) -> None:
        """Stay as it is."""
        self.word, self.reason, self.is_new = _OK, _UNCHANGED, False

    def finish(
        self, name: str, existing: Collection[str], needs: Collection[str]
    ) -> None:
        """Report the end of a resource without any event."""
        if name in existing:
            self.left_unchanged()
        elif needs:
            self.reason = f"for {', '.join(sorted(needs))}"

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

    @property
    def fails(self) -> bool:
        """True if it has failed."""
        return self.word == str(Shown.FAILED)


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

    def _unmet(self, needed: Collection[str]) -> list[str]:
        """Return the dependencies of a resource that are not ok."""
        rows = {name: self._rows[name] for name in needed if name in self._rows}
        return [name for name, row in rows.items() if row.word != _OK]


class Lines(_Rows):
    """A line for each run that begins, and for each resource that is done."""

    def __init__(self) -> None:
        """Begin without resources."""
        super().__init__()
        self._expected: list[str] = []
        self._room = _ROOM

    def expect(self, names: Collection[str], earlier: Mapping[str, Earlier]) -> None:
        self._earlier = earlier
        self._expected = [name for name in names if name not in earlier]
        longest = max(
            (terminal.columns(terminal.line(each)) for each in names), default=0
        )
        self._room = min(max(longest, _ROOM), _MOST_ROOM)

    def _say(self, path: str, row: _Row, *, duration: str | None = None) -> None:
        for line in _lines(path, row, duration=duration, room=self._room):
            terminal.say(line)

    def happened(self, event: Mapping[str, Any]) -> None:
        path = event["path"]
        if not path:
            return
        row = _Row() if _is_of_replaced(event) else self._row(path)
        row.happened(event)
        if event["status"] != IN_PROGRESS:
            self._say(path, row)

    def left_unchanged(self, path: str) -> None:
        if path in self._expected and path not in self._rows:
            row = self._row(path)
            row.left_unchanged()
            self._say(path, row)

    def began(self, path: str, moment: float) -> None:
        super().began(path, moment)
        row = self._rows[path]
        took = "" if processes.since_boot() - moment < 1 else row.took
        self._say(path, row, duration=took)

    def ended(self, path: str, seconds: float | None, problem: str) -> None:
        row = self._row(path)
        if row.run_ended(seconds, problem):
            self._say(path, row)

    def finish(
        self, existing: Collection[str], needs: Mapping[str, Collection[str]]
    ) -> None:
        for name in self._expected:
            row = self._row(name)
            if row.is_new:
                row.finish(name, existing, self._unmet(needs.get(name, ())))
                self._say(name, row)


class Tree(_Rows):
    """All resources in their order, redrawn at each change; if they do not fit, the changed ones and a count."""

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
        if row is not None and row.is_new:
            row.left_unchanged()

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
                if self._rows[path].word == _RUNNING or self._rows[path].fails
            ]
            words = Counter(row.word for row in self._rows.values())
            count = f"{words[_OK]} of {len(self._rows)} resources are ok"
            if words[Shown.SKIPPED]:
                count += f", {words[Shown.SKIPPED]} skipped"
            lines = [*self._drawn_lines(news[: max(room - 1, 0)]), count]
        self._canvas.draw(lines)

    def finish(
        self, existing: Collection[str], needs: Mapping[str, Collection[str]]
    ) -> None:
        for name, row in self._rows.items():
            if row.is_new:
                row.finish(name, existing, self._unmet(needs.get(name, ())))
        self.clear()

    def clear(self) -> None:
        self._canvas.leave(self._drawn_lines(self._ordered(), is_last=True))
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

    def _drawn_lines(self, paths: Sequence[str], *, is_last: bool = False) -> list[str]:
        """Return the lines of some resources, with one column for their names; the last ones show output."""
        width = max(terminal.width() - 1, _FIXED + 8)
        longest = max((terminal.columns(_indented(path)) for path in paths), default=0)
        room = min(max(longest, _ROOM), width - _FIXED)
        return [
            line
            for path in paths
            for line in _lines(path, self._rows[path], width=width, room=room)[
                : None if is_last else 1
            ]
        ]


def _host(values: Mapping[str, Any] | None) -> str:
    """Return the host of a resource for people: of its JSON, or this machine without it."""
    if values is None:
        return _HERE
    from heat_config_stack.hosts.host import Host  # noqa: PLC0415  # few stacks have hosts

    return f"({Host.from_json(values).title})"


def _is_of_replaced(event: Mapping[str, Any]) -> bool:
    """True if an event is of a resource that another has replaced, and that now has the row; failures are shown."""
    return bool(event.get("replaced")) and event["status"] != FAILED


def _beginnings(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(1, len(names) + 1)]


def _indented(path: str) -> str:
    """Return the name of a resource, indented as in a tree."""
    *parents, name = path.split("/")
    return terminal.line("  " * len(parents) + name)


def _lines(
    path: str,
    row: _Row,
    *,
    duration: str | None = None,
    width: int = 0,
    room: int = _ROOM,
) -> list[str]:
    """Return the line of a resource, with `room` for its name, and the last lines that its failed run has printed.

    With a `width`, the name is indented as in a tree, and the lines have that width at most.
    """
    name = (
        terminal.squeezed(_indented(path), width - _FIXED)
        if width
        else terminal.line(path)
    )
    duration = row.took if duration is None else duration
    about = terminal.padded(name, room)
    if row.action or duration:  # else the reason has their place
        about += f"  {row.action:<8} {duration:>10}"
    left = width - _WORD - 4 - terminal.columns(about)
    reason = terminal.line(row.reason)
    if width and left < min(_READABLE, terminal.columns(reason)):
        reason = ""
    rest = f"{about}  {terminal.clipped(reason, left) if width else reason}".rstrip()
    said = [f"{' ' * (_WORD + 2)}| {terminal.line(each)}" for each in row.said]
    return [
        f"{terminal.stated(row.word)}{' ' * (_WORD + 2 - len(row.word))}{rest}",
        *(terminal.clipped(line, width) if width else line for line in said),
    ]


def view_of(name: str, *, as_json: bool) -> View:
    """Return the view for standard output and the command line."""
    return Objects(name) if as_json else Tree() if terminal.is_live() else Lines()

"""What is shown of a stack while it is worked on: a tree on a terminal, lines elsewhere, an object for each event."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from heat_config_agent.cli import terminal
from heat_config_agent.cli.stack import values
from heat_config_agent.report import Report
from heat_config_agent.stack.records import COMPLETE, FAILED, IN_PROGRESS

_WORDS = {COMPLETE: ("ok", "good"), FAILED: ("FAILED", "bad"), IN_PROGRESS: ("running", "live")}
_WAITING = ("waiting", "quiet")
_ROOM = 24
"""Columns of a resource's name at least."""


class Shown:
    """Nothing but warnings; those below show more. Each is told of all that happens."""

    interval = 60.0
    """Seconds after which `refresh` is worth calling."""

    def __init__(self) -> None:
        """Hide nothing yet."""
        self.conceal: Callable[[Any], Any] = lambda value: value
        """What hides secrets in whatever is shown."""

    def happened(self, event: Mapping[str, Any]) -> None:
        """Show an event: `{"time", "path", "action", "status", "reason"}`."""

    def refresh(self) -> None:
        """Show how long it takes by now."""

    def clear(self) -> None:
        """Take away what is not to stay."""

    def warn(self, text: str) -> None:
        """Show a warning."""
        self.clear()
        terminal.say(terminal.styled(f"warning: {terminal.line(text)}", "warn"), error=True)


class Told(Report):
    """What the machine tells, of which only warnings are for those who look at a stack."""

    def __init__(self, shown: Shown) -> None:
        """Tell them."""
        self._shown = shown

    def warn(self, text: str) -> None:
        self._shown.warn(text)


class Objects(Shown):
    """An object for each event, in a line of its own."""

    def __init__(self, name: str) -> None:
        """Show what becomes of the stack of that name."""
        super().__init__()
        self._name = name

    def happened(self, event: Mapping[str, Any]) -> None:
        """Print it."""
        terminal.say(json.dumps(values.event(event, self._name, self.conceal)))


class Lines(Shown):
    """A line for each step that has ended."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self._since: dict[str, float] = {}

    def happened(self, event: Mapping[str, Any]) -> None:
        """Print a line, if it is the end of something."""
        path = event["path"]
        if event["status"] == IN_PROGRESS:
            self._since[path] = event["time"]
        elif path:
            took = event["time"] - self._since.pop(path, event["time"])
            terminal.say(_line(path, event["status"], event["action"], took, self.conceal(event["reason"])))


class Tree(Shown):
    """All resources in their places, drawn again and again; more than fit, in one line that counts them."""

    interval = 0.2

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self._rows: dict[str, dict[str, Any]] = {}
        self._drawn = 0
        self._next = 0.0
        """When it is drawn again, at the earliest (as `time.monotonic` has it)."""

    def expect(self, names: list[str]) -> None:
        """Show resources that nothing has become of yet."""
        for name in names:
            self._rows.setdefault(name, {})

    def happened(self, event: Mapping[str, Any]) -> None:
        """Take note of it."""
        if not event["path"]:
            return
        before = self._rows.get(event["path"]) or {}
        running = event["status"] == IN_PROGRESS
        since = event["time"] if running or not before else before["since"]
        self._rows[event["path"]] = {**event, "since": since, "reason": self.conceal(event["reason"])}

    def refresh(self) -> None:
        """Draw all of it, unless that has just been done."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self.interval / 2
        self._wipe()
        lines = self._lines()
        room = terminal.height() - 2
        if len(lines) > room:
            busy = [path for path in self._ordered() if self._rows[path].get("status") in (IN_PROGRESS, FAILED)]
            ended = sum(each.get("status") == COMPLETE for each in self._rows.values())
            lines = [self._row(path) for path in busy[: room - 1]] + [f"{ended} of {len(self._rows)} resources are ok"]
        for each in lines:
            terminal.say(each)
        self._drawn = len(lines)

    def clear(self) -> None:
        """Draw all of it for the last time, however long it is."""
        self._wipe()
        for each in self._lines():
            terminal.say(each)
        self._rows.clear()

    def _wipe(self) -> None:
        if self._drawn:
            terminal.say(f"\x1b[{self._drawn}A\x1b[J", end="")
            self._drawn = 0

    def _lines(self) -> list[str]:
        return [self._row(path) for path in self._ordered()]

    def _ordered(self) -> list[str]:
        """Return the paths, members of a resource below it."""
        places = {path: place for place, path in enumerate(self._rows)}
        return sorted(self._rows, key=lambda path: [places.get(each, 0) for each in _beginnings(path)])

    def _row(self, path: str) -> str:
        row = self._rows[path]
        if not row:
            return _line(path, "", "", None, "", tree=True)
        end = time.time() if row["status"] == IN_PROGRESS else row["time"]
        return _line(path, row["status"], row["action"], end - row["since"], row["reason"], tree=True)


def _beginnings(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[:end]) for end in range(1, len(names) + 1)]


def _line(path: str, status: str, action: str, took: float | None, reason: str, *, tree: bool = False) -> str:
    """Return a line about a resource; in a tree it is indented, and no wider than the terminal."""
    word, style = _WORDS.get(status, _WAITING)
    *parents, name = path.split("/")
    shown = "  " * len(parents) + name if tree else path
    time_ = "" if took is None else terminal.duration(took)
    rest = f"{terminal.padded(terminal.line(shown), _ROOM)} {action:<8} {time_:>10}  {terminal.line(reason)}".rstrip()
    if tree:
        rest = terminal.shortened(rest, max(terminal.width() - 11, 20))
    return f"{terminal.styled(f'{word:<8}', style)}  {rest}"


def shown(name: str, *, as_json: bool) -> Shown:
    """Return what is right for where it is shown."""
    return Objects(name) if as_json else Tree() if terminal.is_live() else Lines()

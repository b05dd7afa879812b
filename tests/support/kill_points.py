"""The moments at which tests kill the agent, and how: it is done from outside, by what only tests load into it.

The agent is started with `environment(...)`. That has Python load `injected/sitecustomize.py` before all else, which
takes its variables out of the environment again, so that no run has them, and puts a watch on the functions by which a
process changes anything outside itself: files, processes, sockets. A kill between two of these calls cannot be told
from a kill right before the second one, so a moment is a call: one that is about to be made, or that has been made.
A moment at which the agent has only made up its mind is the call that follows it; comments in `POINTS` say where.
`POINTS` names them by what is in the calls: the names of files, and what is written. It knows nothing of the agent's
modules.

`KILL_POINT="POINT N FILE"` arms a point: when it is passed for the N-th time in a process, and FILE is there, FILE is
removed and the process ends as by `kill -9`. FILE makes it happen once, whatever is restarted with the same
environment. Several such lines arm several points, each with a file of its own: a process dies at whichever of them it
passes first, and the process that is started in its place at another one.
The point `?` writes all points that are passed into FILE, a line each: the process, and the point.

A point may also be a call as such: `NAME@PATH` is the moment before the function of that name (`CHANGES`) is called for
something whose path begins with PATH. The point `??` writes all these calls into FILE: the process, name and path.

This module is loaded into the agent before the agent itself. So it imports little: a module that is imported before the
watch is on keeps the functions as they were.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

VARIABLE = "KILL_POINT"

CHANGES = {
    **{
        name: name
        for name in (
            "write",
            "fsync",
            "fdatasync",
            "rename",
            "ftruncate",
            "truncate",
            "mkdir",
            "unlink",
            "fchmod",
        )
    },
    "create": "openat",
    "pwrite": "pwrite64",
}
"""The calls that change what is on disk → the system call that each is; `create` opens a file that need not exist."""

INJECTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "injected")  # noqa: PTH100, PTH118, PTH120
"""The folder with what Python loads by itself."""


def environment(
    point: str, passing: int, file: object, folder: str = INJECTED
) -> dict[str, Any]:
    """Return the variables with which a command of ours dies at a point; `folder` is where `INJECTED` is for it."""
    return environment_of([(point, passing, file)], folder)


def environment_of(
    arms: Iterable[tuple[str, int, object]], folder: str = INJECTED
) -> dict[str, Any]:
    """Return the variables with which commands of ours die at each of several points, once."""
    return {
        "PYTHONPATH": folder,
        VARIABLE: "\n".join(
            f"{point} {passing} {file}" for point, passing, file in arms
        ),
    }


class Call:
    """A call of a function that is watched."""

    def __init__(
        self, name: str, path: str = "", content: bytes = b"", *, failed: bool = False
    ) -> None:
        self.name = name
        self.path = path
        """The file that it is about: of an open one, the name by which it was opened; of a rename, the new name."""
        self.content = content
        self.thread = threading.current_thread().name
        self.failed = failed


class Match:
    """A pattern for calls."""

    def __init__(
        self,
        names: str,
        path: str = "",
        content: str = "",
        *,
        thread: str = "",
        record: Callable[..., bool] | None = None,
    ) -> None:
        """Match calls of these functions: by expressions for path, content and thread, or a record of the journal."""
        self.names = names.split("|")
        self._path = re.compile(path)
        self._content = re.compile(content.encode(), re.DOTALL)
        self._thread = re.compile(thread)
        self._record = record

    def fits(self, call: Call) -> bool:
        """Return whether a call matches."""
        return (
            call.name in self.names
            and self._path.search(call.path) is not None
            and self._thread.match(call.thread) is not None
            and self._content.match(call.content) is not None
            and (self._record is None or self._record(_fields(call.content)))
        )


class Point:
    """A moment: `before` or `after` a call.

    `since` are calls that have to have been made, one after the other, since the point was passed last; `unless` is one
    that must not have been made at all.
    """

    def __init__(
        self,
        moment: str,
        match: Match,
        *,
        since: Sequence[Match] = (),
        unless: Match | None = None,
    ) -> None:
        self._moment = moment
        self._match = match
        self._since = since
        self._unless = unless
        self._made = 0
        """The number of calls in `since` that were made."""
        self._over = False

    def passes(self, moment: str, call: Call) -> bool:
        """Take note of a call, and return whether it passes the point."""
        if call.failed or self._over:
            return False
        passed = (
            self._made == len(self._since)
            and moment == self._moment
            and self._match.fits(call)
        )
        if passed:
            self._made = 0
        if moment == "after":
            if self._made < len(self._since) and self._since[self._made].fits(call):
                self._made += 1
            self._over = self._unless is not None and self._unless.fits(call)
        return passed


def _fields(content: bytes) -> Mapping[str, Any]:
    """Return the first record of what is written to the journal: what changes of an entry."""
    try:
        found = json.loads(content.partition(b"\n")[0].partition(b" ")[2])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _before(
    names: str, path: str = "", content: str = "", *, thread: str = "", **more: Any
) -> Callable[[], Point]:
    return lambda: Point("before", Match(names, path, content, thread=thread), **more)


def _after(
    names: str, path: str = "", content: str = "", *, thread: str = "", **more: Any
) -> Callable[[], Point]:
    return lambda: Point("after", Match(names, path, content, thread=thread), **more)


_SETTLED = ("signalled", "unasked", "refused", "superseded")

RECORDS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "accepted": lambda each: "accepted" in each,
    "running": lambda each: each.get("state") == "running",
    "not_started": lambda each: (
        each.get("state") == "accepted" and not {"accepted", "reruns"} & each.keys()
    ),
    "interrupted": lambda each: "reruns" in each and "accepted" not in each,
    "reboot": lambda each: each.get("state") == "reboot",
    "retry": lambda each: each.get("state") == "retry",
    "finished": lambda each: "ended" in each and "accepted" not in each,
    "settled": lambda each: each.get("state") in _SETTLED,
    "tried": lambda each: "tries" in each and "state" not in each,
    "moved": lambda each: "source" in each and "state" not in each,
    "again": lambda each: "again" in each and "state" not in each,
    "send_again": lambda each: each.get("state") == "finished" and "ended" not in each,
    "drop": lambda each: "state" in each and each["state"] is None,
    "marked": lambda each: "marked" in each and "state" not in each,
    "left": lambda each: "left_at" in each and "state" not in each,
}
"""The records of the journal → the changes of an entry by which each is recognised."""


def _recorded(moment: str, record: str) -> Callable[[], Point]:
    return lambda: Point(moment, Match("write", _JOURNAL, record=RECORDS[record]))


_JOURNAL = "/journal$"
_STREAM = r"/runs/[^/]+/(stdout|stderr|supervisor)$"
_STATUS = r"/runs/[^/]+/status\.[^/]+$"
_PIPE = r"^pipe:"
_ACCEPTED = Match("write", _JOURNAL, record=RECORDS["accepted"])
_TERM = Match("kill", content="SIGTERM$")
_PAUSED = "/paused$"

POINTS: dict[str, Callable[[], Point]] = {
    # The journal.
    **{
        f"journal.{name}.{moment}": _recorded(moment, name)
        for name in RECORDS
        for moment in ("before", "after")
    },
    "journal.flush.before": _before("fdatasync", _JOURNAL),
    "journal.flush.after": _after("fdatasync", _JOURNAL),
    "journal.anew.before": _before("create", r"/journal\.new$"),
    "journal.anew.written": _after("fsync", r"/journal\.new$"),
    "journal.anew.after": _after("rename", _JOURNAL),
    "journal.torn": _after("ftruncate", _JOURNAL),
    # The copy is closed by then: what follows is that the journal is written anew.
    "journal.aside": _before(
        "create", r"/journal\.new$", since=[Match("create", r"/journal\.damaged-\d+$")]
    ),
    # Runs.
    "runner.folder": _after("write", _STATUS),
    "runner.prepared": _before("posix_spawn"),
    "runner.spawned": _after("posix_spawn"),
    "runner.announced": _before("write", _PIPE, r"\n$"),
    "runner.word": _after("write", _PIPE, r"\n$"),
    "runner.adopted": _after("pidfd_open", content="another's$"),
    "runner.ending": _after("fdatasync", _STATUS),
    "runner.term": _after("kill", content="SIGTERM$"),
    "runner.kill": _after("kill", content="SIGKILL$", since=[_TERM]),
    # How it ended is read next.
    "runner.closed": _before("open", _STATUS, since=[Match("close", "pidfd")]),
    "runner.concluded": _after(
        "open", r"/runs/[^/]+/stderr$", since=[Match("close", "pidfd")]
    ),
    "runner.tidied": _after(
        "unlink", r"/runs/[^/]+/(?!status\.|stdout$|stderr$|supervisor$)[^/]+$"
    ),
    "runner.remains": _after("kill", content="SIGKILL$", unless=_TERM),
    # The older agent's files.
    "deployed.taken_over": _after("fsync", since=[Match("rename", "/deployed$")]),
    "deployed.deployment": _after("rename", r"/deployed/[^/]+(?<!\.notify)\.json$"),
    "deployed.result": _after("rename", r"/deployed/[^/]+\.notify\.json$"),
    # Signals. The loop has read by the last one that something has become of them.
    "signals.before": _before("send", content="(POST|PUT) ", thread="signals"),
    "signals.after": _after(
        "recv",
        content=".",
        thread="signals",
        since=[Match("send", content="POST |PUT ")],
    ),
    "signals.judged": _after(
        "read", _PIPE, r"\.", since=[Match("write", _PIPE, r"\.", thread="signals")]
    ),
    # Sources. A source has its document when its thread tells the loop so.
    "source.claimed": _before("write", _PIPE, r"\.", thread="source"),
    "source.let_go.before": _before("send", content="DELETE ", thread="source"),
    "source.let_go.after": _after(
        "recv", content=".", thread="source", since=[Match("send", content="DELETE ")]
    ),
    "documents.dropped": _after("unlink", r"/documents/[^/]+\.json$"),
    # The loop. What it has in mind shows in the next thing that it looks at or writes.
    "loop.arrived": _after(
        "read", _PIPE, r"\.", since=[Match("write", _PIPE, r"\.", thread="source")]
    ),
    "loop.kept": _after("fsync", "/documents$"),
    "loop.let_go": _before("stat", _PAUSED, since=[Match("fsync", "/documents$")]),
    "loop.asked": _before("listdir", "/deployed$"),
    "loop.offered": _before("stat", _PAUSED, since=[_ACCEPTED]),
    "loop.told": _after("rename", r"/health\.json$"),
    "loop.settled": _after(
        "fdatasync",
        _JOURNAL,
        since=[Match("write", _JOURNAL, record=RECORDS["marked"])],
    ),
    "loop.reload": _after(
        "open", r"/agent\.conf$", since=[Match("rename", r"/health\.json$")]
    ),
    "loop.reboot.before": _before("fork_exec", content=".*/reboot$"),
    "loop.reboot.after": _after("fork_exec", content=".*/reboot$"),
    "loop.learned": _after("fsync", since=[Match("rename", r"/learned\.json$")]),
    "loop.ending": _after("set_wakeup_fd", content="-1$"),
    "loop.ended": _before(
        "close", "/lock$", since=[Match("set_wakeup_fd", content="-1$")]
    ),
    # What is kept no longer.
    "retention.masked": _before(
        "listdir", r"/runs/[^/]+$", since=[Match("pwrite", _STREAM)]
    ),
    "retention.hidden": _after(
        "rename",
        r"/deployed/[^/]+\.notify\.json$",
        since=[Match("write", r"/deployed/\.[^/]+\.notify\.json\.new$", r"\{\n")],
    ),
    "retention.emptied": _after("rmdir", r"/runs/[^/]+$"),
    "retention.removed": _after("unlink", r"/deployed/[^/]+\.notify\.json$"),
    "retention.remembered": _before(
        "listdir",
        "/deployed$",
        since=[Match("unlink", r"/journal\.new$"), Match("listdir", "/deployed$")],
    ),
    # What people ask for.
    "asked.left": _after("rename", r"/asked/[^/]+$"),
    "asked.removed": _after(
        "rmdir", r"/runs/[^/]+$", since=[Match("unlink", r"/deployed/[^/]+$")]
    ),
    "asked.granted": _before("unlink", r"/asked/[^/]+$"),
    "asked.done": _after("unlink", r"/asked/[^/]+$"),
    # Whose the state is.
    "instance.known": _after("rename", r"/instance\.json$"),
    "instance.leaving": _after(
        "rename",
        r"/instance\.json$",
        since=[Match("write", r"/\.instance\.json\.new$", ".*leaving")],
    ),
    "instance.moved": _after("rename", r"/of-[^/]+/[^/]+$"),
    "instance.left": _after(
        "rename", r"/instance\.json$", since=[Match("rename", r"/of-[^/]+/[^/]+$")]
    ),
}
"""Each transition of the journal, of runs, of signals and of the loop."""


class Arm:
    """A trap at a point: the passings until the kill, and the file that makes it happen once."""

    def __init__(self, words: str) -> None:
        """Read «POINT N FILE». Raises ValueError."""
        parts = words.split(maxsplit=2)
        number = (
            int(parts[1])
            if len(parts) == 3 and parts[1].isascii() and parts[1].isdecimal()
            else -1
        )
        self.name = parts[0] if parts else ""
        self.call, _, self.place = self.name.partition("@")
        self.lists = self.name in {"?", "??"}
        known = (
            self.lists or self.name in POINTS or (self.call in CHANGES and self.place)
        )
        if number < 0 or not known or (number == 0 and not self.lists):
            raise ValueError(
                f"{VARIABLE} is {words!r}: expected «POINT N FILE»; the points: {', '.join(POINTS)}"
            )
        self.left, self.file = number, parts[2]

    def point(self) -> Point:
        """Return the point itself."""
        if self.name in POINTS:
            return POINTS[self.name]()
        return Point("before", Match(self.call, f"^{re.escape(self.place)}"))


class Watch:
    """Waits until points are passed."""

    def __init__(self, value: str) -> None:
        """Arm what the variable says. Raises ValueError."""
        arms = [Arm(each) for each in value.splitlines()]
        self._arms = {
            each.name: [other for other in arms if other.name == each.name]
            for each in arms
            if not each.lists
        }
        lists = next((each for each in arms if each.lists), None)
        self._points = {name: same[0].point() for name, same in self._arms.items()}
        if lists and lists.name == "?":
            self._points |= {name: make() for name, make in POINTS.items()}
        self._notes = lists.file if lists else ""
        self._notes_calls = lists is not None and lists.name == "??"
        self._lock = threading.RLock()
        self._spawned: set[int] = set()
        self._open, self._write, self._close = os.open, os.write, os.close
        self._unlink, self._kill = os.unlink, os.kill

    def called(self, moment: str, call: Call) -> None:
        """Take note of a call, and die here if that is what is waited for."""
        with self._lock:
            if self._notes_calls and moment == "before" and call.name in CHANGES:
                self._note(f"{call.name} {call.path}")
            passed = [
                name
                for name, point in self._points.items()
                if point.passes(moment, call)
            ]
            for name in passed:
                for arm in self._arms.get(name, ()):
                    self._die(arm)
                if self._notes:
                    self._note(name)

    def _note(self, name: str) -> None:
        descriptor = self._open(
            self._notes, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        self._write(descriptor, f"{os.getpid()} {name}\n".encode())
        self._close(descriptor)

    def _die(self, arm: Arm) -> None:
        arm.left -= 1
        if arm.left == 0 and os.path.lexists(arm.file):
            self._unlink(arm.file)
            self._kill(os.getpid(), signal.SIGKILL)

    # The functions that are watched.

    def install(self) -> None:
        """Put a watch on all that changes something outside the process."""
        import _posixsubprocess  # noqa: PLC0415
        import socket  # noqa: PLC0415

        named = (
            "unlink",
            "rmdir",
            "listdir",
            "stat",
            "truncate",
            "mkdir",
            "ftruncate",
            "fchmod",
        )
        for name in named:
            self._put(os, name, name, lambda arguments: (_path(arguments[0]), b""))
        self._put(os, "remove", "unlink", lambda arguments: (_path(arguments[0]), b""))
        for name in ("rename", "replace"):
            self._put(os, name, "rename", lambda arguments: (_path(arguments[1]), b""))
        self._put(
            os,
            "open",
            "open",
            lambda arguments: (_path(arguments[0]), b""),
            creates="create",
        )
        for name in ("close", "fsync", "fdatasync"):
            self._put(os, name, name, lambda arguments: (_path(arguments[0]), b""))
        for name in ("write", "pwrite"):
            self._put(
                os,
                name,
                name,
                lambda arguments: (_path(arguments[0]), bytes(arguments[1])),
            )
        self._put(
            os,
            "read",
            "read",
            lambda arguments: (_path(arguments[0]), b""),
            returned=bytes,
        )
        self._put(
            os,
            "kill",
            "kill",
            lambda arguments: ("", signal.Signals(arguments[1]).name.encode()),
        )
        self._put(
            os,
            "posix_spawn",
            "posix_spawn",
            lambda arguments: (str(arguments[0]), b""),
            returned=self._is_ours,
        )
        self._put(
            os,
            "pidfd_open",
            "pidfd_open",
            lambda arguments: (
                "",
                b"ours" if arguments[0] in self._spawned else b"another's",
            ),
        )
        self._put(
            _posixsubprocess,
            "fork_exec",
            "fork_exec",
            lambda arguments: ("", b" ".join(map(os.fsencode, arguments[0]))),
        )
        self._put(
            signal,
            "set_wakeup_fd",
            "set_wakeup_fd",
            lambda arguments: ("", str(arguments[0]).encode()),
        )
        for name in ("send", "sendall"):
            self._put_method(
                socket.socket, name, "send", lambda arguments: bytes(arguments[1])
            )
        for name in ("recv", "recv_into"):
            self._put_method(
                socket.socket,
                name,
                "recv",
                lambda _: b"",
                returned=lambda found: b"." * bool(found),
            )

    def _is_ours(self, process: int) -> bytes:
        self._spawned.add(process)
        return b""

    def _put(
        self,
        module: Any,
        function: str,
        name: str,
        says: Callable[[Sequence[Any]], tuple[str, bytes]],
        returned: Callable[[Any], bytes] | None = None,
        *,
        creates: str = "",
    ) -> None:
        original = getattr(module, function)
        watched = _Watched(self, original, name, says, returned, creates=creates)
        for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
            if original in known:
                known.add(watched)
        setattr(module, function, watched)

    def _put_method(
        self,
        kind: Any,
        function: str,
        name: str,
        says: Callable[[Sequence[Any]], bytes],
        returned: Callable[[Any], bytes] | None = None,
    ) -> None:
        watched = _Watched(
            self,
            getattr(kind, function),
            name,
            lambda given: ("", says(given)),
            returned,
        )

        def method(*given: Any, **named: Any) -> Any:
            return watched(*given, **named)

        setattr(kind, function, method)


class _Watched:
    """A function that is watched. The object is not a function: in a class, it is called as it is given."""

    def __init__(
        self,
        watch: Watch,
        original: Callable[..., Any],
        name: str,
        says: Callable[[Sequence[Any]], tuple[str, bytes]],
        returned: Callable[[Any], bytes] | None,
        *,
        creates: str = "",
    ) -> None:
        self._watch = watch
        self._creates = creates
        """Its name when it is called to make a file."""
        self._original = original
        self._name = name
        self._says = says
        self._returned = returned

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        try:
            path, content = self._says(arguments)
        except (LookupError, TypeError, ValueError):
            # it is called in a way in which nothing of ours is
            return self._original(*arguments, **named)
        name = (
            self._creates if self._creates and arguments[1] & os.O_CREAT else self._name
        )
        self._watch.called("before", Call(name, path, content))
        try:
            result = self._original(*arguments, **named)
        except OSError as error:
            # that is what was wanted
            gone = name == "unlink" and isinstance(error, FileNotFoundError)
            self._watch.called("after", Call(name, path, content, failed=not gone))
            raise
        said = content if self._returned is None else content + self._returned(result)
        self._watch.called("after", Call(name, path, said))
        return result


_READ_LINK = os.readlink


def _path(argument: object) -> str:
    """Return the path that a function was given, or that of the open file that it was given."""
    if isinstance(argument, int):
        try:
            return _READ_LINK(f"/proc/self/fd/{argument}")
        except OSError:
            return ""
    return os.fsdecode(argument)  # type: ignore[arg-type]  # anything but a path raises TypeError, which is handled


def begin() -> None:
    """Watch this process if its environment says so, and let nothing that it starts know of that."""
    value = os.environ.pop(VARIABLE, "")
    folders = [
        each for each in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if each
    ]
    injected = [each for each in folders if os.path.exists(f"{each}/sitecustomize.py")]  # noqa: PTH110
    sys.path[:] = [each for each in sys.path if each not in injected]
    left = [each for each in folders if each not in injected]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    if value:
        try:
            Watch(value).install()
        except ValueError as error:  # nobody is to go on who is not watched
            print(f"error: {error}", file=sys.stderr, flush=True)
            os._exit(2)

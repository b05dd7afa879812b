"""Removing what is kept no longer (`retention`), a little at a time, so that it holds nothing up.

It may be killed at any moment: each step is done again by the next look, or has nothing left to do. What the journal
says of a deployment changes only after its files have gone; `deployed/ID.json`, whose absence would mean «run it
again», goes only when the journal attaches no meaning to it any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from heat_config_agent import asked, clean_up, journal, kill_points, plan, redaction, retention, runner, streams
from heat_config_agent.deployed import Deployed
from heat_config_agent.errors import StateError
from heat_config_agent.model import UNDELIVERED, Entry, Removed
from heat_config_agent.report import Report
from heat_config_agent.retention import Limits, Removal, Weight, What
from heat_config_agent.steady import Steady
from heat_config_hooks import files
from heat_config_hooks.values import replace

HOUR = 3600.0
"""Seconds between two looks at everything."""

SLICE = 0.05
"""Seconds at a time for it, where other work may be waiting."""

LAST_SLICE = 5.0
"""Seconds for it where all other work is done."""

SCARCE = 64 * 1024
"""Bytes that are free, at most, on a disk that is full: as good as nothing."""

SCARCE_FILES = 16

AGAIN = 600.0
"""Seconds between two looks at what could be removed from a disk that is full."""

_MUCH = 1024 * 1024
"""Bytes of output that are worth remembering that they have come."""

_LEFTOVER = re.compile(r"of-.+|.+\.(damaged|corrupt)-\d+")
"""What is set aside in the state directory, and in `documents`."""

_TEMPORARY = re.compile(r"\..+\.new")


class Pruning:
    """What is removed from one state directory, whose lock the caller holds."""

    def __init__(self, book: journal.Journal, deployed: Deployed, state: Path, limits: Limits, report: Report) -> None:
        """Get ready; nothing is looked at yet."""
        self._book = book
        self._deployed = deployed
        self._report = report
        self._steps: Iterator[None] | None = None
        self._full_at: float | None = None
        self._shown: tuple[object, float] = None, 0.0
        """By what journal and limits there were no secrets to be removed, and until when there are none."""
        self._said: set[str] = set()
        self.removed: list[Removal] = []
        """What has been, since it was last considered."""
        self._state = state
        self.limits = limits

    @property
    def busy(self) -> bool:
        """Whether there is something to remove, or to look for, now."""
        return self._steps is not None

    @property
    def idle_for(self) -> float:
        """Seconds for which nothing falls due to be removed; less than 0 where something has."""
        steady = self._book.steady
        return min(self._next_hideable(), -math.inf if steady.pruned is None else steady.pruned + HOUR) - steady.now()

    def offered(self, sources: Collection[str]) -> None:
        """Note which sources have been asked: of the others it is not known what they have."""
        now = self._book.steady.now()
        self._book.steady.asked.update(dict.fromkeys(sources, now))

    def has_grown(self, size: int) -> None:
        """Note how much a run has left."""
        self._book.steady.grown += size

    def consider(self, *, now: bool = False) -> None:
        """Begin to look for what is to be removed, if it is time for that; or in any case."""
        steady = self._book.steady
        if self._steps is not None:
            return
        full = self._is_full()
        everything = (
            now
            or steady.pruned is None
            or steady.now() - steady.pruned >= HOUR
            or steady.grown > self.limits.size // 2
            or full
        )
        self.removed = []
        if everything:
            self._steps = self._all(full=full)
        elif hideable := self._hideable():
            self._steps = self._carry_out(hideable, _Traces())
        elif steady.grown > _MUCH:
            self._save()

    def work(self, seconds: float) -> None:
        """Go on for so long."""
        deadline = time.monotonic() + seconds
        while self._steps is not None:
            try:
                next(self._steps)
            except StopIteration:
                self._steps = None
                return
            except (OSError, StateError, MemoryError) as error:
                why = _reason(error) if isinstance(error, OSError) else str(error) or "there is no memory left for it"
                self._warn(f"cannot remove what is kept no longer: {why}")
                self._steps = None
                return
            if time.monotonic() >= deadline:
                return

    def _is_full(self) -> bool:
        """Whether the disk is full, and that is not known for long: what helps against it is seldom done twice."""
        if not is_full(self._state):
            self._full_at = None
            return False
        now = time.monotonic()
        if self._full_at is not None and now - self._full_at < AGAIN:
            return False
        self._full_at = now
        return True

    def _hideable(self) -> list[Removal]:
        """Return whose secrets are kept no longer: that needs no look at the disk."""
        now, known = self._book.steady.now(), (self._book.records, self.limits)
        if self._shown[0] == known and now < self._shown[1]:
            return []
        found = [
            Removal(what=What.SECRETS, entry=each, reason="")
            for each in self._book.entries.values()
            if retention.secrets_due(each, self.limits, now)
        ]
        if not found:
            self._shown = known, self._next_hideable()
        return found

    def _next_hideable(self) -> float:
        """Return when the first secrets are kept no longer, as long as nothing else happens."""
        moments = [
            each.settled_at + self.limits.secrets
            for each in self._book.entries.values()
            if retention.secrets_due(each, self.limits, math.inf)
        ]
        return min(moments, default=math.inf)

    # One look at everything.

    def _all(self, *, full: bool) -> Iterator[None]:
        steady = self._book.steady
        yield from self._temporaries()
        self._let_go()
        traces = _Traces()
        weights: dict[str, Weight] = {}
        for entry in list(self._book.entries.values()):
            self._bound(entry)
            weights[entry.key] = weigh(self._state, self._deployed, entry, traces)
            yield
        found = retention.due(self._book.entries, weights, self.limits, steady.now(), full=full)
        yield from self._carry_out(found, traces)
        yield from self._orphans()
        yield from self._leftovers()
        for each in found:
            if each.what in (What.OUTPUT, What.DEPLOYMENT):
                weights.pop(each.entry.key, None)  # it may have come after they were weighed
        steady.bytes = sum(each.output + each.other for each in weights.values())
        steady.files = sum(each.output_files + each.other_files for each in weights.values())
        steady.pruned, steady.grown = steady.now(), 0
        self._save()

    def _bound(self, entry: Entry) -> None:
        """Bound what a run has printed, or what it has left running goes on to print."""
        for name in runner.STREAMS:
            with contextlib.suppress(OSError):  # it was said while it ran
                streams.bound(f"{self._state}/runs/{entry.key}/{name}", self.limits.output)

    def _let_go(self) -> None:
        """Take as gone what only a source could have that has not been asked for as long as anything is kept."""
        steady, entries = self._book.steady, self._book.entries.values()
        sources = {each.source for each in entries if each.left_at is None}
        steady.asked = {name: steady.asked.get(name, steady.now()) for name in sources}
        silent = {name for name, moment in steady.asked.items() if steady.now() - moment >= self.limits.age}
        gone = [each.key for each in entries if each.source in silent and each.left_at is None and each.settled]
        with contextlib.suppress(StateError):  # a full disk: at the next look
            self._book.left(gone, ())

    def _carry_out(self, found: Iterable[Removal], traces: _Traces) -> Iterator[None]:
        """Remove things, and then have the journal say so."""
        done: list[Removal] = []
        less: dict[str, Entry | None] = {}
        for each in found:
            if not _is_same(each.entry, self._book.entries.get(each.entry.key)):
                continue
            try:
                if each.what is What.SECRETS:
                    self._hide(each.entry, traces)
                elif each.what is not What.ID:
                    self._empty(each.entry, traces)
            except OSError as error:
                self._warn(f"cannot remove all that is kept no longer of {each.entry.name}: {_reason(error)}")
                continue
            done.append(each)
            yield
        for each in done:
            entry = self._book.entries.get(each.entry.key)
            if entry is not None and _is_same(each.entry, entry) and each.what is not What.OUTPUT:
                less[entry.key] = _less(entry, each.what)
        if less and not self._book.reduce(less):
            return  # the journal has a warning; what has gone has gone, and it is said at the next look
        self.removed += done
        if done:
            self._report.note(f"kept no longer, and removed: {_summary(done)}")
        kill_points.reached("retention.remembered")
        yield from self._unmark()

    def _hide(self, entry: Entry, traces: _Traces) -> None:
        """Remove what is secret of a deployment, or may be, from all its files."""
        folder = self._state / "runs" / entry.key
        document = entry.document or self._deployed.document(entry.key)
        secrets = redaction.secrets(plan.deployment_of(entry, document)) if document else None
        for name in runner.STREAMS:
            _mask(folder / name, secrets)
        kill_points.reached("retention.masked")
        runner.tidy(folder)
        for path in traces.of(entry):
            files.remove(path)
        if entry.run is not None:  # else what is there is not of us
            self._deployed.mask(entry.key)
        kill_points.reached("retention.hidden")

    def _empty(self, entry: Entry, traces: _Traces) -> None:
        """Remove what the tool of a deployment has printed and written."""
        for path in (self._state / "runs" / entry.key, *traces.of(entry)):
            files.remove(path)
        kill_points.reached("retention.emptied")

    def _unmark(self) -> Iterator[None]:
        """Remove the files in `deployed/` of which the journal needs none any more."""
        present = self._deployed.keys() or frozenset()
        for key in [key for key in present if self._knows_only_that_it_ran(key)]:
            with contextlib.suppress(OSError):
                self._deployed.forget(key)
            kill_points.reached("retention.removed")
            yield

    def _knows_only_that_it_ran(self, key: str) -> bool:
        entry = self._book.entries.get(key)
        return entry is not None and entry.removed is Removed.ALL and entry.left_at is not None

    # What is nobody's.

    def _temporaries(self) -> Iterator[None]:
        """Remove what writers that were killed have left half written."""
        with contextlib.suppress(OSError):
            (self._state / f"{journal.FILE}.new").unlink()
        folders = (self._state, self._state / "documents", self._state / "asked", self._deployed.directory)
        for folder in folders:
            for path in _listed(folder):
                if _TEMPORARY.fullmatch(path.name):
                    _remove_if_dead(path)
                    yield

    def _orphans(self) -> Iterator[None]:
        """Remove the folders of runs that nobody knows of, after their time."""
        runs = self._state / "runs"
        yield from self._after_their_time(
            "runs", [each for each in _listed(runs) if each.name not in self._book.entries]
        )

    def _leftovers(self) -> Iterator[None]:
        """Remove what was set aside, after its time."""
        found = [each for each in _listed(self._state) if _LEFTOVER.fullmatch(each.name)]
        yield from self._after_their_time("aside", found)
        documents = self._state / "documents"
        yield from self._after_their_time(
            "documents", [each for each in _listed(documents) if _LEFTOVER.fullmatch(each.name)]
        )

    def _after_their_time(self, kind: str, paths: list[Path]) -> Iterator[None]:
        steady = self._book.steady
        names = {f"{kind}/{path.name}": path for path in paths}
        for name in [each for each in steady.found if each.partition("/")[0] == kind and each not in names]:
            del steady.found[name]
        for name, path in names.items():
            if steady.now() - steady.found.setdefault(name, steady.now()) < self.limits.age:
                continue
            try:
                files.remove(path)
            except OSError as error:
                self._warn(f"cannot remove {path}, which is kept no longer: {_reason(error)}")
                continue
            steady.found.pop(name, None)
            self._report.note(f"{path} was removed: it had been there for {retention.days(self.limits.age)}")
            yield

    def _save(self) -> None:
        with contextlib.suppress(OSError):  # a full disk: it is looked at again sooner than need be
            self._book.steady.save()

    def _warn(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._report.warn(text)


def _summary(done: Iterable[Removal]) -> str:
    """Say what was removed."""
    numbers = Counter(each.what for each in done)
    says = {
        What.SECRETS: "inputs and configs of",
        What.OUTPUT: "output of",
        What.DEPLOYMENT: "all but that they ran of",
        What.ID: "that they ran, of",
    }
    return ", ".join(f"{says[what]} {number} deployment{'s' * (number > 1)}" for what, number in numbers.items())


def is_full(state: Path) -> bool:
    """Whether the disk is full, on which the state is."""
    try:
        found = os.statvfs(state)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < SCARCE or (found.f_files > 0 and found.f_favail < SCARCE_FILES)


def planned(state: Path, deployed: Deployed, given: Limits) -> tuple[list[Removal], int, int]:
    """Return what would be removed now, and how many bytes and files there are. Nothing is changed."""
    entries = journal.read(state)
    steady = Steady(state)
    steady.at_least(max((each.settled_at for each in entries.values()), default=0.0))
    traces = _Traces()
    weights = {key: weigh(state, deployed, entry, traces) for key, entry in entries.items()}
    every = weights.values()
    found = retention.due(entries, weights, given, steady.now(), full=is_full(state))
    return (
        found,
        sum(each.output + each.other for each in every),
        sum(each.output_files + each.other_files for each in every),
    )


def weigh(state: Path, deployed: Deployed, entry: Entry, traces: _Traces) -> Weight:
    """Return what is on disk of a deployment."""
    output = [_taken(f"{state}/runs/{entry.key}"), *map(_taken, traces.of(entry))]
    other = [_taken(f"{deployed.directory}/{entry.key}{end}") for end in (".json", ".notify.json")]
    held = len(json.dumps(entry.values)) + len(json.dumps(entry.document)) if entry.values or entry.document else 0
    return Weight(
        output=sum(size for size, _ in output),
        output_files=sum(number for _, number in output),
        other=sum(size for size, _ in other) + held,
        other_files=sum(number for _, number in other),
    )


class _Traces:
    """What runs have left in the folders of their hooks. Each folder is read once."""

    def __init__(self) -> None:
        self._folders: dict[Path, dict[str, list[str]]] = {}

    def of(self, entry: Entry) -> list[Path]:
        """Return what a run has left, also what a writer that was killed has left half written."""
        folders, patterns = asked.traces(entry)
        found = []
        for folder in folders:
            names = self._names(folder)
            for pattern in patterns:
                for name in names.get(_stem(pattern), ()):
                    plain = name[1:].removesuffix(".new") if _TEMPORARY.fullmatch(name) else name
                    if _fits(plain, pattern):
                        found.append(folder / name)
        return list(dict.fromkeys(found))

    def _names(self, folder: Path) -> Mapping[str, list[str]]:
        if folder not in self._folders:
            names: dict[str, list[str]] = {}
            for path in _listed(folder):
                names.setdefault(_stem(path.name), []).append(path.name)
            self._folders[folder] = names
        return self._folders[folder]


def _fits(name: str, pattern: str) -> bool:
    """Whether a name is of a pattern, which has one `*` at most: to compile one for each deployment takes long."""
    begin, star, end = pattern.partition("*")
    return name == pattern or bool(star and name.startswith(begin) and name[len(begin) :].endswith(end))


def _stem(name: str) -> str:
    return name.removeprefix(".").partition(".")[0]


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _taken(path: str | Path) -> tuple[int, int]:
    """Return how many bytes something takes on disk, with all that is in it, and how many files it is."""
    try:
        found = os.lstat(path)
        size, number = found.st_blocks * 512, 1
        if stat.S_ISDIR(found.st_mode):
            for name in os.listdir(path):
                more, others = _taken(os.path.join(path, name))  # noqa: PTH118  # there are many
                size, number = size + more, number + others
    except OSError:
        return 0, 0
    return size, number


def _mask(path: Path, secrets: list[bytes] | None) -> None:
    """Take the secrets out of what was printed; where they are not known, or that cannot be done, all of it."""
    try:
        if secrets is not None:
            streams.mask(path, secrets)
            return
    except FileNotFoundError:
        return
    except OSError:  # there is no room to write even there, or it is no file
        pass
    files.remove(path)


def _less(entry: Entry, what: What) -> Entry | None:
    """Return what is still to be known of a deployment."""
    if what is What.ID:
        return None
    if what is What.SECRETS:
        values = entry.values if entry.state in UNDELIVERED else None
        return replace(entry, document={}, values=values, removed=Removed.SECRETS)
    return replace(
        entry,
        document={},
        values=None,
        reason=entry.reason[:200],
        trouble=entry.trouble[:200],
        run=entry.run if clean_up.key_of(entry) else None,  # what it made was cleaned up: if it is back, it runs again
        marked="",
        removed=Removed.ALL,
    )


def _is_same(planned: Entry, now: Entry | None) -> bool:
    """Whether a deployment is still as it was when it was decided what to remove of it."""
    return now is not None and all(
        getattr(planned, name) == getattr(now, name)
        for name in ("state", "accepted", "at", "settled_at", "left_at", "again")
    )


def _remove_if_dead(path: Path) -> None:
    """Remove a temporary file that nobody is writing (see `files.replace`, which locks it)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                path.unlink()
        finally:
            os.close(descriptor)


def _reason(error: OSError) -> str:
    return f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"

"""The records of a stack on disk: a file of lines, each with the new state of one record.

`flush` writes all changes to disk. The file is rewritten when it has grown. A kill can leave the last line incomplete;
that line is ignored, and its change is repeated. The file has mode 0600, because it has secrets.

A line has a checksum and the whole of a record, so only the last line for each record counts: damage to an earlier one
costs nothing. The file is created together with its first lines, so it is never empty. If a line is damaged, a copy of
the file is set aside, with a warning. If no later line replaces the damaged one, it is uncertain what was done with the
stack: it can only be deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heat_config_agent.model.errors import LockedError, StateError
from heat_config_agent.model.positions import Json
from heat_config_agent.state import record_file
from heat_config_agent.state.record_file import RecordFile
from heat_config_hooks import files
from heat_config_stack.records.kept_files import KeptFiles
from heat_config_stack.records.records import (
    IN_PROGRESS,
    ConfigRecord,
    DeploymentRecord,
    ProcedureRecord,
    Record,
    ResourceRecord,
    SnapshotRecord,
    StackRecord,
    from_json,
    to_json,
)

# `json.dumps` would make one for each line
_ENCODER = json.JSONEncoder(separators=(",", ":"))

_ABOUT = re.compile(rb'\["([a-z]{1,20})","([^"\\]{0,100})",')
"""The beginning of a line's text: the kind of its record, and the key."""


class Line(NamedTuple):
    """A record as written: `values` is None if the record was deleted."""

    kind: str
    key: str
    values: Json


class Damage(NamedTuple):
    """A line that cannot be read: the kind and key of its record are empty if they are not certain."""

    kind: str
    key: str


def line_of(kind: str, key: str, values: Json) -> bytes:
    """Return the line of a record."""
    return record_file.line_of(_ENCODER.encode([kind, key, values]).encode())


def read_lines(content: bytes, only: str = "") -> Iterator[Line | Damage | None]:
    """Yield one item for each whole line: a record, the damage, or None.

    Where a record has several lines, only its last line is parsed: it is yielded at the place of the first line, and
    None at the places of the others. With `only`, None is yielded for records of other kinds as well.
    The first version wrote lines without checksums: where a file begins with such lines, they are read as they are.
    """
    lines = content[: record_file.whole(content)].split(b"\n")[:-1]
    texts = record_file.texts_of(lines)
    if None in texts:
        yield from _with_damage(lines, texts)
        return
    abouts = [_ABOUT.match(text or b"") for text in texts]
    names = [about.groups() if about is not None else (b"", b"") for about in abouts]
    last = dict(zip(names, texts, strict=True))
    for name, text in zip(names, texts, strict=True):
        if only and name[1] and name[0] != only.encode():
            yield None
        elif not name[1]:
            yield _line(text or b"") or damage_of(text or b"")
        else:
            latest = last.pop(name, None)
            yield None if latest is None else _line(latest) or damage_of(latest)


def _with_damage(
    lines: Sequence[bytes], texts: Sequence[bytes | None]
) -> Iterator[Line | Damage]:
    unchecked = True
    for line, text in zip(lines, texts, strict=True):
        unchecked = unchecked and text is None and line.startswith(b'["')
        record = _line(line if unchecked else text or b"")
        yield record or damage_of(line)


def _line(text: bytes) -> Line | None:
    try:
        kind, key, values = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return (
        Line(kind, key, values)
        if isinstance(kind, str) and isinstance(key, str)
        else None
    )


def damage_of(line: bytes) -> Damage:
    """Return the record that a damaged line was about. Nothing is certain if it may have been more than one line."""
    found = _ABOUT.findall(line)
    start = _ABOUT.search(line[:150])
    if (
        len(found) != 1
        or start is None
        or start.start() not in (0, 9)
        or not _is_plain(line)
    ):
        return Damage("", "")
    return Damage(found[0][0].decode(), found[0][1].decode())


def _is_plain(line: bytes) -> bool:
    """Return whether a line has only characters that we write: a lost block leaves others in it."""
    return all(32 <= each < 127 for each in line)


FILE = "stack"
LOCK = "stack.lock"
EVENT = "event"
DAMAGED = "damaged"
"""The kind of a line that says why the stack can only be deleted."""
MADE = "file"
"""The kind of the first line, which identifies the file, see `Store._remember`."""
EVENTS = 1000
"""The number of events that are kept."""
_SLACK = 2000
"""The number of obsolete lines that causes a rewrite of the file."""
_JOURNAL = "journal"
"""The journal next to it, with the deployments that were run."""


class Memory:
    """Records in memory only."""

    def __init__(self) -> None:
        self.stacks: dict[str, StackRecord] = {}
        self.resources: dict[str, ResourceRecord] = {}
        self.configs: dict[str, ConfigRecord] = {}
        self.deployments: dict[str, DeploymentRecord] = {}
        self.snapshots: dict[str, SnapshotRecord] = {}
        self.procedures: dict[str, ProcedureRecord] = {}
        self.events: list[Json] = []
        self.owed = False
        """True if there are results that the last flush has not made safe."""
        self.files: KeptFiles | None = None
        """The files that configs name by digest; None if all are within them."""
        self.planned_hosts: Mapping[str, Json] | None = None
        """The hosts of servers in a definition that is only previewed; None for the hosts of the stack."""
        self._of: dict[str, dict[str, Any]] = {
            StackRecord.KIND: self.stacks,
            ResourceRecord.KIND: self.resources,
            ConfigRecord.KIND: self.configs,
            DeploymentRecord.KIND: self.deployments,
            SnapshotRecord.KIND: self.snapshots,
            ProcedureRecord.KIND: self.procedures,
        }
        self._of_stack: dict[tuple[str, str], dict[str, Record]] = {}
        """Records by kind and stack."""

    @property
    def root(self) -> StackRecord | None:
        """Return the root stack, if there is one."""
        return next((each for each in self.stacks.values() if not each.owner), None)

    def changing(self) -> set[str]:
        """Return the ids of the stacks with an action in progress."""
        return {each.id for each in self.stacks.values() if each.status == IN_PROGRESS}

    def put(self, record: Record) -> None:
        """Store the current state of a record."""
        self._know(record)
        self._append(record.KIND, record.id, self._json(record))

    def _json(self, record: Record) -> Json:
        values = to_json(record)
        return (
            self.files.outside(values)
            if self.files is not None and isinstance(record, ResourceRecord)
            else values
        )

    def drop(self, record: Record) -> None:
        """Delete a record."""
        if self._forget(record.KIND, record.id):
            self._append(record.KIND, record.id, None)

    def resources_of(self, stack: str) -> list[ResourceRecord]:
        """Return the resources of a stack."""
        return [
            self.resources[each]
            for each in self._of_stack.get((ResourceRecord.KIND, stack), ())
        ]

    def rest_of(self, stack: str) -> list[Record]:
        """Return the configs and deployments of a stack."""
        kinds = (ConfigRecord.KIND, DeploymentRecord.KIND)
        return [
            each
            for kind in kinds
            for each in self._of_stack.get((kind, stack), {}).values()
        ]

    def event(self, event: Json) -> None:
        """Keep an event; only the last ones stay."""
        self.events.append(event)
        self._append(EVENT, "", event)

    @property
    def safe(self) -> bool:
        """True if all changes would survive a power cut."""
        return True

    def flush(self, *, durable: bool = False) -> None:
        """Write all changes, so that they survive the process; if `durable`, also a power cut. Raises StateError."""

    def _know(self, record: Record) -> None:
        self._of[record.KIND][record.id] = record
        if not isinstance(record, StackRecord):
            self._of_stack.setdefault((record.KIND, record.stack), {})[record.id] = (
                record
            )

    def _forget(self, kind: str, key: str) -> bool:
        """Drop a record from memory; return whether there was one."""
        record: Record | None = self._of[kind].pop(key, None)
        if record is not None and not isinstance(record, StackRecord):
            self._of_stack[kind, record.stack].pop(key, None)
        return record is not None

    def _append(self, kind: str, key: str, values: Json) -> None:
        """Write a line."""


class Store(Memory):
    """The records of one stack and its children, in a folder."""

    def __init__(
        self,
        folder: Path,
        *,
        write: bool = True,
        warn: Callable[[str], None] = lambda _text: None,
        only: str = "",
    ) -> None:
        """Read the records, if there are any; lock the folder to write to it. Raises AgentError.

        `warn` receives sentences about damage, and about changes of the file by other programs. With `only`, records of
        that kind are read and no others.
        """
        super().__init__()
        self.folder = folder
        self.path = folder / FILE
        self.files = KeptFiles(folder, write=write)
        self.damage = ""
        """The reason why the state of the stack is uncertain; empty if it is certain."""
        self.blank = False
        """True if the file has no content: nothing had been done when it was created."""
        self._warn, self._only = warn, only
        self._pending: list[bytes] = []
        self._lines = 0
        self._file: RecordFile | None = None
        """The file, if the stack is opened for writing."""
        self._made = ""
        """The identity of the file; each rewritten file has a new one."""
        self._lock: int | None = None
        try:
            if write:
                files.make_directory(folder, durable=True)
                self._lock = _locked(folder / LOCK)
                what = f"{self.path}, the record of the stack,"
                self._file = RecordFile(
                    self.path, what, renew=self._write_anew, warn=warn
                )
            self._load(self._content())
        except OSError as error:
            self._let_go()
            raise StateError(
                f"cannot read the stack in {folder}: {_words(error)}"
            ) from error
        except BaseException:
            self._let_go()
            raise

    # Writing.

    @property
    def safe(self) -> bool:
        """True if all changes would survive a power cut."""
        return not self._pending and (
            self._file is None or not self._file.opened or self._file.safe
        )

    def flush(self, *, durable: bool = False) -> None:
        """Write all changes, so that they survive the process; if `durable`, also a power cut. Raises StateError."""
        if self._file is None:
            return
        try:
            if self._pending or (durable and self._file.opened):
                self._write(self._file)
            if durable and self._file.opened and not self._file.safe:
                self._file.flush()
                self._remember(self._file)
            self.owed = self.owed and not durable
        except OSError as error:
            raise StateError(
                f"cannot write {self.path}: {error.strerror}",
                hint="its content is intact; fix that, and run the command again to continue",
            ) from error

    def close(self) -> None:
        """Write everything to disk, and release the lock."""
        if self._lock is None:
            return
        try:
            self.flush(durable=True)
            if self.files is not None:
                with contextlib.suppress(OSError):  # then they stay until the next time
                    self.files.sweep(self.resources.values(), self.configs.values())
            if self._lines > _SLACK + 2 * sum(map(len, self._of.values())) + EVENTS:
                with contextlib.suppress(OSError):  # then it stays long
                    self._write_anew()
        finally:
            self._let_go()

    def remove(self) -> None:
        """Delete the records: the stack no longer exists."""
        files.remove(self.path)
        self._pending, self._lines = [], 0
        if self._file is not None:
            self._file.close()

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            os.close(self._lock)
        self._file = self._lock = None

    def _append(self, kind: str, key: str, values: Json) -> None:
        self._pending.append(line_of(kind, key, values))
        self._lines += 1

    def _write(self, file: RecordFile) -> None:
        """Append pending lines to the file under its name."""
        if not file.opened:
            self._write_anew(durable=False)
            return
        file.find()
        if self._pending:  # unless the file had to be written again
            file.append(b"".join(self._pending))
            self._pending = []

    def _remember(self, file: RecordFile) -> None:
        """Note in the lock's file how much of the file is safe, so that a later loss is noticed."""
        if self._lock is not None and self._made:
            with contextlib.suppress(OSError):  # then less is known to be safe
                os.pwrite(self._lock, f"{self._made} {file.size:020d}\n".encode(), 0)

    def _remembered(self) -> int:
        """Return the number of bytes of the file that were safe."""
        try:
            made, _, size = (
                files.read(self.folder / LOCK)[:200]
                .decode("ascii", "replace")
                .partition(" ")
            )
            return int(size) if made == self._made else 0
        except (OSError, ValueError):
            return 0

    def _write_anew(self, *, durable: bool = True) -> None:
        """Write a new file next to the old one, and replace it."""
        self._made = os.urandom(8).hex()
        records: list[tuple[str, str, Json]] = [(MADE, "", self._made)]
        records += [
            (kind, key, self._json(record))
            for kind, all_ in self._of.items()
            for key, record in all_.items()
        ]
        records += [(EVENT, "", record) for record in self.events[-EVENTS:]]
        records += [(DAMAGED, "", self.damage)] if self.damage else []
        if self._file is not None:
            self._file.rewrite(
                b"".join(line_of(*record) for record in records), durable=durable
            )
            if self._file.safe:
                self._remember(self._file)
        self._pending, self._lines = [], len(records)

    # Reading.

    def _content(self) -> bytes | None:
        """Return the content of the file; None if there is none, or if it is not a regular file."""
        try:
            kind = self.path.lstat().st_mode
            if stat.S_ISREG(kind):
                return files.read(self.path)
        except FileNotFoundError:
            return None
        self.damage = f"the state of the stack {self.folder.name} is unknown ({self.path} is not a regular file)"
        return None

    def _load(self, content: bytes | None) -> None:
        if content is None:
            return
        size = record_file.whole(content)
        if not size:
            self._load_nothing(content)
            return
        hurt = 0
        unsure: set[Damage] = set()
        for line in read_lines(content, self._only):
            self._lines += 1
            if line is None:
                continue
            result = line if isinstance(line, Damage) else self._take(line)
            if isinstance(result, Damage):
                hurt += 1
                unsure.update({result} if result.kind != EVENT else ())
            elif isinstance(line, Line):
                unsure.discard(Damage(line.kind, line.key))
        if self.files is not None:
            self.files.restore(self.stacks.values(), self.resources.values())
        gone = self._remembered() > size
        if hurt or gone:
            self._set_aside(
                content, hurt, unsure=bool(unsure) or gone or self.root is None
            )
        elif self._file is not None and len(content) > size:
            self._file.cut(size)
        if self._file is not None and not self._file.opened:
            self._file.open(named=False)

    def _load_nothing(self, content: bytes) -> None:
        """Accept a file without a whole line: nothing was done with the stack, unless its journal says otherwise."""
        if _size(self.folder / _JOURNAL):
            self._set_aside(content, 0, unsure=True)
        else:
            self.blank = True
            self._warn(
                f"{self.path} is empty: the stack {self.folder.name} was interrupted before anything was done, "
                "and counts as not existing"
            )

    def _take(self, line: Line) -> Damage | None:
        """Apply a line; return the damage if it cannot be understood."""
        kind, key, values = line
        try:
            if kind == EVENT:
                self.events.append(_event(values))
                self.events = (
                    self.events[-EVENTS:]
                    if len(self.events) > 2 * EVENTS
                    else self.events
                )
            elif kind == DAMAGED:
                self.damage = str(values)
            elif kind == MADE:
                self._made = str(values)
            elif values is None:
                self._forget(kind, key)
            else:
                self._know(from_json(kind, values))
        except (ValueError, KeyError, TypeError, AttributeError):
            return Damage(kind, key)
        return None

    def _set_aside(self, content: bytes, hurt: int, *, unsure: bool) -> None:
        """Warn about damage, keep a copy of the file, and rewrite it without the damaged lines."""
        cut = (
            f"{self.path} was cut short"
            if record_file.whole(content)
            else f"{self.path} has no whole line"
        )
        damage = (
            f"{hurt} damaged line{'s' if hurt > 1 else ''} of {self.path}"
            if hurt
            else cut
        )
        aside = self._file.set_aside(content) if self._file else None
        copy = f"a copy is {aside}" if aside else ""
        if unsure:
            cause = f"{damage}{'; ' if copy else ''}{copy}"
            self.damage = (
                self.damage
                or f"the state of the stack {self.folder.name} is unknown ({cause})"
            )
        self._warn(f"{damage}{' skipped' if hurt else ''}{'; ' if copy else ''}{copy}")
        if aside:
            self._write_anew()


def _event(values: Json) -> Json:
    """Return an event. Raises TypeError if it is not one."""
    texts = ("path", "action", "status", "reason")
    if not isinstance(values, dict) or not all(
        isinstance(values.get(each), str) for each in texts
    ):
        raise TypeError("not an event")
    if not isinstance(values.get("time"), int | float):
        raise TypeError("no time")
    return values


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _words(error: OSError) -> str:
    return (
        f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    )


def _locked(path: Path) -> int:
    descriptor = os.open(
        path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise LockedError(
            f"another program works on the stack in {path.parent}",
            hint="wait for it to end",
        ) from None
    return descriptor

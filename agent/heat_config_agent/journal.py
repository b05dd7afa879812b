"""What was accepted, started, finished and signalled: the agent's only state, and what every promise rests on.

The journal is one file of records, one JSON object a line behind its checksum, each appended whole. A deployment's
entry is the sum of its records. One process writes (it holds the lock, see `lock`); any may read at any time.

    accepted ─► running ─► finished ─► signalled | unasked | refused | superseded
                 │   ▲
                 └► reboot

- `accepted` holds the deployment as it came, so that it can be carried out whatever becomes of its source.
- `running` is on disk before the command starts (it waits for our word, see `runner`): an entry that is only accepted
  has surely not been run, one that is running perhaps has.
- `finished` holds the result and is on disk before the result is sent.
- what follows needs no disk flush: a result that is sent again does no harm, Heat drops what it does not wait for.

After a power cut the last line may be torn: it was never relied on, and is cut off. A line that is damaged in the
middle is passed over, the file set aside, and that is said.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from heat_config_agent import kill_points, metadata
from heat_config_agent.errors import StateError
from heat_config_agent.model import Deployment, Entry, Removed, Result, Run, State
from heat_config_agent.steady import Steady
from heat_config_hooks import files, processes
from heat_config_hooks.values import MISSING, fields, replace

FILE = "journal"
COMPACT_BYTES = 256 * 1024
"""A journal smaller than this is never rewritten."""


class Journal:
    """The journal of one state directory, open for writing."""

    def __init__(self, directory: Path) -> None:
        """Open the journal, repairing what a power cut left. The caller holds the lock. Raises StateError."""
        self.path = directory / FILE
        self._name = str(self.path)
        self.entries: dict[str, Entry] = {}
        self.changes = 0
        """How often a deployment has come into another state."""
        self.records = 0
        """How often anything was written."""
        self.warnings: list[str] = []
        self._file = -1
        self._owed = False
        """Whether there is a record in the file that has to be on disk, and is not known to be."""
        self._unflushed = False
        """Whether a flush has failed: what is on disk of the records before it is not known any more."""
        try:
            self._directory = directory.stat()
            content = _content(self.path)
            self._load(content)
            self.steady = Steady(directory)
            self.steady.at_least(max((each.settled_at for each in self.entries.values()), default=0.0))
            self._latest = max((each.accepted for each in self.entries.values()), default=0.0)
            if self._file < 0:
                self._open()
            if not content:
                files.sync_directory(directory)
        except OSError as error:
            raise StateError(f"cannot open the journal {self.path}: {error.strerror}") from error

    def _open(self) -> None:
        """Open the file as it is."""
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._size = os.fstat(self._file).st_size

    def close(self) -> None:
        """Close the file. Everything recorded is in it."""
        os.close(self._file)

    # What happens to a deployment, in the order in which it happens.

    def accepted(self, deployment: Deployment, *, tool: str) -> None:
        """The deployment is now the agent's to carry out. A run that it had before stays known: it made something."""
        now = time.time()
        self._latest = max(now, self._latest + 1e-6)
        earlier = self.entries.get(deployment.key)
        entry = Entry(
            key=deployment.key,
            id=deployment.id,
            name=deployment.name,
            action=deployment.action,
            tool=tool,
            source=deployment.source,
            addressee=deployment.target.addressee,
            document=deployment.document,
            state=State.ACCEPTED,
            at=now,
            accepted=self._latest,  # the order counts, whatever the clock does
            owner=deployment.owner,
            run=earlier.run if earlier else None,
        )
        self._write("accepted", entry)

    def running(self, key: str, run: Run) -> None:
        """The command exists and waits for our word. On disk when this returns."""
        now = time.time()
        self._write("running", _with(self.entries[key], state=State.RUNNING, at=now, started=now, run=run, again=False))
        self.sync()

    def not_started(self, key: str) -> None:
        """The command never got our word: it is as if it had not been there."""
        self._write("not_started", replace(self.entries[key], state=State.ACCEPTED, at=time.time(), started=None))

    def interrupted(self, key: str) -> None:
        """The command was cut short, and may simply be run again."""
        entry = self.entries[key]
        self._write(
            "interrupted", replace(entry, state=State.ACCEPTED, at=time.time(), started=None, reruns=entry.reruns + 1)
        )

    def reboot(self, key: str) -> None:
        """The command asked for a reboot, and is to be run again after it. On disk when this returns."""
        entry = self.entries[key]
        self._write("reboot", replace(entry, state=State.REBOOT, at=time.time(), reboots=entry.reboots + 1))
        self.sync()

    def finished(self, key: str, result: Result, ended: float | None = None) -> None:
        """The result is known, of what ended a while ago perhaps. On disk once `secure` or `sync` has returned."""
        now = time.time()
        entry = self.entries[key]
        self._write(
            "finished",
            _with(
                entry,
                state=State.FINISHED,
                at=now,
                ended=max(ended or now, entry.started or 0),
                values=result.values,
                failed=result.failed,
                reason=result.reason,
                tries=0,
                trouble="",
                not_before=0,
                again=False,
            ),
        )
        self._owed = True

    def settled(self, key: str, state: State, trouble: str = "", *, untidy: bool = False) -> None:
        """Nothing more will be done: the result was delivered, is not wanted, or can never be delivered.

        `untidy` is whether what the run was given could not be removed.
        """
        now, known = self.steady.now(), self.entries[key]
        entry = _with(known, state=state, at=time.time(), trouble=trouble, settled_at=now, untidy=untidy)
        self._write("settled", entry)

    def tried(self, key: str, trouble: str, not_before: float = 0) -> None:
        """The result was sent in vain, for now."""
        entry = self.entries[key]
        self._write("tried", replace(entry, tries=entry.tries + 1, trouble=trouble, not_before=not_before))

    # What people and the older agent's files ask for.

    def moved(self, key: str, source: str) -> None:
        """Another source has the deployment now."""
        self._write("moved", replace(self.entries[key], source=source))

    def again(self, key: str, *, wanted: bool = True) -> None:
        """Run the deployment again at the next pass; or do not, after all."""
        self._write("again", replace(self.entries[key], again=wanted))

    def send_again(self, key: str) -> None:
        """Deliver the result again at the next pass."""
        self._write("send_again", replace(self.entries[key], state=State.FINISHED, at=time.time(), not_before=0))

    def drop(self, key: str) -> None:
        """Know nothing of the deployment any more: it was not run."""
        kill_points.reached("journal.drop.before")
        self._append({"key": key, "state": None})
        kill_points.reached("journal.drop.after")
        del self.entries[key]

    def forget(self, key: str) -> None:
        """Know nothing of the deployment any more: neither its inputs nor its result stay in the file."""
        if not self.reduce({key: None}):  # at once: what is dropped first is not known to be in the file still
            self.drop(key)
            raise StateError(f"{key} is forgotten, but what was known of it is still in the file: {self.warnings[-1]}")

    def left(self, gone: Iterable[str], back: Iterable[str]) -> None:
        """These have left the metadata, and those are in it again."""
        now = self.steady.now()
        entries = [replace(self.entries[key], left_at=now) for key in gone]
        entries += [replace(self.entries[key], left_at=None) for key in back]
        if entries:
            self._write("left", *entries)

    def reduce(self, less: Mapping[str, Entry | None]) -> bool:
        """Know less of deployments, or nothing: what else was known of them is not in the file any more.

        Return whether that went well; the file and what is known are as they were where it did not. Raises StateError
        where the file is not ours any more.
        """
        self._find()
        before = self.entries
        changed = {**before, **less}
        self.entries = {key: entry for key, entry in changed.items() if entry is not None}
        if self._rewrite():
            return True
        self.entries = before
        return False

    def marked(self, keys: list[str], folder: str) -> None:
        """The files `ID.json` of these deployments are on disk, in that folder."""
        self._write("marked", *(_with(self.entries[key], marked=folder) for key in keys))

    def compact(self) -> None:
        """Write the file anew if most of it is about what has long been settled. Raises StateError."""
        if self._wasteful(self._size):
            self._find()
            self._rewrite()

    def secure(self) -> None:
        """Have every result survive a power cut, unless it does already. Raises StateError."""
        if self._owed:
            self.sync()

    def sync(self) -> None:
        """Have everything written so far survive a power cut. Raises StateError."""
        kill_points.reached("journal.flush.before")
        if self._unflushed:  # the kernel says only once what it could not write: the next flush would say all is well
            self._anew()
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._unflushed = True
            raise StateError(f"cannot write the journal {self.path}: {error.strerror}") from error
        self._owed = False
        kill_points.reached("journal.flush.after")

    # Reading and writing.

    def _write(self, record: str, *entries: Entry) -> None:
        """Append what changed of each entry."""
        kill_points.reached(f"journal.{record}.before")
        self._append(*(_changes(self.entries.get(entry.key), entry) for entry in entries))
        known = self.entries
        self.changes += sum(each.key not in known or known[each.key].state is not each.state for each in entries)
        self.entries.update((entry.key, entry) for entry in entries)
        kill_points.reached(f"journal.{record}.after")

    def _append(self, *records: Mapping[str, object]) -> None:
        lines = b"".join(map(_line, records))
        found = self._find()
        try:
            if found > self._size:  # of a vain try, see below
                os.ftruncate(self._file, self._size)
            written = os.write(self._file, lines)
            trouble = "" if written == len(lines) else os.strerror(errno.ENOSPC)
        except OSError as error:
            trouble = error.strerror or str(error)
        if trouble:
            with contextlib.suppress(OSError):  # then before the next try: half a line would swallow the next one
                os.ftruncate(self._file, self._size)
            raise StateError(f"cannot write the journal {self.path}: {trouble}", hint="what is in it is intact")
        self._size += len(lines)
        self.records += len(records)

    def _find(self) -> int:
        """Make sure that the file is where whoever comes next will look for it, and return its size.

        If somebody has removed it, what is known is written anew. If it is another one, or in another directory, that
        may be another agent's, whom our lock does not hold off.
        """
        try:
            opened = os.fstat(self._file)
            if os.path.samestat(opened, os.stat(self._name)):  # noqa: PTH116  # several times for each deployment
                return opened.st_size
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                if os.path.samestat(self._directory, self.path.parent.stat()):
                    self.warnings.append(f"the journal {self.path} was removed, and is written anew")
                    self._anew()
                    return self._size
        except OSError as error:
            raise StateError(f"cannot find the journal {self.path}: {error.strerror}") from error
        raise StateError(
            f"the journal {self.path} was removed, or another one was put in its place, while an agent works with it",
            hint="nothing more is begun or recorded; put it back, or start the agent anew",
        )

    def _anew(self) -> None:
        """Write the file anew, and flush it. Raises StateError."""
        if not self._rewrite():
            raise StateError(self.warnings.pop())

    def _load(self, content: bytes) -> None:
        """Take in the records, and leave a file that has nothing but whole lines."""
        reader = _Reader(content)
        self.entries = reader.entries
        if reader.good < len(content):
            os.truncate(self.path, reader.good)
            kill_points.reached("journal.torn")
        damaged = reader.damaged or int(reader.good == 0 and len(content) > 0)  # not one whole line: none of ours
        if damaged:
            aside = self.path.with_name(f"{FILE}.damaged-{time.time_ns()}")
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as copy:
                copy.write(content)
            kill_points.reached("journal.aside")
            self.warnings.append(
                f"{damaged} damaged line{'s' if damaged > 1 else ''} of {self.path} passed over; a copy is {aside}"
            )
        if reader.damaged or self._wasteful(reader.good):
            self._rewrite()

    def _wasteful(self, size: int) -> bool:
        """Whether most of the file is about what has long been settled, as near as can be told in no time."""
        return size >= COMPACT_BYTES and size > 2 * sum(map(_size, self.entries.values()))

    def _rewrite(self) -> bool:
        """Write the journal anew, one line for each deployment. A disk without room for that leaves it as it is."""
        entries = {key: _shortened(entry) for key, entry in self.entries.items()}
        content = b"".join(_line(_unusual(entry)) for entry in entries.values())
        new = self.path.with_name(f"{FILE}.new")
        kill_points.reached("journal.anew.before")
        descriptor = -1
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(new, flags, 0o600)
            files.write(descriptor, content)
            os.fsync(descriptor)
            kill_points.reached("journal.anew.written")
            new.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink()
            if descriptor >= 0:
                os.close(descriptor)
            self.warnings.append(f"cannot write the journal {self.path} anew: {error.strerror}")
            return False
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size, self._unflushed = descriptor, len(content), False
        self.entries = entries
        self.records += 1
        kill_points.reached("journal.anew.after")
        try:
            files.sync_directory(self.path.parent)
        except OSError as error:  # after a power cut, perhaps, it is as it was before
            self._unflushed = True
            self.warnings.append(f"cannot flush {self.path.parent}: {error.strerror}")
        return True


def read(directory: Path) -> dict[str, Entry]:
    """Return what the journal of a state directory holds, without the lock and without changing anything.

    Raises StateError where it cannot be read.
    """
    try:
        return _Reader(_content(directory / FILE)).entries
    except OSError as error:
        raise StateError(f"cannot read the journal {directory / FILE}: {error.strerror}") from error


_ABSENT = object()


class _Reader:
    """The records of a journal, summed up."""

    def __init__(self, content: bytes) -> None:
        self.entries: dict[str, Entry] = {}
        self.damaged = 0
        self.good = 0
        """Bytes up to the end of the last whole line."""
        self._hurt: set[str] = set()
        """Deployments that have lost a record."""
        fields: dict[str, dict[str, object]] = {}
        *lines, torn = content.split(b"\n")  # the last one is empty, torn by a power cut, or being written this moment
        self.good = len(content) - len(torn)
        for start in range(0, len(lines), _TOGETHER):
            some = lines[start : start + _TOGETHER]
            for line, record in zip(some, _records(some), strict=True):
                self._sum_up(line, record, fields)
        if self._hurt - fields.keys():
            self._hurt = set(fields)  # whose line it was is not known: it may have been anybody's
        self.entries = {key: self._entry(key, found) for key, found in fields.items()}

    def _sum_up(self, line: bytes, record: dict[str, object] | None, fields: dict[str, dict[str, object]]) -> None:
        if record is None:
            self.damaged += 1
            found = _KEY.search(line)
            self._hurt.add(found[1].decode("utf-8", "replace") if found else "")
            return
        key = str(record["key"])
        if record.get("state", "") is None:
            fields.pop(key, None)
            self._hurt.discard(key)
        elif key in fields:
            fields[key].update(record)
        else:
            fields[key] = record

    def _entry(self, key: str, fields: dict[str, object]) -> Entry:
        """Return the entry; of one that has lost a record, what is certain: what may have been run is not run again."""
        whole = fields if _CERTAIN.keys() <= fields.keys() else {**_CERTAIN, "id": key, "name": key, **fields}
        whole["key"] = key
        self.damaged += whole is not fields and key not in self._hurt
        entry = _entry(whole)
        known = key not in self._hurt or entry.state is not State.ACCEPTED
        return entry if known else replace(entry, state=State.DAMAGED)


_CERTAIN: Mapping[str, object] = {
    "id": "",
    "name": "",
    "action": "",
    "tool": "",
    "source": "",
    "addressee": "",
    "document": {},
    "at": 0.0,
    "accepted": 0.0,
    "state": State.DAMAGED.value,
}
"""What is taken for granted of an entry whose first record is lost; its id and name are its key."""

_KEY = re.compile(rb'"key":"([^"\\]{1,200})"')


def _content(path: Path) -> bytes:
    try:
        return files.read(path)
    except FileNotFoundError:
        return b""


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def _line(record: Mapping[str, object]) -> bytes:
    text = _ENCODE(record).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


_TOGETHER = 256
"""Lines that are read as one: to read each by itself takes twice as long."""


def _records(lines: Sequence[bytes]) -> Sequence[dict[str, object] | None]:
    """Return the record of each line; None for one that is damaged."""
    texts = [line[9:] for line in lines if line[:9] == b"%08x " % zlib.crc32(line[9:])]
    if len(texts) == len(lines):
        try:
            found = json.loads(b"[%s]" % b",".join(texts))
        except (ValueError, RecursionError):
            found = []
        if len(found) == len(lines) and all(isinstance(each, dict) and "key" in each for each in found):
            return found  # type: ignore[no-any-return]  # that has been looked at
    return [_record(line) for line in lines]


def _record(line: bytes) -> dict[str, object] | None:
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(text):
            return None
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "key" in record else None


def _changes(before: Entry | None, entry: Entry) -> dict[str, object]:
    """Return the record that makes `entry` of the one before."""
    old = before.__dict__ if before else {}
    record: dict[str, object] = {"key": entry.key}
    for name, value in entry.__dict__.items():
        known = old.get(name, _ABSENT)
        if known is not value and known != value:
            record[name] = _plain(value)
    return record


def _fields(entry: Entry) -> dict[str, object]:
    """Return an entry as JSON."""
    return {name: _plain(value) for name, value in entry.__dict__.items()}


def _plain(value: object) -> object:
    """Return the value of an entry's field as JSON."""
    if isinstance(value, enum.Enum):
        return value.value
    return value.__dict__ if isinstance(value, Run) else value


def _with(entry: Entry, **changes: object) -> Entry:
    """Return an entry with changes: `replace`, for what is done several times for each deployment."""
    changed = object.__new__(Entry)
    changed.__dict__.update(entry.__dict__, **changes)
    return changed


_USUAL = {each.name: each.default for each in fields(Entry) if each.default is not MISSING}
_KNOWN, _KNOWN_OF_RUN = (frozenset(each.name for each in fields(kind)) for kind in (Entry, Run))


def _unusual(entry: Entry) -> dict[str, object]:
    """Return an entry as JSON, without what it has in common with a new one."""
    return {name: value for name, value in _fields(entry).items() if name not in _USUAL or value != _USUAL[name]}


def _entry(fields: dict[str, object]) -> Entry:
    """Return the entry that records sum up to.

    Fields that this version does not know are passed over. A state that it does not know is a StateError: what a newer
    version has done must not be done again.
    """
    known = fields if fields.keys() <= _KNOWN else {name: fields[name] for name in fields.keys() & _KNOWN}
    values = {**_USUAL, **known}
    try:
        values["state"] = State(values["state"])
    except ValueError:
        raise StateError(
            f"the journal has a deployment in the state {values['state']!r}, which this version does not know",
            hint="it was written by a newer version: use that one",
        ) from None
    values["removed"] = Removed(values["removed"] or "")
    if str(values["addressee"]).startswith(("http://", "https://")):  # earlier versions kept the signed URL
        values["addressee"] = metadata.addressee_at(str(values["addressee"]))
    if isinstance(values["run"], dict):
        values["run"] = _run(values["run"])
    entry = object.__new__(Entry)
    entry.__dict__.update(values)  # field by field, as the class does it, takes five times as long
    return entry


def _run(fields: dict[str, object]) -> Run:
    if fields.keys() == _KNOWN_OF_RUN:
        found = object.__new__(Run)
        found.__dict__.update(fields)
    else:
        try:
            found = Run(**{name: fields[name] for name in fields.keys() & _KNOWN_OF_RUN})  # type: ignore[arg-type]
        except TypeError:
            raise StateError(
                "the journal has a run of which this version does not understand what is known of it",
                hint="it was written by another version: use that one",
            ) from None
    boot = processes.boot_id_of(found.boot)
    return found if boot == found.boot else replace(found, boot=boot)


_TYPICAL = 600
"""Bytes of the line of a settled deployment, without what may be long in it."""


def _size(entry: Entry) -> int:
    """Return about how many bytes an entry takes in a journal that was written anew."""
    if entry.state not in _DELIVERED:
        return len(_line(_unusual(entry)))
    known = len(entry.reason) + len(entry.trouble)
    if entry.run is not None:
        known += len(entry.run.working) + len(entry.run.outputs)
    return known + (_TYPICAL if entry.removed is not Removed.ALL else _TYPICAL // 2)


_DELIVERED = (State.SIGNALLED, State.UNASKED)
"""Of what came into these states, neither what it was given nor its result is needed any more."""


def _shortened(entry: Entry) -> Entry:
    """Return the entry without what a settled deployment does not need: its inputs, among them secrets, and its result.

    A result that was not delivered stays: a person may have it sent again, or its deployment come back.
    """
    if entry.state not in _DELIVERED or not (entry.document or entry.values):
        return entry
    return _with(entry, document={}, values=None)

"""A stack's records on disk: a file of lines, each what has become of one record; written anew when it has grown.

What is put is on disk with the next `flush`. A line that a kill left unfinished is the last one, and counts for
nothing: what it said is done again. The file is 0600, for there are secrets in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from pathlib import Path
from typing import Any

from heat_config_agent.errors import LockedError, StateError
from heat_config_agent.stack.definition import Json
from heat_config_agent.stack.records import (
    ConfigRecord,
    DeploymentRecord,
    Record,
    ResourceRecord,
    StackRecord,
    from_json,
    to_json,
)
from heat_config_hooks import files

FILE = "stack"
LOCK = "stack.lock"
EVENT = "event"
EVENTS = 1000
"""How many of the last events are kept."""
_SLACK = 2000
"""Lines that may be of no use any more before the file is written anew."""


class Memory:
    """Records that are kept nowhere else."""

    def __init__(self) -> None:
        self.stacks: dict[str, StackRecord] = {}
        self.resources: dict[str, ResourceRecord] = {}
        self.configs: dict[str, ConfigRecord] = {}
        self.deployments: dict[str, DeploymentRecord] = {}
        self.events: list[Json] = []
        self._of: dict[str, dict[str, Any]] = {
            StackRecord.KIND: self.stacks,
            ResourceRecord.KIND: self.resources,
            ConfigRecord.KIND: self.configs,
            DeploymentRecord.KIND: self.deployments,
        }
        self._of_stack: dict[tuple[str, str], dict[str, Record]] = {}
        """Records by kind and stack."""

    def put(self, record: Record) -> None:
        """Keep a record as it is now."""
        self._know(record)
        self._append([record.KIND, record.id, to_json(record)])

    def drop(self, record: Record) -> None:
        """Keep a record no more."""
        if self._forget(record.KIND, record.id):
            self._append([record.KIND, record.id, None])

    def resources_of(self, stack: str) -> list[ResourceRecord]:
        """Return the resources of a stack."""
        return [self.resources[each] for each in self._of_stack.get((ResourceRecord.KIND, stack), ())]

    def rest_of(self, stack: str) -> list[Record]:
        """Return the configs and deployments of a stack."""
        kinds = (ConfigRecord.KIND, DeploymentRecord.KIND)
        return [each for kind in kinds for each in self._of_stack.get((kind, stack), {}).values()]

    def event(self, event: Json) -> None:
        """Keep an event; of all, only the last ones."""
        self.events.append(event)
        self._append([EVENT, "", event])

    def flush(self, *, durable: bool = False) -> None:
        """Have everything that was put survive the end of the process, or even a power cut. Raises StateError."""

    def _know(self, record: Record) -> None:
        self._of[record.KIND][record.id] = record
        if not isinstance(record, StackRecord):
            self._of_stack.setdefault((record.KIND, record.stack), {})[record.id] = record

    def _forget(self, kind: str, key: str) -> bool:
        """Return whether there was such a record."""
        record: Record | None = self._of[kind].pop(key, None)
        if record is not None and not isinstance(record, StackRecord):
            self._of_stack[kind, record.stack].pop(key, None)
        return record is not None

    def _append(self, line: Json) -> None:
        """Have a line survive."""


class Store(Memory):
    """The records of one stack and its children, in a folder."""

    def __init__(self, folder: Path, *, write: bool = True) -> None:
        """Read what is there; nothing where there is no such stack. To write, hold its lock. Raises AgentError."""
        super().__init__()
        self.folder = folder
        self._pending: list[str] = []
        self._lines = 0
        self._file: int | None = None
        self._lock: int | None = None
        try:
            if write:
                files.make_directory(folder, durable=True)
                self._lock = _locked(folder / LOCK)
            self._read()
        except OSError as error:
            raise StateError(f"cannot read the stack in {folder}: {error.strerror}") from error

    def flush(self, *, durable: bool = False) -> None:
        """Have everything that was put survive the end of the process, or even a power cut. Raises StateError."""
        try:
            if self._pending:
                self._open()
            if self._file is None:
                return
            if self._pending:
                text, self._pending = "".join(self._pending), []
                files.write(self._file, text.encode())
            if durable:
                os.fsync(self._file)
        except OSError as error:
            raise StateError(f"cannot keep the stack in {self.folder}: {error.strerror}") from error

    def close(self) -> None:
        """Put everything on disk, and let others write."""
        if self._lock is None:
            return
        self.flush(durable=True)
        if self._lines > _SLACK + 2 * sum(map(len, self._of.values())) + EVENTS:
            self._write_anew()
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    def remove(self) -> None:
        """Remove the records: there is no such stack any more."""
        files.remove(self.folder / FILE)
        self._pending = []
        self._lines = 0
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, line: Json) -> None:
        self._pending.append(json.dumps(line, separators=(",", ":")) + "\n")
        self._lines += 1

    def _open(self) -> None:
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self.folder / FILE, flags, 0o600)

    def _read(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            content = files.read(self.folder / FILE)
            whole, _, torn = content.rpartition(b"\n")
            for number, line in enumerate(whole.splitlines(), 1):
                self._take(line, number)
            if torn and self._lock is not None:
                os.truncate(self.folder / FILE, len(content) - len(torn))

    def _take(self, line: bytes, number: int) -> None:
        try:
            kind, key, values = json.loads(line)
            if kind == EVENT:
                self.events.append(values)
                self.events = self.events[-EVENTS:] if len(self.events) > 2 * EVENTS else self.events
            elif values is None:
                self._forget(kind, key)
            else:
                self._know(from_json(kind, values))
        except (ValueError, KeyError, TypeError) as error:
            raise StateError(
                f"line {number} of {self.folder / FILE} cannot be understood: {error}", hint="restore it, or remove it"
            ) from error
        self._lines += 1

    def _write_anew(self) -> None:
        lines = [[kind, key, to_json(each)] for kind, all_ in self._of.items() for key, each in all_.items()]
        lines += [[EVENT, "", each] for each in self.events[-EVENTS:]]
        text = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)
        files.replace(self.folder / FILE, text.encode(), durable=True)


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise LockedError(f"another program works on the stack in {path.parent}", hint="wait for it to end") from None
    return descriptor

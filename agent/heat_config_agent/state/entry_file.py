"""The journal's file: how its entries are read, appended, and rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import record_file
from heat_config_agent.state.entries import Entries
from heat_config_agent.state.record_file import RecordFile
from heat_config_agent.state.records import Reader, changes_of, line_of, shortened, size_of, without_defaults

COMPACT_BYTES = 256 * 1024
"""A journal smaller than this is never rewritten."""


class EntryFile:
    """The entries of a journal, in memory and in its file, open for writing."""

    def __init__(self, path: Path) -> None:
        """Open the file, and repair what a power cut left. The caller holds the lock. Raises StateError."""
        self.path = path
        self.entries = Entries({})
        self.changes = 0
        """The number of times that a deployment has changed its state."""
        self.records = 0
        """The number of records that were written."""
        self.warnings: list[str] = []
        try:
            content = record_file.read(path)
            self._file = RecordFile(path, f"the journal {path}", renew=self._renew, warn=self.warnings.append)
            self._load(content)
            if not self._file.opened:
                self._file.open()
        except OSError as error:
            raise StateError(f"cannot open the journal {path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file. Everything recorded is in it."""
        self._file.close()

    def reduce(self, less: Mapping[str, Entry | None]) -> bool:
        """Replace entries by shorter ones, or remove them (None), so that nothing else of them is left in the file.

        Returns False if that failed; then nothing has changed. Raises StateError if the file is not ours any more.
        """
        self._find()
        before = self.entries
        changed = {**before, **less}
        self.entries = Entries({key: entry for key, entry in changed.items() if entry is not None})
        if self._rewrite():
            return True
        self.entries = before
        return False

    def compact(self) -> None:
        """Rewrite the file if most of it is about deployments that were settled long ago. Raises StateError."""
        if self._wasteful(self._file.size):
            self._find()
            self._rewrite()

    def sync(self) -> None:
        """Make everything written so far survive a power cut. Raises StateError."""
        try:
            self._file.flush()
        except OSError as error:
            raise StateError(f"cannot write the journal {self.path}: {error.strerror}") from error

    def _write(self, *entries: Entry) -> None:
        """Append the changed fields of each entry."""
        self._append(*(changes_of(self.entries.get(entry.key), entry) for entry in entries))
        known = self.entries
        self.changes += sum(entry.key not in known or known[entry.key].state is not entry.state for entry in entries)
        for entry in entries:
            known[entry.key] = entry

    def _append(self, *records: Mapping[str, object]) -> None:
        self._find()
        try:
            self._file.append(b"".join(map(line_of, records)))
        except OSError as error:
            trouble = f"cannot write the journal {self.path}: {error.strerror}"
            raise StateError(trouble, hint="its content is intact") from error
        self.records += len(records)

    def _find(self) -> None:
        """Make sure that the file is where the next agent looks for it. Raises StateError."""
        try:
            self._file.find()
        except OSError as error:
            raise StateError(f"cannot find the journal {self.path}: {error.strerror}") from error

    def _load(self, content: bytes) -> None:
        """Read the records, and repair the file so that it has only whole lines."""
        reader = Reader(content)
        self.entries = Entries(reader.entries)
        if reader.good < len(content):
            self._file.cut(reader.good)
        damaged = reader.damaged or int(
            reader.good == 0 and len(content) > 0
        )  # with no whole line, it is not a journal
        if damaged:
            aside = self._file.set_aside(content)
            lines = f"{damaged} damaged line{'s' if damaged > 1 else ''}"
            self.warnings.append(f"{lines} of {self.path} passed over; a copy is {aside}")
        if reader.damaged or self._wasteful(reader.good):
            self._rewrite()

    def _wasteful(self, size: int) -> bool:
        """Return whether most of the file is about deployments that were settled long ago, by a quick estimate."""
        return size >= COMPACT_BYTES and size > 2 * sum(map(size_of, self.entries.values()))

    def _renew(self) -> None:
        """Rewrite the journal. Raises StateError."""
        if not self._rewrite():
            raise StateError(self.warnings.pop())

    def _rewrite(self) -> bool:
        """Rewrite the journal with one line for each deployment; return False, with a warning, if that fails."""
        entries = {key: shortened(entry) for key, entry in self.entries.items()}
        try:
            self._file.rewrite(b"".join(line_of(without_defaults(entry)) for entry in entries.values()))
        except OSError as error:
            self.warnings.append(f"cannot rewrite the journal {self.path}: {error.strerror}")
            return False
        self.entries = Entries(entries)
        self.records += 1
        return True

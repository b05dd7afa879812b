"""The encoding of journal entries as lines, and back."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping, Sequence

from heat_config_agent.model.entry import Entry, Removed, Run, State
from heat_config_agent.model.errors import StateError
from heat_config_agent.state import record_file
from heat_config_hooks.values import MISSING, fields, replace, restore

_ABSENT = object()


class Reader:
    """Sums up the records of a journal to entries."""

    def __init__(self, content: bytes) -> None:
        self.entries: dict[str, Entry] = {}
        self.damaged = 0
        """The number of damaged lines."""
        self.good = 0
        """The number of bytes up to the end of the last whole line."""
        self._hurt: set[str] = set()
        """The keys of deployments that have lost a record."""
        fields: dict[str, dict[str, object]] = {}
        # the last one is empty, torn by a power cut, or being written
        *lines, torn = content.split(b"\n")
        self.good = len(content) - len(torn)
        for start in range(0, len(lines), _TOGETHER):
            batch = lines[start : start + _TOGETHER]
            for line, record in zip(batch, records_of(batch), strict=True):
                self._sum_up(line, record, fields)
        if self._hurt - fields.keys():
            # it is not known which deployment a line was about: it may be any of them
            self._hurt = set(fields)
        self.entries = {key: self._entry(key, values) for key, values in fields.items()}

    def _sum_up(
        self,
        line: bytes,
        record: dict[str, object] | None,
        fields: dict[str, dict[str, object]],
    ) -> None:
        if record is None:
            self.damaged += 1
            match = re.search(_KEY, line)
            self._hurt.add(match[1].decode("utf-8", "replace") if match else "")
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
        """Return the entry. If it has lost a record and may have run, it is DAMAGED, so it does not run again."""
        whole = (
            fields
            if _CERTAIN.keys() <= fields.keys()
            else {**_CERTAIN, "id": key, "name": key, **fields}
        )
        whole["key"] = key
        self.damaged += whole is not fields and key not in self._hurt
        entry = entry_of(whole)
        known = key not in self._hurt or entry.state not in (
            State.ACCEPTED,
            State.RETRY,
        )
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
"""The fields of an entry whose first record is lost; its id and name are its key."""

_KEY = rb'"key":"([^"\\]{1,200})"'

_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def line_of(record: Mapping[str, object]) -> bytes:
    """Return the line of a record."""
    return record_file.line_of(_ENCODE(record).encode())


_TOGETHER = 256
"""The number of lines that are decoded at once: to decode each by itself takes twice as long."""


def records_of(lines: Sequence[bytes]) -> Sequence[dict[str, object] | None]:
    """Return the record of each line; None for a damaged line."""
    texts = record_file.texts_of(lines)
    if None not in texts:
        try:
            records = json.loads(b"[%s]" % b",".join(texts))  # type: ignore[arg-type]  # none of them is None
        except (ValueError, RecursionError):
            records = []
        if len(records) == len(texts) and all(
            isinstance(record, dict) and "key" in record for record in records
        ):
            return records  # type: ignore[no-any-return]  # that was checked
    return [record_of(text) for text in texts]


def record_of(text: bytes | None) -> dict[str, object] | None:
    """Return the record in the text of a line; None if there is none."""
    try:
        record = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "key" in record else None


def changes_of(former: Entry | None, entry: Entry) -> dict[str, object]:
    """Return the record with the fields of `entry` that differ from those before."""
    if former is None:
        return without_defaults(entry)
    old = former.__dict__
    record: dict[str, object] = {"key": entry.key}
    for name, value in entry.__dict__.items():
        known = old.get(name, _ABSENT)
        if known is not value and known != value:
            record[name] = _plain(value)
    return record


def _plain(value: object) -> object:
    """Return the value of an entry's field as JSON."""
    if isinstance(value, enum.Enum):
        return value.value
    return value.__dict__ if isinstance(value, Run) else value


_DEFAULTS = {
    field.name: field.default for field in fields(Entry) if field.default is not MISSING
}
_KNOWN, _KNOWN_OF_RUN = (
    frozenset(field.name for field in fields(kind)) for kind in (Entry, Run)
)


def without_defaults(entry: Entry) -> dict[str, object]:
    """Return an entry as JSON, without the fields that have their defaults."""
    return {
        name: _plain(value)
        for name, value in entry.__dict__.items()
        if name not in _DEFAULTS or value != _DEFAULTS[name]
    }


def entry_of(fields: dict[str, object]) -> Entry:
    """Return the entry with these fields, the sum of its records.

    Fields that this version does not know are ignored. Raises StateError for a state that it does not know: this
    version must not do again what a newer one has done.
    """
    values = (
        fields
        if fields.keys() <= _KNOWN
        else {name: fields[name] for name in fields.keys() & _KNOWN}
    )
    try:
        values["state"] = State(values["state"])
    except ValueError:
        raise StateError(
            f"the journal has a deployment in the state {values['state']!r}, which this version does not know",
            hint="a newer version has written it: use that one",
        ) from None
    if "removed" in values:
        values["removed"] = Removed(values["removed"] or "")
    run = values.get("run")
    if isinstance(run, dict):
        values["run"] = _run(run)
    return restore(Entry, values)


def _run(fields: dict[str, object]) -> Run:
    known = (
        fields
        if fields.keys() <= _KNOWN_OF_RUN
        else {name: fields[name] for name in fields.keys() & _KNOWN_OF_RUN}
    )
    try:
        return restore(Run, known)
    except TypeError:
        raise StateError(
            "the journal has a record of a run that this version cannot read",
            hint="another version has written it: use that one",
        ) from None


_TYPICAL = 600
"""The typical size in bytes of the line of a settled deployment, without its long texts."""


def size_of(entry: Entry) -> int:
    """Return the approximate size in bytes of an entry in a rewritten journal."""
    if entry.state not in _DELIVERED:
        return len(line_of(without_defaults(entry)))
    texts = len(entry.reason) + len(entry.trouble)
    if entry.run is not None:
        texts += len(entry.run.working) + len(entry.run.outputs)
    return texts + (_TYPICAL if entry.removed is not Removed.ALL else _TYPICAL // 2)


_DELIVERED = (State.SIGNALLED, State.UNASKED)
"""The states in which neither inputs nor the result are needed any more."""


def shortened(entry: Entry) -> Entry:
    """Return the entry without its inputs, among them secrets, and its result, if the result was delivered.

    A result that was not delivered stays: a person may send it again, or its deployment may come back.
    """
    if entry.state not in _DELIVERED or not (entry.document or entry.values):
        return entry
    return replace(entry, document={}, values=None)

"""The lines of a stack's file: each is a record with a checksum, and a damaged one may still name its record.

A line has the whole of a record, so only the last line for each record counts: damage to an earlier one costs nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from heat_config_agent.model.positions import Json
from heat_config_agent.state import record_file

_ENCODER = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` would make one for each line

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


def written(kind: str, key: str, values: Json) -> bytes:
    """Return the line of a record."""
    return record_file.line_of(_ENCODER.encode([kind, key, values]).encode())


def read(content: bytes, only: str = "") -> Iterator[Line | Damage | None]:
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
            yield _line(text or b"") or damaged(text or b"")
        else:
            latest = last.pop(name, None)
            yield None if latest is None else _line(latest) or damaged(latest)


def _with_damage(lines: Sequence[bytes], texts: Sequence[bytes | None]) -> Iterator[Line | Damage]:
    unchecked = True
    for line, text in zip(lines, texts, strict=True):
        unchecked = unchecked and text is None and line.startswith(b'["')
        record = _line(line if unchecked else text or b"")
        yield record or damaged(line)


def _line(text: bytes) -> Line | None:
    try:
        kind, key, values = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return Line(kind, key, values) if isinstance(kind, str) and isinstance(key, str) else None


def damaged(line: bytes) -> Damage:
    """Return the record that a damaged line was about. Nothing is certain if it may have been more than one line."""
    found = _ABOUT.findall(line)
    start = _ABOUT.search(line[:150])
    if len(found) != 1 or start is None or start.start() not in (0, 9) or not _is_plain(line):
        return Damage("", "")
    return Damage(found[0][0].decode(), found[0][1].decode())


def _is_plain(line: bytes) -> bool:
    """Return whether a line has only characters that we write: a lost block leaves others in it."""
    return all(32 <= each < 127 for each in line)

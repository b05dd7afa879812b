"""The reply of a hook, and how it is shortened to fit into a signal.

Output can have any size, but Heat refuses signals over its `max_json_body_size`, 1 MiB by default.
So a reply may contain `Capture`s, which are files that have not been read yet.
`fit` reads no more of a file than can be sent: its beginning and its end, and says how much it left out between them.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from heat_config_hooks import files
from heat_config_hooks.values import dataclass

Reply = dict[str, object]
"""`deploy_stdout`, `deploy_stderr`, `deploy_status_code` and outputs; a value may be a `Capture`."""

BODY_LIMIT = 950_000
"""The largest body of a signal in bytes: below Heat's 1 MiB, with room for the envelope."""

EDGE = 4096
"""Characters that are left out on each side of a cut, because half of a secret may be there."""

STATUS = "deploy_status_code"

TIMED_OUT = 124
"""Status code of a run that timed out."""
UNKNOWN = 125
"""Status code if a deployment has a mistake, was interrupted, or its outcome is unknown."""
CANNOT_START = 126
"""Status code if the command could not be started."""
NO_TOOL = 127
"""Status code of a deployment whose tool has no hook: the code of a shell for an unknown command."""
REBOOT = 194
"""Status code with which a command requests a reboot of the machine, and to run again afterwards."""

_OF_THE_MACHINE = frozenset(
    {errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE}
)
"""Errors of the machine in reading a file that exists."""

CUT = "\n[... {:,} bytes left out ...]\n"


@dataclass(frozen=True)
class Text:
    """Text, perhaps without its middle. Bytes that are not UTF-8 are decoded with `surrogateescape`."""

    head: str
    tail: str = ""
    left_out: int = 0
    """Number of bytes between head and tail."""


@dataclass(frozen=True)
class Capture:
    """A file whose text becomes a value of the reply."""

    path: Path
    before: str = ""
    """Text before that of the file."""
    after: str = ""
    """Text after that of the file, on lines of its own."""

    def text(self, limit: int = BODY_LIMIT) -> Text:
        """Return the text of the file, or if it is too long, `limit // 2 + EDGE` bytes from each end.

        JSON never takes less than one byte for a byte, so more than that cannot be sent anyway.
        Raises OSError if it cannot be read or is not a regular file (a pipe or device could block for ever).
        """
        descriptor = files.open_regular(self.path)
        try:
            size = os.fstat(descriptor).st_size
            end = limit // 2 + EDGE
            if size <= 2 * end:
                return Text(
                    self.before + self._with_end(_decoded(_read(descriptor, size, 0)))
                )
            head, tail = _read(descriptor, end, 0), _read(descriptor, end, size - end)
            return Text(
                self.before + _decoded(head),
                self._with_end(_decoded(tail)),
                size - 2 * end,
            )
        finally:
            os.close(descriptor)

    def _with_end(self, text: str) -> str:
        newline = "\n" if self.after and text and not text.endswith("\n") else ""
        return f"{text}{newline}{self.after}"


def _read(descriptor: int, count: int, offset: int) -> bytes:
    parts = []
    while count > 0 and (part := os.pread(descriptor, count, offset)):
        parts.append(part)
        count -= len(part)
        offset += len(part)
    return b"".join(parts)


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def failure(
    code: int, sentence: str, stdout: str | Capture = "", stderr: str | Capture = ""
) -> Reply:
    """Return the reply of a deployment that failed; `sentence` says why, before the standard error of the tool."""
    text = (
        Capture(stderr.path, f"{sentence}\n")
        if isinstance(stderr, Capture)
        else f"{sentence}\n{stderr}"
    )
    return {"deploy_stdout": stdout, "deploy_stderr": text, STATUS: code}


def nothing_done(why: str = "the config is empty: nothing was run") -> Reply:
    """Return the reply of a deployment without anything to do, which is a success."""
    return {"deploy_stdout": "", "deploy_stderr": f"{why}\n", STATUS: 0}


def status_code(reply: Mapping[str, object]) -> int | None:
    """Return the status code of a reply, which is a number or the text of one; None if there is none."""
    value = reply.get(STATUS)
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return None


def unchanged(_name: str, text: str) -> str:
    """Return a text unchanged."""
    return text


def fit(
    reply: Mapping[str, object],
    limit: int = BODY_LIMIT,
    change: Callable[[str, str], str] = unchanged,
) -> dict[str, object]:
    """Return the reply as plain JSON values that take at most `limit` bytes as JSON.

    If the reply is too long, text is left out in the middle of the longest values.
    `change` (name of the value, text → text) masks secrets; it is applied first, so no cut leaves half of a secret.
    A missing or irregular file is left out. If the machine cannot read a file, the reply becomes a failure.
    """
    values: dict[str, object] = {}
    for name, value in reply.items():
        if isinstance(value, Capture):
            try:
                text = value.text()
            except OSError as error:
                if error.errno in _OF_THE_MACHINE:
                    return fit(_without(name, error, reply), limit, change)
                if not value.before:
                    continue
                text = Text(value.before)
            values[name] = _changed_text(text, functools.partial(change, name))
        elif isinstance(value, str):
            values[name] = Text(change(name, value))
        else:
            values[name] = changed(value, functools.partial(change, name))
    spent = _length(dict.fromkeys(values, "")) + _size(values.get(STATUS, ""))
    if spent > limit // 2:
        return fit(
            failure(
                UNKNOWN,
                f"the names of the outputs alone take {spent:,} bytes, which is too long for a signal",
            )
        )
    if spent + sum(_most(value) for value in values.values()) <= limit:
        # the usual case
        return {
            name: _shown(value.head) if isinstance(value, Text) else value
            for name, value in values.items()
        }
    sizes = {
        # A text without its middle is longer than any value that fits, so its exact length does not matter.
        name: limit + value.left_out
        if isinstance(value, Text) and value.left_out
        else _size(value)
        for name, value in values.items()
        if name != STATUS
    }
    cap = _cap(sorted(sizes.values()), limit - spent)
    fitted: dict[str, object] = {}
    for name, value in values.items():
        if name == STATUS:
            fitted[name] = _shown(value.head) if isinstance(value, Text) else value
        elif isinstance(value, Text):
            fitted[name] = cut(value, cap)
        else:
            fitted[name] = (
                value if sizes[name] <= cap else cut(Text(json.dumps(value)), cap)
            )
    return fitted


def _without(name: str, error: OSError, reply: Mapping[str, object]) -> Reply:
    """Return a reply without a value that the machine cannot read; a success becomes a failure that says so."""
    value = reply[name]
    others = {other: reply[other] for other in reply if other != name}
    if isinstance(value, Capture) and value.before:
        others[name] = value.before
    if status_code(reply) != 0:
        return others
    stdout, stderr = (
        value if isinstance(value := others.get(stream), str | Capture) else ""
        for stream in ("deploy_stdout", "deploy_stderr")
    )
    return {
        **others,
        **failure(UNKNOWN, f"{name} cannot be read: {error.strerror}", stdout, stderr),
    }


def _changed_text(text: Text, change: Callable[[str], str]) -> Text:
    """Return the text with `change` applied to both parts, without the edges where half of a secret may be."""
    if not text.left_out:
        return Text(change(text.head), change(text.tail))
    head, tail = change(text.head), change(text.tail)
    edge = min(EDGE, len(head), len(tail))
    lost = _bytes(head[len(head) - edge :]) + _bytes(tail[:edge])
    return Text(head[: len(head) - edge], tail[edge:], text.left_out + lost)


def changed(value: object, change: Callable[[str], str]) -> object:
    """Return a JSON value with `change` applied to all texts and keys, and to numbers whose text it changes."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): changed(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [changed(item, change) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = json.dumps(value)
        return value if change(text) == text else change(text)
    return value


def _length(value: object) -> int:
    return len(json.dumps(value))


def _size(value: object) -> int:
    if isinstance(value, Text):
        return _length(_shown(value.head))
    return _length(value)


def _most(value: object) -> int:
    """Return an upper bound for the size of a value, which is faster than its size."""
    if isinstance(value, Text):
        # a character may be two escapes of six
        return sys.maxsize if value.left_out else 12 * len(value.head)
    return _length(value)


def _cap(sizes: list[int], room: int) -> int:
    """Return the size to which larger values must be cut so that all fit into `room`. `sizes` are in rising order."""
    for position, size in enumerate(sizes):
        share = max(room, 0) // (len(sizes) - position)
        if size > share:
            return share
        room -= size
    return sizes[-1] if sizes else 0


def cut(text: Text, cap: int) -> str:
    """Return the text in at most `cap` bytes of JSON; a note in its middle says how many bytes were left out."""
    if not text.left_out and _length(whole := _shown(text.head)) - 2 <= cap:
        return whole
    total = _bytes(text.head) + _bytes(text.tail) + text.left_out
    last = text.tail or text.head
    room = max(cap - len(CUT.format(total)) - 4, 0)
    keep = min(room // 2, len(text.head), len(last))
    while keep:
        head, tail = text.head[:keep], last[len(last) - keep :]
        length = _length(head) + _length(tail) - 4
        if length <= room:
            return (
                _shown(head)
                + CUT.format(total - _bytes(head) - _bytes(tail))
                + _shown(tail)
            )
        keep = min(keep - 1, keep * room // length)
    return CUT.format(total) if room else ""


_STRAY = "[\ud800-\udfff]"
"""A surrogate: it stands for a byte that is not UTF-8, or for half of a character.

`re` compiles it when it is first used, because most runs do not need it and compiling takes time at each start.
"""


def _bytes(text: str) -> int:
    """Return the number of bytes of a text before it was decoded."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return len(re.sub(_STRAY, "?", text).encode())


def _shown(text: str) -> str:
    """Return the text for a signal, with U+FFFD for bytes that are not UTF-8."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return re.sub(_STRAY, "\ufffd", text)

"""A hook's reply, and how it is made to fit into a signal.

Output can be of any size, and a signal cannot: Heat refuses bodies over its `max_json_body_size`, 1 MiB by default. So
a reply may hold `Capture`s, files that nobody has read yet, and `fit` reads of each no more than can be sent: its
beginning and its end, and how much was left out between them.
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
"""Bytes of a signal's body at most: below Heat's 1 MiB, with room for what wraps it."""

EDGE = 4096
"""Characters at a cut that are left out with the rest: a longer secret than that is no secret."""

STATUS = "deploy_status_code"

TIMED_OUT = 124
"""Status code of a run that was ended because its time was over."""
UNKNOWN = 125
"""Status code of what cannot be understood or was interrupted, or of which a hook replied nonsense."""
CANNOT_START = 126
"""Status code of what could not be started."""
NO_TOOL = 127
"""Status code of a deployment whose tool has no hook: what a shell says of a command that it does not find."""
REBOOT = 194
"""Status code with which a command asks for a reboot of the machine, after which it is run again."""

_OF_THE_MACHINE = frozenset({errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE})
"""Errors of a file that is there, and that the machine cannot read."""

CUT = "\n[... {:,} bytes left out ...]\n"


@dataclass(frozen=True)
class Text:
    """Text, perhaps without its middle. Bytes that are no UTF-8 are in it as `surrogateescape` has them."""

    head: str
    tail: str = ""
    left_out: int = 0
    """Bytes between head and tail."""


@dataclass(frozen=True)
class Capture:
    """A file whose text is to go into a reply."""

    path: Path
    before: str = ""
    """What is to stand before it."""

    def text(self, limit: int = BODY_LIMIT) -> Text:
        """Read the file if it is hardly longer than `limit` bytes, else half of that from each end, and `EDGE` more.

        In JSON no byte takes less than a byte, so more of it cannot be sent. Raises OSError where the file
        cannot be read or is none (a pipe or a device would block for ever).
        """
        descriptor = files.open_regular(self.path)
        try:
            size = os.fstat(descriptor).st_size
            end = limit // 2 + EDGE
            if size <= 2 * end:
                return Text(self.before + _decoded(_read(descriptor, size, 0)))
            head, tail = _read(descriptor, end, 0), _read(descriptor, end, size - end)
            return Text(self.before + _decoded(head), _decoded(tail), size - 2 * end)
        finally:
            os.close(descriptor)


def _read(descriptor: int, count: int, offset: int) -> bytes:
    parts = []
    while count > 0 and (part := os.pread(descriptor, count, offset)):
        parts.append(part)
        count -= len(part)
        offset += len(part)
    return b"".join(parts)


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def failure(code: int, sentence: str, stdout: str | Capture = "", stderr: str | Capture = "") -> Reply:
    """Return the reply of a deployment that failed for a reason that its tool does not give itself.

    The sentence stands before whatever the tool wrote to standard error.
    """
    said = Capture(stderr.path, f"{sentence}\n") if isinstance(stderr, Capture) else f"{sentence}\n{stderr}"
    return {"deploy_stdout": stdout, "deploy_stderr": said, STATUS: code}


def nothing_done(why: str = "the config is empty: nothing was run") -> Reply:
    """Return the reply of a deployment for which there was nothing to do: that is no failure."""
    return {"deploy_stdout": "", "deploy_stderr": f"{why}\n", STATUS: 0}


def status_code(reply: Mapping[str, object]) -> int | None:
    """Return a reply's status code: a number, or text that holds one; None where there is none."""
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
    """Return the text of a value as it is."""
    return text


def fit(
    reply: Mapping[str, object], limit: int = BODY_LIMIT, change: Callable[[str, str], str] = unchanged
) -> dict[str, object]:
    """Return the reply as plain JSON values whose text is at most `limit` bytes long.

    What is too long is shortened in the middle, the longest first: no value is cut while a longer one is whole.
    `change` (name of the value, text → text) is made to every text before that; it hides secrets, and a cut can never
    leave half of one. A file that is not there, or is none, is left out; one that cannot be read is no success.
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
        return fit(failure(UNKNOWN, f"the names of the outputs alone are {spent:,} bytes long: too much for a signal"))
    if spent + sum(_most(value) for value in values.values()) <= limit:  # as nearly always
        return {name: _shown(value.head) if isinstance(value, Text) else value for name, value in values.items()}
    sizes = {
        # What has lost its middle is longer than anything that fits: how long need not be known.
        name: limit + value.left_out if isinstance(value, Text) and value.left_out else _size(value)
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
            fitted[name] = value if sizes[name] <= cap else cut(Text(json.dumps(value)), cap)
    return fitted


def _without(name: str, error: OSError, reply: Mapping[str, object]) -> Reply:
    """Return a reply without a value that the machine cannot read: a failure, if it was none, that says so."""
    value = reply[name]
    rest = {each: reply[each] for each in reply if each != name}
    if isinstance(value, Capture) and value.before:
        rest[name] = value.before
    if status_code(reply) != 0:
        return rest
    stdout, stderr = (
        value if isinstance(value := rest.get(each), str | Capture) else ""
        for each in ("deploy_stdout", "deploy_stderr")
    )
    return {**rest, **failure(UNKNOWN, f"{name} cannot be read: {error.strerror}", stdout, stderr)}


def _changed_text(text: Text, change: Callable[[str], str]) -> Text:
    """Return the text with `change` made to both parts, without what at their inner ends may be half of a secret."""
    if not text.left_out:
        return Text(change(text.head), change(text.tail))
    head, tail = change(text.head), change(text.tail)
    edge = min(EDGE, len(head), len(tail))
    lost = _bytes(head[len(head) - edge :]) + _bytes(tail[:edge])
    return Text(head[: len(head) - edge], tail[edge:], text.left_out + lost)


def changed(value: object, change: Callable[[str], str]) -> object:
    """Return a JSON value with `change` made to all text in it, and to numbers that it changes."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): changed(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [changed(each, change) for each in value]
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
    """Return what a value takes at most, which is found out faster than what it takes."""
    if isinstance(value, Text):
        return sys.maxsize if value.left_out else 12 * len(value.head)  # a character may be two escapes of six
    return _length(value)


def _cap(sizes: list[int], room: int) -> int:
    """Return the size to which the largest have to be cut so that all fit into `room`. `sizes` are in rising order."""
    for position, size in enumerate(sizes):
        share = max(room, 0) // (len(sizes) - position)
        if size > share:
            return share
        room -= size
    return sizes[-1] if sizes else 0


def cut(text: Text, cap: int) -> str:
    """Return the text in at most `cap` bytes of JSON, saying how many bytes were left out of its middle."""
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
            return _shown(head) + CUT.format(total - _bytes(head) - _bytes(tail)) + _shown(tail)
        keep = min(keep - 1, keep * room // length)
    return CUT.format(total) if room else ""


_STRAY = re.compile("[\ud800-\udfff]")
"""What stands for a byte that is no UTF-8, or is half of a character."""


def _bytes(text: str) -> int:
    """Return how many bytes the text was before it was decoded."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return len(_STRAY.sub("?", text).encode())


def _shown(text: str) -> str:
    """Return the text as it is sent: U+FFFD for what is no UTF-8, as any decoder says it."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:
        return _STRAY.sub("\ufffd", text)

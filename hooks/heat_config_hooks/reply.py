"""A hook's reply, and how it is made to fit into a signal.

Output can be of any size, and a signal cannot: Heat refuses bodies over its `max_json_body_size`, 1 MiB by default. So
a reply may hold `Capture`s, files that nobody has read yet, and `fit` reads of each no more than can be sent: its
beginning and its end, and how much was left out between them.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Reply = dict[str, object]
"""`deploy_stdout`, `deploy_stderr`, `deploy_status_code` and outputs; a value may be a `Capture`."""

BODY_LIMIT = 950_000
"""Bytes of a signal's body at most: below Heat's 1 MiB, with room for what wraps it."""

CUT = "\n[... {:,} bytes left out ...]\n"


@dataclass(frozen=True)
class Text:
    """Text, perhaps without its middle."""

    head: str
    tail: str = ""
    left_out: int = 0
    """Bytes between head and tail."""


@dataclass(frozen=True)
class Capture:
    """A file whose text is to go into a reply."""

    path: Path

    def text(self, limit: int = BODY_LIMIT) -> Text:
        """Read at most `limit` bytes from each end. Bytes that are no UTF-8 become U+FFFD.

        Raises OSError where the file cannot be read or is none (a pipe or a device would block for ever).
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f"{self.path} is no regular file")
            size = found.st_size
            if size <= 2 * limit:
                return Text(_read(descriptor, size, 0).decode("utf-8", "replace"))
            head = codecs.getincrementaldecoder("utf-8")("replace").decode(_read(descriptor, limit, 0))
            tail = _read(descriptor, limit, size - limit)
            while tail and tail[0] & 0xC0 == 0x80:  # the rest of a character whose start was left out
                tail = tail[1:]
            return Text(head, tail.decode("utf-8", "replace"), size - 2 * limit)
        finally:
            os.close(descriptor)


def _read(descriptor: int, count: int, offset: int) -> bytes:
    parts = []
    while count > 0 and (part := os.pread(descriptor, count, offset)):
        parts.append(part)
        count -= len(part)
        offset += len(part)
    return b"".join(parts)


def failure(code: int, sentence: str, stdout: str | Capture = "", stderr: str | Capture = "") -> Reply:
    """Return the reply of a deployment that failed for a reason that its tool does not give itself.

    The sentence stands before whatever the tool wrote to standard error.
    """
    if isinstance(stderr, Capture):
        stderr = shown(stderr)
    text = f"{sentence}\n{stderr}" if stderr else f"{sentence}\n"
    return {"deploy_stdout": stdout, "deploy_stderr": text, "deploy_status_code": code}


def status_code(reply: Mapping[str, object]) -> int | None:
    """Return a reply's status code: a number, or text that holds one; None where there is none."""
    value = reply.get("deploy_status_code")
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


def shown(capture: Capture, limit: int = 64 * 1024) -> str:
    """Return the text of a file, shortened in the middle; empty where it cannot be read."""
    try:
        return cut(capture.text(limit), 2 * limit)
    except OSError:
        return ""


def unchanged(_name: str, text: str) -> str:
    """Return the text of a value as it is."""
    return text


def fit(
    reply: Mapping[str, object], limit: int = BODY_LIMIT, change: Callable[[str, str], str] = unchanged
) -> dict[str, object]:
    """Return the reply as plain JSON values whose text is at most `limit` bytes long.

    What is too long is shortened in the middle, the longest first: no value is cut while a longer one is whole.
    `change` (name of the value, text → text) is made to every text before that; it hides secrets, and a cut can never
    leave half of one. A file that cannot be read is left out.
    """
    texts: dict[str, Text] = {}
    for name, value in reply.items():
        try:
            text = value.text() if isinstance(value, Capture) else Text(_plain(value))
        except OSError:
            continue
        texts[name] = Text(change(name, text.head), change(name, text.tail), text.left_out)
    whole = {name: _size(text) for name, text in texts.items()}
    spent = _length(dict.fromkeys(texts, ""))
    cap = _cap(sorted(whole.values()), limit - spent)
    fitted: dict[str, object] = {}
    for name, text in texts.items():
        if isinstance(reply[name], str | Capture):
            fitted[name] = cut(text, cap)
        elif whole[name] <= cap:
            fitted[name] = json.loads(text.head)
        else:
            fitted[name] = cut(text, cap)
    return fitted


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _length(value: object) -> int:
    return len(json.dumps(value))


def _size(text: Text) -> int:
    return _length(text.head) + _length(text.tail) + text.left_out


def _cap(sizes: list[int], room: int) -> int:
    """Return the size to which the largest have to be cut so that all fit into `room`. `sizes` are in rising order."""
    for position, size in enumerate(sizes):
        share = max(room, 0) // (len(sizes) - position)
        if size > share:
            return share
        room -= size
    return sizes[-1] if sizes else 0


def cut(text: Text, cap: int) -> str:
    """Return the text in at most `cap` bytes of JSON, saying how much was left out of its middle."""
    if not text.left_out and _length(text.head) - 2 <= cap:
        return text.head
    total = len(text.head.encode("utf-8", "replace")) + len(text.tail.encode("utf-8", "replace")) + text.left_out
    last = text.tail or text.head
    room = max(cap - len(CUT.format(total)) - 4, 0)
    keep = min(room // 2, len(text.head), len(last))
    while keep:
        head, tail = text.head[:keep], last[len(last) - keep :]
        length = _length(head) + _length(tail) - 4
        if length <= room:
            kept = len(head.encode("utf-8", "replace")) + len(tail.encode("utf-8", "replace"))
            return head + CUT.format(total - kept) + tail
        keep = min(keep - 1, keep * room // length)
    return CUT.format(total) if room else ""

"""Messages on a pair of pipes: a JSON object on a line, after a first line that marks where the protocol begins.

Everything before the mark is what a shell or its profile has printed, and is left out. Neither side ever waits while it
writes or reads: the rest stays until the pipe takes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

MARK = b"heat-config-agent host session "
"""The beginning of the first line; the message `hello` follows on the same line."""

PROTOCOL = 1
"""The version of the protocol. Both sides have to speak the same one."""

_PIECE = 1024 * 1024
_LONGEST = 256 * 1024 * 1024
"""Bytes of the longest message."""
_LONGEST_BANNER = 1024 * 1024
"""Bytes that may come before the mark."""


class Frames:
    """One side of a conversation."""

    def __init__(self, reader: int, writer: int, *, marked: bool = True) -> None:
        """Speak over two descriptors. With `marked` false, the messages to read begin after a mark."""
        self.reader, self.writer = reader, writer
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self.ended = False
        """True if the other side has gone, or has said something that is not a message."""
        self.banner = ""
        """The last line before the mark."""
        self.trouble = ""
        """The reason why it has ended, if the other side is to blame."""
        self._is_marked = marked
        self._in = bytearray()
        self._seen = 0
        self._out = bytearray()

    @property
    def is_blocked(self) -> bool:
        """True if something is still to be written."""
        return bool(self._out) and not self.ended

    def mark(self, hello: Mapping[str, Any]) -> None:
        """Begin the protocol."""
        self._out += b"\n" + MARK + _line(hello)
        self.flush()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, now or with a later `flush`."""
        if not self.ended:
            self._out += _line(message)
            self.flush()

    def flush(self) -> None:
        """Write as much as the pipe takes."""
        while self._out and not self.ended:
            try:
                number = os.write(self.writer, self._out[:_PIECE])
            except BlockingIOError:
                return
            except OSError:
                self.ended = True
                return
            del self._out[:number]

    def receive(self) -> list[dict[str, Any]]:
        """Return the messages that have come."""
        while not self.ended:
            try:
                piece = os.read(self.reader, _PIECE)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            if not piece:
                self.ended = True
                break
            self._in += piece
            if len(self._in) > _LONGEST:
                self._refuse("it sent a message that is too long")
        return self._messages()

    def _messages(self) -> list[dict[str, Any]]:
        *lines, rest = self._in.split(b"\n") if b"\n" in self._in else [self._in]
        if not lines:
            return []
        self._in = bytearray(rest)
        messages = []
        for line in lines:
            text = bytes(line) if self._is_marked else self._after_mark(bytes(line))
            if not text:
                continue
            try:
                message = json.loads(text)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                self._refuse("it sent something that is not a message of the protocol")
                break
            messages.append(message)
        return messages

    def _after_mark(self, line: bytes) -> bytes:
        """Return the rest of the line with the mark; nothing of a line before it."""
        if line.startswith(MARK):
            self._is_marked = True
            return line[len(MARK) :]
        self._seen += len(line)
        if text := line.decode("utf-8", "replace").strip():
            self.banner = text[:200]
        if self._seen > _LONGEST_BANNER:
            self._refuse("it printed without end before the protocol began")
        return b""

    def _refuse(self, trouble: str) -> None:
        self.ended, self.trouble = True, trouble
        self._in.clear()


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"

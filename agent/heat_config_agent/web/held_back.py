"""A body whose last byte is held back for some time: the server has begun with the request, and cannot end it yet."""

from __future__ import annotations

import time
from collections.abc import Callable


class HeldBack:
    """The body of one request, which the HTTP libraries read like a file."""

    def __init__(
        self, content: bytes, seconds: float, is_withdrawn: Callable[[], bool]
    ) -> None:
        """Hold the last byte of `content` back for that long after the others.

        If the content `is_withdrawn` then, the request is broken off, so that the server does not accept it.
        """
        self._length = len(content)
        self._parts = [part for part in (content[:-1], content[-1:]) if part]
        self._seconds = seconds
        self._is_withdrawn = is_withdrawn

    def __len__(self) -> int:
        """Return the number of all bytes."""
        return self._length

    def read(self, size: int = -1) -> bytes:  # noqa: ARG002  # a part is sent whole
        """Return the next part, the last one after the wait; empty at the end. Raises ConnectionAbortedError."""
        if len(self._parts) == 1:
            time.sleep(self._seconds)
            if self._is_withdrawn():
                raise ConnectionAbortedError("withdrawn")
        return self._parts.pop(0) if self._parts else b""

"""The pipe by which other threads, or signals, wake a loop that waits for descriptors."""

from __future__ import annotations

import contextlib
import os


class Waker:
    """A pipe of which one end is readable once the other has been written to, until it is drained."""

    def __init__(self) -> None:
        """Open the pipe. Neither end ever blocks."""
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)

    def fileno(self) -> int:
        """Return the descriptor that is readable after `wake`."""
        return self._reader

    def wake(self) -> None:
        """Make the descriptor readable. Any thread may call this."""
        with contextlib.suppress(BlockingIOError):
            # the pipe is full, so the reader wakes anyway
            os.write(self.writer, b".")

    def drain(self) -> None:
        """Empty the pipe. Look for news after this, or some may be missed."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._reader, 65536)

    def close(self) -> None:
        """Close both ends."""
        os.close(self._reader)
        os.close(self.writer)

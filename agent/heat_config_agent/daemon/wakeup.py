"""Signals to the daemon, and the pipe that wakes its loop when one arrives."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from heat_config_agent.model.waking import Waker

_HEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


class Wakeup:
    """Collects the signals that the process receives, for a loop that waits for a descriptor to be readable."""

    def __init__(self) -> None:
        """Begin with no signals; they are collected only while `listening`."""
        self._received: set[int] = set()
        self._waker: Waker | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[int]:
        """Collect signals while the context lasts; yield a descriptor that is readable when one has arrived."""
        self._waker = Waker()
        earlier_descriptor = signal.set_wakeup_fd(
            self._waker.writer, warn_on_full_buffer=False
        )
        handlers = {
            number: signal.signal(
                number, lambda received, _: self._received.add(received)
            )
            for number in _HEEDED
        }
        try:
            yield self._waker.fileno()
        finally:
            signal.set_wakeup_fd(earlier_descriptor)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self._waker.close()
            self._waker = None

    def drain(self) -> None:
        """Empty the pipe, so that the next signal wakes the loop. Look for signals after this, or one may be missed."""
        if self._waker is not None:
            self._waker.drain()

    @property
    def interrupted(self) -> bool:
        """True if a signal has asked the process to end."""
        return bool(self._received & {signal.SIGTERM, signal.SIGINT})

    def take(self, number: int) -> bool:
        """Return whether this signal has arrived since the last call."""
        arrived = number in self._received
        self._received.discard(number)
        return arrived

"""Channels to the outside: each has a thread that hands notices on, and drops them rather than hold up the agent."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from heat_config_agent.signals.notices.notice import Notice
from heat_config_hooks.values import dataclass

MOST = 256
"""The number of notices that may wait; the oldest is dropped for one more."""

_PAUSES = (1.0, 4.0)
"""Seconds before each further try of a notice that may be accepted later, if the one before it was accepted."""


class UndeliveredError(Exception):
    """A notice was not accepted; the text says why."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        """Say whether to try `again`."""
        super().__init__(why)
        self.again = again


@dataclass(frozen=True, kw_only=True)
class ChannelState:
    """The state of a channel for people."""

    name: str
    """The setting that has opened it."""
    waiting: int
    lost: int
    """The number of notices that were dropped, since the agent was started."""
    trouble: str
    """The reason why the last one was dropped; empty if the one after it was accepted."""


class Channel:
    """The notices that wait to be handed on, and the thread that does it. Nothing here waits but that thread."""

    def __init__(
        self, name: str, send: Callable[[Notice], None], changes: frozenset[str]
    ) -> None:
        """Hand on notices of these `changes` with `send`, which raises UndeliveredError and may take long."""
        self.name, self.lost = name, 0
        self._send, self._changes = send, changes
        self._waiting: deque[Notice] = deque()
        self._under_way = False
        self._trouble = ""
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> ChannelState:
        """Its state now."""
        waiting = len(self._waiting) + self._under_way
        return ChannelState(
            name=self.name, waiting=waiting, lost=self.lost, trouble=self._trouble
        )

    def put(self, notice: Notice) -> None:
        """Have a notice handed on, if it is of the wanted changes."""
        if notice.change not in self._changes:
            return
        with self._news:
            if len(self._waiting) >= MOST:
                self._waiting.popleft()
                self.lost += 1
                self._trouble = self._trouble or "more notices than it accepts"
            self._waiting.append(notice)
            self._news.notify_all()
        if self._thread is None or not self._thread.is_alive():
            self._begin()

    def end(self) -> None:
        """Try once to send each waiting notice, and then end the thread."""
        self._closing.set()
        with self._news:
            self._news.notify_all()

    def close(self, seconds: float) -> None:
        """End, and wait at most that many seconds for each notice, and five times as long in all; drop the rest."""
        self.end()
        last = time.monotonic() + 5 * seconds
        with self._news:
            while (self._waiting or self._under_way) and self._news.wait(
                min(seconds, last - time.monotonic())
            ):
                pass
            self.lost += len(self._waiting)
            self._waiting.clear()

    def _begin(self) -> None:
        self._under_way = False
        try:
            self._thread = threading.Thread(
                target=self._work, name=f"notices to {self.name}", daemon=True
            )
            self._thread.start()
        except RuntimeError:  # no memory for a thread: the next notice tries again
            self._thread = None

    def _work(self) -> None:
        while True:
            with self._news:
                self._under_way = False
                self._news.notify_all()
                while not self._waiting:
                    if self._closing.is_set():
                        return
                    self._news.wait()
                notice, self._under_way = self._waiting.popleft(), True
            trouble = self._try(notice)
            with self._news:
                self._trouble = trouble
                self.lost += bool(trouble)

    def _try(self, notice: Notice) -> str:
        """Hand on a notice, if need be more than once; return why it was not accepted, empty if it was."""
        pauses = iter(() if self._trouble else _PAUSES)
        while True:
            try:
                self._send(notice)
            except UndeliveredError as error:
                pause = next(pauses, None) if error.again else None
                if pause is None or self._closing.wait(pause):
                    return str(error)
            else:
                return ""

"""The process that keeps stacks at the revisions of their sources: started next to the daemon, and again if it ends.

It ends with the daemon, however that ends, because its standard input does. The daemon never waits for it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable

from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import followed
from heat_config_agent.state.followed import Followed

_AGAIN_SECONDS = 10.0
"""Seconds until the process is started again after it has ended."""

_GONE_SECONDS = 5.0
"""Seconds from the request to end until the process is killed. Work on stacks continues."""

_PROGRAM = "from heat_config_agent.cli.main import agent; raise SystemExit(agent())"


class Following:
    """The process next to the daemon; none without sections `[follow NAME]`."""

    def __init__(self, settings: Settings, warn: Callable[[str], None]) -> None:
        """Prepare to follow the sources in the settings; `warn` is called with troubles of the process."""
        self._settings, self._warn = settings, warn
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted = self._is_wanted()
        self._start_at = 0.0
        self._seen: tuple[float, ...] = ()
        self._records: tuple[Followed, ...] = ()

    @property
    def delay(self) -> float:
        """Seconds until the process has to be started; infinite if it has not."""
        if not self._wanted or self._process is not None:
            return float("inf")
        return max(self._start_at - time.monotonic(), 0.0)

    @property
    def is_news(self) -> bool:
        """True if the process has ended, is due, or has written a record."""
        if not self._wanted:
            return False
        ended = self._process is None or self._process.poll() is not None
        return (ended and self.delay == 0) or self._changes() != self._seen

    def tend(self) -> None:
        """Start the process if it is not running."""
        if not self._wanted:
            return
        if self._process is not None and (code := self._process.poll()) is not None:
            self._close()
            self._warn(f"the process that follows sources has ended (exit code {code}); it is started again")
            self._start_at = time.monotonic() + _AGAIN_SECONDS
        if self._process is None and time.monotonic() >= self._start_at:
            self._start()

    def records(self) -> tuple[Followed, ...]:
        """Return the records of all stacks that follow sources."""
        if not self._wanted:
            return ()
        changes = self._changes()
        if changes != self._seen:
            self._seen, self._records = changes, tuple(followed.records(self._settings.state))
        return self._records

    def hurry(self) -> None:
        """Have every source polled now."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended
                os.write(self._process.stdin.fileno(), b".")

    def reconfigure(self, settings: Settings) -> None:
        """Follow the sources of other settings from here on."""
        self.end()
        self._settings, self._wanted, self._start_at = settings, self._is_wanted(), 0.0
        self._seen, self._records = (), ()

    def end(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._close()

    def _is_wanted(self) -> bool:
        return bool(self._settings.followed or followed.names(self._settings.state))

    def _start(self) -> None:
        words = [sys.executable, "-I", "-c", _PROGRAM, "follow", "--attached", *self._settings.options]
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, cwd="/", start_new_session=True)
        except OSError as error:
            self._warn(f"cannot start the process that follows sources: {error.strerror}")
            self._start_at = time.monotonic() + _AGAIN_SECONDS

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_GONE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _changes(self) -> tuple[float, ...]:
        """Return when the records last changed."""
        state = self._settings.state
        places = [followed.folder(state, name) / followed.FILE for name in followed.names(state)]
        return tuple(_written(str(place)) for place in places)


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  # at every turn
    except OSError:
        return 0

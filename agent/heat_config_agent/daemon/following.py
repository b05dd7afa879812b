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
        self._told = b""
        """The beginning of a line that the process has not told to its end."""
        self._is_told = False
        """True if the process has told something since the records were last read."""
        self.troubles: dict[str, str] = {}
        """The troubles of sources that are not in their records, because these cannot be written, for example."""
        self.ended = ""
        """A sentence about the process, from its end until its successor has followed a source."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when the process has told something; negative if it does not run."""
        process = self._process
        return (
            -1 if process is None or process.stdout is None else process.stdout.fileno()
        )

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
        self._hear()
        return (
            (ended and self.delay == 0)
            or self._is_told
            or self._changes() != self._seen
        )

    def tend(self) -> None:
        """Start the process if it is not running."""
        if not self._wanted:
            return
        if self._process is not None and (code := self._process.poll()) is not None:
            self._close()
            self.ended = f"the process that follows sources has ended (exit code {code}); it is started again"
            self._warn(self.ended)
            self._start_at = time.monotonic() + _AGAIN_SECONDS
        if self._process is None and time.monotonic() >= self._start_at:
            self._start()

    def records(self) -> tuple[Followed, ...]:
        """Return the records of all stacks that follow sources."""
        if not self._wanted:
            return ()
        self._hear()
        changes = self._changes()
        if changes != self._seen:
            self._seen, self._records = (
                changes,
                tuple(followed.records(self._settings.state)),
            )
        self._is_told = False
        return (
            tuple(followed.with_troubles(self._records, self.troubles))
            if self.troubles
            else self._records
        )

    def hurry(self) -> None:
        """Have every source polled now."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended
                os.write(self._process.stdin.fileno(), b".")

    def reconfigure(self, settings: Settings) -> None:
        """Follow the sources of other settings from here on."""
        self.end()
        self.ended = ""
        self._settings, self._start_at = settings, 0.0
        self._wanted = self._is_wanted()  # by the new settings
        self._seen, self._records = (), ()

    def end(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._close()

    def _is_wanted(self) -> bool:
        return bool(self._settings.followed or followed.names(self._settings.state))

    def _start(self) -> None:
        words = [
            sys.executable,
            "-I",
            "-c",
            _PROGRAM,
            "source",
            "sync",
            "--attached",
            *self._settings.options,
        ]
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self.ended = (
                f"cannot start the process that follows sources: {error.strerror}"
            )
            self._warn(self.ended)
            self._start_at = time.monotonic() + _AGAIN_SECONDS
            return
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def _hear(self) -> None:
        """Take in what the process has told."""
        if self._process is None or self._process.stdout is None:
            return
        try:
            while piece := os.read(self._process.stdout.fileno(), 64 * 1024):
                self._told += piece
        except BlockingIOError:
            pass
        *lines, self._told = self._told.split(b"\n")
        for line in lines:
            if (told := followed.heard(line)) is None:
                continue
            name, trouble = told
            self._is_told, self.ended = True, ""
            self.troubles.pop(name, None)
            if trouble:
                self.troubles[name] = trouble

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._told, self.troubles = b"", {}
        if process.stdin is not None:
            process.stdin.close()
        if process.stdout is not None:
            process.stdout.close()
        try:
            process.wait(_GONE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _changes(self) -> tuple[float, ...]:
        """Return when the records last changed."""
        state = self._settings.state
        places = [
            followed.folder(state, name) / followed.FILE
            for name in followed.names(state)
        ]
        return tuple(_written(str(place)) for place in places)


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116  # at every turn
    except OSError:
        return 0

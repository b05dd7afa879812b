"""The console of the machine: one line when a deployment begins, and one when it ends."""

from __future__ import annotations

import os
import time

from heat_config_agent.signals.notices.channel import Channel, UndeliveredError
from heat_config_agent.signals.notices.notice import (
    BEGUN,
    DRIFTED,
    ENDED,
    REBOOT,
    Notice,
)

_LONGEST = 500
"""The most characters of a line."""


class Console:
    """A console, as a rule `/dev/console`. It is opened for each line, since it may be replaced meanwhile."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._torn = False
        """True if the console has taken only the beginning of the last line."""

    def write(self, notice: Notice) -> None:
        """Write the line of a notice. Raises UndeliveredError if the console does not take it at once."""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(notice.at))
        text = f"{moment} heat-config-agent: {notice.text}"
        text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
        data = f"{chr(10) if self._torn else ''}{text}\n".encode("utf-8", "replace")
        try:
            flags = (
                os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            )
            descriptor = os.open(self._path, flags)
            try:
                written = os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except BlockingIOError:
            raise UndeliveredError(
                f"{self._path} takes no more: it is not read"
            ) from None
        except OSError as error:
            raise UndeliveredError(
                f"cannot write to {self._path}: {error.strerror}"
            ) from error
        self._torn = written < len(data)
        if self._torn:
            raise UndeliveredError(
                f"{self._path} accepted only a part of a line: nothing reads it"
            )


def channel(path: str) -> Channel:
    """Return the channel to a console."""
    return Channel(
        "console", Console(path).write, frozenset({BEGUN, DRIFTED, ENDED, REBOOT})
    )

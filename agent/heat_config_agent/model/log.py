"""Messages for people that belong to no single deployment."""

from __future__ import annotations


class Log:
    """Receives messages for people. This one drops them."""

    def warn(self, text: str) -> None:
        """Report a problem."""

    def note(self, text: str) -> None:
        """Report something that is good to know."""


class Once(Log):
    """Passes each warning on only once, and all notes."""

    def __init__(self, log: Log) -> None:
        """Pass them on to `log`."""
        self._log = log
        self._warnings: set[str] = set()

    def warn(self, text: str) -> None:
        """Report a problem, unless it was reported before."""
        if text not in self._warnings:
            self._warnings.add(text)
            self._log.warn(text)

    def note(self, text: str) -> None:
        """Report something that is good to know."""
        self._log.note(text)

"""Messages for people that belong to no single deployment."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


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


class Warned:
    """The troubles that were last reported, by their subject."""

    def __init__(self) -> None:
        """Begin with none."""
        self._troubles: dict[Hashable, set[str]] = {}

    def __contains__(self, subject: Hashable) -> bool:
        """Return whether a problem with this subject was reported and still exists."""
        return subject in self._troubles

    def update(self, subject: Hashable, troubles: Sequence[str]) -> Sequence[str]:
        """Note all present troubles with a subject; return the troubles that were not reported before."""
        reported = self._troubles.pop(subject, set())
        if troubles:
            self._troubles[subject] = set(troubles)
        return [trouble for trouble in troubles if trouble not in reported]

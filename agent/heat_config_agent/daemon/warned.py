"""The warnings so far, so that a trouble that lasts is reported once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


class Warned:
    """The troubles that were last reported, by their subject."""

    def __init__(self) -> None:
        """Begin with none."""
        self._troubles: dict[Hashable, set[str]] = {}

    def __contains__(self, subject: Hashable) -> bool:
        """Return whether a problem with this subject was reported and still exists."""
        return subject in self._troubles

    def update(self, subject: Hashable, troubles: Sequence[str]) -> Sequence[str]:
        """Note all present troubles with a subject; return those that were not reported before."""
        reported = self._troubles.pop(subject, set())
        if troubles:
            self._troubles[subject] = set(troubles)
        return [trouble for trouble in troubles if trouble not in reported]

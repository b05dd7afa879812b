"""Messages for people that belong to no single deployment."""

from __future__ import annotations


class Log:
    """Receives messages for people. This one drops them."""

    def warn(self, text: str) -> None:
        """Report a problem."""

    def note(self, text: str) -> None:
        """Report something that is good to know."""

"""The limit on the work of checking one file, because a file may be written to make the check slow.

What is left out then is help or what no one can check: hints, matches of requirements, and patterns that take long.
Imports that bring too many names are refused.
"""

from __future__ import annotations

HINTS = 200
"""Names for which a similar one is looked for."""

PATTERN_SECONDS = 0.3
"""Seconds that all slow patterns together may take to be held against values."""

SLOW_PATTERN = 0.001
"""Seconds from which on a pattern is slow: most take a hundredth of that, however many there are."""

MATCHES = 20_000
"""Nodes that are held against requirements without a named node."""

NAMES = 300_000
"""Names of types that all imports bring, each with every prefix that it has."""


class Budget:
    """The remaining budget for one file."""

    def __init__(self) -> None:
        """Begin with the whole budget."""
        self.renew()

    def renew(self) -> None:
        """Begin with the next file."""
        self.hints = HINTS
        self.pattern_seconds = PATTERN_SECONDS
        self.is_slow_told = False
        """True if the file has a mistake that says that its patterns take too long."""
        self.matches = MATCHES
        self.names = NAMES
        self.misspelt: dict[str, str] = {}
        """The hints for names that resemble those of functions."""

"""The names that stacks may have, and stacks that follow a source."""

from __future__ import annotations

import re

LONGEST = 255
"""Characters of the name of a stack at most, as in Heat."""

LONGEST_FOLLOWED = 64
"""Characters of the name of a stack that follows a source at most."""


def is_stack_name(name: str, most: int = LONGEST) -> bool:
    """Return whether a stack can have a name."""
    return (
        len(name) <= most and re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_.-]*", name) is not None
    )


def rule(most: int = LONGEST) -> str:
    """Return the rule for names, as the rest of a sentence about one."""
    return f"begins with a letter, and has at most {most} letters, digits, '_', '-' and '.'"

"""The outcome of a revision, from what the command that carried it out has printed."""

from __future__ import annotations

import re


def reason_of(printed: str) -> str:
    """Return why a command has failed, out of what it has printed."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:") or ": error: " in line]
    ended = next((number for number, line in enumerate(lines) if re.search(r": [A-Z]+_FAILED in ", line)), None)
    if errors:
        return errors[0].removeprefix("error:").strip()
    if ended is not None:
        return lines[min(ended + 1, len(lines) - 1)]
    return lines[-1] if lines else ""

"""The outcome of a revision, from what the command that carried it out has printed."""

from __future__ import annotations

import re
from collections.abc import Sequence


def reason_of(printed: str) -> str:
    """Return why a command has failed, out of what it has printed."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:") or ": error: " in line]
    ended = next((number for number, line in enumerate(lines) if re.search(r": [A-Z]+_FAILED in ", line)), None)
    if errors:
        return errors[0].removeprefix("error:").strip()
    last = lines[-1] if lines else ""
    if ended is not None:
        last = lines[min(ended + 1, len(lines) - 1)]
    return f"{last}{_failed_deployment(lines, last)}"


def _failed_deployment(lines: Sequence[str], summary: str) -> str:
    """Return the first deployment that has failed and its reason, as the end of a sentence that does not have it."""
    for line in lines:
        if row := re.fullmatch(r"FAILED\s+(\S+)\s.* \d+(?:\.\d+)? s  (\S.*)", line):
            name, reason = row.groups()
            if "status code" in summary:  # as Heat words it, which has the exit code
                reason = re.sub(r"^exit code \d+(: |$)", "", reason)
            return f"; {name}: {reason}" if reason else ""
    return ""

"""The outcome of a revision: from what the command that carried it out has printed, and from what it has left."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from heat_config_agent.model.entry import Entry

_NAMED = 3
"""The number of failed deployments that are named."""


def reason_of(printed: str) -> str:
    """Return why a command has failed, out of what it has printed."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [
        line for line in lines if line.startswith("error:") or ": error: " in line
    ]
    ended = next(
        (
            number
            for number, line in enumerate(lines)
            if re.search(r": [A-Z]+_FAILED in ", line)
        ),
        None,
    )
    if errors:
        return errors[0].removeprefix("error:").strip()
    if ended is not None:
        return lines[min(ended + 1, len(lines) - 1)]
    return lines[-1] if lines else ""


def failures(failed: Sequence[Entry]) -> str:
    """Return which deployments of a document have failed, and why; empty if none has."""
    named = "; ".join(
        f"{each.title}: {each.reason or 'it has failed'}" for each in failed[:_NAMED]
    )
    return named + (f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else "")


def reason_of_stack(status: bytes, name: str) -> str:
    """Return why a stack has failed, out of what `status --json` has printed; empty if that does not say."""
    try:
        stacks = json.loads(status)["data"]["stacks"]
        [reason] = [each["message"] for each in stacks if each["stack_name"] == name]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(reason)

"""The outcome of a revision: from what the command that carried it out has printed, and from what it has left."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.states import Shown

_NAMED = 3
"""The number of failed deployments that are named."""


_ENDED = re.compile(r"^stack \S+: (?:[A-Z]+ failed|rolled back) after [^:]+: ")
"""The beginning of the sentence about a stack that has failed, before the reason."""


def reason_of(printed: str) -> str:
    """Return the reason of a failed command from its output."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    errors = [
        line for line in lines if line.startswith("error:") or ": error: " in line
    ]
    if errors:
        return _ENDED.sub("", errors[0].removeprefix("error:").strip())
    return lines[-1] if lines else ""


def failures(failed: Sequence[Entry]) -> str:
    """Return which deployments of a document have failed, and why; empty if none has."""
    named = "; ".join(
        f"{each.title}: {each.reason or 'it has failed'}" for each in failed[:_NAMED]
    )
    return named + (f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else "")


def reason_of_stack(status: bytes, name: str) -> str:
    """Return the reason of a failed stack from the output of `status --json`; empty if that does not have it."""
    try:
        stacks = json.loads(status)["data"]["stacks"]
        [reason] = [
            each["message"]
            for each in stacks
            if each["stack_name"] == name and each["state"] != Shown.OK
        ]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(reason)

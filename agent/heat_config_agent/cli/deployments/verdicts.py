"""The last verification of deployments, for the commands that show them."""

from __future__ import annotations

import os
from pathlib import Path

from heat_config_agent.model.entry import Entry

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from heat_config_agent.verification.record import Verified

RECORD = "verified.json"
"""The file in the state directory, as `verification.record` writes it, which few commands load."""

_read: dict[Path, tuple[tuple[int, int], dict[str, Verified]]] = {}
"""The record of each state directory, and when it was written."""


def of(entry: Entry, state: Path) -> Verified | None:
    """Return the verification of the last run of a deployment; None if there was none since."""
    try:
        status = os.stat(f"{state}/{RECORD}")  # noqa: PTH116  # for each row of a list
    except OSError:  # nothing was verified yet
        return None
    written = status.st_mtime_ns, status.st_ino
    if state not in _read or _read[state][0] != written:
        from heat_config_agent.verification import record  # noqa: PLC0415  # few machines are verified

        _read[state] = written, record.read(state)
    verified = _read[state][1].get(entry.key)
    return verified if verified and verified.is_of(entry) else None


def drift(entry: Entry, state: Path) -> Verified | None:
    """Return the verification that says that a deployment has drifted; None if none does, or it is not in force."""
    verified = of(entry, state)
    if verified is None or entry.left_at is not None or entry.again:
        return None
    return verified if verified.verdict.standing.value == "drifted" else None

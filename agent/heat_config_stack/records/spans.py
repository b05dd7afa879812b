"""The time that a resource has waited, unaffected by changes of the clock and ends of processes.

While the machine is up, the kernel's clock since boot counts, which no one can set. The time in which the machine was
down cannot be known, and does not count. What had passed before it is noted from time to time.
"""

from __future__ import annotations

from heat_config_agent.model.positions import Json
from heat_config_hooks import processes
from heat_config_stack.records.records import ResourceRecord

NOTED = 30.0
"""Seconds between two notes of the time waited."""


def begin(record: ResourceRecord, purpose: str) -> None:
    """Begin to wait, unless the resource waits already for the same: `purpose` is an attempt, which is unique."""
    if record.since.get("of") != purpose:
        record.since = _span(purpose, 0.0, processes.since_boot())


def lasted(record: ResourceRecord) -> float:
    """Return the seconds that a resource has waited."""
    since = record.since
    # after another boot: since this one
    at = _number(since.get("at")) if since.get("boot") == _boot() else 0.0
    return _number(since.get("lasted")) + max(processes.since_boot() - at, 0.0)


def renew(record: ResourceRecord) -> bool:
    """Note the time waited if the last note is old; return whether it was noted."""
    since = record.since
    if (
        since.get("boot") == _boot()
        and processes.since_boot() - _number(since.get("at")) < NOTED
    ):
        return False
    record.since = _span(str(since.get("of")), lasted(record), processes.since_boot())
    return True


def _span(purpose: str, lasted: float, at: float) -> dict[str, Json]:
    return {"of": purpose, "lasted": lasted, "boot": _boot(), "at": at}


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _boot() -> str:
    """Return the id of this boot of the kernel, without the part for a container."""
    return processes.boot_id().partition("/")[0]

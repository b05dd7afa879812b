"""The words for the state of everything that has one, and for a result on its way.

The words are the same in every command, in tables and in JSON. Heat's own pair of words for a stack or a resource
(`CREATE_COMPLETE`) stands next to them where users of Heat look for it.
"""

from __future__ import annotations

import enum

from heat_config_agent.model.entry import Entry, State


class Shown(str, enum.Enum):
    """The state of a deployment, a stack, a resource, a node, a source, a host or a check."""

    WAITING = "waiting"
    """It has not begun, or it begins again: DETAILS says what it waits for."""
    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Nothing was run for it, and that is as it should be."""
    REFUSED = "refused"
    """The policy or the signature of the machine does not permit it."""
    REBOOT = "reboot"
    """It continues after a reboot of the machine."""
    DRIFTED = "drifted"
    """It was carried out, and is not in effect any more."""
    PAUSED = "paused"
    UNKNOWN = "unknown"
    WARNING = "warning"
    """For checks of `doctor` and `migrate` only."""

    def __str__(self) -> str:
        """Return the word."""
        return self.value


class Delivery(str, enum.Enum):
    """The place where the result of a deployment is: another fact than its state."""

    SENT = "sent"
    DUE = "due"
    """It is sent again."""
    REFUSED = "refused"
    """The server has refused it for good."""
    REPLACED = "replaced"
    """It is not sent any more: its deployment has left the metadata."""

    def __str__(self) -> str:
        """Return the word."""
        return self.value


NOTHING_RUN = "nothing was run"
"""The end of the reason of a deployment that has no config for its action."""

_WAITING = frozenset({State.ACCEPTED, State.RETRY})

_DELIVERIES = {
    State.FINISHED: Delivery.DUE,
    State.SIGNALLED: Delivery.SENT,
    State.REFUSED: Delivery.REFUSED,
    State.SUPERSEDED: Delivery.REPLACED,
}


def of_entry(entry: Entry, *, going_on: bool = True, drifted: bool = False) -> Shown:
    """Return the state of a deployment; a run that is not `going_on` has ended, and how is not recorded yet.

    `drifted` is True if its last verification says so.
    """
    if entry.state in _WAITING:
        return Shown.WAITING
    if entry.state is State.REBOOT:
        return Shown.REBOOT
    if entry.state is State.RUNNING:
        return Shown.RUNNING if going_on else Shown.UNKNOWN
    if entry.state is State.DAMAGED:
        return Shown.UNKNOWN
    if entry.failed:
        return Shown.FAILED
    # a tool may have done its work without a process
    is_done = entry.ended is not None and not entry.reason.endswith(NOTHING_RUN)
    if is_done and drifted:
        return Shown.DRIFTED
    return Shown.OK if is_done else Shown.SKIPPED


def result_of(entry: Entry) -> Delivery | None:
    """Return where the result of a deployment is; None if there is none, or no server waits for it."""
    if entry.ended is None and entry.state is not State.SUPERSEDED:
        return None
    return _DELIVERIES.get(entry.state)


_HEAT = {
    "INIT_COMPLETE": Shown.WAITING,
    "INIT": Shown.WAITING,
    "IN_PROGRESS": Shown.RUNNING,
    "COMPLETE": Shown.OK,
    "FAILED": Shown.FAILED,
}


def of_stack(status: str) -> Shown:
    """Return the state for Heat's status of a stack or a resource: `CREATE_COMPLETE`, or `COMPLETE` alone."""
    alone = (
        "IN_PROGRESS"
        if status.endswith("_IN_PROGRESS")
        else status.rsplit("_", maxsplit=1)[-1]
    )
    return _HEAT.get(status, _HEAT.get(alone, Shown.UNKNOWN))

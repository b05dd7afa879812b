"""What can go wrong in a way we understand, and the exit code each comes to.

An `AgentError` is shown as one sentence and a hint, never as a traceback; everything else is a defect of ours and keeps
its traceback.
"""

from __future__ import annotations

import enum
import errno

PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)
"""What cannot be done now, and may be later: the machine has no space, no processes, no memory, no open files left."""


class ExitCode(enum.IntEnum):
    """How a command ended. `docs/operate.md` documents these numbers: they are a contract."""

    OK = 0
    """All is well: everything asked for is done and its result delivered (or nobody wanted it)."""
    FAILED = 1
    """At least one deployment failed, or an entry of a document could not be read."""
    USAGE = 2
    """Bad usage or configuration: a wrong option, an unreadable document, a state directory that cannot be used."""
    NO_SOURCE = 3
    """No source answered: there was no document to apply."""
    LOCKED = 4
    """Another agent holds the lock of the state directory."""
    UNDELIVERED = 5
    """All ran well, but a result could not be delivered: the next run sends it, unless it was refused for good."""
    REBOOT = 6
    """A deployment waits for a reboot of the machine, and goes on with the first run after it."""
    INTERRUPTED = 130
    """Ended by a signal. What was running goes on, and the next run picks it up."""


class AgentError(Exception):
    """A failure we understand. Shown as one line; never as a traceback."""

    exit_code = ExitCode.FAILED

    def __init__(self, brief: str, *, hint: str = "") -> None:
        """Say in `brief` what could not be done and why; in `hint` what to do about it."""
        super().__init__(brief)
        self.brief = brief
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.brief} ({self.hint})" if self.hint else self.brief


class UsageError(AgentError):
    """The command was called wrongly, or a document or a setting cannot be understood."""

    exit_code = ExitCode.USAGE


class SourceError(AgentError):
    """A source did not answer: there is no document."""

    exit_code = ExitCode.NO_SOURCE


class AccessError(SourceError):
    """A source does not let us in: our credentials are not good, or no longer."""


class UnreachableError(AgentError):
    """A server gave no answer; the text says why."""


class DeniedError(UnreachableError):
    """A server is there, and does not let us in."""


class LockedError(AgentError):
    """Another agent works on the same state directory."""

    exit_code = ExitCode.LOCKED


class StateError(AgentError):
    """The state directory cannot be read or written. What was not recorded has not been done."""

    exit_code = ExitCode.USAGE


def shortage(error: OSError | MemoryError | ImportError) -> StateError | None:
    """Return what the machine is short of, where that is what an error is about.

    What cannot be loaded is either not installed as it should be, or the machine cannot read it now; nobody can tell.
    """
    if isinstance(error, ImportError):
        return StateError(f"a part of the agent cannot be loaded now: {error}", hint="is its installation complete?")
    if isinstance(error, MemoryError):
        return StateError("the machine has no memory left for the agent")
    if error.errno not in PASSING:
        return None
    about = f": {error.filename}" if error.filename else ""
    return StateError(f"the machine cannot do what the agent asks of it now: {error.strerror}{about}")

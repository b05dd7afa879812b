"""The consequence of the end of a run: its reply, a failure, or another run. Pure."""

from __future__ import annotations

from heat_config_agent.model.entry import Entry
from heat_config_agent.model.job import Job
from heat_config_agent.runs.run_folder import UNSTARTED
from heat_config_hooks.reply import TIMED_OUT, UNKNOWN
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from heat_config_hooks.retry import Retry  # few deployments have it

    Repeat: TypeAlias = Literal["not started", "interrupted", "reboot", "retry"]
    """The reason why a deployment is planned again.

    - not started: the command was not run, because the supervisor exited without the agent's word
    - interrupted: the run was interrupted, and the deployment's options say that it may be run again
    - reboot: the command has asked for a reboot of the machine, after which it is run again
    - retry: the command has exited with a code of the option `retry`, and after a delay it is run again
    """

RERUNS = 3
"""The number of times that an idempotent deployment is run again after interruptions. It may cause them itself."""

REBOOTS = 10
"""The number of reboots that a deployment may ask for. One that asks again and again makes no progress."""


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """The facts about the end of a run."""

    recorded: str = ""
    """The supervisor's record: the exit code, `run_folder.UNSTARTED`, or nothing."""
    ending: str = ""
    """The reason why the agent ended the run; empty if it did not."""
    same_boot: bool
    """True if the machine has not been rebooted since the run began."""
    unreadable: str = ""
    """The reason why the record of its end cannot be read; empty if it can."""
    displaced: bool = False
    """True if the record of its end was removed or replaced, as by the command itself."""
    had_ended: bool = False
    """True if the command ended before the machine went down."""
    had_remains: bool = False
    """True if processes of the run were left, and were killed."""


@dataclass(frozen=True)
class Ended:
    """The command ended by itself."""

    code: int


@dataclass(frozen=True)
class BrokenOff:
    """The agent ended the run, or it is not known how it ended."""

    code: int
    reason: str


REPLACED = BrokenOff(TIMED_OUT, "not run again because its deployment was replaced by a DELETE")
"""A retry that was not waited for."""


def conclude(end: RunEnd, entry: Entry, job: Job | None) -> Repeat | Ended | BrokenOff:
    """Return the consequences of the end of a run, given its entry in the journal and its job."""
    if end.recorded == UNSTARTED:
        return "not started"
    if end.ending:
        return BrokenOff(TIMED_OUT, f"ended because {end.ending}")
    if end.recorded:
        return Ended(int(end.recorded))
    if job is not None and job.idempotent and entry.reruns < RERUNS:
        return "interrupted"
    return BrokenOff(UNKNOWN, _loss(end))


def retry_delay(code: int | None, retry: Retry | None, entry: Entry, lasted: float) -> float | None:
    """Return the seconds until a command is run again that has ended with this code; None if it is not.

    `lasted` are the seconds that its run has taken. The timeout is for all attempts and delays together.
    """
    if retry is None or code not in retry.codes or entry.attempts >= retry.times:
        return None
    delay = retry.delay_after(entry.attempts + 1)
    limit = entry.run.limit if entry.run else None
    return delay if limit is None or entry.spent + lasted + delay < limit else None


def _loss(end: RunEnd) -> str:
    """Return in a sentence why it is not known how a run ended."""
    if end.unreadable:
        reason = f"it is not known how it ended: cannot read the record of it: {end.unreadable}"
    elif end.displaced:
        reason = "it is not known how it ended: the record of it was removed or replaced while it ran"
    elif end.same_boot:
        reason = "interrupted: its supervisor was killed, so it is not known how it ended"
    else:
        when = "before its output was safe on disk" if end.had_ended else "while it ran"
        reason = f"interrupted: the machine went down {when}"
    return f"{reason}; its remaining processes were killed" if end.had_remains else reason

"""The journal's record of one deployment: its state, its last run and its result."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from heat_config_agent.model.deployment import FAILED_KEY, Result, given_name, title_of
from heat_config_hooks.values import dataclass


class State(str, enum.Enum):
    """The progress of a deployment."""

    DAMAGED = "damaged"
    """Its state was in a part of the journal that cannot be read any more, so it must not be run."""
    ACCEPTED = "accepted"
    RUNNING = "running"
    REBOOT = "reboot"
    """Its command asked for a reboot. After the reboot it is run again."""
    RETRY = "retry"
    """Its command exited with a code of its option `retry`. After a delay it is run again."""
    FINISHED = "finished"
    """Its result is not delivered yet."""
    SIGNALLED = "signalled"
    UNASKED = "unasked"
    """It has finished, and no server waits for the result."""
    REFUSED = "refused"
    """The server refused its result for good."""
    SUPERSEDED = "superseded"
    """It left the metadata before its result was delivered. The result is not sent unless it comes back."""


SETTLED = frozenset({State.SIGNALLED, State.UNASKED, State.REFUSED, State.SUPERSEDED})
"""The states in which nothing more is done, as long as the deployment does not change."""


OPEN = frozenset({State.ACCEPTED, State.RUNNING, State.RETRY, State.REBOOT})
"""The states of a deployment that runs, or waits to run."""


UNDELIVERED = frozenset({State.FINISHED, State.REFUSED, State.SUPERSEDED})
"""The states with a result that no server has received."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A command that was started, described so that another process can find it again."""

    mark: str = ""
    """A value in the environment of all its processes, and of no others: see `runs.supervisor.MARK`."""
    boot: str
    """The kernel's boot id: process ids mean nothing in another boot."""
    pid: int
    ticks: int
    """The start time of the process in clock ticks since boot. With it, the process id is unique."""
    began: float
    """Seconds since boot (CLOCK_BOOTTIME, which is not affected by changes of the clock)."""
    limit: float | None
    """The timeout in seconds; None for no timeout."""
    spent: float = 0.0
    """The seconds of it that earlier attempts have used, with the delays between them."""
    hook: str
    """The hook that `finish`es the run: `builtin:NAME`, or the path of an executable."""
    working: str
    outputs: str
    scope: str = ""
    """The folder of its control group if it is a systemd scope; else empty."""
    user: str = ""
    """The user that it ran as; empty for the agent's own."""
    isolated: str = ""
    """The parts of the machine from which it was kept away, as `isolation.described` has them."""

    @property
    def private(self) -> str:
        """The folder with everything of a run of another user, whose names only that user follows; else empty."""
        folder = self.working.rpartition("/")[0]
        return (
            folder
            if self.user and self.mark and folder.endswith(f"/{self.mark}")
            else ""
        )


class Removed(str, enum.Enum):
    """The parts of a deployment's data that retention has removed."""

    NOTHING = ""
    SECRETS = "secrets"
    """Its inputs and config, and the files with them that the tool received."""
    ALL = "all"
    """Everything except the fact that it ran and how it ended, so that it is never run again."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The journal's record of one deployment."""

    key: str
    id: str
    name: str
    action: str
    tool: str
    source: str
    addressee: str
    document: Mapping[str, object]
    """The entry of the document, unchanged. It is dropped when the journal is rewritten after the entry has settled."""
    state: State
    at: float
    """The time of the last change of `state`, in seconds since the epoch."""
    accepted: float
    started: float | None = None
    ended: float | None = None
    run: Run | None = None
    """The last run, also while another one is due."""
    values: Mapping[str, object] | None = None
    """The result as it is signalled. It is dropped when the journal is rewritten after the delivery."""
    failed: bool = False
    reason: str = ""
    owner: str = ""
    """See `Deployment.owner`; empty if the journal has lost the record."""
    reruns: int = 0
    """The number of runs after an interrupted one."""
    reboots: int = 0
    """The number of reboots that it asked for."""
    attempts: int = 0
    """The number of runs that ended with a code of its option `retry`, and after which it is or was run again."""
    spent: float = 0.0
    """The seconds of its timeout that these attempts have used, with the delays after them."""
    due: float = 0.0
    """The time of the next run in the state `RETRY`, in seconds since the boot of the last run."""
    tries: int = 0
    """The number of failed attempts to send the result."""
    trouble: str = ""
    """The reason why the last attempt failed."""
    not_before: float = 0
    """The server asked for no attempt before this time (seconds since the epoch)."""
    again: bool = False
    """True if a person asked for another run."""
    drift: str = ""
    """The drift that its run repairs, in words; empty for any other run."""
    marked: str = ""
    """The folder in which its `ID.json` is known to be on disk: if the file is missing, someone has removed it."""
    settled_at: float = 0.0
    """The time at which it last settled. This and the next are times of `state.clock`, which ignores clock changes."""
    left_at: float | None = None
    """The time at which it left the metadata; None while it is not known to have left."""
    removed: Removed = Removed.NOTHING
    untidy: bool = False
    """True if the files that its run received could not be removed when it was settled."""

    @property
    def given_name(self) -> str:
        """The name as the document has it, which may contain a secret: for comparisons, and never shown."""
        return given_name(self.document, self.name)

    @property
    def title(self) -> str:
        """The name by which people know the deployment, see `title_of`."""
        return title_of(self.owner, self.name, self.key)

    @property
    def is_follow_up(self) -> bool:
        """True if the agent has made it because another deployment has failed, see `deployments.follow_up`."""
        return self.key.endswith(FAILED_KEY)

    @property
    def run_at(self) -> float:
        """The time that tells the last run from others."""
        return self.ended or self.at

    @property
    def result(self) -> Result | None:
        """The result, as long as the journal has it."""
        if self.values is None:
            return None
        return Result(values=self.values, failed=self.failed, reason=self.reason)

    @property
    def has_failed(self) -> bool:
        """True if its run has failed, and its document still asks for it. A follow-up counts with what has failed."""
        return (
            self.failed
            and self.ended is not None
            and self.left_at is None
            and not self.is_follow_up
        )

    @property
    def settled(self) -> bool:
        """True if nothing more is done."""
        return self.state in SETTLED

    @property
    def over(self) -> bool:
        """True if nothing more is going to happen to the deployment, as far as is known."""
        damaged = self.state is State.DAMAGED and self.left_at is not None
        return (self.settled or damaged) and not self.again

    def are_secrets_due(self, seconds: float, now: float) -> bool:
        """Return whether the secrets have to go: it settled at least `seconds` before `now`, by `state.clock`."""
        late = (
            self.removed is Removed.SECRETS
            and self.values is not None
            and self.state not in UNDELIVERED
        )
        # a result may have been kept until it was delivered
        present = self.removed is Removed.NOTHING or late
        return present and self.over and now - self.settled_at >= seconds

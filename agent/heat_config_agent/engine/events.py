"""The events of the engine, for those who show them to people or hand them on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heat_config_agent.deployments.plan import Step
from heat_config_agent.model.entry import Entry, Run
from heat_config_agent.model.log import Log
from heat_config_agent.signals.delivery import Outcome
from heat_config_hooks.values import dataclass

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from typing import TypeAlias


@dataclass(frozen=True)
class Planned:
    """All deployments of the sources have been planned; the events of a plan may come before it."""

    steps: Sequence[Step]
    entries: Mapping[str, Entry]
    """The entries of the journal, by key."""


@dataclass(frozen=True)
class Begun:
    """A command runs; if it was resumed, since an earlier agent started it."""

    step: Step
    run: Run


@dataclass(frozen=True)
class Ended:
    """The result of a deployment is known and on record."""

    step: Step
    entry: Entry


@dataclass(frozen=True)
class RebootAsked:
    """A command asks for a reboot, and continues after it."""

    step: Step
    entry: Entry


@dataclass(frozen=True)
class Retried:
    """An attempt has failed with a code of the option `retry`; its command runs again when the entry is due."""

    step: Step
    entry: Entry


@dataclass(frozen=True)
class Resent:
    """The result of an earlier run is being sent again."""

    step: Step
    entry: Entry


@dataclass(frozen=True)
class Skipped:
    """The plan has skipped a deployment."""

    step: Step


@dataclass(frozen=True)
class Postponed:
    """A deployment could not begin for a reason that is not its own; the next pass tries again."""

    step: Step
    reason: str


@dataclass(frozen=True)
class Delivered:
    """A try to deliver a result has ended."""

    entry: Entry
    outcome: Outcome | None
    """The outcome of the delivery; None if the result is not sent, because its deployment was replaced."""


@dataclass(frozen=True)
class Drifted:
    """A verification has found that the machine is not as a deployment says."""

    entry: Entry
    text: str
    """A line for people, which begins with the name of the deployment. It has no secrets."""


@dataclass(frozen=True)
class Message:
    """A message for people that changes no state."""

    text: str
    is_warning: bool = True
    step: Step | None = None
    """The step of the deployment that the text names; None if it belongs to no single deployment."""


Event: TypeAlias = (
    "Planned | Begun | Ended | RebootAsked | Retried | Resent | Skipped | Postponed "
    "| Delivered | Drifted | Message"
)


class Report(Log):
    """Receives the events of the engine, and drops them. Subclasses show them; none may fail or take long."""

    def event(self, event: Event) -> None:
        """Receive an event."""

    def warn(self, text: str, step: Step | None = None) -> None:
        """Report a problem, perhaps of the deployment of a step, which the text names."""
        self.event(Message(text, step=step))

    def note(self, text: str, step: Step | None = None) -> None:
        """Report something that is good to know, perhaps about the deployment of a step, which the text names."""
        self.event(Message(text, is_warning=False, step=step))

"""Who is told what happens, as it happens."""

from __future__ import annotations

from heat_config_agent.model import Entry, Run
from heat_config_agent.plan import Step
from heat_config_agent.signals import Outcome


class Report:
    """Somebody who is told. Nothing that they do may hold up what is done, or end it."""

    def begun(self, step: Step, run: Run) -> None:
        """A command runs; of a resumed one, since before."""

    def ended(self, step: Step, entry: Entry) -> None:
        """The result of a deployment is known and on record."""

    def reboot(self, step: Step, entry: Entry) -> None:
        """A command asks for a reboot, and goes on after it."""

    def resent(self, step: Step) -> None:
        """A result of an earlier run is on its way again."""

    def skipped(self, step: Step) -> None:
        """There is nothing to do about a deployment."""

    def postponed(self, step: Step, why: str) -> None:
        """A deployment could not be begun for a reason that is not its own; the next pass tries again."""

    def delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        """A result was delivered, or not; without an outcome, it is not sent while its deployment is gone."""

    def warn(self, text: str) -> None:
        """Something is not as it should be."""

    def note(self, text: str) -> None:
        """Something that is good to know."""

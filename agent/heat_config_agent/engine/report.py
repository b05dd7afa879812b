"""The events of the engine, for those who show them to people."""

from __future__ import annotations

from heat_config_agent.deployments.plan import Step
from heat_config_agent.model.entry import Entry, Run
from heat_config_agent.model.log import Log
from heat_config_agent.signals.delivery import Outcome


class Report(Log):
    """Receives the events of the engine. Its methods do nothing here; none may fail or take long."""

    def begun(self, step: Step, run: Run) -> None:
        """A command runs; if it was resumed, since an earlier agent started it."""

    def ended(self, step: Step, entry: Entry) -> None:
        """The result of a deployment is known and on record."""

    def reboot(self, step: Step, entry: Entry) -> None:
        """A command asks for a reboot, and continues after it."""

    def retry(self, step: Step, entry: Entry) -> None:
        """An attempt has failed with a code of the option `retry`; its command runs again when the entry is due."""

    def resent(self, step: Step, entry: Entry) -> None:
        """The result of an earlier run is being sent again."""

    def skipped(self, step: Step) -> None:
        """There is nothing to do for a deployment."""

    def postponed(self, step: Step, why: str) -> None:
        """A deployment could not begin for a reason that is not its own; the next pass tries again."""

    def delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        """A try to deliver a result has ended; `outcome` is None if it is not sent, as its deployment was replaced."""

    def remarked(self, step: Step, text: str, *, warning: bool = True) -> None:  # noqa: ARG002
        """There is more to say about a deployment, in a line that names it; it changes no state."""
        if warning:
            self.warn(text)
        else:
            self.note(text)


class Relay(Report):
    """Forwards every event to other reports."""

    def __init__(self, *reports: Report) -> None:
        """Forward to these reports, in this order."""
        self.reports = reports

    def begun(self, step: Step, run: Run) -> None:
        for report in self.reports:
            report.begun(step, run)

    def ended(self, step: Step, entry: Entry) -> None:
        for report in self.reports:
            report.ended(step, entry)

    def reboot(self, step: Step, entry: Entry) -> None:
        for report in self.reports:
            report.reboot(step, entry)

    def retry(self, step: Step, entry: Entry) -> None:
        for report in self.reports:
            report.retry(step, entry)

    def resent(self, step: Step, entry: Entry) -> None:
        for report in self.reports:
            report.resent(step, entry)

    def skipped(self, step: Step) -> None:
        for report in self.reports:
            report.skipped(step)

    def postponed(self, step: Step, why: str) -> None:
        for report in self.reports:
            report.postponed(step, why)

    def delivered(self, entry: Entry, outcome: Outcome | None) -> None:
        for report in self.reports:
            report.delivered(entry, outcome)

    def remarked(self, step: Step, text: str, *, warning: bool = True) -> None:
        for report in self.reports:
            report.remarked(step, text, warning=warning)

    def warn(self, text: str) -> None:
        for report in self.reports:
            report.warn(text)

    def note(self, text: str) -> None:
        for report in self.reports:
            report.note(text)

"""The runs of a deployment whose output is kept, numbered from the oldest.

A deployment has several runs if its action was repeated, and one for each further action. The output of the last run of
an action is in the folder of that run, and `runs.earlier` keeps that of the runs before it, masked.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from heat_config_agent.cli import terminal
from heat_config_agent.cli.deployments import named
from heat_config_agent.model import states, wording
from heat_config_agent.model.deployment import FAILED_KEY
from heat_config_agent.model.entry import Entry
from heat_config_agent.model.errors import NotFoundError
from heat_config_agent.model.states import Shown
from heat_config_agent.runs import earlier, run_folder
from heat_config_agent.state import journal
from heat_config_hooks.values import dataclass

HEADER = ("RUN", "STATE", "ACTION", "STARTED", "TOOK", "DETAILS")
"""The header of a table of runs."""


@dataclass(frozen=True, kw_only=True)
class KeptRun:
    """One run whose output is kept."""

    number: int
    """1 for the oldest that is kept."""
    entry: Entry
    folder: Path
    """The folder with its output."""
    before: earlier.Earlier | None
    """The facts about it if a later run of the same action has followed; None for the last run of that action."""

    @property
    def outcome(self) -> str:
        """The action of the run, and how it ended."""
        return f"{self.action}, {self.state}" if self.action else self.state.value

    @property
    def action(self) -> str:
        """The action that it was of."""
        return self.before.action if self.before else self.entry.action

    @property
    def started(self) -> float | None:
        """When it began, in seconds since the epoch."""
        return self.before.started if self.before else self.entry.started

    @property
    def ended(self) -> float | None:
        """When it ended, in seconds since the epoch."""
        return self.before.ended if self.before else self.entry.ended

    @property
    def failed(self) -> bool | None:
        """True if it failed; None if it has not ended."""
        if self.before:
            return self.before.failed
        return self.entry.failed if self.entry.ended else None

    @property
    def reason(self) -> str:
        """The reason of its failure, or another remark about it."""
        return self.before.reason if self.before else self.entry.reason

    @property
    def state(self) -> Shown:
        """The state of the run."""
        if self.failed is None:
            return states.of_entry(self.entry)
        return Shown.FAILED if self.failed else Shown.OK

    @property
    def seconds(self) -> float | None:
        """How long it took; None if it has not ended."""
        if not self.started or not self.ended:
            return None
        return max(round(self.ended - self.started, 3), 0.0)

    @property
    def values(self) -> dict[str, object]:
        """The run as JSON."""
        return {
            "run": self.number,
            "id": self.entry.id or None,
            "action": self.action or None,
            "state": self.state.value,
            "started": wording.stamp(self.started),
            "ended": wording.stamp(self.ended),
            "run_seconds": self.seconds,
            "reason": self.reason,
        }

    @property
    def row(self) -> tuple[str, ...]:
        """The run as a row of a table."""
        took = terminal.duration(self.seconds) if self.seconds is not None else "-"
        return (
            str(self.number),
            self.state.value,
            self.action or "-",
            terminal.moment(self.started),
            took,
            self.reason.replace("\n", "; "),
        )


def of(found: named.Named) -> list[KeptRun]:
    """Return the runs of a deployment whose output is kept, oldest first."""
    runs: list[KeptRun] = []
    for entry in found.same:
        folder = found.settings.state / "runs" / entry.key
        for each in earlier.listed(folder):
            runs.append(
                KeptRun(
                    number=len(runs) + 1, entry=entry, folder=each.folder, before=each
                )
            )
        if _has_run(entry, folder):
            runs.append(
                KeptRun(number=len(runs) + 1, entry=entry, folder=folder, before=None)
            )
    return runs


def follow_up(state: Path, entry: Entry) -> Entry | None:
    """Return the entry of the follow-up of a failed deployment; None if it had none."""
    if not entry.failed and entry.ended is not None:
        return None
    entries = journal.read(state, follow_ups=True)
    after = entries.get(f"{entry.key}{FAILED_KEY}")
    now = entries.get(entry.key, entry)
    # else it followed an earlier failure
    is_its = after is not None and now.failed and after.accepted > now.accepted
    return after if is_its else None


def _has_run(entry: Entry, folder: Path) -> bool:
    """Return whether the output in the folder of a run is that of the last run of an entry."""
    begun = entry.run is not None and run_folder.status(folder, entry.run.mark).exists()
    return begun and has_output(folder)


def has_output(folder: Path) -> bool:
    """Return whether the output in the folder of a run is there, and was not moved to that of earlier runs."""
    return (folder / "stdout").exists()


def choose(runs: list[KeptRun], number: int, title: str, hint: str) -> KeptRun:
    """Return a run by its number: 1 is the oldest, 0 the newest, -1 the one before the newest. Raises NotFoundError."""
    if not -len(runs) < number <= len(runs):
        kept = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        raise NotFoundError(
            f"there is no run {number} of {title}: the output of {kept} is kept",
            hint=hint,
            subject=("run", f"{title} {number}"),
        )
    return runs[number - 1]


def number(text: str) -> int:
    """Read the value of the option `--run`."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of a run, such as 1 or -1"
        ) from None

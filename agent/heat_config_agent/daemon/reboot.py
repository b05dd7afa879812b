"""The reboot of the machine that deployments ask for (exit code 194).

The machine is rebooted once nothing runs and results have had time to be delivered, but not while the agent is paused.
If the reboot fails, the deployments that asked for it fail with the reason.
"""

from __future__ import annotations

import os
import subprocess
import time

from heat_config_agent.engine.applier import Applier
from heat_config_agent.engine.events import Report
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import asked
from heat_config_hooks import processes

TYPE_CHECKING = False  # as `typing` has it, which takes long to load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from heat_config_agent.state.followed import (
        Followed,
    )  # few machines follow a source

SECONDS = 300.0
"""Seconds that the machine has to go down after the reboot command."""

LATE = 60.0
"""Seconds after which it is reported that the machine is still up."""

LAST_WORDS = 10.0
"""Seconds that results have to be delivered before the machine is rebooted."""


class Reboot:
    """The reboot that deployments wait for, if there is one."""

    def __init__(
        self,
        applier: Applier,
        report: Report,
        begins: Callable[[], None] = lambda: None,
    ) -> None:
        """Reboot the machine for the deployments of an applier. `begins` is called right before the reboot command."""
        self._applier = applier
        self._report = report
        self._begins = begins
        self._asked: float | None = None
        """Since when deployments wait, in monotonic seconds."""
        self._told: tuple[subprocess.Popen[bytes], tuple[str, ...], float] | None = None
        """The process of the reboot command, the command, and when it was started in monotonic seconds."""
        self._is_late_told = False
        """True if the report has the sentence `late`."""
        self._followed: tuple[str, ...] = ()
        """The stacks that follow a source, and of which a deployment waits for a reboot."""
        self._not_before = 0.0
        """The earliest time for a reboot, in monotonic seconds: later if one has failed."""

    @property
    def is_under_way(self) -> bool:
        """True if the reboot command was started."""
        return self._told is not None

    @property
    def late(self) -> str:
        """A sentence that says that the machine should be down by now; empty if it is not late."""
        if self._told is None or time.monotonic() - self._told[2] < LATE:
            return ""
        return f"the machine has not gone down {LATE:g} s after «{' '.join(self._told[1])}»"

    @property
    def is_wanted(self) -> bool:
        """True if a deployment waits for a reboot, or the reboot command was started."""
        return self.is_under_way or bool(self._applier.work.reboots or self._followed)

    def tend(self, settings: Settings, records: Sequence[Followed] = ()) -> None:
        """Start the reboot if it is due, or check its outcome. Raises StateError.

        `records` are those of the stacks that follow a source.
        """
        now = time.monotonic()
        begun = [record for record in records if record.begun]
        waiting = [
            record.name for record in begun if record.reboot == processes.boot_id()
        ]
        self._followed = tuple(waiting) if now >= self._not_before else ()
        if self._told is not None:
            self._wait(*self._told)
        elif not self.is_wanted or not settings.flag("may_reboot"):
            self._asked = None
        elif len(begun) > len(waiting):
            return  # another stack is worked on
        else:
            self._asked = self._asked or now
            last_words = self._applier.work.busy and now - self._asked < LAST_WORDS
            if (
                not self._applier.work.running
                and not last_words
                and not asked.paused(settings.state)
            ):
                self._begin(settings)

    def _begin(self, settings: Settings) -> None:
        command = settings.reboot_command
        names = ", ".join(
            [*(entry.title for entry in self._applier.work.reboots), *self._followed]
        )
        self._report.note(
            f"rebooting the machine with «{' '.join(command)}»: {names} asked for it"
        )
        self._applier.settle()
        self._begins()
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PATH": settings.environment["PATH"], "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._failed(f"«{' '.join(command)}» cannot be started: {reason}")
        else:
            self._told = (process, command, time.monotonic())
            self._is_late_told = False

    def _wait(
        self, process: subprocess.Popen[bytes], command: tuple[str, ...], since: float
    ) -> None:
        """See whether the reboot command has failed; if it works, the agent ends with the machine."""
        code = process.poll()
        if self.late and not self._is_late_told:
            self._is_late_told = True
            self._report.warn(self.late)
        if not code and time.monotonic() - since < SECONDS:
            return
        words = " ".join(command)
        if code:
            reason = f"«{words}» ended with exit code {code}{_last_line(process)}"
        else:
            reason = f"{SECONDS:g} s after «{words}» the machine has not gone down"
        self._told = None
        self._failed(reason)

    def _failed(self, reason: str) -> None:
        """Answer the deployments that wait as failed; those of stacks that follow a source wait for another reboot."""
        self._not_before = time.monotonic() + SECONDS
        if self._followed:
            self._report.warn(
                f"cannot reboot the machine, and {', '.join(self._followed)} waits for it: {reason}"
            )
        self._applier.reboot_failed(reason)


def _last_line(process: subprocess.Popen[bytes]) -> str:
    if process.stderr is None:
        return ""
    os.set_blocking(process.stderr.fileno(), False)
    lines = (
        (process.stderr.read() or b"").decode("utf-8", "replace").strip().splitlines()
    )
    return f": {lines[-1][:200]}" if lines else ""

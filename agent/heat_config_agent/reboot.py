"""The reboot of the machine that deployments ask for (exit code 194).

It is done once nothing runs and results have had their time, and not while the agent is paused. Where it cannot be,
those that asked for it are answered with why.
"""

from __future__ import annotations

import os
import subprocess
import time

from heat_config_agent import asked, kill_points
from heat_config_agent.apply import Applier
from heat_config_agent.report import Report
from heat_config_agent.settings import Settings

SECONDS = 300.0
"""Seconds that a machine has to go down once it was told to."""

LATE = 60.0
"""Seconds after which it is remarkable that it has not."""

LAST_WORDS = 10.0
"""Seconds that results have to be delivered before the machine is rebooted."""


class Reboot:
    """The reboot that deployments wait for, if any do."""

    def __init__(self, applier: Applier, report: Report) -> None:
        """Reboot for the deployments of an applier."""
        self._applier = applier
        self._report = report
        self._asked: float | None = None
        """Since when deployments wait; this and the next in monotonic seconds."""
        self._told: tuple[subprocess.Popen[bytes], tuple[str, ...], float] | None = None
        """What was told to reboot the machine, in which words, and when."""

    @property
    def is_under_way(self) -> bool:
        """Whether the machine was told to reboot."""
        return self._told is not None

    @property
    def late(self) -> str:
        """That the machine should have gone down by now; empty where it should not."""
        if self._told is None or time.monotonic() - self._told[2] < LATE:
            return ""
        return f"the machine has not gone down {LATE:g} s after «{' '.join(self._told[1])}»"

    def tend(self, given: Settings) -> None:
        """Do what there is to do now. Raises StateError."""
        now = time.monotonic()
        if self._told is not None:
            self._wait(*self._told)
        elif not self._applier.reboots:
            self._asked = None
        else:
            self._asked = self._asked or now
            last_words = self._applier.busy and now - self._asked < LAST_WORDS
            if not self._applier.running and not last_words and not asked.paused(given.state):
                self._begin(given)

    def _begin(self, given: Settings) -> None:
        command = given.reboot_command
        names = ", ".join(each.name for each in self._applier.reboots)
        self._report.note(f"rebooting the machine with «{' '.join(command)}»: {names} asked for it")
        self._applier.settle()
        kill_points.reached("loop.reboot.before")
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env={"PATH": given.environment["PATH"], "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError) as error:
            why = getattr(error, "strerror", None) or str(error)
            self._applier.reboot_failed(f"«{' '.join(command)}» cannot be started: {why}")
        else:
            self._told = (started, command, time.monotonic())
            kill_points.reached("loop.reboot.after")

    def _wait(self, process: subprocess.Popen[bytes], command: tuple[str, ...], since: float) -> None:
        """Wait for the end, of us too. If it does not come, say so."""
        code = process.poll()
        if not code and time.monotonic() - since < SECONDS:
            return
        words = " ".join(command)
        if code:
            why = f"«{words}» ended with exit code {code}{_last_line(process)}"
        else:
            why = f"{SECONDS:g} s after «{words}» the machine has not gone down"
        self._told = None
        self._applier.reboot_failed(why)


def _last_line(process: subprocess.Popen[bytes]) -> str:
    if process.stderr is None:
        return ""
    os.set_blocking(process.stderr.fileno(), False)
    lines = (process.stderr.read() or b"").decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""

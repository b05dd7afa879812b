"""Where the time of a long run went: lines at its end, for each of its processes and for the processors.

A process that ends long before the others had nothing left to run: a test or a file that takes long has begun too late
(`takes`, see `support.distribution`). Processors that are idle waited for all of them.
"""

from __future__ import annotations

import os
import resource
import time
from collections import defaultdict
from pathlib import Path
from typing import Protocol

import pytest

LONG = 60.0
"""The seconds that a run takes at least of which this is said."""

_NAMED = 3
"""The number of files that are named for each process: those that took it longest."""

_PROCESSOR = "processor seconds"


class Node(Protocol):
    """A process of pytest-xdist, as the process that commands it sees it."""

    workeroutput: dict[str, object]
    workerinput: dict[str, str]


class Times:
    """The plugin of the process that makes the summary."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._processors = _processors()
        self._files: dict[str, dict[str, float]] = {}
        self._ended: dict[str, float] = {}
        self._worked: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the time of a test."""
        name = getattr(report, "worker_id", "")
        if name:
            file = report.nodeid.partition("::")[0]
            files = self._files.setdefault(name, defaultdict(float))
            files[file] += report.duration
            self._ended[name] = time.monotonic() - self._began

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Node) -> None:
        """Take the processor time of a process that has ended, if it was not killed."""
        worked = getattr(node, "workeroutput", {}).get(_PROCESSOR)
        if isinstance(worked, float):
            self._worked[node.workerinput["workerid"]] = worked

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Say it."""
        if self._files and time.monotonic() - self._began >= LONG:
            terminalreporter.section("where the time went")
            for line in self.lines():
                terminalreporter.write_line(line)

    def lines(self) -> list[str]:
        """Return a line for each process, and one for the processors."""
        before, now = self._processors, _processors()
        whole = (now[0] - before[0]) or 1.0
        idle = f"{(now[1] - before[1]) / whole:.0%} of the processors' time was idle"
        return [*(self._line(name) for name in sorted(self._files)), idle]

    def _line(self, name: str) -> str:
        files = self._files[name]
        longest = ", ".join(
            f"{file.removeprefix('tests/').removesuffix('.py')} {seconds:.0f} s"
            for file, seconds in sorted(files.items(), key=lambda each: -each[1])[
                :_NAMED
            ]
        )
        return (
            f"{name}: {sum(files.values()):.0f} s of tests, {self._worked.get(name, 0.0):.0f} s of processor, "
            f"the last one ended after {self._ended[name]:.0f} s; {longest}"
        )


def tell(config: pytest.Config) -> None:
    """Pass the processor time of this process, and of all that it has waited for, to the one that commands it."""
    output: dict[str, object] | None = getattr(config, "workeroutput", None)
    if output is not None:
        usages = map(
            resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        output[_PROCESSOR] = sum(each.ru_utime + each.ru_stime for each in usages)


def _processors() -> tuple[float, float]:
    """Return the seconds of all processors since the machine began, and those of them that were idle."""
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    ticks = [int(each) for each in first.split()[1:9]]
    unit = os.sysconf("SC_CLK_TCK")
    return sum(ticks) / unit, (ticks[3] + ticks[4]) / unit

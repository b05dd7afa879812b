"""The tests that have passed in an earlier run: `--rest` leaves them out, and counts them in the summary.

So `.ci/run` can run the tests that need only `.venv` before the tools are installed, and afterwards all others, with
one summary at the end. A test that was skipped for want of a tool runs in the second run.
"""

from __future__ import annotations

import pytest

_PASSED = "suite/passed"
"""The names of the tests, in pytest's cache."""


def declare(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addoption(
        "--rest",
        action="store_true",
        help="leave out the tests that passed in the last run, but count them",
    )


COLLECTED = pytest.StashKey[list[pytest.Item]]()
"""All tests of a run, with those that are left out."""


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that passed in the last run, if the option says so."""
    config.stash[COLLECTED] = [*items]
    passed = _before(config)
    if not passed:
        return
    config.hook.pytest_deselected(
        items=[item for item in items if item.nodeid in passed]
    )
    items[:] = [item for item in items if item.nodeid not in passed]


def _before(config: pytest.Config) -> frozenset[str]:
    """Return the tests to leave out."""
    cache = getattr(config, "cache", None)
    return (
        frozenset(cache.get(_PASSED, ()))
        if cache and config.getoption("rest", default=False)
        else frozenset()
    )


class Outcomes:
    """The plugin that counts what has passed, in the process that makes the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test."""
        name = _plain(report.nodeid)
        if report.failed:
            self._failed.add(name)
            self._show(name, report)
        elif report.passed and report.when == "call":
            self._passed.add(name)

    def _show(self, name: str, report: pytest.TestReport) -> None:
        """Name a failed test at once: a run that does not come to its end has shown it."""
        terminal: pytest.TerminalReporter | None = (
            self._config.pluginmanager.get_plugin("terminalreporter")
        )
        if terminal is not None:
            reason = report.longreprtext.strip().rpartition("\n")[2]
            terminal.write_line(f"\nFAILED {name} ({report.when}): {reason}", red=True)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Count the tests of the run before, and keep what has passed for the next one."""
        before = _before(self._config)
        if before:
            terminalreporter.write_line(
                f"{len(before):,} of the tests below passed in the run before this one"
            )
            place = ("", 0, "")
            reports = [
                pytest.TestReport(name, place, {}, "passed", None, "call")
                for name in before
            ]
            terminalreporter.stats.setdefault("passed", []).extend(reports)
        cache = getattr(self._config, "cache", None)
        if cache and self._passed:
            cache.set(_PASSED, sorted((self._passed | before) - self._failed))


def _plain(nodeid: str) -> str:
    """Return the name of a test without the group that pytest-xdist appends."""
    name, at, _ = nodeid.rpartition("@")
    return name if at and nodeid.rfind("@") > nodeid.rfind("]") else nodeid

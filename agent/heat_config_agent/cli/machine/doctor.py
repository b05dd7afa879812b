"""`heat-config-agent doctor`: Check whether this machine can carry out deployments, and show what to do if it cannot.

Nothing is changed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator

import heat_config_hooks
from heat_config_agent.cli import state_options, terminal
from heat_config_agent.cli.apply import ready
from heat_config_agent.deployments import metadata, selection
from heat_config_agent.doctor import Finding, Verdict, machine, ok, rules, warning
from heat_config_agent.model.deployment import Document
from heat_config_agent.model.errors import ExitCode, StateError
from heat_config_agent.runs.tools import Tools
from heat_config_agent.settings import effective
from heat_config_agent.settings.effective import Settings
from heat_config_agent.state import journal
from heat_config_hooks.values import dataclass, field

_EPILOG = """\
The checks cover the settings, the state directory, the running agent, the programs that hooks need, and every source:
its name service, proxies, certificates, clocks and Keystone. Each source is asked once, and no message is taken from a
queue. The command takes some seconds, and about a minute at most.

exit codes:
  0  no check failed; there may be warnings
  1  a check failed
  2  bad usage
"""

_WORDS = {Verdict.OK: "OK", Verdict.WARNING: "warning", Verdict.FAILED: "FAILED"}
_STYLES = {Verdict.OK: "good", Verdict.WARNING: "warn", Verdict.FAILED: "bad"}

_TEXT = 23
"""The column where the text of a finding begins."""

PATIENCE = 1.0
"""Seconds after which a line shows which check is still running."""


def add(commands: state_options.Commands) -> None:
    """Declare the command."""
    parser = state_options.command(
        commands,
        "doctor",
        "check whether this machine can carry out deployments",
        __doc__,
        epilog=_EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run all checks."""
    mistakes: list[str] = []
    settings = effective.make(
        os.environ, config=options.config, state=options.state_dir, mistakes=mistakes
    )
    findings: list[Finding] = []
    progress = _Progress(shown=terminal.is_live() and not options.json)
    for finding in _findings(settings, mistakes, progress):
        findings.append(finding)
        progress.clear()
        if not options.json:
            _show(finding)
    progress.clear()
    failures = sum(finding.verdict is Verdict.FAILED for finding in findings)
    warnings = sum(finding.verdict is Verdict.WARNING for finding in findings)
    if options.json:
        checks = [
            {
                "verdict": finding.verdict.value,
                "check": finding.check,
                "says": finding.text,
                "todo": finding.todo or None,
            }
            for finding in findings
        ]
        terminal.say(
            json.dumps(
                {
                    "ok": not failures,
                    "failed": failures,
                    "warnings": warnings,
                    "checks": checks,
                }
            )
        )
    else:
        summary = (
            f"{terminal.count(failures, 'check')} failed"
            if failures
            else "no check failed"
        )
        more = f", {terminal.count(warnings, 'warning')}" if warnings else ""
        terminal.say(terminal.styled(f"{summary}{more}", "bad" if failures else "good"))
    return ExitCode.FAILED if failures else ExitCode.OK


def _findings(
    settings: Settings, mistakes: list[str], progress: _Progress
) -> Iterator[Finding]:
    yield from machine.findings(settings, mistakes)
    # not earlier: its processes would inherit the test script while it is open
    programs = _Programs(settings)
    from heat_config_agent.doctor.sources import Asking  # noqa: PLC0415  # 200 ms, only for this command

    asking = Asking(settings)
    yield from asking.findings(progress.show)
    yield from rules.check_refused(settings, asking.documents)
    progress.show("the programs of hooks")
    yield from programs.findings(asking.documents)


class _Programs:
    """The programs that hooks need; a thread asks them for their versions while other checks run."""

    def __init__(self, settings: Settings) -> None:
        self._unreadable: list[str] = []
        self._tools = Tools(settings.hooks, self._unreadable.append)
        self._every = list(self._tools.installed().values())
        self._environment = settings.environment
        self._state = settings.state
        self._states: list[ready.State] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def findings(self, documents: list[Document]) -> Iterator[Finding]:
        """Yield the hooks that cannot be used. A missing program is a warning only if a deployment needs it."""
        for trouble in self._unreadable:
            yield warning("hooks", trouble, "correct `hooks`, or the directory")
        self._thread.join(2 * ready.SECONDS)
        if not self._states:
            yield warning(
                "hooks",
                "the versions of their programs are not known",
                "heat-config-agent hooks",
            )
            return
        states = dict(
            zip((tool.name for tool in self._every), self._states, strict=True)
        )
        needed = _needed(documents)
        wanted = {}
        with contextlib.suppress(StateError):  # the check of the agent reports it
            wanted = ready.absent(journal.read(self._state), states.keys())
        for name in sorted((needed | wanted.keys()) - states.keys()):
            if problem := wanted.get(name) or heat_config_hooks.absent(name):
                yield warning(
                    "hooks", f"a deployment needs the tool {name!r}: {problem}"
                )
            else:
                problem = f"a deployment needs the tool {name!r}, which has no hook"
                yield warning("hooks", problem, "heat-config-agent hooks")
        for tool in self._every:
            state = states[tool.name]
            if not state.problem:
                continue
            if tool.name in needed or not (state.lacks or state.needs_systemd):
                need = "a deployment needs it, and " if tool.name in needed else ""
                yield warning("hooks", f"{tool.name}: {need}{state.problem}")
        yield ok("hooks", self._summary())

    def _summary(self) -> str:
        states = list(
            zip((tool.name for tool in self._every), self._states, strict=True)
        )
        usable = sum(not state.problem for state in self._states)
        missing = ", ".join(name for name, state in states if state.lacks)
        units = " or ".join(name for name, state in states if state.needs_systemd)
        return (
            f"{usable} of {len(states)} tools ready"
            + (f"; missing programs for: {missing}" if missing else "")
            + (f"; systemd does not run here for {units}" if units else "")
        )

    def _ask(self) -> None:
        self._states = ready.states(self._every, self._environment)


def _needed(documents: list[Document]) -> set[str]:
    """Return the names of the tools that deployments need."""
    deployments = metadata.parse_all(documents)[0]
    return {name for each in deployments for name in selection.tools(each) if name}


def _show(finding: Finding) -> None:
    word = terminal.styled(
        terminal.padded(_WORDS[finding.verdict], 7), _STYLES[finding.verdict]
    )
    todo = f" → {terminal.line(finding.todo)}" if finding.todo else ""
    text = terminal.wrapped(
        f"{terminal.line(finding.text)}{todo}", _TEXT, terminal.room(), begin=_TEXT
    )
    terminal.say(f"{word}  {terminal.padded(terminal.line(finding.check), 12)}  {text}")


@dataclass
class _Progress:
    """A line on a terminal that shows which check is still running."""

    shown: bool
    _since: float = field(default_factory=time.monotonic)
    _drawn: str = ""

    def show(self, check: str) -> None:
        """Draw the line, unless the command has just begun."""
        seconds = time.monotonic() - self._since
        if not self.shown or seconds < PATIENCE or not check:
            return
        text = terminal.shortened(
            terminal.line(f"waiting for {check}, {seconds:.0f} s"), terminal.width() - 1
        )
        if text != self._drawn:
            self._drawn = text
            terminal.say(f"\r{text}\x1b[J\r", end="")

    def clear(self) -> None:
        """Remove the line."""
        if self._drawn:
            self._drawn = ""
            terminal.say("\r \x1b[J\r", end="")

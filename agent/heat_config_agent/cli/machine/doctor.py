"""`heat-config-agent doctor`: Check whether this machine can carry out deployments, and show what to do if it cannot.

Nothing is changed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import heat_config_hooks
from heat_config_agent.cli import envelope, stack_package, state_options, terminal
from heat_config_agent.cli.apply import ready
from heat_config_agent.deployments import metadata, selection
from heat_config_agent.doctor import (
    Finding,
    Verdict,
    closed,
    machine,
    ok,
    rules,
    warning,
)
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

_ORDER = (Verdict.FAILED, Verdict.WARNING, Verdict.OK)
"""The worst comes first."""

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
    parser.add_argument(
        "--all", action="store_true", help="show also the checks without a problem"
    )
    state_options.add_json(parser)
    parser.set_defaults(run=run, kind="doctor")


def run(options: argparse.Namespace) -> int:
    """Run all checks."""
    mistakes: list[str] = []
    settings = effective.make(
        os.environ, config=options.config, state=options.state_dir, mistakes=mistakes
    )
    progress = _Progress(shown=terminal.shows_progress())
    findings: list[Finding] = []
    try:
        for finding in _findings(settings, mistakes, progress):
            findings.append(finding)
            progress.clear()
    finally:
        progress.clear()
    findings.sort(key=lambda finding: _ORDER.index(finding.verdict))
    numbers = Counter(finding.verdict for finding in findings)
    failures, warnings = numbers[Verdict.FAILED], numbers[Verdict.WARNING]
    code = ExitCode.FAILED if failures else ExitCode.OK
    more = f", {terminal.count(warnings, 'warning')}" if warnings else ""
    if options.json:
        failure = None
        if failures:
            message = f"{terminal.count(failures, 'check')} failed{more}"
            failure = envelope.Failure("failed", message, findings[0].todo)
        envelope.result(_values(findings, numbers), code=code, error=failure)
        return code
    _show(findings, every=options.all)
    terminal.say(f"\n{f'{failures} failed' if failures else 'no check failed'}{more}")
    return code


def _values(
    findings: Sequence[Finding], numbers: Counter[Verdict]
) -> dict[str, object]:
    return {
        "checks": [
            {
                "name": finding.check,
                "state": finding.verdict.value,
                "message": finding.text,
                "hint": finding.todo or None,
            }
            for finding in findings
        ],
        **{
            key: numbers[verdict]
            for key, verdict in zip(("failed", "warnings", "ok"), _ORDER, strict=True)
        },
    }


def _findings(
    settings: Settings, mistakes: list[str], progress: _Progress
) -> Iterator[Finding]:
    records = () if closed(settings.state) else stack_package.followed_records(settings)
    yield from machine.findings(settings, mistakes, records)
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
            yield warning("tools", trouble, "correct `hooks`, or the directory")
        self._thread.join(2 * ready.SECONDS)
        if not self._states:
            yield warning(
                "tools",
                "the versions of their programs are not known",
                "heat-config-agent tool list",
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
                    "tools", f"a deployment needs the tool {name!r}: {problem}"
                )
            else:
                problem = f"a deployment needs the tool {name!r}, which has no hook"
                yield warning("tools", problem, "heat-config-agent tool list")
        for tool in self._every:
            state = states[tool.name]
            if not state.problem:
                continue
            if tool.name in needed or not (state.lacks or state.needs_systemd):
                need = "a deployment needs it, and " if tool.name in needed else ""
                yield warning("tools", f"{tool.name}: {need}{state.problem}")
        usable = sum(not state.problem for state in self._states)
        ready_ = f"{usable} of {len(self._states)} ready"
        yield ok("tools", self._summary(ready_), ready_)

    def _summary(self, ready_: str) -> str:
        states = list(
            zip((tool.name for tool in self._every), self._states, strict=True)
        )
        missing = ", ".join(name for name, state in states if state.lacks)
        units = " or ".join(name for name, state in states if state.needs_systemd)
        return (
            ready_
            + (f"; missing programs for: {missing}" if missing else "")
            + (f"; systemd does not run here for {units}" if units else "")
        )

    def _ask(self) -> None:
        self._states = ready.states(self._every, self._environment)


def _needed(documents: list[Document]) -> set[str]:
    """Return the names of the tools that deployments need."""
    deployments = metadata.parse_all(documents)[0]
    return {name for each in deployments for name in selection.tools(each) if name}


def _show(findings: Sequence[Finding], *, every: bool) -> None:
    """Print the checks, the worst first; those without a problem are only counted, unless `every` one is shown."""
    shown = [each for each in findings if every or each.verdict is not Verdict.OK]
    rows = [(each.verdict.value, each.check, each.text) for each in shown]
    todos = [each.todo for each in shown]
    if not every and (fine := _fine(findings)):
        rows.append(("ok", *fine))
        todos.append("")
    is_live = terminal.is_live()
    if not is_live:
        # one row is one line for a program
        rows = [
            (state, check, f"{text} (to do: {todo})" if todo else text)
            for (state, check, text), todo in zip(rows, todos, strict=True)
        ]
    header, *lines = terminal.table(rows, header=("STATE", "CHECK", "DETAILS"))
    terminal.say(header)
    begin = terminal.columns(header.partition("DETAILS")[0])
    for line, todo in zip(lines, todos, strict=True):
        terminal.say(line)
        if todo and is_live:
            text = f"to do: {terminal.line(todo)}"
            text = terminal.wrapped(text, begin, terminal.room(), begin=begin)
            terminal.say(" " * begin + text)


def _fine(findings: Sequence[Finding]) -> tuple[str, str] | None:
    """Return the number of checks without a problem, and their names; None if there are none."""
    others = {each.check for each in findings if each.verdict is not Verdict.OK}
    briefs: dict[str, str] = {}
    for each in findings:
        if each.check not in others:
            briefs[each.check] = each.brief or briefs.get(each.check, "")
    if not briefs:
        return None
    names = [f"{name} ({brief})" if brief else name for name, brief in briefs.items()]
    count = f"{len(names)} more" if others else terminal.count(len(names), "check")
    return count, f"{', '.join(names)} (--all shows them)"


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
            terminal.say(f"\r{text}\x1b[J\r", end="", error=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._drawn:
            self._drawn = ""
            terminal.say("\r \x1b[J\r", end="", error=True)

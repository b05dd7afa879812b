"""`heat-config-agent doctor`: whether this machine can do its work, and if not, what to do. Nothing is changed."""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Iterator

from heat_config_agent import metadata, selection, settings
from heat_config_agent.checks import Finding, Verdict, machine, ok, warning
from heat_config_agent.cli import chosen, ready, terminal
from heat_config_agent.errors import ExitCode
from heat_config_agent.model import Document, Tool
from heat_config_agent.settings import Settings
from heat_config_agent.tools import Tools
from heat_config_hooks.values import dataclass, field

_EPILOG = """\
Looks at the settings, the state directory, the agent that runs (if one does), every source that would be asked, with
name service, proxies, certificates, clocks and Keystone, and at the programs that hooks need. Each source is asked
once; nothing is taken from a queue. It takes some seconds, and never much more than a minute.

exit codes:
  0  all is well, perhaps with warnings
  1  something failed
  2  bad usage
"""

_WORDS = {Verdict.OK: "OK", Verdict.WARNING: "warning", Verdict.FAILED: "FAILED"}
_STYLES = {Verdict.OK: "good", Verdict.WARNING: "warn", Verdict.FAILED: "bad"}

PATIENCE = 1.0
"""Seconds after which it is said what is waited for."""


def add(commands: chosen.Commands) -> None:
    """Declare the command."""
    parser = chosen.command(
        commands, "doctor", "can this machine do its work, and if not, what to do", __doc__, epilog=_EPILOG
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Look at everything."""
    wrong: list[str] = []
    given = settings.make(os.environ, config=options.config, state=options.state_dir, wrong=wrong)
    found: list[Finding] = []
    progress = _Progress(shown=terminal.is_live() and not options.json)
    for each in _findings(given, wrong, progress):
        found.append(each)
        progress.clear()
        if not options.json:
            _show(each)
    progress.clear()
    failures = sum(each.verdict is Verdict.FAILED for each in found)
    warnings = sum(each.verdict is Verdict.WARNING for each in found)
    if options.json:
        checks = [
            {"verdict": each.verdict.value, "check": each.check, "says": each.says, "todo": each.todo or None}
            for each in found
        ]
        terminal.say(json.dumps({"ok": not failures, "failed": failures, "warnings": warnings, "checks": checks}))
    else:
        summary = f"{terminal.count(failures, 'check')} failed" if failures else "all is well"
        more = f", {terminal.count(warnings, 'warning')}" if warnings else ""
        terminal.say(terminal.styled(f"{summary}{more}", "bad" if failures else "good"))
    return ExitCode.FAILED if failures else ExitCode.OK


def _findings(given: Settings, wrong: list[str], progress: _Progress) -> Iterator[Finding]:
    yield from machine.findings(given, wrong)
    programs = _Programs(given)  # not before: what is started beside a script that is just written keeps it open
    from heat_config_agent.checks.asking import Asking  # noqa: PLC0415  # 200 ms, for this command alone

    asking = Asking(given)
    yield from asking.findings(progress.tell)
    progress.tell("the programs of hooks")
    yield from programs.findings(asking.documents)


class _Programs:
    """What hooks need, asked for its version meanwhile."""

    def __init__(self, given: Settings) -> None:
        self._tools = Tools(given.hooks)
        names = self._tools.installed()
        self._every = [tool for name in names if (tool := self._tools.find(name)) and tool.name == name]
        self._environment = given.environment
        self._states: list[ready.State] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def findings(self, documents: list[Document]) -> Iterator[Finding]:
        """Say which hooks cannot be used: what is not installed matters where a deployment needs it."""
        self._thread.join(2 * ready.SECONDS)
        if not self._states:
            yield warning("hooks", "their programs could not be asked for their versions", "heat-config-agent hooks")
            return
        states = dict(zip((tool.name for tool in self._every), self._states, strict=True))
        needed = _needed(documents)
        for name in sorted(needed - states.keys()):
            yield warning(
                "hooks", f"a deployment needs {name!r}, for which there is no hook", "heat-config-agent hooks"
            )
        absent = []
        for tool in self._every:
            state = states[tool.name]
            if not state.problem:
                continue
            if tool.builtin and not state.program:
                absent.append(tool)
            if state.program or not tool.builtin or tool.name in needed:
                wanted = "a deployment needs it, and " if tool.name in needed else ""
                yield warning("hooks", f"{tool.name}: {wanted}{state.problem}")
        yield ok("hooks", self._summary(absent))

    def _summary(self, absent: list[Tool]) -> str:
        usable = sum(not state.problem for state in self._states)
        names = ", ".join(tool.name for tool in absent)
        return f"{usable} of {len(self._states)} are ready{f'; not installed is what {names} need' if names else ''}"

    def _ask(self) -> None:
        self._states = ready.states(self._every, self._environment)


def _needed(documents: list[Document]) -> set[str]:
    """Return the names of the tools that deployments need."""
    deployments = metadata.parse_all(documents)[0]
    return {name for each in deployments for name in selection.tools(each) if name}


def _show(finding: Finding) -> None:
    word = terminal.styled(terminal.padded(_WORDS[finding.verdict], 7), _STYLES[finding.verdict])
    todo = f" → {terminal.line(finding.todo)}" if finding.todo else ""
    terminal.say(f"{word}  {terminal.padded(terminal.line(finding.check), 12)}  {terminal.line(finding.says)}{todo}")


@dataclass
class _Progress:
    """A line on a terminal about what is waited for, once that takes long."""

    shown: bool
    _since: float = field(default_factory=time.monotonic)
    _drawn: str = ""

    def tell(self, what: str) -> None:
        """Say what is waited for."""
        seconds = time.monotonic() - self._since
        if not self.shown or seconds < PATIENCE or not what:
            return
        text = terminal.shortened(terminal.line(f"waiting for {what}, {seconds:.0f} s"), terminal.width() - 1)
        if text != self._drawn:
            self._drawn = text
            terminal.say(f"\r\x1b[K{text}", end="")

    def clear(self) -> None:
        """Take the line away."""
        if self._drawn:
            self._drawn = ""
            terminal.say("\r\x1b[K", end="")
